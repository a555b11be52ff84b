//! A client of the Kubernetes API with untyped objects.
//!
//! Every request has a deadline, every failure a type. There are no hidden retries: what to do
//! about a failure is for the caller to decide.

mod answers;
mod budget;
mod concealed;
mod decode;
mod discovery;
mod lines;
mod meter;
mod options;
mod resource;
mod transport;
mod watching;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Clock, within};
use everflow_json::Value;
use everflow_limits::Pool;
use http::{HeaderValue, Method};

pub use concealed::Concealed;
pub use lines::Lines;
pub(crate) use meter::LATENCY_BUCKETS;
pub use meter::{Latency, Meter};
pub use options::{DeleteOptions, Impersonation, Patch, Selection, WriteOptions};
pub use resource::{At, Resource, annotation, generation, meta_text, revision};
pub use transport::{
    Body, ByteStream, EventStream, Request, Response, SharedTree, Transport, TransportError,
    WatchPayload, to_wire,
};
pub use watching::{WatchEvent, WatchFrom, WatchStream};

use crate::error::{Error, Refusal};
use answers::Answers;
use budget::Budget;
use decode::Part;
use discovery::Discovery;
use options::Query;

/// How many objects are asked for at once.
pub const PAGE: usize = 500;
/// How long a request may take, unless told otherwise.
const DEADLINE: Duration = Duration::from_secs(30);

/// Whether something may still be written: the epoch of a lease, for one.
pub trait Fence: Send + Sync + fmt::Debug {
    /// How long writes may still go on; an error when they may not.
    fn remaining(&self) -> Result<Duration, Error>;
}

/// A client. Clones, and views made from it, share connections, discovery and counts.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    view: Arc<View>,
}

#[derive(Debug)]
struct Shared {
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    meter: Arc<Meter>,
    discovery: Discovery,
    budget: Arc<Budget>,
}

#[derive(Debug, Clone)]
struct View {
    impersonation: Option<Impersonation>,
    deadline: Duration,
    fence: Option<Arc<dyn Fence>>,
    urgent: bool,
    user_agent: HeaderValue,
    answers: Answers,
    concealed: Arc<Concealed>,
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    /// The objects.
    pub items: Vec<Value>,
    /// The revision of the whole list.
    pub revision: u64,
    /// Where it goes on; empty at the end.
    pub next: String,
}

/// How a list is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paging {
    /// At most so many objects; 0 for all at once.
    pub limit: usize,
    /// Where the page before ended.
    pub next: String,
}

impl Client {
    /// A client over a transport.
    pub fn new(transport: Arc<dyn Transport>, clock: Arc<dyn Clock>) -> Self {
        let view = View {
            impersonation: None,
            deadline: DEADLINE,
            fence: None,
            urgent: false,
            user_agent: HeaderValue::from_static(concat!("everflow/", env!("CARGO_PKG_VERSION"))),
            answers: Answers::Trusted,
            concealed: Arc::default(),
        };
        Client {
            shared: Arc::new(Shared {
                transport,
                budget: Arc::new(Budget::new(clock.clone())),
                clock,
                meter: Arc::default(),
                discovery: Discovery::default(),
            }),
            view: Arc::new(view),
        }
    }

    /// A view that asks in someone's name.
    #[must_use]
    pub fn impersonating(&self, who: Impersonation) -> Self {
        self.with(|view| view.impersonation = Some(who))
    }

