//! One registry that we have greeted: how it wants to be spoken to, and as whom.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::http::header::HeaderName;
use ::http::{Method, StatusCode};
use bytes::Bytes;
use everflow_connect::same_host;
use everflow_env::Env;
use everflow_json::Value;
use futures_util::future::{Either, select};

use super::answer::refusal;
use super::challenge::Challenge;
use super::{Remote, Repository, Scheme};
use crate::docker_config::RegistryAuth;
use crate::http::{Auth, Client, Request, Response, is_private, may_send_credentials};
use crate::{Deadline, Error, Secret, Url};

/// How long HTTPS alone is tried where plain HTTP may be meant.
const PLAIN_AFTER: Duration = Duration::from_millis(300);
/// How long to wait before the second and the third try.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3)];
const LARGEST_TOKEN: u64 = 1 << 20;

/// How a registry wants to know who we are.
#[derive(Debug, Clone)]
enum Demand {
    /// Not at all, or with every request.
    Basic,
    /// By a token from elsewhere.
    Bearer(Box<Tokens>),
}

/// Where tokens come from, and the one we have.
#[derive(Debug, Clone)]
struct Tokens {
    realm: Url,
    service: String,
    scopes: Vec<String>,
    token: Secret<String>,
    identity: Option<Secret<String>>,
}

/// A greeted registry.
#[derive(Debug)]
pub(crate) struct Session {
    env: Env,
    http: Arc<Client>,
    repository: Repository,
    auth: RegistryAuth,
    scheme: &'static str,
    demand: Mutex<Demand>,
}

impl Session {
    /// Greets the registry and, when it wants one, gets a token.
    pub async fn open(
        env: &Env,
        http: Arc<Client>,
        remote: &Remote,
        repository: &Repository,
        deadline: &Deadline,
    ) -> Result<Self, Error> {
        let (scheme, challenge) = ping(env, &http, remote, repository, deadline).await?;
        let session = Session {
            env: env.clone(),
            http,
            repository: repository.clone(),
            auth: remote.auth.clone(),
            scheme,
            demand: Mutex::new(Demand::Basic),
        };
        if let Some(challenge) = challenge.filter(|one| one.scheme == "bearer") {
            let demand = session.bearer(&challenge)?;
            session.put(demand);
            session.refresh(deadline).await?;
        }
        Ok(session)
    }

