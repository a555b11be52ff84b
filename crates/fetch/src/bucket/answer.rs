//! What buckets answer.

use ::http::Method;
use everflow_limits::Exceeded;

use super::xml::{Event, read};
use crate::Error;
use crate::http::{Response, printable};

const LARGEST_ERROR: usize = 1 << 20;

/// A refusal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: u16,
    pub code: String,
    pub message: String,
    pub region: String,
}

/// Why a request came to nothing.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    /// The server said no.
    Refused(Refusal),
    /// It did not get so far.
    Failed(Error),
}

impl From<Error> for RequestFailure {
    fn from(error: Error) -> Self {
        RequestFailure::Failed(error)
    }
}

impl std::fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RequestFailure::Failed(error) => error.fmt(f),
            RequestFailure::Refused(refusal) if refusal.message.is_empty() => {
                match usual_words(&refusal.code) {
                    Some(words) => f.write_str(words),
                    None => write!(f, "Error response code {}.", refusal.code),
                }
            }
            RequestFailure::Refused(refusal) => f.write_str(&refusal.message),
        }
    }
}

impl RequestFailure {
    /// The limit that was passed, if it was one.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            RequestFailure::Failed(error) => error.exceeded(),
            RequestFailure::Refused(_) => None,
        }
    }

    /// Whether the server's word for it is this one.
    pub fn is(&self, code: &str) -> bool {
        matches!(self, RequestFailure::Refused(refusal) if refusal.code == code)
    }

    /// Whether trying again soon may help.
    pub fn passes(&self) -> bool {
        match self {
            RequestFailure::Refused(refusal) => {
                matches!(
                    refusal.status,
                    408 | 429 | 499 | 500 | 502 | 503 | 504 | 520
                ) || matches!(
                    refusal.code.as_str(),
                    "RequestError"
                        | "RequestTimeout"
                        | "Throttling"
                        | "ThrottlingException"
                        | "RequestLimitExceeded"
                        | "RequestThrottled"
                        | "InternalError"
                        | "SlowDown"
                        | "SlowDownWrite"
                        | "SlowDownRead"
                )
            }
            RequestFailure::Failed(Error::Request { cause, .. }) => matches!(
                &**cause,
                Error::Protocol(text) if matches!(
                    text.as_str(),
                    "EOF" | "unexpected EOF" | "read: connection reset by peer"
                )
            ),
            RequestFailure::Failed(_) => false,
        }
    }
}

fn usual_words(code: &str) -> Option<&'static str> {
    Some(match code {
        "AccessDenied" => "Access Denied.",
        "NoSuchBucket" => "The specified bucket does not exist.",
        "NoSuchKey" => "The specified key does not exist.",
        "InvalidAccessKeyId" => "The Access Key Id you provided does not exist in our records.",
        "SignatureDoesNotMatch" => {
            "The request signature we calculated does not match the signature you provided. \
             Check your key and signing method."
        }
        "PreconditionFailed" => "At least one of the pre-conditions you specified did not hold.",
        "InternalError" => "We encountered an internal error, please try again.",
        _ => return None,
    })
}

/// Reads what a server says when it refuses. `object` when an object was asked for.
pub(crate) async fn refusal(method: &Method, response: Response, object: bool) -> Refusal {
    let status = response.status;
    // Nothing may borrow the answer while its body is read, or no other thread could go on.
    let [code, words, region] = {
        let header = |name: &str| response.header(name).unwrap_or_default().to_owned();
        [
            "x-minio-error-code",
            "x-minio-error-desc",
            "x-amz-bucket-region",
        ]
        .map(header)
    };
    let body = match *method == Method::HEAD {
        true => Vec::new(),
        false => response.complaint(LARGEST_ERROR).await,
    };
    let text = String::from_utf8_lossy(&body);
    let mut found = parse(&text).unwrap_or_else(|| {
        let code = match status.as_u16() {
            404 if object => "NoSuchKey",
            404 => "NoSuchBucket",
            403 => "AccessDenied",
            412 => "PreconditionFailed",
            _ => {
                let name = status.canonical_reason().unwrap_or_default();
                let code = format!("{} {name}", status.as_u16());
                let message = match text.trim() {
                    "" => code.clone(),
                    text => printable(text),
                };
                return Refusal {
                    code,
                    message,
                    ..Refusal::default()
                };
            }
        };
        Refusal {
            code: code.to_owned(),
            ..Refusal::default()
        }
    });
    found.status = status.as_u16();
    if !code.is_empty() {
        found.code = code;
    }
    if !words.is_empty() {
        found.message = words.trim_matches('"').to_owned();
    }
    if found.region.is_empty() {
        found.region = region;
    }
    found.code = printable(&found.code);
    found.message = printable(&found.message);
    found
}

/// The first `Error` of a document.
fn parse(text: &str) -> Option<Refusal> {
    let mut found = Refusal::default();
    let mut inside = false;
    read(text, &mut |event| {
        match event {
            Event::Start("Error") => inside = true,
            Event::End("Code", text) if inside => found.code = text.trim().to_owned(),
            Event::End("Message", text) if inside => found.message = text.trim().to_owned(),
            Event::End("Region", text) if inside => found.region = text.trim().to_owned(),
            _ => {}
        }
        Ok(())
    })
    .ok()?;
    (!found.code.is_empty()).then_some(found)
}

/// One page of a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// Keys and etags.
    pub objects: Vec<(String, String)>,
    /// Where the next page begins.
    pub next: Option<String>,
}

