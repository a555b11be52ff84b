//! A Sigstore of our own: an authority, a certificate log and a transparency log whose keys the
//! test has, so that it can sign rightly and wrongly.

#![allow(clippy::unwrap_used)]

mod mirror;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
pub use mirror::TestMirror;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData as _, SanType, SerialNumber, SigningKey as _,
};
use ring::digest::{SHA256, digest};
use x509_cert::Certificate;
use x509_cert::der::{Decode as _, Encode as _};

use crate::{Layer, Signature};

/// The media type of bundles.
pub const BUNDLE_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// When test signatures are made, in seconds since 1970: the first of June 2025.
pub const SIGNED_AT: i64 = 1_748_736_000;
/// What the subject of certificates is unless told otherwise.
pub const SUBJECT: &str = "https://github.com/team/app/.github/workflows/release.yml@refs/tags/v1";
/// Who vouches for it unless told otherwise.
pub const ISSUER: &str = "https://token.actions.githubusercontent.com";

/// What is wrong with a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    None,
    /// The certificate was in no certificate log.
    NoSct,
    /// The certificate log did not sign.
    ForgedSct,
    /// The promise of the log is not by the log.
    ForgedPromise,
    /// There is no promise of the log, and so no time.
    NoPromise,
    /// The log holds another entry than the one that is shown.
    ForgedProof,
    /// The log saw the signature when the certificate had expired.
    Late,
    /// The signature is by another key than that of the certificate.
    ForgedSignature,
    /// The entry of the log is about another signature.
    ForeignEntry,
    /// The certificate is not for signing code.
    NotForCode,
}

/// Who signs what, and how wrongly.
#[derive(Debug, Clone)]
pub struct Signing<'a> {
    /// Who vouches for the signer.
    pub issuer: &'a str,
    /// Who signs.
    pub subject: &'a str,
    /// What is signed, as `sha256:HEX`.
    pub digest: &'a str,
    /// What is wrong.
    pub flaw: Flaw,
}

impl<'a> Signing<'a> {
    /// A good signature by the usual signer.
    pub fn of(digest: &'a str) -> Self {
        Signing {
            issuer: ISSUER,
            subject: SUBJECT,
            digest,
            flaw: Flaw::None,
        }
    }

    /// The same with a flaw.
    #[must_use]
    pub fn with(self, flaw: Flaw) -> Self {
        Signing { flaw, ..self }
    }
}

/// A whole Sigstore.
pub struct Sigstore {
    authority: Issuer<'static, KeyPair>,
    authority_key: Vec<u8>,
    authority_certificate: Vec<u8>,
    certificate_log: KeyPair,
    log: KeyPair,
    stranger: KeyPair,
}

fn hash(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn base64(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// A DER value of less than 128 bytes, or with a length of two bytes.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    match u8::try_from(content.len()) {
        Ok(length) if length < 128 => out.push(length),
        _ => {
            out.push(0x82);
            out.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
        }
    }
    out.extend_from_slice(content);
    out
}

