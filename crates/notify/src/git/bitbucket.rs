//! Bitbucket, in the cloud and on a server: the status of commits.

use http::Method;
use sha1::{Digest as _, Sha1};

use super::address::Repository;
use super::commit::{State, Status, StatusApi};
use super::flow::Call;
use crate::Secret;
use crate::address::Address;
use crate::exchange::{Answer, Request};
use crate::json::Fields;
use crate::provider::{Settings, basic, bearer, hex};
use crate::url::{Part, Url, escape, query};

const CLOUD: &str = "https://api.bitbucket.org/2.0";

/// Keys of statuses have forty characters at most.
fn key(status: &Status) -> String {
    hex(&Sha1::digest(&status.name))
}

fn state(state: State) -> &'static str {
    match state {
        State::Pending => "INPROGRESS",
        State::Success => "SUCCESSFUL",
        State::Failure => "FAILED",
    }
}

/// A repository on bitbucket.org.
#[derive(Debug, Clone)]
pub(crate) struct Cloud {
    repository: String,
    user: String,
    password: Secret<String>,
    /// `kind/NAME` of the object.
    object: String,
}

impl Cloud {
    pub(crate) fn new(settings: &Settings, object: String) -> Result<Self, String> {
        let token = settings.token.reveal();
        if token.is_empty() {
            return Err("bitbucket token cannot be empty".to_owned());
        }
        let Some((user, password)) = token
            .split_once(':')
            .filter(|(_, rest)| !rest.contains(':'))
        else {
            return Err("invalid token format, expected to be <user>:<password>".to_owned());
        };
        let repository = Repository::read(settings.address.reveal());
        let Some(parts) = repository.parts::<2>() else {
            return Err(format!("invalid repository id {:?}", repository.id));
        };
        let [owner, name] = parts.map(|part| escape(part, Part::Segment));
        Ok(Cloud {
            repository: format!("{owner}/{name}"),
            user: user.to_owned(),
            password: password.into(),
            object,
        })
    }

    fn request(&self, method: Method, status: &Status, key: &str) -> Result<Request, String> {
        let (repository, commit) = (&self.repository, &status.commit);
        let address =
            format!("{CLOUD}/repositories/{repository}/commit/{commit}/statuses/build{key}");
        let request = Request::new(method, Address::open(address));
        basic(request, &self.user, self.password.reveal())
    }
}

impl StatusApi for Cloud {
    fn no_state(&self) -> &'static str {
        "can't convert to bitbucket state"
    }

    fn get_status(&self, status: &Status) -> Call {
        let request = self.request(Method::GET, status, &format!("/{}", key(status)));
        Call::new("could not get commit status: ", request).may_miss()
    }

    fn is_set(&self, status: &Status, answer: &Answer) -> bool {
        let found = answer.json();
        found["state"].as_str() == Some(state(status.state))
            && found["description"].as_str() == Some(&status.description)
    }

    fn set_status(&self, status: &Status) -> Call {
        let body = Fields::new()
            .with("key", key(status))
            .with("url", "https://bitbucket.org")
            .with("state", state(status.state))
            .with("name", &self.object)
            .with("description", &status.description)
            .done()
            .print();
        let request = self.request(Method::POST, status, "");
        Call::new("", request.map(|request| request.json(body)))
    }

    fn refusal(&self, _: &Request, answer: &Answer) -> String {
        answer.status_line()
    }
}

/// A repository on a server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    address: Address,
    /// The address without credentials, which everybody who sees the status sees.
    shown_address: String,
    /// Where the commits of the repository are in the API.
    commits: String,
    token: Secret<String>,
    user: String,
    password: Secret<String>,
    /// `kind/NAME` of the object.
    object: String,
}

