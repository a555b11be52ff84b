//! X.509 certificates with the fields sprig gives them.

use std::net::IpAddr;

use sha2::{Digest as _, Sha256};

use super::der::{
    BIT_STRING, GENERAL_TIME, INTEGER, OBJECT_ID, OCTET_STRING, PRINTABLE_STRING, Reader, SEQUENCE,
    SET, TRUE, UTC_TIME, UTF8_STRING, bit_string, object_id, sequence, tagged, unsigned,
};
use super::key::PrivateKey;
use super::pem;
use crate::encoding::base64_decode;
use crate::source::Source;
use crate::time::{Duration, Time};

/// A certificate and its key, both as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub cert: Vec<u8>,
    pub key: Vec<u8>,
}

/// What a certificate is to say.
pub(crate) struct Request<'a> {
    pub common_name: &'a [u8],
    pub addresses: Vec<IpAddr>,
    pub names: Vec<Vec<u8>>,
    pub days: i64,
    pub authority: bool,
}

const OID_COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const OID_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x0f];
const OID_EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 0x25];
const OID_BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
const OID_SUBJECT_KEY: &[u8] = &[0x55, 0x1d, 0x0e];
const OID_AUTHORITY_KEY: &[u8] = &[0x55, 0x1d, 0x23];
const OID_ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const OID_SERVER_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
const OID_CLIENT_AUTH: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02];

/// Who signs: the subject, the key identifier and the public key of its certificate.
struct Issuer {
    subject: Vec<u8>,
    key_id: Option<Vec<u8>>,
    public_key: Vec<u8>,
}

/// A certificate signed with its own key.
pub(crate) fn self_signed(
    request: &Request<'_>,
    key: &PrivateKey,
    source: &mut dyn Source,
) -> Result<Certificate, String> {
    create(request, key, None, key, source)
}

/// A certificate signed by an authority, which is given as PEM.
pub(crate) fn signed(
    request: &Request<'_>,
    key: &PrivateKey,
    authority: &Certificate,
    source: &mut dyn Source,
) -> Result<Certificate, String> {
    let block =
        pem::decode(&authority.cert).ok_or_else(|| "unable to decode certificate".to_owned())?;
    let issuer = Issuer::from_der(&block.bytes).ok_or_else(|| {
        "error parsing certificate: decodedSignerCert.Bytes: x509: malformed certificate".to_owned()
    })?;
    let signer = PrivateKey::from_pem(&authority.key)
        .map_err(|error| format!("error parsing private key: {error}"))?;
    create(request, key, Some(issuer), &signer, source)
}

/// Checks a certificate and a key that were given as base64 of PEM.
pub(crate) fn custom(cert: &[u8], key: &[u8]) -> Result<Certificate, String> {
    let cert = base64_decode(cert).map_err(|_| "unable to decode base64 certificate".to_owned())?;
    let key = base64_decode(key).map_err(|_| "unable to decode base64 private key".to_owned())?;
    let block = pem::decode(&cert).ok_or_else(|| "unable to decode certificate".to_owned())?;
    Issuer::from_der(&block.bytes).ok_or_else(|| {
        "error parsing certificate: decodedCert.Bytes: x509: malformed certificate".to_owned()
    })?;
    PrivateKey::from_pem(&key).map_err(|error| format!("error parsing private key: {error}"))?;
    Ok(Certificate { cert, key })
}

fn create(
    request: &Request<'_>,
    key: &PrivateKey,
    issuer: Option<Issuer>,
    signer: &PrivateKey,
    source: &mut dyn Source,
) -> Result<Certificate, String> {
    let failed = |error: &str| format!("error creating certificate: {error}");
    let (Some(algorithm), Some(signer_key)) =
        (signer.signature_algorithm(), signer.public_key_info())
    else {
        return Err(failed(
            "x509: certificate private key does not implement crypto.Signer",
        ));
    };
    let public_key = key
        .public_key_info()
        .ok_or_else(|| failed("x509: unsupported public key type: *dsa.PublicKey"))?;
    if issuer
        .as_ref()
        .is_some_and(|issuer| issuer.public_key != signer_key)
    {
        return Err(failed(
            "x509: provided PrivateKey doesn't match parent's PublicKey",
        ));
    }
    let mut serial = [0; 16];
    source.fill(&mut serial);
    let subject = distinguished_name(request.common_name);
    let issuer_name = issuer.as_ref().map_or(&subject, |issuer| &issuer.subject);
    let authority_key = issuer
        .as_ref()
        .filter(|issuer| issuer.subject != subject)
        .and_then(|issuer| issuer.key_id.clone());
    let extensions =
        extensions(request, &public_key, authority_key).map_err(|error| failed(&error))?;
    let body = sequence(&[
        &tagged(0xa0, &unsigned(&[2])),
        &unsigned(&serial),
        &algorithm,
        issuer_name,
        &validity(request.days, source),
        &subject,
        &public_key,
        &tagged(0xa3, &extensions),
    ]);
    let signature = signer.sign(&body).map_err(|error| failed(&error))?;
    let der = sequence(&[&body, &algorithm, &bit_string(&signature)]);
    Ok(Certificate {
        cert: pem::encode("CERTIFICATE", &der).into_bytes(),
        key: key.to_pem()?.into_bytes(),
    })
}

