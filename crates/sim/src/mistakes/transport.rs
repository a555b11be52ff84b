//! Mistakes with requests.

use std::sync::Arc;

use everflow_api::names::annotation::REQUESTED_AT;
use everflow_env::BoxFuture;
use everflow_json::{Value, json};
use everflow_runtime::client::{Request, Response, Transport, TransportError};

use super::Mistake;

/// A way to the API server that a mistake takes otherwise.
#[derive(Debug)]
pub(crate) struct MistakenTransport {
    pub inner: Arc<dyn Transport>,
    pub mistake: Mistake,
}

type Sort = fn(&Result<Response, TransportError>) -> bool;
type Answer = BoxFuture<'static, Result<Response, TransportError>>;

impl Transport for MistakenTransport {
    fn send(&self, request: Request<'_>) -> Answer {
        let is_status = request.method() == "PATCH" && request.uri().path().ends_with("/status");
        match self.mistake {
            Mistake::StatusInThreePatches if is_status => match pieces(&request) {
                Some(pieces) => self.send_in_pieces(request, pieces),
                None => self.inner.send(request),
            },
            Mistake::ConflictTakenAsSuccess if is_status => self.without_conflict(request),
            Mistake::AnsweredUnstored if asks(&request) => self.without_failure(request),
            Mistake::OlderListBelieved => self.inner.send(from_any_version(request)),
            _ => self.inner.send(request),
        }
    }

    fn suspect(&self) {
        self.inner.suspect();
    }

    fn refresh(&self) -> bool {
        self.inner.refresh()
    }
}

impl MistakenTransport {
    /// Patches one piece of the status after the other; what comes after one that fails is not sent.
    fn send_in_pieces(&self, request: Request<'_>, pieces: Vec<Value>) -> Answer {
        let inner = self.inner.clone();
        let parts = request.into_parts().0;
        Box::pin(async move {
            let mut answer = Err(TransportError::text("there is nothing to send"));
            for piece in &pieces {
                let mut request = Request::new(Some(piece));
                *request.method_mut() = parts.method.clone();
                *request.uri_mut() = parts.uri.clone();
                *request.headers_mut() = parts.headers.clone();
                let merge = "application/merge-patch+json".parse();
                let merge = merge.map_err(|error| TransportError::new(&error))?;
                request.headers_mut().insert("content-type", merge);
                answer = inner.send(request).await;
                if !matches!(&answer, Ok(answer) if answer.status().is_success()) {
                    break;
                }
            }
            answer
        })
    }

    /// Answers a conflict with the object as it is.
    fn without_conflict(&self, request: Request<'_>) -> Answer {
        self.unless(
            request,
            |answer| matches!(answer, Ok(answer) if answer.status() == 409),
        )
    }

    /// Answers a failure with the object as it is.
    fn without_failure(&self, request: Request<'_>) -> Answer {
        self.unless(
            request,
            |answer| !matches!(answer, Ok(answer) if answer.status().is_success()),
        )
    }

    /// Answers with the object as it is where the answer is of this sort.
    fn unless(&self, request: Request<'_>, is_hidden: Sort) -> Answer {
        let inner = self.inner.clone();
        let (uri, headers) = (request.uri().clone(), request.headers().clone());
        let answer = inner.send(request);
        Box::pin(async move {
            let answer = answer.await;
            if !is_hidden(&answer) {
                return answer;
            }
            let path = uri.path().trim_end_matches("/status").parse();
            let mut request = Request::new(None);
            *request.uri_mut() = path.map_err(|error| TransportError::new(&error))?;
            *request.headers_mut() = headers;
            request.headers_mut().remove("content-type");
            inner.send(request).await
        })
    }
}

/// Whether a request asks for an attempt, as webhooks do.
fn asks(request: &Request<'_>) -> bool {
    let body = request.body();
    let annotations = body.and_then(|body| body.pointer("/metadata/annotations"));
    annotations.is_some_and(|all| all.get(REQUESTED_AT).is_some())
}

/// The status of a patch, in two pieces: the conditions, and the rest.
fn pieces(request: &Request<'_>) -> Option<Vec<Value>> {
    let operations = request.body().and_then(Value::as_array)?;
    let mut written = operations
        .iter()
        .filter(|operation| operation["op"] == "add" && operation["path"] == "/status");
    let mut rest = written.next()?["value"].clone();
    let mut first = json!({});
    for field in ["conditions", "observedGeneration"] {
        if let Some(value) = rest.as_object_mut().and_then(|rest| rest.remove(field)) {
            first[field] = value;
        }
    }
    Some(vec![json!({"status": first}), json!({"status": rest})])
}

/// A watch that begins with everything, as any version of the server's cache has it.
fn from_any_version(mut request: Request<'_>) -> Request<'_> {
    let target = request.uri().to_string();
    let any = target.replace(
        "resourceVersionMatch=NotOlderThan",
        "resourceVersionMatch=NotOlderThan&resourceVersion=0",
    );
    if let Ok(uri) = any.parse() {
        *request.uri_mut() = uri;
    }
    request
}
