//! Signatures of cosign 2: the payload is a layer, everything else stands in its annotations.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_json::Value;
use sigstore_verify::types::{
    Bundle, CanonicalizedBody, DerCertificate, HashAlgorithm, InclusionPromise, KindVersion, LogId,
    LogIndex, LogKeyId, MediaType, MessageDigest, MessageSignature, SignatureBytes,
    SignatureContent, SignedTimestamp, TransparencyLogEntry, VerificationMaterial,
    VerificationMaterialContent, X509Certificate,
};

use crate::{Error, MAX_PROOFS};

/// A signature of cosign 2.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layer {
    /// What is signed.
    pub payload: Vec<u8>,
    /// The signature in base64.
    pub signature: String,
    /// The certificate of the signer in PEM, empty when there is none.
    pub certificate: String,
    /// Those who certified it in PEM, empty when there is none.
    pub chain: String,
    /// What the log says about it in JSON, empty when there is nothing.
    pub bundle: String,
}

impl Layer {
    /// The annotation with the signature.
    pub const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
    /// The annotation with the certificate.
    pub const CERTIFICATE: &str = "dev.sigstore.cosign/certificate";
    /// The annotation with those who certified it.
    pub const CHAIN: &str = "dev.sigstore.cosign/chain";
    /// The annotation with what the log says.
    pub const BUNDLE: &str = "dev.sigstore.cosign/bundle";

    /// The layer in the form that Sigstore's crates verify.
    pub(crate) fn to_bundle(&self) -> Result<Bundle, Error> {
        if self.certificate.is_empty() {
            return Err(malformed("no certificate found on signature"));
        }
        if self.bundle.is_empty() {
            return Err(malformed(
                "no entry of a transparency log found on signature: sign again with cosign 2 or \
                 newer, without --tlog-upload=false",
            ));
        }
        let mut certificates = certificates(&self.certificate)?;
        if certificates.len() != 1 {
            return Err(malformed("more than one certificate found on signature"));
        }
        certificates.extend(self::certificates(&self.chain)?);
        let material =
            VerificationMaterial::new(VerificationMaterialContent::X509CertificateChain {
                certificates,
            });
        let signature = STANDARD
            .decode(&self.signature)
            .map_err(|_| malformed("the signature is not base64"))?;
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.payload);
        let signature = MessageSignature::new(SignatureBytes::new(signature)).with_message_digest(
            MessageDigest::new(HashAlgorithm::Sha2256, digest.as_ref().into()),
        );
        Ok(Bundle::new(
            // The version that asks for the promise of the log, not for a proof.
            MediaType::Bundle0_1,
            material.with_tlog_entries(vec![entry(&self.bundle)?]),
            SignatureContent::MessageSignature(signature),
        ))
    }
}

fn malformed(message: &str) -> Error {
    Error::Malformed(message.to_owned())
}

/// All certificates of a PEM text.
fn certificates(mut pem: &str) -> Result<Vec<X509Certificate>, Error> {
    const END: &str = "-----END CERTIFICATE-----";
    let mut found = Vec::new();
    while let Some(end) = pem.find(END) {
        let (one, rest) = pem.split_at(end + END.len());
        pem = rest;
        let one = DerCertificate::from_pem(one.trim_start())
            .map_err(|error| Error::Malformed(format!("unreadable certificate: {error}")))?;
        if found.len() == MAX_PROOFS {
            return Err(malformed("more than 16 certificates found on signature"));
        }
        found.push(X509Certificate::new(one));
    }
    Ok(found)
}

/// What the log says: `SignedEntryTimestamp` and `Payload`.
fn entry(json: &str) -> Result<TransparencyLogEntry, Error> {
    let unreadable = || malformed("the entry of the transparency log is unreadable");
    let bundle: Value = everflow_json::from_slice(json.as_bytes()).map_err(|_| unreadable())?;
    let text = |pointer: &str| {
        let value = bundle.pointer(pointer).and_then(Value::as_str);
        value.ok_or_else(unreadable)
    };
    let number = |pointer: &str| {
        let value = bundle.pointer(pointer).and_then(Value::as_i64);
        value.ok_or_else(unreadable)
    };
    let body = STANDARD
        .decode(text("/Payload/body")?)
        .map_err(|_| unreadable())?;
    let promise = SignedTimestamp::from_base64(text("/SignedEntryTimestamp")?);
    let promise = InclusionPromise::new(promise.map_err(|_| unreadable())?);
    let id = unhex(text("/Payload/logID")?).ok_or_else(unreadable)?;
    let index = u64::try_from(number("/Payload/logIndex")?).map_err(|_| unreadable())?;
    let index = LogIndex::new(index).map_err(|_| unreadable())?;
    let time = jiff::Timestamp::from_second(number("/Payload/integratedTime")?);
    let entry = TransparencyLogEntry::new(
        index,
        LogId::new(LogKeyId::new(id)),
        kind(&body)?,
        CanonicalizedBody::new(body),
    );
    Ok(entry
        .with_integrated_time(time.map_err(|_| unreadable())?)
        .with_inclusion_promise(promise))
}

/// The kind of an entry, which only its body tells.
fn kind(body: &[u8]) -> Result<KindVersion, Error> {
    let body: Value = everflow_json::from_slice(body)
        .map_err(|_| malformed("the body of the log entry is no JSON"))?;
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    match (text("kind"), text("apiVersion")) {
        ("hashedrekord", "0.0.1") => Ok(KindVersion::HashedRekordV001),
        (kind, version) => Err(Error::Malformed(format!(
            "log entries of the kind '{kind}' {version} are not supported here"
        ))),
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let pair = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    pairs.iter().map(pair).collect()
}
