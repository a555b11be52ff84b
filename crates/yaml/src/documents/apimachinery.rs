//! `k8s.io/apimachinery/pkg/util/yaml`.

use super::trim::{first_char, trim_start};
use crate::error::Error;
use crate::gojson::{self, JsonError, Numbers};
use crate::sigs;
use everflow_json::Value as Json;
use memchr::{memchr, memmem, memrchr};
use std::borrow::Cow;

/// The buffer of Go's `bufio.Reader`, whose size shows in what it loses.
const LINE_BUFFER: usize = 4096;

/// The longest document that a `DocumentDecoder` takes.
const LONGEST_FRAME: usize = 5 << 20;

/// `NewYAMLReader`: the text of each document. Lines that begin with `---` separate; a leading one
/// stays in the first document, line ends become `\n`, and a last line without one is lost if its
/// length is a multiple of 4096.
pub fn yaml_reader(input: &[u8]) -> YamlReader<'_> {
    YamlReader {
        input,
        at: 0,
        failed: false,
        separator: memchr(b'\r', input)
            .is_none()
            .then(|| Box::new(memmem::Finder::new(b"\n---"))),
    }
}

/// See [`yaml_reader`].
#[derive(Clone, Debug)]
pub struct YamlReader<'a> {
    input: &'a [u8],
    at: usize,
    failed: bool,
    /// Finds separators; only for input whose lines all end in `\n` alone, because those need not be
    /// looked at one by one.
    separator: Option<Box<memmem::Finder<'static>>>,
}

/// A document while it is read: a part of the input as long as nothing in it changes.
enum Gathered {
    Slice(std::ops::Range<usize>),
    Owned(Vec<u8>),
}

struct Line<'a> {
    text: &'a [u8],
    next: usize,
    /// The line ends in `\n` and nothing else.
    clean: bool,
    /// Go's reader drops it.
    lost: bool,
}

impl<'a> YamlReader<'a> {
    /// How many bytes were read.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Moves to the next line that may be a separator or has no end.
    fn skip_lines(&mut self) {
        let Some(separator) = &self.separator else {
            return;
        };
        // The last line's end is where a separator may begin.
        let last = self.at - 1;
        self.at = match separator.find(&self.input[last..]) {
            Some(found) => last + found + 1,
            None => memrchr(b'\n', self.input).map_or(self.at, |end| end + 1),
        };
    }

    fn line(&self) -> Line<'a> {
        let rest = &self.input[self.at..];
        match memchr(b'\n', rest) {
            Some(end) => {
                let text = rest[..end].strip_suffix(b"\r");
                Line {
                    text: text.unwrap_or(&rest[..end]),
                    next: self.at + end + 1,
                    clean: text.is_none(),
                    lost: false,
                }
            }
            None => Line {
                text: rest,
                next: self.input.len(),
                clean: false,
                lost: fills_buffer(rest),
            },
        }
    }
}

/// The last line fills the buffer to the brim, so Go expects more of it.
fn fills_buffer(mut line: &[u8]) -> bool {
    while line.len() >= LINE_BUFFER {
        // A carriage return at the edge is put back.
        let taken = match line[LINE_BUFFER - 1] {
            b'\r' => LINE_BUFFER - 1,
            _ => LINE_BUFFER,
        };
        line = &line[taken..];
        if line.is_empty() {
            return true;
        }
    }
    false
}

impl<'a> Iterator for YamlReader<'a> {
    type Item = Result<Cow<'a, [u8]>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let mut gathered = Gathered::Slice(self.at..self.at);
        while self.at < self.input.len() {
            let line = self.line();
            let start = self.at;
            self.at = line.next;
            if let Some(rest) = line.text.strip_prefix(b"---") {
                let rest = String::from_utf8_lossy(rest);
                let rest = rest.trim();
                if !rest.is_empty() && !rest.starts_with('#') {
                    self.failed = true;
                    return Some(Err(Error::refused(format!(
                        "invalid Yaml document separator: {rest}"
                    ))));
                }
                if !gathered.is_empty() {
                    return Some(Ok(gathered.finish(self.input)));
                }
            }
            if line.lost {
                break;
            }
            gathered.add(self.input, start, &line);
            if let Gathered::Slice(range) = &mut gathered {
                self.skip_lines();
                range.end = self.at;
            }
        }
        (!gathered.is_empty()).then(|| Ok(gathered.finish(self.input)))
    }
}

impl Gathered {
    fn is_empty(&self) -> bool {
        match self {
            Gathered::Slice(range) => range.start == range.end,
            Gathered::Owned(bytes) => bytes.is_empty(),
        }
    }

    fn add(&mut self, input: &[u8], start: usize, line: &Line<'_>) {
        if let Gathered::Slice(range) = self {
            if line.clean {
                if range.start == range.end {
                    range.start = start;
                }
                range.end = line.next;
                return;
            }
            *self = Gathered::Owned(input[range.clone()].to_vec());
        }
        if let Gathered::Owned(bytes) = self {
            bytes.extend_from_slice(line.text);
            bytes.push(b'\n');
        }
    }

    fn finish(self, input: &[u8]) -> Cow<'_, [u8]> {
        match self {
            Gathered::Slice(range) => Cow::Borrowed(&input[range]),
            Gathered::Owned(bytes) => Cow::Owned(bytes),
        }
    }
}

/// `NewYAMLOrJSONDecoder`: what kubectl reads. JSON values may follow each other without
/// separators; what is not JSON is read as YAML from there on.
pub fn yaml_or_json_decoder(input: &[u8]) -> YamlOrJsonDecoder<'_> {
    let head = &input[..input.len().min(LINE_BUFFER)];
    let mode = match trim_start(head).starts_with(b"{") {
        true => Mode::Json { at: 0 },
        false => Mode::Yaml(yaml_reader(input)),
    };
    YamlOrJsonDecoder {
        input,
        mode,
        decoded: 0,
    }
}

