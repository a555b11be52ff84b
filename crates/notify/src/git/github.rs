//! GitHub: the status of commits, comments, and repository dispatch.

use everflow_json::Value;
use http::Method;

use super::address::Repository;
use super::comment::CommentApi;
use super::commit::{State, Status, StatusApi, newest_is};
use super::flow::{Call, Flow, Following};
use crate::address::Address;
use crate::exchange::{Answer, GithubApp, Outcome, Request};
use crate::json::{Fields, Json};
use crate::provider::Settings;
use crate::url::{Url, query};
use crate::{Event, Secret};

const ACCEPT: &str = "application/vnd.github.v3+json";
const ACCEPT_REACTIONS: &str = "application/vnd.github.squirrel-girl-preview";
const VERSION: &str = "2022-11-28";

/// A repository on GitHub.
#[derive(Debug, Clone)]
pub(crate) struct GitHub {
    address: Address,
    /// Where the API is, with a slash at its end.
    base: String,
    /// `OWNER/REPOSITORY`.
    repository: String,
    token: Secret<String>,
    app: Option<GithubApp>,
}

impl GitHub {
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let token = settings.token_or_password();
        let app = match token.is_empty() {
            true => Some(app(settings)?),
            false => None,
        };
        let repository = Repository::read(settings.address.reveal());
        let Some([owner, name]) = repository.parts::<2>() else {
            return Err(format!("invalid repository id: '{}'", repository.id));
        };
        Ok(GitHub {
            base: base(&repository.host),
            repository: format!("{owner}/{name}"),
            address: settings.address.clone(),
            token: token.into(),
            app,
        })
    }

    /// With the short name of the app, which its comments bear.
    pub(crate) fn with_slug(mut self) -> Self {
        if let Some(app) = &mut self.app {
            app.wants_slug = true;
        }
        self
    }

    fn request(&self, method: Method, path: &str) -> Result<Request, String> {
        self.request_accepting(method, path, ACCEPT)
    }

    fn request_accepting(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
    ) -> Result<Request, String> {
        let address = self.address.with_api_text(format!("{}{path}", self.base));
        let request = Request::new(method, address)
            .header("accept", accept)
            .header("x-github-api-version", VERSION);
        crate::provider::bearer(request, self.token.reveal())
    }

    fn post(&self, path: &str, body: &Json<'_>) -> Result<Request, String> {
        Ok(self
            .request(Method::POST, path)?
            .json(body.print_plain_line()))
    }

    fn refused(request: &Request, answer: &Answer) -> String {
        let body = answer.json();
        let message = body["message"].as_str().unwrap_or_default();
        format!("{}: {} {message} []", request.shown(), answer.status)
    }
}

/// The credentials of an app in the Secret.
fn app(settings: &Settings) -> Result<GithubApp, String> {
    let text = |key: &str| settings.secret.text(key).filter(|text| !text.is_empty());
    if settings.secret.bytes("githubAppID").is_none() {
        return Err("github token or github app details must be specified".to_owned());
    }
    let number = |key: &str| text(key).filter(|text| text.parse().is_ok_and(|id: i64| id != 0));
    let lacks = |what: &str| format!("{what} must be provided to use github app authentication");
    let app_id = number("githubAppID").ok_or_else(|| lacks("app ID"))?;
    let installation_id = number("githubAppInstallationID");
    let installation_owner = text("githubAppInstallationOwner");
    match (&installation_id, &installation_owner) {
        (None, None) => return Err(lacks("app installation owner or ID")),
        (Some(_), Some(_)) => return Err(lacks("only one of app installation owner or ID")),
        _ => {}
    }
    let private_key = settings.secret.bytes("githubAppPrivateKey");
    let private_key = private_key.filter(|key| !key.is_empty());
    Ok(GithubApp {
        app_id,
        private_key: Secret::new(private_key.ok_or_else(|| lacks("private key"))?.to_vec()),
        installation_id,
        installation_owner,
        base_url: text("githubAppBaseURL"),
        wants_slug: false,
        proxy: settings.proxy.clone(),
    })
}

/// Where the API of a host is.
fn base(host: &str) -> String {
    let name = Url::parse(host).map(|url| url.host).unwrap_or_default();
    if name == "github.com" {
        return "https://api.github.com/".to_owned();
    }
    match name.starts_with("api.") || name.contains(".api.") {
        true => format!("{host}/"),
        false => format!("{host}/api/v3/"),
    }
}

