//! The API of a service that has repositories: JSON over HTTP.

use everflow_fetch::http::{Auth, Client, ClientOptions, Request, Response, TlsOptions};
use everflow_fetch::{Secret, Url};
use everflow_json::Value;
use http::Method;

use super::super::steps::Bootstrap;
use super::super::work;
use crate::exit::Failure;

/// The largest answer.
const LARGEST: u64 = 8 << 20;
/// How many pages of a list are read.
const MOST_PAGES: usize = 50;
/// What a page holds at most, where we may say so.
const PAGE: usize = 50;

/// A service, and who we are to it.
pub struct Api {
    client: Client,
    /// Where the API begins.
    base: Url,
    token: Secret<String>,
    timeout: std::time::Duration,
}

/// What the service answered.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// What the service says of a refusal, in whichever form.
    fn message(&self) -> String {
        let body = &self.body;
        for text in [
            &body["message"],
            &body["errors"][0]["message"],
            &body["error"],
            &body["error_description"],
        ] {
            match text {
                Value::String(text) => return text.to_string(),
                Value::Object(_) | Value::Array(_) => return text.to_string(),
                _ => {}
            }
        }
        String::new()
    }
}

/// Part of a path that may hold anything.
pub fn encoded(part: &str) -> String {
    let mut out = String::new();
    for byte in part.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(byte as char);
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

impl Api {
    pub fn new(
        bootstrap: &Bootstrap<'_>,
        base: Url,
        token: &str,
        tls: TlsOptions,
    ) -> Result<Self, Failure> {
        let options = ClientOptions {
            tls,
            ..ClientOptions::default()
        };
        Ok(Api {
            client: Client::new(&bootstrap.env, options).map_err(work)?,
            base,
            token: token.to_owned().into(),
            timeout: bootstrap.connection.timeout,
        })
    }

    /// A request, and whatever comes of it.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Answer, Failure> {
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (path, None),
        };
        let mut url = self.base.clone();
        url.path = format!("{}/{path}", url.path.trim_end_matches('/'));
        url.query = query;
        let request = match body {
            Some(body) => Request::post(&url, "application/json", body.to_string().into_bytes()),
            None => Request::get(&url),
        };
        let request = request
            .with_method(method.clone())
            .with_auth(Some(Auth::Bearer(self.token.clone())))
            .with_header(http::header::ACCEPT, "application/json");
        let deadline = self.client.deadline(self.timeout);
        let response = self.client.send(request, &deadline).await.map_err(work)?;
        read(response).await
    }

    /// A request that must succeed. `what` says what it is for.
    pub async fn must(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        what: &str,
    ) -> Result<Value, Failure> {
        let answer = self.call(method, path, body).await?;
        match answer.is_success() {
            true => Ok(answer.body),
            false => Err(self.refused(&answer, what)),
        }
    }

    /// What is at a path; `None` when nothing is.
    pub async fn find(&self, path: &str, what: &str) -> Result<Option<Value>, Failure> {
        let answer = self.call(Method::GET, path, None).await?;
        match answer.status {
            404 => Ok(None),
            _ if answer.is_success() => Ok(Some(answer.body)),
            _ => Err(self.refused(&answer, what)),
        }
    }

    /// All entries of a list that comes in pages by number.
    pub async fn pages(&self, path: &str, size: &str, what: &str) -> Result<Vec<Value>, Failure> {
        let mut all: Vec<Value> = Vec::new();
        for page in 1..=MOST_PAGES {
            let path = format!("{path}?page={page}&{size}={PAGE}");
            match self.must(Method::GET, &path, None, what).await? {
                Value::Array(items) => {
                    // A server may have smaller pages than we asked for, so only an empty one is the last.
                    if items.is_empty() || all.last() == items.last() {
                        return Ok(all);
                    }
                    all.extend(items);
                }
                _ => return Ok(all),
            }
        }
        Err(work(format!(
            "{what}: there are more than {MOST_PAGES} pages of them"
        )))
    }

    pub fn refused(&self, answer: &Answer, what: &str) -> Failure {
        let (host, status, said) = (&self.base.host, answer.status, answer.message());
        let remedy = match status {
            401 => "; the token is wrong or has expired: give another one",
            403 => {
                "; the token may not do this: give one with the scope to administer repositories"
            }
            404 => "; it is not there, or the token may not see it: check --owner and --repository",
            _ => "",
        };
        work(format!("{what}: {host} answers {status} {said}{remedy}"))
    }
}

async fn read(response: Response) -> Result<Answer, Failure> {
    let status = response.status.as_u16();
    let bytes = response.body.read_all(LARGEST).await.map_err(work)?;
    // Pages of errors by proxies are no JSON.
    let body = everflow_json::from_slice(&bytes).unwrap_or_default();
    Ok(Answer { status, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    #[test]
    fn refusals_are_read_in_the_forms_of_all_services() {
        for body in [
            json!({"message": "no"}),
            json!({"errors": [{"message": "no"}]}),
            json!({"error": "no"}),
        ] {
            let answer = Answer { status: 400, body };
            assert_eq!(answer.message(), "no");
        }
        assert_eq!(encoded("a/b c"), "a%2Fb%20c");
    }
}
