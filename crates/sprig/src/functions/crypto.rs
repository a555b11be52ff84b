use std::net::IpAddr;

use everflow_gotemplate::GoType::{Int, String as Str, Uint32};
use everflow_gotemplate::{Args, FuncError, FuncResult, GoType, Held, Meter, Value};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::Registry;
use crate::Source;
use crate::crypto::cert::{self, Certificate, Request};
use crate::crypto::key::PrivateKey;
use crate::crypto::{password, symmetric};
use crate::encoding::{base64_encode, hex};
use crate::objects::{CERTIFICATE, CertificateObject};
use crate::support::{MAX_ITEMS, display, fail, or_told};

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
    r.with_source_and_meter("bcrypt", &[Str], Str, |s, m, a| {
        password::bcrypt(a.text(0)?.as_bytes(), s, m).map(Value::string)
    });
    r.with_source_and_meter("htpasswd", &[Str, Str], Str, |s, m, a| {
        let user = a.text(0)?.as_bytes();
        if user.contains(&b':') {
            return Ok(Value::string([b"invalid username: ", user].concat()));
        }
        let hash = password::bcrypt(a.text(1)?.as_bytes(), s, m)?;
        Ok(Value::string([user, b":", hash.as_bytes()].concat()))
    });
    const DERIVED: &[GoType] = &[Uint32, Str, Str, Str, Str];
    r.metered("derivePassword", DERIVED, Str, |m, a| {
        let counter = a
            .get(0)
            .as_uint()
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or_default();
        let text = |index: usize| a.text(index).map(|text| text.as_bytes());
        let derived = password::derive(counter, text(1)?, text(2)?, text(3)?, text(4)?, m)?;
        Ok(Value::string(derived))
    });
    r.with_source_and_meter("encryptAES", &[Str, Str], Str, |s, m, a| {
        let (password, text) = (a.text(0)?.as_bytes(), a.text(1)?.as_bytes());
        let _held = m.hold(5 * text.len())?;
        Ok(Value::string(symmetric::encrypt(password, text, s)))
    });
    r.add("decryptAES", &[Str, Str], Str, |a| {
        symmetric::decrypt(a.text(0)?.as_bytes(), a.text(1)?.as_bytes())
            .map(Value::string)
            .map_err(FuncError::new)
    });
    r.with_source_and_meter("randBytes", &[Int], Str, |s, m, a| {
        let count = a.int(0)?;
        if !(0..=MAX_ITEMS).contains(&count) {
            return fail("runtime error: makeslice: len out of range");
        }
        let _held = m.hold(4 * count as usize)?;
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
    r.with_source_and_meter("genPrivateKey", &[Str], Str, |s, m, a| {
        let kind = a.text(0)?;
        let Some(key) = PrivateKey::generate(kind.as_bytes(), s, m) else {
            return Ok(Value::string(format!("Unknown type {kind}")));
        };
        let pem = key.and_then(|key| Ok(key.to_pem()?));
        or_told(pem.map(Value::string), |error| {
            Value::string(format!("failed to generate private key: {error}"))
        })
    });
}

fn new_key(source: &mut dyn Source, meter: &Meter<'_>) -> Result<PrivateKey, FuncError> {
    PrivateKey::generate_rsa(2048, source, meter).map_err(|error| match error.exceeded() {
        Some(_) => error,
        None => format!("error generating rsa key: {error}").into(),
    })
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
    r.with_source_and_meter("genCA", &[Str, Int], CERTIFICATE, |s, m, a| {
        let key = new_key(s, m)?;
        authority(s, a.text(0)?.as_bytes(), a.int(1)?, &key)
    });
    r.with_source("genCAWithKey", &[Str, Int, Str], CERTIFICATE, |s, a| {
        let key = given_key(a.get(2))?;
        authority(s, a.text(0)?.as_bytes(), a.int(1)?, &key)
    });
    const SELF_SIGNED: &[GoType] = &[Str, LIST, LIST, Int];
    r.with_source_and_meter("genSelfSignedCert", SELF_SIGNED, CERTIFICATE, |s, m, a| {
        let (_held, request) = request(&a, m)?;
        let key = new_key(s, m)?;
        certificate(cert::self_signed(&request, &key, s))
    });
    const WITH_KEY: &[GoType] = &[Str, LIST, LIST, Int, Str];
    let name = "genSelfSignedCertWithKey";
    r.with_source_and_meter(name, WITH_KEY, CERTIFICATE, |s, m, a| {
        let key = given_key(a.get(4))?;
        let (_held, request) = request(&a, m)?;
        certificate(cert::self_signed(&request, &key, s))
    });
    const SIGNED: &[GoType] = &[Str, LIST, LIST, Int, CERTIFICATE];
    r.with_source_and_meter("genSignedCert", SIGNED, CERTIFICATE, |s, m, a| {
        let (_held, request) = request(&a, m)?;
        let key = new_key(s, m)?;
        certificate(cert::signed(&request, &key, &signer(a.get(4))?, s))
    });
    const SIGNED_WITH_KEY: &[GoType] = &[Str, LIST, LIST, Int, CERTIFICATE, Str];
    let name = "genSignedCertWithKey";
    r.with_source_and_meter(name, SIGNED_WITH_KEY, CERTIFICATE, |s, m, a| {
        let key = given_key(a.get(5))?;
        let (_held, request) = request(&a, m)?;
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

/// What one name of a certificate takes on the way to its text, beside its bytes.
const NAME_BYTES: usize = 200;
/// How often a name is copied on that way.
const NAME_COPIES: usize = 12;

/// A request from the arguments: common name, addresses, names and days.
fn request<'a, 'm>(
    args: &Args<'a>,
    meter: &'m Meter<'_>,
) -> Result<(Held<'m>, Request<'a>), FuncError> {
    let (addresses, names) = (args.list(1)?, args.list(2)?);
    let mut request = Request {
        common_name: args.text(0)?.as_bytes(),
        addresses: Vec::new(),
        names: Vec::new(),
        days: args.int(3)?,
        authority: false,
    };
    let mut held = meter.hold(NAME_COPIES * request.common_name.len())?;
    for item in addresses.items() {
        let Value::String(text) = item else {
            return fail(format!(
                "error parsing ip: {} is not a string",
                display(item, meter)?
            ));
        };
        held.add(NAME_BYTES)?;
        match text.as_str().and_then(|text| text.parse::<IpAddr>().ok()) {
            Some(address) => request.addresses.push(address),
            None => return fail(format!("error parsing ip: {text}")),
        }
    }
    for item in names.items() {
        let Value::String(text) = item else {
            let shown = display(item, meter)?;
            return fail(format!(
                "error processing alternate dns name: {shown} is not a string"
            ));
        };
        held.add(NAME_BYTES + NAME_COPIES * text.len())?;
        request.names.push(text.as_bytes().to_vec());
    }
    Ok((held, request))
}
