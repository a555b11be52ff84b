//! The envelope around every body (`runtime.Unknown`).

use super::malformed;
use super::reader::{Fields, Wire};
use super::writer::Writer;
use crate::error::Error;

/// The first bytes of every body.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// A body taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Envelope<'b> {
    /// `apiVersion` of the object.
    pub api_version: String,
    /// `kind` of the object.
    pub kind: String,
    /// The encoded object.
    pub raw: &'b [u8],
    /// How `raw` is compressed; nothing uses it.
    pub content_encoding: String,
    /// What `raw` is; empty for protobuf.
    pub content_type: String,
}

impl<'b> Envelope<'b> {
    /// Takes a body apart. The messages for bodies without an envelope are Kubernetes' own.
    pub fn parse(body: &'b [u8]) -> Result<Self, Error> {
        if body.is_empty() {
            return Err(Error::NoEnvelope("empty data".to_owned()));
        }
        let Some(message) = body.strip_prefix(MAGIC) else {
            let problem = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
            return Err(Error::NoEnvelope(problem.to_owned()));
        };
        if message.is_empty() {
            return Err(Error::NoEnvelope("empty body".to_owned()));
        }
        let mut envelope = Self::default();
        let mut fields = Fields::new(message);
        while let Some(field) = fields.next() {
            match field.map_err(|problem| malformed("", problem))? {
                (1, Wire::Bytes(meta)) => envelope.read_type(meta)?,
                (2, Wire::Bytes(raw)) => envelope.raw = raw,
                (3, Wire::Bytes(text)) => envelope.content_encoding = utf8(text)?,
                (4, Wire::Bytes(text)) => envelope.content_type = utf8(text)?,
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, meta: &[u8]) -> Result<(), Error> {
        let mut fields = Fields::new(meta);
        while let Some(field) = fields.next() {
            match field.map_err(|problem| malformed("", problem))? {
                (1, Wire::Bytes(text)) => self.api_version = utf8(text)?,
                (2, Wire::Bytes(text)) => self.kind = utf8(text)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts an encoded object into an envelope.
    pub fn write(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let mut meta = Writer::default();
        meta.bytes(1, api_version.as_bytes());
        meta.bytes(2, kind.as_bytes());
        let mut message = Writer::default();
        message.bytes(1, &meta.finish());
        message.bytes(2, raw);
        message.bytes(3, b"");
        message.bytes(4, b"");
        [&MAGIC[..], &message.finish()].concat()
    }
}

fn utf8(bytes: &[u8]) -> Result<String, Error> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| malformed("", "text in the envelope is not UTF-8"))
}
