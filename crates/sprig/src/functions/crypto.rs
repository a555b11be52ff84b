use std::net::IpAddr;

use everflow_gotemplate::GoType::{Int, String as Str, Uint32};
use everflow_gotemplate::{FuncError, FuncResult, GoType, List, Value};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::Registry;
use crate::Source;
use crate::crypto::cert::{self, Certificate, Request};
use crate::crypto::key::PrivateKey;
use crate::crypto::{password, symmetric};
use crate::encoding::{base64_encode, hex};
use crate::objects::{CERTIFICATE, CertificateObject};
use crate::support::{MAX_ITEMS, display, fail};

const LIST: GoType = GoType::ANY_SLICE;

pub(super) fn register(r: &mut Registry<'_>) {
    register_hashes(r);
    register_passwords(r);
    register_certificates(r);
}

fn register_hashes(r: &mut Registry<'_>) {
    r.add("sha1sum", &[Str], Str, |a| {
        Ok(Value::string(hex(&Sha1::digest(a.text(0)?.as_bytes()))))
    });
    r.add("sha256sum", &[Str], Str, |a| {
        Ok(Value::string(hex(&Sha256::digest(a.text(0)?.as_bytes()))))
    });
    r.add("sha512sum", &[Str], Str, |a| {
        Ok(Value::string(hex(&Sha512::digest(a.text(0)?.as_bytes()))))
    });
    r.add("adler32sum", &[Str], Str, |a| {
        Ok(Value::string(
            adler2::adler32_slice(a.text(0)?.as_bytes()).to_string(),
        ))
    });
}