#[derive(Default)]
struct Listing {
    objects: Vec<(String, String)>,
    key: String,
    etag: String,
    root: String,
    depth: usize,
    truncated: bool,
    token: String,
    marker: String,
    encoded: bool,
}

impl Listing {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Start(name) => {
                if self.depth == 0 {
                    name.clone_into(&mut self.root);
                }
                self.depth += 1;
                if name == "Contents" && self.depth == 2 {
                    self.key.clear();
                    self.etag.clear();
                }
            }
            Event::End(name, text) => {
                match (self.depth, name) {
                    (3, "Key") => self.key = text,
                    (3, "ETag") => self.etag = text.trim().trim_matches('"').to_owned(),
                    (2, "Contents") => {
                        let pair = (
                            std::mem::take(&mut self.key),
                            std::mem::take(&mut self.etag),
                        );
                        self.objects.push(pair);
                    }
                    (2, "IsTruncated") => self.truncated = text.trim() == "true",
                    (2, "NextContinuationToken") => self.token = text,
                    (2, "NextMarker") => self.marker = text,
                    (2, "EncodingType") => self.encoded = text.trim() == "url",
                    _ => {}
                }
                self.depth -= 1;
            }
        }
        Ok(())
    }
}

/// Reads one page of a listing, of the old kind or of the new.
pub(crate) fn page(text: &str, old: bool) -> Result<Page, Error> {
    let broken = |cause: &str| Error::Protocol(format!("the listing is not valid XML: {cause}"));
    let mut listing = Listing::default();
    read(text, &mut |event| listing.take(event)).map_err(|cause| broken(&cause))?;
    if listing.root != "ListBucketResult" {
        let text = format!(
            "expected element type <ListBucketResult> but have <{}>",
            listing.root
        );
        return Err(Error::Protocol(text));
    }
    let decode = |name: String| match listing.encoded {
        false => Ok(name),
        true => decoded(&name).ok_or_else(|| broken("a name that cannot be decoded")),
    };
    let objects: Vec<(String, String)> = listing
        .objects
        .into_iter()
        .map(|(key, etag)| Ok((decode(key)?, etag)))
        .collect::<Result<_, Error>>()?;
    if objects.iter().any(|(key, _)| key.is_empty()) {
        return Err(broken("an object without a key"));
    }
    let next = match (listing.truncated, old) {
        (false, _) => None,
        (true, false) => Some(listing.token),
        (true, true) if listing.marker.is_empty() => Some(
            objects
                .last()
                .map(|(key, _)| key.clone())
                .unwrap_or_default(),
        ),
        (true, true) => Some(decode(listing.marker)?),
    };
    match next.as_deref() {
        Some("") => Err(Error::Protocol(
            "Truncated response should have continuation token set".to_owned(),
        )),
        _ => Ok(Page { objects, next }),
    }
}

/// Names in listings are escaped as in forms.
fn decoded(name: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits = std::str::from_utf8(after.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &after[2..];
            }
            other => bytes.push(*other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// The text of one element anywhere in a document.
pub(crate) fn element(text: &str, wanted: &str) -> Option<String> {
    let mut found = None;
    read(text, &mut |event| {
        if let Event::End(name, text) = event
            && name == wanted
            && found.is_none()
        {
            found = Some(text.trim().to_owned());
        }
        Ok(())
    })
    .ok()?;
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read() {
        let text = "<ListBucketResult xmlns=\"x\"><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>\
            <NextContinuationToken>t</NextContinuationToken>\
            <Contents><Key>a%2Fb+c</Key><ETag>&quot;e1&quot;</ETag><Owner><ETag>no</ETag></Owner></Contents>\
            <CommonPrefixes><Prefix>x</Prefix></CommonPrefixes></ListBucketResult>";
        let read = page(text, false).unwrap();
        assert_eq!(read.objects, [("a/b c".to_owned(), "e1".to_owned())]);
        assert_eq!(read.next.as_deref(), Some("t"));
        let last = page(text, true).unwrap().next;
        assert_eq!(last.as_deref(), Some("a/b c"));
    }

    #[test]
    fn garbage_is_named() {
        for (text, words) in [
            ("<html>", "the listing is not valid XML: unexpected EOF"),
            (
                "<html></html>",
                "expected element type <ListBucketResult> but have <html>",
            ),
            (
                "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
                "Truncated response should have continuation token set",
            ),
            (
                "<ListBucketResult><Contents><ETag>x</ETag></Contents></ListBucketResult>",
                "the listing is not valid XML: an object without a key",
            ),
            (
                "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%ff</Key></Contents></ListBucketResult>",
                "the listing is not valid XML: a name that cannot be decoded",
            ),
        ] {
            assert_eq!(page(text, false).unwrap_err().to_string(), words);
        }
    }

    #[test]
    fn refusals_are_read() {
        let text =
            "<Error><Code>AccessDenied</Code><Message>no</Message><Region>eu</Region></Error>";
        let refusal = parse(text).unwrap();
        assert_eq!(
            (refusal.code.as_str(), refusal.region.as_str()),
            ("AccessDenied", "eu")
        );
        assert_eq!(parse("<Error/>"), None);
        let bare = RequestFailure::Refused(Refusal {
            code: "NoSuchKey".to_owned(),
            ..Refusal::default()
        });
        assert_eq!(bare.to_string(), "The specified key does not exist.");
    }
}