    /// A view whose requests may take so long.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        self.with(|view| view.deadline = deadline)
    }

    /// A view that writes only while a fence is open.
    #[must_use]
    pub fn fenced(&self, fence: Arc<dyn Fence>) -> Self {
        self.with(|view| view.fence = Some(fence))
    }

    /// A view whose requests wait for no other: leases, for one.
    #[must_use]
    pub fn urgent(&self) -> Self {
        self.with(|view| view.urgent = true)
    }

    /// A view of a server that may be anybody's: what its answers take is bounded, and counts to what all work
    /// may use together.
    #[must_use]
    pub fn of_a_stranger(&self, memory: Option<Arc<Pool>>) -> Self {
        self.with(|view| view.answers = Answers::Each(memory))
    }

    /// A view that does not repeat these texts from what the server says of failed requests.
    #[must_use]
    pub fn concealing(&self, texts: Arc<Concealed>) -> Self {
        self.with(|view| view.concealed = texts)
    }

    /// How many requests may be under way at once now. The server's answers set it.
    pub fn concurrency(&self) -> usize {
        self.shared.budget.limit()
    }

    /// A view that calls itself so.
    #[must_use]
    pub fn named(&self, user_agent: &str) -> Self {
        match HeaderValue::from_str(user_agent) {
            Ok(user_agent) => self.with(|view| view.user_agent = user_agent),
            Err(_) => self.clone(),
        }
    }

    fn with(&self, change: impl FnOnce(&mut View)) -> Self {
        let mut view = (*self.view).clone();
        change(&mut view);
        Client {
            shared: self.shared.clone(),
            view: Arc::new(view),
        }
    }

    /// What was asked for so far.
    pub fn meter(&self) -> &Arc<Meter> {
        &self.shared.meter
    }

    /// The clock of the deadlines.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// Reads an object, from the server.
    pub async fn get(&self, resource: &Resource, at: At<'_>) -> Result<Value, Error> {
        let path = resource.object_path(&at);
        self.ask(Method::GET, &path, "application/json", None).await
    }

    /// Reads the metadata of an object, from the server.
    pub async fn get_metadata(&self, resource: &Resource, at: At<'_>) -> Result<Value, Error> {
        let accept = Selection::default().metadata().accept(false);
        let path = resource.object_path(&at);
        self.ask(Method::GET, &path, accept, None).await
    }

    /// Reads one page of a collection, as of now.
    pub async fn list(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        selection: &Selection,
        paging: &Paging,
    ) -> Result<List, Error> {
        let mut query = Query::default();
        selection.query(&mut query);
        if paging.limit > 0 {
            query.add("limit", &paging.limit.to_string());
        }
        query.add("continue", &paging.next);
        let target = query.on(resource.path(namespace));
        let accept = selection.accept(true);
        let mut answer = self.ask(Method::GET, &target, accept, None).await?;
        let revision = revision(&answer);
        let next = meta_text(&answer, "continue").to_owned();
        let items = match answer.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            // Go writes an empty list as null in some places.
            Some(Value::Null) => Vec::new(),
            _ => {
                return Err(Error::Undecodable {
                    what: format!("GET {target}"),
                    why: "it has no list of items".into(),
                });
            }
        };
        let items = items
            .into_iter()
            .map(|item| named_as(item, resource, selection.metadata_only))
            .collect();
        Ok(List {
            items,
            revision,
            next,
        })
    }

    /// Reads a whole collection, page by page. A list that breaks off is an error, never a
    /// shorter list.
    pub async fn list_all(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        selection: &Selection,
    ) -> Result<List, Error> {
        let mut paging = Paging {
            limit: PAGE,
            next: String::new(),
        };
        let mut all: Vec<Value> = Vec::new();
        let reader = self.with(|view| view.answers = view.answers.together());
        loop {
            let page = reader.list(resource, namespace, selection, &paging).await?;
            all.extend(page.items);
            if page.next.is_empty() {
                return Ok(List {
                    items: all,
                    revision: page.revision,
                    next: String::new(),
                });
            }
            paging.next = page.next;
        }
    }

    /// Creates an object.
    pub async fn create(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &Value,
        options: &WriteOptions,
    ) -> Result<Value, Error> {
        let mut query = Query::default();
        options.query(&mut query);
        let target = query.on(resource.path(Some(namespace)));
        let body = Some(("application/json", object));
        self.write(Method::POST, &target, body, options).await
    }

    /// Replaces an object. Its `resourceVersion` guards it.
    pub async fn update(
        &self,
        resource: &Resource,
        at: At<'_>,
        object: &Value,
        options: &WriteOptions,
    ) -> Result<Value, Error> {
        let mut query = Query::default();
        options.query(&mut query);
        let target = query.on(resource.object_path(&at));
        let body = Some(("application/json", object));
        self.write(Method::PUT, &target, body, options).await
    }

    /// Changes an object.
    pub async fn patch(
        &self,
        resource: &Resource,
        at: At<'_>,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Value, Error> {
        let mut query = Query::default();
        options.query(&mut query);
        let target = query.on(resource.object_path(&at));
        let body = Some((patch.media_type(), patch.body()));
        if at.subresource == "status" && !self.view.urgent {
            let work = async {
                let _place = self.shared.budget.enter_status().await;
                let client = self.urgent();
                client.write(Method::PATCH, &target, body, options).await
            };
            // Waiting for a place counts to the deadline, as for all others.
            let span = self.view.deadline;
            return match within(&*self.shared.clock, span, work).await {
                Ok(result) => result,
                Err(_) => Err(Error::Timeout {
                    what: format!("PATCH {target}"),
                    span,
                }),
            };
        }
        self.write(Method::PATCH, &target, body, options).await
    }

    async fn write(
        &self,
        method: Method,
        target: &str,
        body: Option<(&str, &Value)>,
        options: &WriteOptions,
    ) -> Result<Value, Error> {
        let part = match options.discard_managed_fields {
            true => Part::WithoutManagedFields,
            false => Part::Whole,
        };
        self.ask_and_read(method, target, "application/json", body, part)
            .await
    }

    /// Deletes an object. The answer is the object as long as something holds it, else a Status.
    pub async fn delete(
        &self,
        resource: &Resource,
        at: At<'_>,
        options: &DeleteOptions,
    ) -> Result<Value, Error> {
        let body = options.body();
        let target = resource.object_path(&at);
        let body = Some(("application/json", &body));
        self.ask(Method::DELETE, &target, "application/json", body)
            .await
    }

    /// Sends any request and reads the JSON that comes back.
    pub async fn ask(
        &self,
        method: Method,
        target: &str,
        accept: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Value, Error> {
        self.ask_and_read(method, target, accept, body, Part::Whole)
            .await
    }

    /// Sends a request when it is its turn, and once more when the credentials were refused.
    async fn ask_and_read(
        &self,
        method: Method,
        target: &str,
        accept: &str,
        body: Option<(&str, &Value)>,
        part: Part,
    ) -> Result<Value, Error> {
        let what = What {
            method: &method,
            target,
        };
        let work = async {
            let _place = match self.view.urgent {
                true => None,
                false => Some(self.shared.budget.enter().await),
            };
            let response = match self.send(&method, target, accept, body).await {
                // The credentials may have changed a moment ago.
                Err(Error::Unauthorized(_)) if self.shared.transport.refresh() => {
                    self.send(&method, target, accept, body).await?
                }
                response => response?,
            };
            let budget = self.view.answers.budget();
            let object = part.of_body(response.into_body(), budget.as_deref()).await;
            object.map_err(|unreadable| unreadable.of(what.to_string()))
        };
        self.timed(&method, &what, work).await
    }

    /// Runs a request under the deadline and counts it.
    async fn timed<T>(
        &self,
        method: &Method,
        what: &impl fmt::Display,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut span = self.view.deadline;
        if *method != Method::GET
            && let Some(fence) = &self.view.fence
        {
            span = span.min(fence.remaining()?);
        }
        let clock = &*self.shared.clock;
        let started = clock.elapsed();
        let result = match within(clock, span, work).await {
            Ok(result) => result,
            Err(_) => Err(Error::Timeout {
                what: what.to_string(),
                span,
            }),
        };
        let took = clock.elapsed().saturating_sub(started);
        let note = |outcome: &str| self.shared.meter.note(method.as_str(), outcome, took);
        match &result {
            Ok(_) => note("200"),
            Err(error) => match error.refusal() {
                Some(refusal) => note(&refusal.code.to_string()),
                None => note("<error>"),
            },
        }
        match &result {
            Err(error) if error.is_unanswered() => self.shared.transport.suspect(),
            Err(Error::TooManyRequests { .. }) => self.shared.budget.overloaded(),
            Err(Error::Unauthorized(_)) => {
                self.shared.transport.refresh();
            }
            Ok(_) => self.shared.budget.good(),
            Err(_) => {}
        }
        result
    }

    /// Sends a request and turns a failed answer into an error.
    async fn send(
        &self,
        method: &Method,
        target: &str,
        accept: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<Response, Error> {
        let what = What { method, target };
        self.shared.meter.sent(|| {
            let body = body.map_or_else(String::new, |(_, value)| value.to_string());
            format!("{method} {target} {body}")
        });
        let sending = self
            .shared
            .transport
            .send(self.request(&what, accept, body)?);
        let response = sending.await.map_err(|source| Error::Transport {
            what: what.to_string(),
            source,
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let budget = self.view.answers.budget();
        let refused = refused(response, &what, budget.as_deref(), &self.view.concealed);
        Err(refused.await)
    }

    fn request<'v>(
        &self,
        what: &What<'_>,
        accept: &str,
        body: Option<(&str, &'v Value)>,
    ) -> Result<Request<'v>, Error> {
        let mut request = http::Request::builder()
            .method(what.method)
            .uri(what.target)
            .header(http::header::ACCEPT, accept)
            .header(http::header::USER_AGENT, self.view.user_agent.clone());
        if let Some(who) = &self.view.impersonation {
            for (name, value) in who.headers() {
                request = request.header(name, value);
            }
        }
        if let Some((media_type, _)) = body {
            request = request.header(http::header::CONTENT_TYPE, media_type);
        }
        let body = body.map(|(_, value)| value);
        request.body(body).map_err(|error| Error::Undecodable {
            what: what.to_string(),
            why: format!("the request cannot be made: {error}"),
        })
    }
}

/// A request in the words of its errors, which few requests need.
struct What<'r> {
    method: &'r Method,
    target: &'r str,
}

impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.target)
    }
}