fn pem(certificate: &[u8]) -> String {
    let text = base64(certificate);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

impl Default for Sigstore {
    fn default() -> Self {
        Self::new()
    }
}

impl Sigstore {
    /// A new one, with keys of its own.
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, "test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.not_before = rcgen::date_time_ymd(2025, 1, 1);
        params.not_after = rcgen::date_time_ymd(2035, 1, 1);
        let certificate = params.self_signed(&key).unwrap();
        Sigstore {
            authority_key: key.subject_public_key_info(),
            authority_certificate: certificate.der().to_vec(),
            authority: Issuer::new(params, key),
            certificate_log: KeyPair::generate().unwrap(),
            log: KeyPair::generate().unwrap(),
            stranger: KeyPair::generate().unwrap(),
        }
    }

    /// Its `trusted_root.json`.
    pub fn trusted_root(&self) -> String {
        let log = |url: &str, key: &KeyPair| {
            let spki = key.subject_public_key_info();
            format!(
                r#"{{"baseUrl":"{url}","hashAlgorithm":"SHA2_256","publicKey":{{"rawBytes":"{}","keyDetails":"PKIX_ECDSA_P256_SHA_256","validFor":{{"start":"2025-01-01T00:00:00Z"}}}},"logId":{{"keyId":"{}"}}}}"#,
                base64(&spki),
                base64(hash(&spki))
            )
        };
        format!(
            r#"{{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1","tlogs":[{}],"certificateAuthorities":[{{"subject":{{"organization":"test","commonName":"test authority"}},"uri":"https://fulcio.test","certChain":{{"certificates":[{{"rawBytes":"{}"}}]}},"validFor":{{"start":"2025-01-01T00:00:00Z"}}}}],"ctlogs":[{}],"timestampAuthorities":[]}}"#,
            log("https://rekor.test", &self.log),
            base64(&self.authority_certificate),
            log("https://ct.test", &self.certificate_log),
        )
    }

    fn params(&self, signing: &Signing<'_>) -> CertificateParams {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.subject_alt_names = vec![SanType::URI(signing.subject.try_into().unwrap())];
        params.serial_number = Some(SerialNumber::from(vec![7, 7, 7]));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match signing.flaw {
            Flaw::NotForCode => vec![ExtendedKeyUsagePurpose::ClientAuth],
            _ => vec![ExtendedKeyUsagePurpose::CodeSigning],
        };
        params.not_before = rcgen::date_time_ymd(2025, 6, 1);
        params.not_after = params.not_before + std::time::Duration::from_secs(600);
        params.custom_extensions = vec![CustomExtension::from_oid_content(
            &[1, 3, 6, 1, 4, 1, 57264, 1, 8],
            der(0x0c, signing.issuer.as_bytes()),
        )];
        params
    }

    /// A certificate for the signer, as Fulcio makes it: first without, then with what the
    /// certificate log says.
    fn certificate(&self, signing: &Signing<'_>, key: &KeyPair) -> Vec<u8> {
        let mut params = self.params(signing);
        let first = params.signed_by(key, &self.authority).unwrap();
        if signing.flaw == Flaw::NoSct {
            return first.der().to_vec();
        }
        let first = Certificate::from_der(first.der()).unwrap();
        let body = first.tbs_certificate.to_der().unwrap();
        let time = u64::try_from(SIGNED_AT * 1000).unwrap().to_be_bytes();
        let mut signed = vec![0, 0];
        signed.extend(time);
        signed.extend([0, 1]);
        signed.extend(hash(&self.authority_key));
        signed.extend(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
        signed.extend(&body);
        signed.extend([0, 0]);
        let by = match signing.flaw {
            Flaw::ForgedSct => &self.stranger,
            _ => &self.certificate_log,
        };
        let signature = by.sign(&signed).unwrap();
        let mut stamp = vec![0];
        stamp.extend(hash(&self.certificate_log.subject_public_key_info()));
        stamp.extend(time);
        stamp.extend([0, 0, 4, 3]);
        stamp.extend(u16::try_from(signature.len()).unwrap().to_be_bytes());
        stamp.extend(signature);
        let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes();
        let list = [&length(&stamp)[..], &stamp].concat();
        let list = [&length(&list)[..], &list].concat();
        params
            .custom_extensions
            .push(CustomExtension::from_oid_content(
                &[1, 3, 6, 1, 4, 1, 11129, 2, 4, 2],
                der(0x04, &list),
            ));
        let certificate = params.signed_by(key, &self.authority).unwrap();
        certificate.der().to_vec()
    }

    /// The time and the promise of the log for the body of an entry.
    fn promise(&self, body: &[u8], flaw: Flaw) -> (i64, String) {
        let late = if flaw == Flaw::Late { 3600 } else { 60 };
        let time = SIGNED_AT + late;
        let text = format!(
            r#"{{"body":"{}","integratedTime":{time},"logID":"{}","logIndex":1}}"#,
            base64(body),
            hex(&self.log_id())
        );
        let by = match flaw {
            Flaw::ForgedPromise => &self.stranger,
            _ => &self.log,
        };
        (time, base64(by.sign(text.as_bytes()).unwrap()))
    }

    fn log_id(&self) -> Vec<u8> {
        hash(&self.log.subject_public_key_info())
    }

    /// Proves that the body is the second of two entries.
    fn proof(&self, body: &[u8], flaw: Flaw) -> String {
        let leaf = |body: &[u8]| hash(&[&[0], body].concat());
        let (before, own) = (leaf(b"somebody else's"), leaf(body));
        let mut root = hash(&[&[1], &before[..], &own].concat());
        if flaw == Flaw::ForgedProof {
            root[0] ^= 1;
        }
        let note = format!("rekor.test - 1\n2\n{}\n", base64(&root));
        let mut signature = self.log_id()[..4].to_vec();
        signature.extend(self.log.sign(note.as_bytes()).unwrap());
        let note = format!("{note}\n\u{2014} rekor.test {}\n", base64(signature));
        format!(
            r#"{{"logIndex":"1","rootHash":"{}","treeSize":"2","hashes":["{}"],"checkpoint":{{"envelope":"{}"}}}}"#,
            base64(root),
            base64(before),
            note.replace('\n', "\\n")
        )
    }

    fn sign(&self, key: &KeyPair, message: &[u8], flaw: Flaw) -> Vec<u8> {
        let by = if flaw == Flaw::ForgedSignature {
            &self.stranger
        } else {
            key
        };
        by.sign(message).unwrap()
    }

    /// A signature as cosign 3 makes it.
    pub fn bundle(&self, signing: &Signing<'_>) -> Vec<u8> {
        let key = KeyPair::generate().unwrap();
        let certificate = self.certificate(signing, &key);
        let (algorithm, value) = signing.digest.split_once(':').unwrap();
        let kind = "application/vnd.in-toto+json";
        let statement = format!(
            r#"{{"_type":"https://in-toto.io/Statement/v1","subject":[{{"digest":{{"{algorithm}":"{value}"}}}}],"predicateType":"https://sigstore.dev/cosign/sign/v1","predicate":{{}}}}"#
        );
        let message = format!(
            "DSSEv1 {} {kind} {} {statement}",
            kind.len(),
            statement.len()
        );
        let signature = self.sign(&key, message.as_bytes(), signing.flaw);
        let logged = match signing.flaw {
            Flaw::ForeignEntry => hash(b"something else"),
            _ => hash(statement.as_bytes()),
        };
        let body = format!(
            r#"{{"apiVersion":"0.0.1","kind":"dsse","spec":{{"envelopeHash":{{"algorithm":"sha256","value":"{}"}},"payloadHash":{{"algorithm":"sha256","value":"{}"}},"signatures":[{{"signature":"{}","verifier":"{}"}}]}}}}"#,
            hex(&hash(b"unused")),
            hex(&logged),
            base64(&signature),
            base64(pem(&certificate))
        );
        let body = body.as_bytes();
        let (time, promise) = self.promise(body, signing.flaw);
        let promise = match signing.flaw {
            Flaw::NoPromise => String::new(),
            _ => format!(r#""inclusionPromise":{{"signedEntryTimestamp":"{promise}"}},"#),
        };
        format!(
            r#"{{"mediaType":"{BUNDLE_TYPE}","verificationMaterial":{{"certificate":{{"rawBytes":"{}"}},"tlogEntries":[{{"logIndex":"1","logId":{{"keyId":"{}"}},"kindVersion":{{"kind":"dsse","version":"0.0.1"}},"integratedTime":"{time}",{promise}"inclusionProof":{},"canonicalizedBody":"{}"}}]}},"dsseEnvelope":{{"payload":"{}","payloadType":"{kind}","signatures":[{{"sig":"{}"}}]}}}}"#,
            base64(&certificate),
            base64(self.log_id()),
            self.proof(body, signing.flaw),
            base64(body),
            base64(&statement),
            base64(&signature)
        )
        .into_bytes()
    }

    /// A signature as cosign 2 makes it.
    pub fn layer(&self, signing: &Signing<'_>) -> Layer {
        let key = KeyPair::generate().unwrap();
        let certificate = pem(&self.certificate(signing, &key));
        let payload = format!(
            r#"{{"critical":{{"identity":{{"docker-reference":""}},"image":{{"docker-manifest-digest":"{}"}},"type":"cosign container image signature"}},"optional":null}}"#,
            signing.digest
        );
        let signature = base64(self.sign(&key, payload.as_bytes(), signing.flaw));
        let logged = match signing.flaw {
            Flaw::ForeignEntry => hash(b"something else"),
            _ => hash(payload.as_bytes()),
        };
        let body = format!(
            r#"{{"apiVersion":"0.0.1","kind":"hashedrekord","spec":{{"data":{{"hash":{{"algorithm":"sha256","value":"{}"}}}},"signature":{{"content":"{signature}","publicKey":{{"content":"{}"}}}}}}}}"#,
            hex(&logged),
            base64(&certificate)
        );
        let (time, promise) = self.promise(body.as_bytes(), signing.flaw);
        let bundle = match signing.flaw {
            Flaw::NoPromise => String::new(),
            _ => format!(
                r#"{{"SignedEntryTimestamp":"{promise}","Payload":{{"body":"{}","integratedTime":{time},"logIndex":1,"logID":"{}"}}}}"#,
                base64(&body),
                hex(&self.log_id())
            ),
        };
        Layer {
            payload: payload.into_bytes(),
            signature,
            certificate,
            chain: pem(&self.authority_certificate),
            bundle,
        }
    }

    /// Both forms of a signature.
    pub fn both(&self, signing: &Signing<'_>) -> [Signature; 2] {
        [
            Signature::Bundle(self.bundle(signing)),
            Signature::Layer(Box::new(self.layer(signing))),
        ]
    }
}
