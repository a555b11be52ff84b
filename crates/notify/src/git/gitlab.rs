//! GitLab: the status of commits, and comments on merge requests.

use everflow_json::Value;
use http::Method;

use super::address::Repository;
use super::comment::CommentApi;
use super::commit::{State, Status, StatusApi};
use super::flow::Call;
use crate::Secret;
use crate::address::Address;
use crate::exchange::{Answer, Request};
use crate::json::{Fields, Json};
use crate::provider::Settings;
use crate::url::{Part, escape, query};

/// A project on GitLab.
#[derive(Debug, Clone)]
pub(crate) struct GitLab {
    address: Address,
    host: String,
    /// The path of the project, encoded.
    project: String,
    token: Secret<String>,
}

impl GitLab {
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let token = settings.token_or_password();
        if token.is_empty() {
            return Err("gitlab token cannot be empty".to_owned());
        }
        let repository = Repository::read(settings.address.reveal());
        Ok(GitLab {
            address: settings.address.clone(),
            host: repository.host,
            // Points would be taken for formats.
            project: escape(&repository.id, Part::Segment).replace('.', "%2E"),
            token: token.into(),
        })
    }

    fn request(&self, method: Method, path: &str) -> Result<Request, String> {
        let address = self
            .address
            .with_api_text(format!("{}/api/v4/{path}", self.host));
        Request::new(method, address)
            .header("accept", "application/json")
            .secret_header("private-token", self.token.reveal())
    }

    fn write(&self, method: Method, path: &str, body: &Json<'_>) -> Result<Request, String> {
        Ok(self.request(method, path)?.json(body.print()))
    }

    fn refused(request: &Request, answer: &Answer) -> String {
        let shown = request.shown();
        let shown = shown.split('?').next().unwrap_or_default();
        format!(
            "{shown}: {} {}",
            answer.status,
            flat(&answer.json(), answer)
        )
    }
}

/// An error as GitLab's clients flatten it.
fn flat(body: &Value, answer: &Answer) -> String {
    match body {
        Value::Object(map) => {
            let parts = map
                .iter()
                .map(|(key, value)| format!("{{{key}: {}}}", flat(value, answer)));
            parts.collect::<Vec<_>>().join(", ")
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(|item| flat(item, answer)).collect();
            format!("[{}]", items.join(", "))
        }
        Value::String(text) => text.to_string(),
        Value::Null => answer.shown(),
        other => other.to_string(),
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Pending => "pending",
        State::Success => "success",
        State::Failure => "failed",
    }
}

impl StatusApi for GitLab {
    fn no_state(&self) -> &'static str {
        "can't convert to gitlab state"
    }

    fn get_status(&self, status: &Status) -> Call {
        let query = query(&[("name", &status.name)]);
        let (project, commit) = (&self.project, &status.commit);
        let path = format!("projects/{project}/repository/commits/{commit}/statuses?{query}");
        Call::new(
            "unable to list commit status: ",
            self.request(Method::GET, &path),
        )
    }

    fn is_set(&self, status: &Status, answer: &Answer) -> bool {
        let wanted = [
            ("sha", status.commit.as_str()),
            ("status", state(status.state)),
            ("description", &status.description),
            ("name", &status.name),
        ];
        let answer = answer.json();
        let mut listed = answer.as_array().into_iter().flatten();
        listed.any(|one| {
            wanted
                .iter()
                .all(|(name, value)| one[*name].as_str() == Some(value))
        })
    }

    fn set_status(&self, status: &Status) -> Call {
        let body = Fields::new()
            .with("state", state(status.state))
            .with("name", &status.name)
            .with("description", &status.description)
            .done();
        let path = format!("projects/{}/statuses/{}", self.project, status.commit);
        Call::new("", self.write(Method::POST, &path, &body))
    }

    fn refusal(&self, request: &Request, answer: &Answer) -> String {
        GitLab::refused(request, answer)
    }

    fn retries_soon(&self) -> bool {
        true
    }
}

impl CommentApi for GitLab {
    fn number_parser(&self) -> &'static str {
        "strconv.ParseInt"
    }

    fn marker(&self) -> &'static str {
        "flux-mr-comment-key"
    }

    fn current_user(&self) -> Call {
        let request = self.request(Method::GET, "user");
        Call::new("failed to get authenticated user info: ", request).preparing()
    }

    fn login<'a>(&self, user: &'a Value) -> Option<&'a str> {
        user["username"].as_str()
    }

    fn list(&self, number: i64) -> Call {
        let query = query(&[
            ("sort", "asc"),
            ("order_by", "created_at"),
            ("per_page", "100"),
        ]);
        let path = format!(
            "projects/{}/merge_requests/{number}/notes?{query}",
            self.project
        );
        Call::new(
            "failed to list merge request notes: ",
            self.request(Method::GET, &path),
        )
    }

    fn author<'a>(&self, comment: &'a Value) -> Option<&'a str> {
        comment["author"]["username"].as_str()
    }

    fn create(&self, number: i64, body: &str) -> Call {
        let path = format!("projects/{}/merge_requests/{number}/notes", self.project);
        let body = Fields::new().with("body", body).done();
        Call::new(
            "failed to create merge request note: ",
            self.write(Method::POST, &path, &body),
        )
    }

    fn update(&self, number: i64, id: i64, body: &str) -> Call {
        let path = format!(
            "projects/{}/merge_requests/{number}/notes/{id}",
            self.project
        );
        let body = Fields::new().with("body", body).done();
        Call::new(
            "failed to update merge request note: ",
            self.write(Method::PUT, &path, &body),
        )
    }

    fn refusal(&self, request: &Request, answer: &Answer) -> String {
        GitLab::refused(request, answer)
    }

    fn retries_soon(&self) -> bool {
        true
    }
}