/// See [`yaml_or_json_decoder`].
#[derive(Clone, Debug)]
pub struct YamlOrJsonDecoder<'a> {
    input: &'a [u8],
    mode: Mode<'a>,
    decoded: usize,
}

#[derive(Clone, Debug)]
enum Mode<'a> {
    Json { at: usize },
    Yaml(YamlReader<'a>),
    Done,
}

/// One document of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded<'a> {
    /// An empty document, or null. kubectl skips it.
    Nothing,
    /// JSON text as it stood in the stream.
    Json(&'a [u8]),
    /// What a YAML document holds.
    Yaml(Json),
}

impl Decoded<'_> {
    /// The object, with numbers as Kubernetes reads them; none for an empty document.
    pub fn into_object(self) -> Result<Option<Json>, Error> {
        match self {
            Decoded::Nothing => Ok(None),
            Decoded::Json(text) => gojson::parse(text, Numbers::Integers)
                .map(Some)
                .map_err(|error| Error::refused(error.to_string())),
            Decoded::Yaml(mut json) => {
                sigs::normalize_numbers(&mut json);
                Ok(Some(json))
            }
        }
    }

    /// The JSON text, which is `runtime.RawExtension.Raw` in Go.
    pub fn raw(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Decoded::Nothing => None,
            Decoded::Json(text) => Some(Cow::Borrowed(text)),
            Decoded::Yaml(json) => Some(Cow::Owned(gojson::to_string(json).into_bytes())),
        }
    }
}

impl<'a> Iterator for YamlOrJsonDecoder<'a> {
    type Item = Result<Decoded<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut first_error = None;
        if let Mode::Json { at } = self.mode {
            match self.json_value(at)? {
                Ok(raw) => return Some(Ok(raw)),
                // Two values make it a JSON stream for good.
                Err(error) if self.decoded > 1 => {
                    self.mode = Mode::Done;
                    return Some(Err(Error::refused(json_error_text(&error))));
                }
                Err(error) => {
                    first_error = Some(Error::refused(match &error {
                        JsonError::UnexpectedEnd => json_error_text(&error),
                        _ => format!(
                            "json: offset {}: {}",
                            json_error_offset(&error, at),
                            json_error_text(&error)
                        ),
                    }));
                    self.mode = match after_white_space(self.input, at) {
                        Some(at) => Mode::Yaml(yaml_reader(&self.input[at..])),
                        None => Mode::Done,
                    };
                }
            }
        }
        let Mode::Yaml(reader) = &mut self.mode else {
            return first_error.map(Err);
        };
        let decoded = reader.next()?.and_then(|text| {
            sigs::yaml_to_json(&text)
                .map_err(|error| Error::refused(format!("error converting YAML to JSON: {error}")))
        });
        Some(match decoded {
            Ok(json) => {
                self.decoded += 1;
                Ok(match json {
                    Json::Null => Decoded::Nothing,
                    json => Decoded::Yaml(json),
                })
            }
            Err(error) => {
                self.mode = Mode::Done;
                Err(first_error.unwrap_or(error))
            }
        })
    }
}

impl<'a> YamlOrJsonDecoder<'a> {
    /// The next JSON value; none at the end.
    fn json_value(&mut self, at: usize) -> Option<Result<Decoded<'a>, JsonError>> {
        let rest = &self.input[at..];
        let white = rest
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
            .count();
        if white == rest.len() {
            self.mode = Mode::Done;
            return None;
        }
        Some(gojson::first_value_length(rest).map(|length| {
            self.mode = Mode::Json { at: at + length };
            self.decoded += 1;
            match &rest[white..length] {
                b"null" => Decoded::Nothing,
                raw => Decoded::Json(raw),
            }
        }))
    }
}

fn json_error_text(error: &JsonError) -> String {
    match error {
        JsonError::UnexpectedEnd => "unexpected EOF".to_owned(),
        error => error.to_string(),
    }
}

fn json_error_offset(error: &JsonError, at: usize) -> usize {
    match error {
        JsonError::InvalidCharacter { offset, .. } => at + offset,
        _ => at,
    }
}

/// Where YAML begins after a JSON value: behind the line end, or at the first character that is no
/// space. Go looks at four bytes at a time and gives up where there are fewer.
fn after_white_space(input: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let rest = input.get(at..).filter(|rest| rest.len() >= 4)?;
        let (c, width) = first_char(rest)?;
        if !c.is_whitespace() {
            return Some(at);
        }
        at += width;
        if c == '\n' {
            return Some(at);
        }
    }
}

/// `NewDocumentDecoder`: the text between lines that begin with `---`, whatever follows on them.
/// A separator without a line end loses the last document.
pub fn document_decoder(input: &[u8]) -> Result<Vec<&[u8]>, Error> {
    const SEPARATOR: &[u8] = b"\n---";
    let mut documents = Vec::new();
    let mut rest = input;
    while !rest.is_empty() {
        let (document, next) = match memmem::find(rest, SEPARATOR) {
            None => (rest, rest.len()),
            Some(at) => {
                let after = at + SEPARATOR.len();
                match memchr(b'\n', &rest[after..]) {
                    Some(end) => (&rest[..at], after + end + 1),
                    None if after == rest.len() => (&rest[..at], rest.len()),
                    None => break,
                }
            }
        };
        if next > LONGEST_FRAME {
            return Err(Error::refused("bufio.Scanner: token too long"));
        }
        documents.push(document);
        rest = &rest[next..];
    }
    Ok(documents)
}
