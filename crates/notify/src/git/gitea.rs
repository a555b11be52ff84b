//! Gitea and Forgejo: the status of commits, and comments on pull requests.

use everflow_json::Value;
use http::Method;

use super::address::Repository;
use super::comment::CommentApi;
use super::commit::{State, Status, StatusApi, newest_is};
use super::flow::Call;
use crate::Secret;
use crate::address::Address;
use crate::exchange::{Answer, Request};
use crate::json::{Fields, Json};
use crate::provider::Settings;
use crate::url::{Part, escape};

const JSON: &str = "application/json";

/// A repository on Gitea.
#[derive(Debug, Clone)]
pub(crate) struct Gitea {
    address: Address,
    host: String,
    /// `OWNER/REPOSITORY`, encoded.
    repository: String,
    token: Secret<String>,
}

impl Gitea {
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let token = settings.token_or_password();
        if token.is_empty() {
            return Err("gitea token cannot be empty".to_owned());
        }
        let repository = Repository::read(settings.address.reveal());
        let Some(parts) = repository.parts::<2>() else {
            return Err(format!("invalid repository id {:?}", repository.id));
        };
        let [owner, name] = parts.map(|part| escape(part, Part::Segment));
        Ok(Gitea {
            address: settings.address.clone(),
            host: repository.host,
            repository: format!("{owner}/{name}"),
            token: token.into(),
        })
    }

    fn request(&self, method: Method, path: &str) -> Result<Request, String> {
        let address = self
            .address
            .with_api_text(format!("{}/api/v1/{path}", self.host));
        let token = format!("token {}", self.token.reveal());
        Request::new(method, address).secret_header("authorization", &token)
    }

    fn write(&self, method: Method, path: &str, body: &Json<'_>) -> Result<Request, String> {
        Ok(self.request(method, path)?.json(body.print()))
    }

    /// Flux asks for the version at each event, and so finds out first whether the token is any good.
    fn version(&self) -> Call {
        Call::new(
            "failed creating Gitea client: ",
            self.request(Method::GET, "version"),
        )
        .preparing()
    }

    fn refused(answer: &Answer) -> String {
        match answer.json()["message"]
            .as_str()
            .filter(|message| !message.is_empty())
        {
            Some(message) => message.to_owned(),
            None => format!("{}: {}", answer.status_line(), answer.shown()),
        }
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Pending => "pending",
        State::Success => "success",
        State::Failure => "failure",
    }
}

impl StatusApi for Gitea {
    fn keeps_pending(&self) -> bool {
        true
    }

    fn version_check(&self) -> Option<Call> {
        Some(self.version())
    }

    fn no_state(&self) -> &'static str {
        "can't convert to gitea state"
    }

    fn get_status(&self, status: &Status) -> Call {
        let (repository, commit) = (&self.repository, &status.commit);
        let path = format!("repos/{repository}/commits/{commit}/statuses?limit=50&page=1");
        let request = self.request(Method::GET, &path);
        let request = request.map(|request| request.header("content-type", JSON));
        Call::new("could not list commit statuses: ", request)
    }

    fn is_set(&self, status: &Status, answer: &Answer) -> bool {
        newest_is(
            &answer.json(),
            ["/context", "/status", "/description"],
            [&status.name, state(status.state), &status.description],
        )
    }

    fn set_status(&self, status: &Status) -> Call {
        let body = Fields::new()
            .with("state", state(status.state))
            .with("target_url", "")
            .with("description", &status.description)
            .with("context", &status.name)
            .done();
        let path = format!("repos/{}/statuses/{}", self.repository, status.commit);
        Call::new("", self.write(Method::POST, &path, &body))
    }

    fn refusal(&self, _: &Request, answer: &Answer) -> String {
        Gitea::refused(answer)
    }
}

impl CommentApi for Gitea {
    fn version_check(&self) -> Option<Call> {
        Some(self.version())
    }

    fn current_user(&self) -> Call {
        let request = self.request(Method::GET, "user");
        Call::new("failed to get authenticated user info: ", request).preparing()
    }

    fn login<'a>(&self, user: &'a Value) -> Option<&'a str> {
        user["login"].as_str()
    }

    fn list(&self, number: i64) -> Call {
        let path = format!(
            "repos/{}/issues/{number}/comments?limit=100&page=1",
            self.repository
        );
        Call::new(
            "failed to list pull request comments: ",
            self.request(Method::GET, &path),
        )
    }

    fn author<'a>(&self, comment: &'a Value) -> Option<&'a str> {
        comment["user"]["login"].as_str()
    }

    fn create(&self, number: i64, body: &str) -> Call {
        let path = format!("repos/{}/issues/{number}/comments", self.repository);
        let body = Fields::new().with("body", body).done();
        Call::new(
            "failed to create pull request comment: ",
            self.write(Method::POST, &path, &body),
        )
    }

    fn update(&self, _: i64, id: i64, body: &str) -> Call {
        let path = format!("repos/{}/issues/comments/{id}", self.repository);
        let body = Fields::new().with("body", body).done();
        Call::new(
            "failed to update pull request comment: ",
            self.write(Method::PATCH, &path, &body),
        )
    }

    fn refusal(&self, _: &Request, answer: &Answer) -> String {
        Gitea::refused(answer)
    }
}
