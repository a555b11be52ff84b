//! Tokens of GitHub Apps: a signed statement for a token that works as a password.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use everflow_json::{Value, json};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use everflow_fetch::http::{Auth, Client, Request, printable};
use everflow_fetch::{Deadline, Error, Secret, Url};

/// An app and where it is installed.
#[derive(Debug, Clone)]
pub struct GithubApp {
    /// The app's id.
    pub app_id: String,
    /// The app's private key (PEM).
    pub private_key: Secret<Vec<u8>>,
    /// The installation, by its id.
    pub installation_id: Option<String>,
    /// The installation, by the organisation or user that has it.
    pub installation_owner: Option<String>,
    /// The API's address; that of github.com when `None`.
    pub base_url: Option<String>,
}

/// A token and when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GithubToken {
    /// The token.
    pub token: Secret<String>,
    /// As GitHub writes it.
    pub expires_at: String,
}

impl GithubToken {
    /// The token as git's credentials.
    pub fn auth(&self) -> Auth {
        Auth::Basic {
            username: "x-access-token".to_owned(),
            password: self.token.clone(),
        }
    }
}

const LARGEST_ANSWER: u64 = 4 << 20;

impl GithubApp {
    /// Asks for a token. `now` is in seconds since 1970.
    pub async fn token(
        &self,
        client: &Client,
        now: i64,
        deadline: &Deadline,
    ) -> Result<GithubToken, Error> {
        let base = Url::parse(self.base_url.as_deref().unwrap_or("https://api.github.com"))?;
        let statement = Auth::Bearer(self.statement(now)?.into());
        let id = match (&self.installation_id, &self.installation_owner) {
            (Some(id), _) => id.clone(),
            (None, Some(owner)) => {
                self.find_installation(client, &base, owner, &statement, deadline)
                    .await?
            }
            (None, None) => {
                return Err(Error::Authentication(
                    "the GitHub App secret needs githubAppInstallationID or \
                     githubAppInstallationOwner"
                        .to_owned(),
                ));
            }
        };
        if !id.bytes().all(|byte| byte.is_ascii_digit()) || id.is_empty() {
            return Err(Error::Authentication(format!(
                "githubAppInstallationID {id:?} is not a number"
            )));
        }
        let url = base.with_suffix(&format!("app/installations/{id}/access_tokens"));
        let answer = ask(
            client,
            Request::post(&url, "application/json", ""),
            &statement,
            deadline,
        )
        .await?;
        match (answer["token"].as_str(), answer["expires_at"].as_str()) {
            (Some(token), expires) => Ok(GithubToken {
                token: token.into(),
                expires_at: expires.unwrap_or_default().to_owned(),
            }),
            _ => Err(Error::Authentication(
                "GitHub's answer has no token".to_owned(),
            )),
        }
    }

    /// The app's short name, under which it comments. `now` is in seconds since 1970.
    pub async fn slug(
        &self,
        client: &Client,
        now: i64,
        deadline: &Deadline,
    ) -> Result<String, Error> {
        let base = Url::parse(self.base_url.as_deref().unwrap_or("https://api.github.com"))?;
        let statement = Auth::Bearer(self.statement(now)?.into());
        let request = Request::get(&base.with_suffix("app"));
        let answer = ask(client, request, &statement, deadline).await?;
        match answer["slug"].as_str() {
            Some(slug) => Ok(slug.to_owned()),
            None => Err(Error::Authentication(
                "GitHub's answer does not name the app".to_owned(),
            )),
        }
    }

    async fn find_installation(
        &self,
        client: &Client,
        base: &Url,
        owner: &str,
        statement: &Auth,
        deadline: &Deadline,
    ) -> Result<String, Error> {
        for page in 1..=100 {
            let mut url = base.with_suffix("app/installations");
            url.query = Some(format!("per_page=100&page={page}"));
            let answer = ask(client, Request::get(&url), statement, deadline).await?;
            let installations = answer.as_array().map(Vec::as_slice).unwrap_or_default();
            let found = installations.iter().find(|one| {
                let login = one["account"]["login"].as_str().unwrap_or_default();
                login.eq_ignore_ascii_case(owner)
            });
            if let Some(id) = found.and_then(|one| one["id"].as_u64()) {
                return Ok(id.to_string());
            }
            if installations.len() < 100 {
                break;
            }
        }
        Err(Error::Authentication(format!(
            "the GitHub App {} is not installed for {owner:?}",
            self.app_id
        )))
    }

    /// The statement that proves who the app is: a JWT signed by its key, for ten minutes.
    fn statement(&self, now: i64) -> Result<String, Error> {
        let failed = || {
            Error::Authentication(
                "githubAppPrivateKey is not an RSA private key in PEM format".to_owned(),
            )
        };
        let key = PrivateKeyDer::from_pem_slice(self.private_key.reveal()).map_err(|_| failed())?;
        let key = match &key {
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            _ => return Err(failed()),
        };
        let key = key.map_err(|_| failed())?;
        let header = json!({"alg": "RS256", "typ": "JWT"}).to_string();
        // A minute back, for clocks that differ.
        let claims = json!({"iat": now - 60, "exp": now + 540, "iss": self.app_id}).to_string();
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims)
        );
        let mut signature = vec![0; key.public().modulus_len()];
        key.sign(
            &RSA_PKCS1_SHA256,
            &SystemRandom::new(),
            signed.as_bytes(),
            &mut signature,
        )
        .map_err(|_| failed())?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

async fn ask(
    client: &Client,
    request: Request,
    statement: &Auth,
    deadline: &Deadline,
) -> Result<Value, Error> {
    let shown = request.url.to_string();
    let request = request
        .with_auth(Some(statement.clone()))
        .with_header(::http::header::ACCEPT, "application/vnd.github+json");
    let response = client.send(request, deadline).await?;
    let (status, foreign) = (response.status, response.foreign);
    let body = response.body.read_all(LARGEST_ANSWER).await?;
    let answer: Value = everflow_json::from_slice(&body).unwrap_or_default();
    match status.is_success() {
        true => Ok(answer),
        false => {
            let message = answer["message"].as_str().filter(|_| !foreign);
            let message = printable(message.unwrap_or("no reason given"));
            Err(Error::Authentication(format!(
                "could not get a token from {shown}: received non 2xx response status {status}: {message}"
            )))
        }
    }
}
