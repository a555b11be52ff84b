//! A small server of buckets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use everflow_env::{MemoryDialer, Stream};

use super::{Fault, Faults, Reply, Seen, accept, converse_with};
use crate::archive::{Algorithm, digest_of};

#[derive(Debug, Default)]
struct State {
    /// By bucket and key.
    objects: BTreeMap<String, BTreeMap<String, Vec<u8>>>,
    page: usize,
    /// The access key that requests must be signed with.
    access: Option<String>,
    /// The secret key that their signatures are checked with.
    secret: Option<String>,
    seen: Vec<String>,
}

/// Buckets in the same process, addressed by path. Clones share everything.
#[derive(Debug, Clone, Default)]
pub struct Buckets {
    state: Arc<Mutex<State>>,
    faults: Arc<Faults>,
}

impl Buckets {
    /// No buckets.
    pub fn new() -> Self {
        Buckets::default()
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers plain HTTP at a host and port in memory.
    pub fn listen(&self, dialer: &MemoryDialer, host: &str, port: u16) {
        let own = self.clone();
        accept(dialer, host, port, move |stream| {
            let own = own.clone();
            async move { own.serve(stream).await }
        });
    }

    /// Answers on one connection.
    pub async fn serve(&self, stream: impl Stream) {
        converse_with(stream, |seen| {
            let reply = self.answer(seen);
            self.faults.apply(seen, reply)
        })
        .await;
    }

    /// Makes a bucket.
    pub fn create(&self, bucket: &str) {
        self.with(|state| {
            state.objects.entry(bucket.to_owned()).or_default();
        });
    }

    /// Puts an object into a bucket, which is made.
    pub fn put(&self, bucket: &str, key: &str, content: &[u8]) {
        self.with(|state| {
            let objects = state.objects.entry(bucket.to_owned()).or_default();
            objects.insert(key.to_owned(), content.to_vec());
        });
    }

    /// Removes an object.
    pub fn remove(&self, bucket: &str, key: &str) {
        self.with(|state| {
            if let Some(objects) = state.objects.get_mut(bucket) {
                objects.remove(key);
            }
        });
    }

    /// At most so many objects in one page.
    pub fn set_page(&self, size: usize) {
        self.with(|state| state.page = size);
    }

    /// Only requests signed with this access key are answered. The signature itself is taken on
    /// trust.
    pub fn require(&self, access: &str) {
        self.with(|state| state.access = Some(access.to_owned()));
    }

    /// Only requests with a right signature by these keys are answered.
    pub fn require_signed(&self, access: &str, secret: &str) {
        self.require(access);
        self.with(|state| state.secret = Some(secret.to_owned()));
    }

    /// Requests whose first line holds `part` go wrong from now on.
    pub fn fault(&self, part: &str, fault: Fault) {
        self.faults.add(part, fault, false);
    }

    /// The next request whose first line holds `part` goes wrong.
    pub fn fault_once(&self, part: &str, fault: Fault) {
        self.faults.add(part, fault, true);
    }

    /// Nothing goes wrong any more.
    pub fn heal(&self) {
        self.faults.clear();
    }

    /// The requests so far, as `GET /bucket/key`.
    pub fn seen(&self) -> Vec<String> {
        self.with(|state| state.seen.clone())
    }

    /// The etag that an object of this content has.
    pub fn etag(content: &[u8]) -> String {
        let digest = digest_of(Algorithm::Sha256, content);
        digest.hex()[..32].to_owned()
    }

    fn answer(&self, seen: &Seen) -> Reply {
        let mut words = seen.line().split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default().to_owned();
        let signed = seen.header("authorization").unwrap_or_default().to_owned();
        self.with(|state| {
            state.seen.push(format!("{method} {target}"));
            if let Some(access) = &state.access
                && !signed.starts_with(&format!("AWS4-HMAC-SHA256 Credential={access}/"))
            {
                return refuse(403, "AccessDenied", "Access Denied.");
            }
            if let Some(secret) = &state.secret
                && !is_signed(seen, &method, &target, &signed, secret)
            {
                let message = "The request signature we calculated does not match the \
                               signature you provided.";
                return refuse(403, "SignatureDoesNotMatch", message);
            }
            state.content(&target)
        })
    }
}

fn refuse(status: u16, code: &str, message: &str) -> Reply {
    let body = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
    Reply::new(status, body).with("Content-Type", "application/xml")
}

/// Whether the signature of a request is what these keys make of it (AWS Signature Version 4),
/// worked out from the bytes that came and from nothing that the signing side computed.
fn is_signed(seen: &Seen, method: &str, target: &str, header: &str, secret: &str) -> bool {
    use ring::hmac;
    let field = |name: &str| {
        let from = header.find(name).map_or(header.len(), |at| at + name.len());
        header[from..].split(',').next().unwrap_or_default().trim()
    };
    let (names, given) = (field("SignedHeaders="), field("Signature="));
    let mut scope = field("Credential=").splitn(2, '/').skip(1);
    let scope = scope.next().unwrap_or_default();
    let payload = digest_of(Algorithm::Sha256, &seen.body);
    if seen.header("x-amz-content-sha256") != Some(payload.hex()) {
        return false;
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut canonical = format!("{method}\n{path}\n{query}\n");
    for name in names.split(';') {
        let value = seen.header(name).unwrap_or_default().trim();
        canonical.push_str(&format!("{name}:{value}\n"));
    }
    canonical.push_str(&format!("\n{names}\n{}", payload.hex()));
    let date = seen.header("x-amz-date").unwrap_or_default();
    let hashed = digest_of(Algorithm::Sha256, canonical.as_bytes());
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hashed.hex());
    let mac = |key: &[u8], text: &str| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key);
        hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
    };
    let first = format!("AWS4{secret}").into_bytes();
    let key = scope.split('/').fold(first, |key, part| mac(&key, part));
    let right: String = mac(&key, &text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    names.contains("host") && right == given
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, digits) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (other, _) => bytes.push(*other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl State {
    fn content(&self, target: &str) -> Reply {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = unescaped(path.trim_start_matches('/'));
        let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
        let Some(objects) = self.objects.get(bucket) else {
            return refuse(404, "NoSuchBucket", "The specified bucket does not exist");
        };
        if query.starts_with("location") {
            return Reply::new(200, "<LocationConstraint></LocationConstraint>");
        }
        if !key.is_empty() {
            return match objects.get(key) {
                Some(content) => Reply::new(200, content.clone())
                    .with("ETag", &format!("\"{}\"", Buckets::etag(content))),
                None => refuse(404, "NoSuchKey", "The specified key does not exist."),
            };
        }
        self.list(objects, query)
    }

    fn list(&self, objects: &BTreeMap<String, Vec<u8>>, query: &str) -> Reply {
        let asked = |name: &str| {
            let found = query.split('&').find_map(|pair| pair.strip_prefix(name));
            unescaped(found.unwrap_or_default())
        };
        let (prefix, after) = (asked("prefix="), asked("continuation-token="));
        let found: Vec<(&String, &Vec<u8>)> = objects
            .iter()
            .filter(|(key, _)| key.starts_with(&prefix) && **key > after)
            .collect();
        let size = match self.page {
            0 => found.len(),
            page => page.min(found.len()),
        };
        let mut body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><EncodingType>url</EncodingType>".to_owned();
        if size < found.len() {
            let last = found[size - 1].0;
            body.push_str(&format!(
                "<IsTruncated>true</IsTruncated><NextContinuationToken>{last}</NextContinuationToken>"
            ));
        } else {
            body.push_str("<IsTruncated>false</IsTruncated>");
        }
        for (key, content) in &found[..size] {
            let key = crate::bucket::escaped(key);
            let etag = Buckets::etag(content);
            body.push_str(&format!(
                "<Contents><Key>{key}</Key><ETag>&quot;{etag}&quot;</ETag><Size>{}</Size></Contents>",
                content.len()
            ));
        }
        body.push_str("</ListBucketResult>");
        Reply::new(200, body).with("Content-Type", "application/xml")
    }
}
