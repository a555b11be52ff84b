//! Azure DevOps: the status of commits.

use http::Method;

use super::address::Repository;
use super::commit::{State, Status, StatusApi, newest_is};
use super::flow::Call;
use crate::address::Address;
use crate::exchange::{Answer, Request};
use crate::json::Fields;
use crate::metadata::SUMMARY;
use crate::provider::{Settings, basic, without_identity};
use crate::url::{Part, escape};
use crate::{Event, Secret};

const ACCEPT: &str = "application/json;api-version=6.0";
const CONTENT_TYPE: &str = "application/json;charset=utf-8";
const GENRE: &str = "fluxcd";
/// What is answered with a page to sign in when a token is no good.
const SIGN_IN: u16 = 203;

/// A repository on Azure DevOps.
#[derive(Debug, Clone)]
pub(crate) struct AzureDevOps {
    address: Address,
    /// Where the commits of the repository are in the API.
    commits: String,
    token: Secret<String>,
    /// The group that statuses of this kind belong to.
    genre: String,
}

impl AzureDevOps {
    pub(crate) fn new(settings: &Settings, event: &Event) -> Result<Self, String> {
        let token = settings.token.reveal();
        if token.is_empty() {
            let why = without_identity("Azure DevOps");
            return Err(format!("failed to acquire azure devops token: {why}"));
        }
        let repository = Repository::read(settings.address.reveal());
        // ORGANISATION/PROJECT/_git/REPOSITORY
        let Some(parts) = repository.parts::<4>() else {
            return Err(format!("invalid repository id {:?}", repository.id));
        };
        let [organisation, project, _, name] = parts.map(|part| escape(part, Part::Segment));
        let host = &repository.host;
        let genre = match event.metadata.get(SUMMARY) {
            Some(summary) => format!("{GENRE}:{summary}"),
            None => GENRE.to_owned(),
        };
        Ok(AzureDevOps {
            address: settings.address.clone(),
            commits: format!(
                "{host}/{organisation}/{project}/_apis/git/repositories/{name}/commits"
            ),
            token: token.as_str().into(),
            genre,
        })
    }

    fn request(&self, method: Method, status: &Status) -> Result<Request, String> {
        let address = format!("{}/{}/statuses", self.commits, status.commit);
        let request = Request::new(method, self.address.with_api_text(address))
            .header("accept", ACCEPT)
            .header("x-tfs-fedauthredirect", "Suppress");
        basic(request, "", self.token.reveal())
    }
}

fn state(state: State) -> &'static str {
    match state {
        State::Pending => "pending",
        State::Success => "succeeded",
        State::Failure => "error",
    }
}

impl StatusApi for AzureDevOps {
    fn no_state(&self) -> &'static str {
        "can't convert to azure devops state"
    }

    fn get_status(&self, status: &Status) -> Call {
        Call::new(
            "could not list commit statuses: ",
            self.request(Method::GET, status),
        )
    }

    fn is_set(&self, status: &Status, answer: &Answer) -> bool {
        let body = answer.json();
        let listed = body["value"].as_array().into_iter().flatten();
        let same_genre = listed.filter(|one| one["context"]["genre"].as_str() == Some(&self.genre));
        newest_is(
            &everflow_json::Value::Array(same_genre.cloned().collect()),
            ["/context/name", "/state", "/description"],
            [&status.name, state(status.state), &status.description],
        )
    }

    fn set_status(&self, status: &Status) -> Call {
        let context = Fields::new()
            .with("genre", &self.genre)
            .with("name", &status.name);
        let body = Fields::new()
            .with("context", context)
            .with("description", &status.description)
            .with("state", state(status.state))
            .done()
            .print();
        let request = self.request(Method::POST, status);
        let request = request.map(|request| request.body(CONTENT_TYPE, body.into_bytes()));
        Call::new("could not create commit status: ", request)
    }

    fn refusal(&self, _: &Request, answer: &Answer) -> String {
        match answer.json()["message"].as_str() {
            Some(message) => message.to_owned(),
            None => answer.status_line(),
        }
    }

    fn is_refusal(&self, answer: &Answer) -> bool {
        answer.status == SIGN_IN
    }
}