impl Server {
    pub(crate) fn new(settings: &Settings, object: String) -> Result<Self, String> {
        let commits =
            commits(settings).map_err(|why| format!("could not parse git address: {why}"))?;
        let has_password = !settings.username.is_empty() && !settings.password.reveal().is_empty();
        if settings.token.reveal().is_empty() && !has_password {
            let why = "invalid credentials, expected to be one of username/password or API Token";
            return Err(why.to_owned());
        }
        Ok(Server {
            address: settings.address.clone(),
            shown_address: without_credentials(settings.address.reveal()),
            commits,
            token: settings.token.clone(),
            user: settings.username.clone(),
            password: settings.password.clone(),
            object,
        })
    }

    fn request(&self, method: Method, status: &Status, query: &str) -> Result<Request, String> {
        let address = format!("{}/{}/builds{query}", self.commits, status.commit);
        let request = Request::new(method, self.address.with_api_text(address))
            .header("x-atlassian-token", "no-check")
            .header("x-requested-with", "XMLHttpRequest");
        match self.token.reveal().as_str() {
            "" => basic(request, &self.user, self.password.reveal()),
            token => bearer(request, token),
        }
    }

    /// What browsers show of a status is its name.
    fn name(&self, status: &Status) -> String {
        format!("{} [{}]", self.object, status.description)
    }
}

fn without_credentials(address: &str) -> String {
    match Url::parse(address) {
        Ok(mut url) if url.userinfo.is_some() => {
            url.userinfo = None;
            url.text()
        }
        _ => address.to_owned(),
    }
}

/// Of `BASE/scm/PROJECT/REPOSITORY.git`, where commits are.
fn commits(settings: &Settings) -> Result<String, String> {
    const MARK: &str = "/scm/";
    let url =
        Url::parse(settings.address.reveal()).map_err(|cause| settings.parse_error(&cause))?;
    if !matches!(url.scheme.as_str(), "http" | "https") {
        return Err(format!(
            "unsupported scheme type in address: {}. Must be http or https",
            url.scheme
        ));
    }
    let path = url.path.strip_suffix(".git").unwrap_or(&url.path);
    let Some((base, id)) = path.rsplit_once(MARK) else {
        return Err("supplied provider address is not http(s) git clone url".to_owned());
    };
    let parts: Vec<&str> = id.split('/').collect();
    let [project, repository] = parts.as_slice() else {
        return Err(format!("invalid repository id {id:?}"));
    };
    let path = format!("{base}/rest/api/latest/projects/{project}/repos/{repository}/commits");
    Ok(format!(
        "{}://{}{}",
        url.scheme,
        url.host,
        escape(&path, Part::Path)
    ))
}

impl StatusApi for Server {
    fn no_commit(&self) -> &'static str {
        "could not parse revision: "
    }

    fn no_state(&self) -> &'static str {
        "couldn't convert to bitbucket server state: bitbucket server state generated on info or error events only"
    }

    fn get_status(&self, status: &Status) -> Call {
        let query = format!("?{}", query(&[("key", &key(status))]));
        let context = "could not get existing commit status: failed api call to check duplicate commit status: ";
        Call::new(context, self.request(Method::GET, status, &query)).may_miss()
    }

    fn is_set(&self, status: &Status, answer: &Answer) -> bool {
        let found = answer.json();
        let wanted = [
            ("key", key(status)),
            ("state", state(status.state).to_owned()),
            ("description", status.description.clone()),
            ("name", self.name(status)),
        ];
        wanted
            .iter()
            .all(|(name, value)| found[*name].as_str() == Some(value))
    }

    fn set_status(&self, status: &Status) -> Call {
        let body = Fields::new()
            .with_some("description", &status.description)
            .with("key", key(status))
            .with("name", self.name(status))
            .with("state", state(status.state))
            .with("url", &self.shown_address)
            .done()
            .print();
        let request = self.request(Method::POST, status, "");
        let context = "could not post build status: could not post build commit status: ";
        Call::new(context, request.map(|request| request.json(body)))
    }

    fn refusal(&self, _: &Request, answer: &Answer) -> String {
        answer.status_line().replacen(' ', " - ", 1)
    }

    fn retries_soon(&self) -> bool {
        true
    }
}