impl StatusApi for GitHub {
    fn app(&self) -> Option<GithubApp> {
        self.app.clone()
    }

    fn take_token(&mut self, token: Secret<String>) {
        self.token = token;
    }

    fn no_state(&self) -> &'static str {
        "can't convert to github state"
    }

    fn get_status(&self, status: &Status) -> Call {
        let (repository, commit) = (&self.repository, &status.commit);
        let path = format!("repos/{repository}/commits/{commit}/statuses?per_page=50");
        Call::new(
            "could not list commit statuses: ",
            self.request(Method::GET, &path),
        )
    }

    fn is_set(&self, status: &Status, answer: &Answer) -> bool {
        newest_is(
            &answer.json(),
            ["/context", "/state", "/description"],
            [&status.name, state(status.state), &status.description],
        )
    }

    fn set_status(&self, status: &Status) -> Call {
        let body = Fields::new()
            .with("state", state(status.state))
            .with("description", &status.description)
            .with("context", &status.name)
            .done();
        let path = format!("repos/{}/statuses/{}", self.repository, status.commit);
        Call::new("could not create commit status: ", self.post(&path, &body))
    }

    fn refusal(&self, request: &Request, answer: &Answer) -> String {
        GitHub::refused(request, answer)
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Pending => "pending",
        State::Success => "success",
        State::Failure => "failure",
    }
}

impl CommentApi for GitHub {
    fn app(&self) -> Option<GithubApp> {
        self.app.clone()
    }

    fn take_token(&mut self, token: Secret<String>) {
        self.token = token;
    }

    fn current_user(&self) -> Call {
        let request = self.request(Method::GET, "user");
        Call::new("failed to get authenticated user info: ", request).preparing()
    }

    fn login<'a>(&self, user: &'a Value) -> Option<&'a str> {
        user["login"].as_str()
    }

    fn list(&self, number: i64) -> Call {
        let query = query(&[
            ("sort", "created"),
            ("direction", "asc"),
            ("per_page", "100"),
        ]);
        let path = format!("repos/{}/issues/{number}/comments?{query}", self.repository);
        let request = self.request_accepting(Method::GET, &path, ACCEPT_REACTIONS);
        Call::new("failed to list pull request comments: ", request)
    }

    fn author<'a>(&self, comment: &'a Value) -> Option<&'a str> {
        comment["user"]["login"].as_str()
    }

    fn create(&self, number: i64, body: &str) -> Call {
        let path = format!("repos/{}/issues/{number}/comments", self.repository);
        let request = self.post(&path, &Fields::new().with("body", body).done());
        Call::new("failed to create pull request comment: ", request)
    }

    fn update(&self, _: i64, id: i64, body: &str) -> Call {
        let path = format!("repos/{}/issues/comments/{id}", self.repository);
        let body = Fields::new().with("body", body).done().print_plain_line();
        let request = self
            .request(Method::PATCH, &path)
            .map(|request| request.json(body));
        Call::new("failed to update pull request comment: ", request)
    }

    fn refusal(&self, request: &Request, answer: &Answer) -> String {
        GitHub::refused(request, answer)
    }
}

/// Sends an event to the workflows of a repository.
#[derive(Debug)]
pub(crate) struct RepositoryDispatch {
    github: GitHub,
    body: String,
}

impl RepositoryDispatch {
    pub(crate) fn new(github: GitHub, event: &Event) -> Self {
        let object = &event.involved;
        let body = Fields::new()
            .with(
                "event_type",
                format!("{}/{}.{}", object.kind, object.name, object.namespace),
            )
            .with("client_payload", Json::Printed(event.to_json()))
            .done()
            .print_plain_line();
        RepositoryDispatch { github, body }
    }
}

impl Flow for RepositoryDispatch {
    fn app(&self) -> Option<GithubApp> {
        self.github.app.clone()
    }

    fn take_token(&mut self, token: Secret<String>, _: Option<String>) {
        self.github.token = token;
    }

    fn begin(&mut self) -> Following {
        let path = format!("repos/{}/dispatches", self.github.repository);
        let request = self.github.request(Method::POST, &path);
        let request = request.map(|request| request.json(self.body.clone()));
        Following::call(Call::new(
            "could not send github repository dispatch webhook: ",
            request,
        ))
    }

    fn answered(&mut self, _: &Answer) -> Following {
        Following::Done(Outcome::Delivered)
    }

    fn refusal(&self, request: &Request, answer: &Answer) -> String {
        GitHub::refused(request, answer)
    }
}