/// Items of typed lists do not say what they are.
fn named_as(mut item: Value, resource: &Resource, metadata_only: bool) -> Value {
    if let Value::Object(map) = &mut item {
        if metadata_only || !map.contains_key("kind") {
            map.insert("kind".into(), resource.kind.as_str().into());
        }
        if metadata_only || !map.contains_key("apiVersion") {
            map.insert("apiVersion".into(), resource.api_version().into());
        }
    }
    item
}

async fn refused(
    response: Response,
    what: &What<'_>,
    budget: Option<&everflow_limits::Budget>,
    concealed: &Concealed,
) -> Error {
    let code = response.status().as_u16();
    let retry_after = response
        .headers()
        .get(http::header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok())
        .map(Duration::from_secs);
    let bytes = match decode::text(response.into_body(), budget).await {
        Ok(bytes) => bytes,
        Err(unreadable) => return unreadable.of(what.to_string()),
    };
    let status = everflow_json::text::read(&bytes).unwrap_or_default();
    let mut refusal = refusal(code, &status, &bytes);
    refusal.message = concealed.hide(&refusal.message);
    concealed.hide_in(&mut refusal.details);
    Error::from_refusal(refusal, retry_after)
}

pub(crate) fn refusal(code: u16, status: &Value, bytes: &[u8]) -> Refusal {
    let text = |field: &str| status.get(field).and_then(Value::as_str).map(str::to_owned);
    let plain = || {
        let body = String::from_utf8_lossy(bytes);
        let body: String = body.trim().chars().take(256).collect();
        match body.is_empty() {
            true => format!("the server answered {code}"),
            false => body,
        }
    };
    Refusal {
        code,
        reason: text("reason").unwrap_or_default(),
        message: text("message").unwrap_or_else(plain),
        details: status.get("details").cloned().unwrap_or_default(),
    }
}
