//! Signatures of requests (AWS Signature Version 4).

use ::http::HeaderValue;
use ::http::header::{AUTHORIZATION, HeaderName};
use everflow_time::Timestamp;
use ring::hmac;

use super::Keys;
use crate::Error;
use crate::archive::digest::hex;
use crate::archive::{Algorithm, digest_of};
use crate::http::Request;

/// Escapes as the signature wants it; a slash stays in paths.
pub(crate) fn escaped(text: &str, slash: bool) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            b'/' if slash => out.push('/'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

/// The query of a request, sorted and escaped.
pub(crate) fn query(pairs: &[(&str, &str)]) -> String {
    let mut pairs: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{}={}", escaped(name, false), escaped(value, false)))
        .collect();
    pairs.sort();
    pairs.join("&")
}

fn sum(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn sha256(bytes: &[u8]) -> String {
    digest_of(Algorithm::Sha256, bytes).hex().to_owned()
}

/// Signs a request whose path and query are escaped and sorted already.
pub(crate) fn sign(
    request: &mut Request,
    keys: &Keys,
    region: &str,
    now: Timestamp,
) -> Result<(), Error> {
    let date: String = Timestamp::from_seconds(now.seconds)
        .to_string()
        .chars()
        .filter(|char| !matches!(char, '-' | ':'))
        .collect();
    let day = date.get(..8).unwrap_or_default();
    let payload = sha256(&request.body);
    let mut signed = vec![
        ("host", request.url.authority()),
        ("x-amz-content-sha256", payload.clone()),
        ("x-amz-date", date.clone()),
    ];
    if let Some(token) = &keys.session {
        signed.push(("x-amz-security-token", token.reveal().clone()));
    }
    let headers: String = signed
        .iter()
        .map(|(name, value)| format!("{name}:{}\n", value.trim()))
        .collect();
    let names: Vec<&str> = signed.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let path = match request.url.path.as_str() {
        "" => "/",
        path => path,
    };
    let canonical = format!(
        "{}\n{path}\n{}\n{headers}\n{names}\n{payload}",
        request.method,
        request.url.query.as_deref().unwrap_or_default(),
    );
    let scope = format!("{day}/{region}/s3/aws4_request");
    let text = format!(
        "AWS4-HMAC-SHA256\n{date}\n{scope}\n{}",
        sha256(canonical.as_bytes())
    );
    let mut key = format!("AWS4{}", keys.secret.reveal()).into_bytes();
    for part in [day, region, "s3", "aws4_request"] {
        key = sum(&key, part);
    }
    let signature = hex(&sum(&key, &text));
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        keys.access
    );
    let put = |request: &mut Request, name: HeaderName, text: &str| {
        let mut value = HeaderValue::from_str(text).map_err(|_| {
            Error::Authentication(
                "the access key or token holds characters that no HTTP header may".to_owned(),
            )
        })?;
        value.set_sensitive(true);
        request.headers.insert(name, value);
        Ok::<(), Error>(())
    };
    for (name, value) in &signed[1..] {
        put(request, HeaderName::from_static(name), value)?;
    }
    put(request, AUTHORIZATION, &authorization)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Url;

    fn keys() -> Keys {
        Keys {
            access: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            session: None,
        }
    }

    /// 2013-05-24T00:00:00Z, the day of Amazon's published examples.
    const DAY: i64 = 1_369_353_600;

    fn signature(address: &str) -> String {
        let mut request = Request::get(&Url::parse(address).unwrap());
        let now = Timestamp::from_seconds(DAY);
        sign(&mut request, &keys(), "us-east-1", now).unwrap();
        request.headers[AUTHORIZATION].to_str().unwrap().to_owned()
    }

    #[test]
    fn signatures_are_those_that_amazon_published() {
        assert_eq!(
            signature("https://examplebucket.s3.amazonaws.com/?lifecycle="),
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date, \
             Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        let list = format!(
            "https://examplebucket.s3.amazonaws.com/?{}",
            query(&[("prefix", "J"), ("max-keys", "2")])
        );
        assert!(signature(&list).ends_with(
            "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        ));
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escaped("a b/ü+~", true), "a%20b/%C3%BC%2B~");
        assert_eq!(query(&[("b", "/"), ("a", "")]), "a=&b=%2F");
    }

    #[test]
    fn keys_that_are_no_header_are_refused_without_showing_them() {
        let mut bad = keys();
        bad.access = "hunter2\n".to_owned();
        let mut request = Request::get(&Url::parse("http://h/").unwrap());
        let error = sign(&mut request, &bad, "r", Timestamp::from_seconds(0)).unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