/// From now on for that many days.
fn validity(days: i64, source: &mut dyn Source) -> Vec<u8> {
    let (seconds, _) = source.now();
    let from = Time::from_unix(seconds, 0);
    let to = from.add(Duration(days.wrapping_mul(24 * 3_600_000_000_000)));
    let written = |time: &Time| {
        if (1950..2050).contains(&time.civil().year) {
            tagged(UTC_TIME, &time.format(b"060102150405Z"))
        } else {
            tagged(GENERAL_TIME, &time.format(b"20060102150405Z"))
        }
    };
    sequence(&[&written(&from), &written(&to)])
}

fn distinguished_name(common_name: &[u8]) -> Vec<u8> {
    if common_name.is_empty() {
        return sequence(&[]);
    }
    let printable = |&b: &u8| {
        b.is_ascii_alphanumeric()
            || matches!(b, b' ' | b'\''..=b')' | b'+'..=b'/' | b':' | b'=' | b'?')
    };
    let tag = if common_name.iter().all(printable) {
        PRINTABLE_STRING
    } else {
        UTF8_STRING
    };
    let attribute = sequence(&[&object_id(OID_COMMON_NAME), &tagged(tag, common_name)]);
    sequence(&[&tagged(SET, &attribute)])
}

fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if critical { TRUE } else { &[] };
    sequence(&[&object_id(id), critical, &tagged(OCTET_STRING, value)])
}

fn extensions(
    request: &Request<'_>,
    public_key: &[u8],
    authority_key: Option<Vec<u8>>,
) -> Result<Vec<u8>, String> {
    // Digital signature and key encipherment; authorities sign certificates too.
    let usage: &[u8] = if request.authority {
        &[2, 0b1010_0100]
    } else {
        &[5, 0b1010_0000]
    };
    let extended = sequence(&[&object_id(OID_SERVER_AUTH), &object_id(OID_CLIENT_AUTH)]);
    let constraints = sequence(if request.authority { &[TRUE] } else { &[] });
    let mut all = vec![
        extension(OID_KEY_USAGE, true, &tagged(BIT_STRING, usage)),
        extension(OID_EXTENDED_KEY_USAGE, false, &extended),
        extension(OID_BASIC_CONSTRAINTS, true, &constraints),
    ];
    if request.authority {
        let id = tagged(OCTET_STRING, &key_id(public_key));
        all.push(extension(OID_SUBJECT_KEY, false, &id));
    }
    if let Some(id) = authority_key {
        all.push(extension(
            OID_AUTHORITY_KEY,
            false,
            &sequence(&[&tagged(0x80, &id)]),
        ));
    }
    if !request.names.is_empty() || !request.addresses.is_empty() {
        let critical = request.common_name.is_empty();
        all.push(extension(
            OID_ALTERNATIVE_NAMES,
            critical,
            &alternative_names(request)?,
        ));
    }
    Ok(tagged(SEQUENCE, &all.concat()))
}

fn alternative_names(request: &Request<'_>) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    for name in &request.names {
        if !name.is_ascii() {
            let shown = everflow_gotemplate::gofmt::quote(name);
            return Err(format!("x509: {shown} cannot be encoded as an IA5String"));
        }
        all.extend(tagged(0x82, name));
    }
    for address in &request.addresses {
        let bytes = match address.to_canonical() {
            IpAddr::V4(v4) => v4.octets().to_vec(),
            IpAddr::V6(v6) => v6.octets().to_vec(),
        };
        all.extend(tagged(0x87, &bytes));
    }
    Ok(tagged(SEQUENCE, &all))
}

/// The first 160 bits of the hash of the public key's bits.
fn key_id(public_key: &[u8]) -> Vec<u8> {
    let bits = Reader(public_key)
        .expect(SEQUENCE)
        .and_then(|content| {
            let mut parts = Reader(content);
            parts.next()?;
            parts.expect(BIT_STRING)
        })
        .and_then(|bits| bits.get(1..))
        .unwrap_or_default();
    Sha256::digest(bits)[..20].to_vec()
}

impl Issuer {
    fn from_der(der: &[u8]) -> Option<Self> {
        let mut certificate = Reader(Reader(der).expect(SEQUENCE)?);
        let mut body = Reader(certificate.expect(SEQUENCE)?);
        body.optional(0xa0);
        body.expect(INTEGER)?;
        body.expect(SEQUENCE)?;
        body.expect(SEQUENCE)?;
        body.expect(SEQUENCE)?;
        let subject = body
            .next()
            .filter(|element| element.tag == SEQUENCE)?
            .raw
            .to_vec();
        let public_key = body
            .next()
            .filter(|element| element.tag == SEQUENCE)?
            .raw
            .to_vec();
        let mut key_id = None;
        while let Some(element) = body.next() {
            if element.tag == 0xa3 {
                key_id = subject_key_id(element.content);
            }
        }
        certificate.expect(SEQUENCE)?;
        certificate.expect(BIT_STRING)?;
        Some(Self {
            subject,
            key_id,
            public_key,
        })
    }
}

fn subject_key_id(extensions: &[u8]) -> Option<Vec<u8>> {
    let mut all = Reader(Reader(extensions).expect(SEQUENCE)?);
    while let Some(element) = all.next() {
        let mut parts = Reader(element.content);
        if parts.expect(OBJECT_ID)? == OID_SUBJECT_KEY {
            let value = parts.next()?;
            let value = if value.tag == OCTET_STRING {
                value
            } else {
                parts.next()?
            };
            return Reader(value.content)
                .expect(OCTET_STRING)
                .map(<[u8]>::to_vec);
        }
    }
    None
}