    fn demand(&self) -> Demand {
        self.demand
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn put(&self, demand: Demand) {
        *self.demand.lock().unwrap_or_else(PoisonError::into_inner) = demand;
    }

    fn bearer(&self, challenge: &Challenge) -> Result<Demand, Error> {
        let Some(realm) = challenge.parameters.get("realm") else {
            return Err(Error::Protocol(
                "malformed www-authenticate, missing realm".to_owned(),
            ));
        };
        let service = challenge.parameters.get("service");
        Ok(Demand::Bearer(Box::new(Tokens {
            realm: self.check_realm(realm)?,
            service: service.cloned().unwrap_or_default(),
            scopes: vec![format!("repository:{}:pull", self.repository.path())],
            token: Secret::default(),
            identity: match &self.auth {
                RegistryAuth::Identity(token) => Some(token.clone()),
                _ => None,
            },
        })))
    }

    /// A registry may not send us, with credentials, to an address inside our own network.
    fn check_realm(&self, realm: &str) -> Result<Url, Error> {
        let wrong =
            |cause: String| Error::Protocol(format!("invalid realm in www-authenticate: {cause}"));
        let url = Url::parse(realm).map_err(|error| wrong(error.to_string()))?;
        match (url.scheme.as_str(), self.scheme) {
            ("https", _) | ("http", "http") => {}
            ("http", _) => {
                let text = "realm scheme \"http\" not allowed for a secure registry; use https";
                return Err(wrong(text.to_owned()));
            }
            (other, _) => {
                return Err(wrong(format!(
                    "realm scheme {other:?} not allowed; must be https (or http for insecure registries)"
                )));
            }
        }
        let own = self.home()?;
        let itself = url.authority() == own.authority()
            || (same_host(&url.host, &own.host)
                && !own.host.ends_with(|c: char| c.is_ascii_digit()));
        if !itself && is_private(&url.host) {
            return Err(wrong(format!(
                "realm host {:?} is a private or link-local address",
                url.host
            )));
        }
        Ok(url.without_credentials())
    }

    /// Gets a token, or a new one.
    async fn refresh(&self, deadline: &Deadline) -> Result<(), Error> {
        let Demand::Bearer(mut tokens) = self.demand() else {
            return Ok(());
        };
        if let RegistryAuth::Bearer(own) = &self.auth {
            tokens.token = own.clone();
            self.put(Demand::Bearer(tokens));
            return Ok(());
        }
        let Tokens {
            realm,
            service,
            scopes,
            identity,
            ..
        } = &*tokens;
        let answered = match identity {
            Some(token) => {
                let exchanged = self.exchange(realm, service, scopes, token, deadline).await;
                match exchanged {
                    // Not all token servers know how to exchange one token for another.
                    Err(Error::Registry { status: 404, .. }) => {
                        self.login(realm, service, scopes, deadline).await?
                    }
                    other => other?,
                }
            }
            None => self.login(realm, service, scopes, deadline).await?,
        };
        let text = |name: &str| {
            let found = answered.get(name).and_then(Value::as_str);
            found.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let Some(token) = text("access_token").or_else(|| text("token")) else {
            return Err(Error::Protocol(format!(
                "no token in the answer of the token server {realm}"
            )));
        };
        if let Some(refresh) = text("refresh_token") {
            tokens.identity = Some(refresh.into());
        }
        tokens.token = token.into();
        self.put(Demand::Bearer(tokens));
        Ok(())
    }

    async fn exchange(
        &self,
        realm: &Url,
        service: &str,
        scopes: &[String],
        identity: &Secret<String>,
        deadline: &Deadline,
    ) -> Result<Value, Error> {
        let mut form = format!(
            "client_id=everflow&grant_type=refresh_token&refresh_token={}&scope={}",
            encoded(identity.reveal()),
            encoded(&scopes.join(" "))
        );
        if !service.is_empty() {
            form.push_str(&format!("&service={}", encoded(service)));
        }
        let mut request = Request::post(realm, "application/x-www-form-urlencoded", form);
        request.secret_body = true;
        self.token(request, deadline).await
    }

    async fn login(
        &self,
        realm: &Url,
        service: &str,
        scopes: &[String],
        deadline: &Deadline,
    ) -> Result<Value, Error> {
        let mut query = realm.query.clone().unwrap_or_default();
        let wanted = scopes.iter().map(|scope| ("scope", scope.as_str()));
        for (name, value) in wanted.chain([("service", service)]) {
            if !query.is_empty() {
                query.push('&');
            }
            query.push_str(&format!("{name}={}", encoded(value)));
        }
        let mut url = realm.clone();
        url.query = Some(query);
        let request = Request::get(&url).with_auth(self.own_auth());
        self.token(request, deadline).await
    }

    async fn token(&self, mut request: Request, deadline: &Deadline) -> Result<Value, Error> {
        request.guarded = true;
        request.named_by = Some(self.home()?);
        let (method, url) = (request.method.clone(), request.url.to_string());
        let response = self.http.send(request, deadline).await?;
        if response.status != StatusCode::OK {
            return Err(refusal(&method, response).await);
        }
        let bytes = response.body.read_all(LARGEST_TOKEN).await?;
        everflow_json::from_slice(&bytes).map_err(|_| {
            Error::Protocol(format!(
                "{method} {url}: the token server's answer is not JSON"
            ))
        })
    }

    /// The credentials that go along with a plain request.
    fn own_auth(&self) -> Option<Auth> {
        match &self.auth {
            RegistryAuth::Login { username, password } => Some(Auth::Basic {
                username: username.clone(),
                password: password.clone(),
            }),
            RegistryAuth::Bearer(token) => Some(Auth::Bearer(token.clone())),
            RegistryAuth::Anonymous | RegistryAuth::Identity(_) => None,
        }
    }

    fn auth(&self) -> Option<Auth> {
        match self.demand() {
            Demand::Basic => self.own_auth(),
            Demand::Bearer(tokens) => {
                (!tokens.token.reveal().is_empty()).then_some(Auth::Bearer(tokens.token))
            }
        }
    }

    /// The registry itself: the server that the credentials are for.
    fn home(&self) -> Result<Url, Error> {
        let registry = self.repository.registry();
        Ok(Url::parse(&format!("{}://{registry}", self.scheme))?)
    }

    /// The address of something in the repository.
    pub fn url(&self, kind: &str, what: &str) -> Result<Url, Error> {
        Ok(Url::parse(&format!(
            "{}://{}/v2/{}/{kind}/{what}",
            self.scheme,
            self.repository.registry(),
            self.repository.path(),
        ))?)
    }

    /// Asks the registry. What is not a success is an error in the registry's words.
    pub async fn ask(
        &self,
        method: Method,
        url: &Url,
        accept: &str,
        deadline: &Deadline,
    ) -> Result<Response, Error> {
        let mut pauses = PAUSES.iter();
        loop {
            let asked = self.ask_once(&method, url, accept, deadline).await;
            let error = match asked {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            match pauses.next() {
                Some(pause)
                    if method == Method::GET && passes(&error) && *pause < deadline.left() =>
                {
                    self.env.clock.sleep(*pause).await;
                }
                _ => return Err(error),
            }
        }
    }

    async fn ask_once(
        &self,
        method: &Method,
        url: &Url,
        accept: &str,
        deadline: &Deadline,
    ) -> Result<Response, Error> {
        let response = self.send(method, url, accept, deadline).await?;
        let response = match self.wider_scopes(&response) {
            false => response,
            true => {
                self.refresh(deadline).await?;
                self.send(method, url, accept, deadline).await?
            }
        };
        match response.status {
            StatusCode::OK => Ok(response),
            _ => Err(refusal(method, response).await),
        }
    }

    /// Sends something; whatever is answered, the caller judges it.
    pub async fn submit(
        &self,
        method: &Method,
        url: &Url,
        kind: &str,
        body: &Bytes,
        deadline: &Deadline,
    ) -> Result<Response, Error> {
        let request = || super::push::request(method, url, kind, body);
        let response = self.dispatch(request(), url, deadline).await?;
        match self.wider_scopes(&response) {
            false => Ok(response),
            true => {
                self.refresh(deadline).await?;
                self.dispatch(request(), url, deadline).await
            }
        }
    }

    /// Whether a refusal means that the token is too old or for too little.
    fn wider_scopes(&self, response: &Response) -> bool {
        if response.status != StatusCode::UNAUTHORIZED || response.foreign {
            return false;
        }
        let mut demand = self.demand();
        let Demand::Bearer(tokens) = &mut demand else {
            return false;
        };
        let scopes = &mut tokens.scopes;
        let challenges = Challenge::all(&response.headers);
        for wanted in challenges
            .iter()
            .filter_map(|one| one.parameters.get("scope"))
        {
            if !scopes.contains(wanted) && scopes.len() < 8 {
                scopes.insert(0, wanted.clone());
            }
        }
        self.put(demand);
        !challenges.is_empty()
    }

    async fn send(
        &self,
        method: &Method,
        url: &Url,
        accept: &str,
        deadline: &Deadline,
    ) -> Result<Response, Error> {
        let mut request = Request::get(url).with_method(method.clone());
        if !accept.is_empty() {
            let name = HeaderName::from_static("accept");
            request = request.with_header(name, accept);
        }
        self.dispatch(request, url, deadline).await
    }

    async fn dispatch(
        &self,
        request: Request,
        url: &Url,
        deadline: &Deadline,
    ) -> Result<Response, Error> {
        // A next page may be anywhere; who we are is for the registry alone.
        let home = self.home()?;
        let own = may_send_credentials(&home, url);
        let mut request = request.with_auth(self.auth().filter(|_| own));
        request.compressed = false;
        request.guarded = true;
        request.named_by = Some(home);
        self.http.send(request, deadline).await
    }

    /// An address that the registry named, spoken to in the way that it likes.
    pub fn follow(&self, from: &Url, location: &str) -> Result<Url, Error> {
        let mut url = from.join(location)?.without_credentials();
        // Behind a proxy that ends TLS registries name themselves by http.
        if url.authority() == self.repository.registry() {
            self.scheme.clone_into(&mut url.scheme);
        }
        Ok(url)
    }
}

/// Whether trying again soon may help.
fn passes(error: &Error) -> bool {
    match error {
        Error::Registry { status, .. } => {
            matches!(status, 408 | 429 | 499 | 500 | 502 | 503 | 504 | 522)
        }
        Error::Request { cause, .. } => match &**cause {
            Error::Protocol(text) => matches!(
                text.as_str(),
                "EOF" | "unexpected EOF" | "read: connection reset by peer" | "write: broken pipe"
            ),
            _ => false,
        },
        _ => false,
    }
}

type Pinged = Result<(&'static str, Option<Challenge>), Error>;

/// Greets the registry by HTTPS and, where that may be meant, by HTTP.
async fn ping(
    env: &Env,
    http: &Client,
    remote: &Remote,
    repository: &Repository,
    deadline: &Deadline,
) -> Pinged {
    let both = match remote.scheme {
        Scheme::Https => false,
        Scheme::Http => return ping_one(http, repository, "http", deadline).await,
        Scheme::Detect => remote.insecure || repository.is_local(),
    };
    let secure = Box::pin(ping_one(http, repository, "https", deadline));
    if !both {
        return secure.await;
    }
    let joined = |one: Error, two: Error| match (&one, &two) {
        (Error::Deadline(_), _) => one,
        _ => Error::Protocol(format!("{one}; {two}")),
    };
    let waiting = match select(secure, env.clock.sleep(PLAIN_AFTER)).await {
        Either::Left((Ok(pinged), _)) => return Ok(pinged),
        Either::Left((Err(one), _)) => {
            let plain = ping_one(http, repository, "http", deadline).await;
            return plain.map_err(|two| joined(one, two));
        }
        Either::Right(((), waiting)) => waiting,
    };
    let plain = Box::pin(ping_one(http, repository, "http", deadline));
    match select(waiting, plain).await {
        Either::Left((Ok(pinged), _)) | Either::Right((Ok(pinged), _)) => Ok(pinged),
        Either::Left((Err(one), plain)) => plain.await.map_err(|two| joined(one, two)),
        Either::Right((Err(two), secure)) => secure.await.map_err(|one| joined(one, two)),
    }
}

async fn ping_one(
    http: &Client,
    repository: &Repository,
    scheme: &'static str,
    deadline: &Deadline,
) -> Pinged {
    let url = Url::parse(&format!("{scheme}://{}/v2/", repository.registry()))?;
    let mut request = Request::get(&url);
    request.guarded = true;
    let response = http.send(request, deadline).await?;
    let itself = response.url.authority() == url.authority();
    // A registry that sends us on to HTTPS wants to be spoken to so. None can send us back.
    let scheme = match itself && response.url.scheme == "https" {
        true => "https",
        false => scheme,
    };
    // Who gets tokens, and from whom, is for the registry to say, not for where it sends us.
    let secure_still = response.url.scheme == scheme;
    let challenge = Challenge::pick(&response.headers).filter(|_| itself && secure_still);
    match response.status {
        StatusCode::OK => {
            response.body.read_some(4096).await;
            Ok((scheme, None))
        }
        StatusCode::UNAUTHORIZED => {
            response.body.read_some(4096).await;
            Ok((scheme, challenge))
        }
        _ => Err(refusal(&Method::GET, response).await),
    }
}

/// Escapes a value of a query or form.
pub(crate) fn encoded(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}