fn register_passwords(r: &mut Registry<'_>) {
    r.with_source("bcrypt", &[Str], Str, |s, a| {
        Ok(Value::string(password::bcrypt(a.text(0)?.as_bytes(), s)))
    });
    r.with_source("htpasswd", &[Str, Str], Str, |s, a| {
        let user = a.text(0)?.as_bytes();
        if user.contains(&b':') {
            return Ok(Value::string([b"invalid username: ", user].concat()));
        }
        let hash = password::bcrypt(a.text(1)?.as_bytes(), s);
        Ok(Value::string([user, b":", hash.as_bytes()].concat()))
    });
    r.add("derivePassword", &[Uint32, Str, Str, Str, Str], Str, |a| {
        let counter = a
            .get(0)
            .as_uint()
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or_default();
        let text = |index: usize| a.text(index).map(|text| text.as_bytes());
        Ok(Value::string(password::derive(
            counter,
            text(1)?,
            text(2)?,
            text(3)?,
            text(4)?,
        )))
    });
    r.with_source("encryptAES", &[Str, Str], Str, |s, a| {
        let (password, text) = (a.text(0)?.as_bytes(), a.text(1)?.as_bytes());
        Ok(Value::string(symmetric::encrypt(password, text, s)))
    });
    r.add("decryptAES", &[Str, Str], Str, |a| {
        symmetric::decrypt(a.text(0)?.as_bytes(), a.text(1)?.as_bytes())
            .map(Value::string)
            .map_err(FuncError::new)
    });
    r.with_source("randBytes", &[Int], Str, |s, a| {
        let count = a.int(0)?;
        if !(0..=MAX_ITEMS).contains(&count) {
            return fail("runtime error: makeslice: len out of range");
        }
        let mut bytes = vec![0; count as usize];
        s.fill(&mut bytes);
        Ok(Value::string(base64_encode(&bytes)))
    });
    r.with_source("uuidv4", &[], Str, |s, _| {
        let mut bytes = [0; 16];
        s.fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let digits = hex(&bytes);
        let groups = [
            &digits[..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
            &digits[20..],
        ];
        Ok(Value::string(groups.join("-")))
    });
    r.with_source("genPrivateKey", &[Str], Str, |s, a| {
        let kind = a.text(0)?;
        Ok(Value::string(
            match PrivateKey::generate(kind.as_bytes(), s) {
                None => format!("Unknown type {kind}"),
                Some(key) => key
                    .and_then(|key| key.to_pem())
                    .unwrap_or_else(|error| format!("failed to generate private key: {error}")),
            },
        ))
    });
}

fn new_key(source: &mut dyn Source) -> Result<PrivateKey, FuncError> {
    PrivateKey::generate_rsa(2048, source)
        .map_err(|error| FuncError::new(format!("error generating rsa key: {error}")))
}

fn given_key(pem: &Value) -> Result<PrivateKey, FuncError> {
    let pem = pem
        .as_text()
        .map(|text| text.as_bytes())
        .unwrap_or_default();
    PrivateKey::from_pem(pem)
        .map_err(|error| FuncError::new(format!("parsing private key: {error}")))
}

fn certificate(made: Result<Certificate, String>) -> FuncResult {
    made.map(|made| Value::object(CertificateObject(made)))
        .map_err(FuncError::new)
}

fn register_certificates(r: &mut Registry<'_>) {
    r.add("buildCustomCert", &[Str, Str], CERTIFICATE, |a| {
        certificate(cert::custom(a.text(0)?.as_bytes(), a.text(1)?.as_bytes()))
    });
    r.with_source("genCA", &[Str, Int], CERTIFICATE, |s, a| {
        let key = new_key(s)?;
        authority(s, a.text(0)?.as_bytes(), a.int(1)?, &key)
    });
    r.with_source("genCAWithKey", &[Str, Int, Str], CERTIFICATE, |s, a| {
        let key = given_key(a.get(2))?;
        authority(s, a.text(0)?.as_bytes(), a.int(1)?, &key)
    });
    r.with_source(
        "genSelfSignedCert",
        &[Str, LIST, LIST, Int],
        CERTIFICATE,
        |s, a| {
            let request = request(a.text(0)?.as_bytes(), a.list(1)?, a.list(2)?, a.int(3)?)?;
            let key = new_key(s)?;
            certificate(cert::self_signed(&request, &key, s))
        },
    );
    r.with_source(
        "genSelfSignedCertWithKey",
        &[Str, LIST, LIST, Int, Str],
        CERTIFICATE,
        |s, a| {
            let key = given_key(a.get(4))?;
            let request = request(a.text(0)?.as_bytes(), a.list(1)?, a.list(2)?, a.int(3)?)?;
            certificate(cert::self_signed(&request, &key, s))
        },
    );
    r.with_source(
        "genSignedCert",
        &[Str, LIST, LIST, Int, CERTIFICATE],
        CERTIFICATE,
        |s, a| {
            let request = request(a.text(0)?.as_bytes(), a.list(1)?, a.list(2)?, a.int(3)?)?;
            let key = new_key(s)?;
            certificate(cert::signed(&request, &key, &signer(a.get(4))?, s))
        },
    );
    const WITH_KEY: &[GoType] = &[Str, LIST, LIST, Int, CERTIFICATE, Str];
    r.with_source("genSignedCertWithKey", WITH_KEY, CERTIFICATE, |s, a| {
        let key = given_key(a.get(5))?;
        let request = request(a.text(0)?.as_bytes(), a.list(1)?, a.list(2)?, a.int(3)?)?;
        certificate(cert::signed(&request, &key, &signer(a.get(4))?, s))
    });
}

fn authority(source: &mut dyn Source, name: &[u8], days: i64, key: &PrivateKey) -> FuncResult {
    let request = Request {
        common_name: name,
        addresses: Vec::new(),
        names: Vec::new(),
        days,
        authority: true,
    };
    certificate(cert::self_signed(&request, key, source))
}

fn signer(value: &Value) -> Result<Certificate, FuncError> {
    match value.as_object::<CertificateObject>() {
        Some(object) => Ok(object.0.clone()),
        None => fail("argument should be a sprig.certificate"),
    }
}

fn request<'a>(
    common_name: &'a [u8],
    addresses: &List,
    names: &List,
    days: i64,
) -> Result<Request<'a>, FuncError> {
    let mut request = Request {
        common_name,
        addresses: Vec::new(),
        names: Vec::new(),
        days,
        authority: false,
    };
    for item in addresses.items() {
        let Value::String(text) = item else {
            return fail(format!(
                "error parsing ip: {} is not a string",
                display(item)?
            ));
        };
        match text.as_str().and_then(|text| text.parse::<IpAddr>().ok()) {
            Some(address) => request.addresses.push(address),
            None => return fail(format!("error parsing ip: {text}")),
        }
    }
    for item in names.items() {
        let Value::String(text) = item else {
            let shown = display(item)?;
            return fail(format!(
                "error processing alternate dns name: {shown} is not a string"
            ));
        };
        request.names.push(text.as_bytes().to_vec());
    }
    Ok(request)
}
