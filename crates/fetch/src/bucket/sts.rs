//! Keys for a while, from a service that knows users and passwords.

use ::http::{Method, StatusCode};
use everflow_env::Env;

use super::Keys;
use super::answer::{RequestFailure, element, refusal};
use super::sign::escaped;
use crate::http::{Client, ClientOptions, Proxy, Request, TlsOptions};
use crate::{Deadline, Error, Secret, Url};

/// A service that gives keys to users of a directory.
#[derive(Debug, Clone)]
pub struct Ldap {
    /// Where it is.
    pub endpoint: String,
    /// The user.
    pub username: String,
    /// The password.
    pub password: Secret<String>,
    /// Whom to trust there.
    pub tls: TlsOptions,
}

/// Asks for keys.
pub(super) async fn assume(
    env: &Env,
    ldap: &Ldap,
    proxy: Option<Proxy>,
    deadline: &Deadline,
) -> Result<Keys, RequestFailure> {
    let url = Url::parse(&ldap.endpoint).map_err(Error::from)?;
    let options = ClientOptions {
        tls: match url.scheme.as_str() {
            "https" => ldap.tls.clone(),
            _ => TlsOptions::default(),
        },
        proxy,
        ..ClientOptions::default()
    };
    let client = Client::new(env, options)?;
    let form = format!(
        "Action=AssumeRoleWithLDAPIdentity&LDAPPassword={}&LDAPUsername={}&Version=2011-06-15",
        escaped(ldap.password.reveal(), false),
        escaped(&ldap.username, false),
    );
    let mut request = Request::post(&url, "application/x-www-form-urlencoded", form);
    request.guarded = true;
    request.secret_body = true;
    let response = client.send(request, deadline).await?;
    if response.status != StatusCode::OK {
        return Err(RequestFailure::Refused(
            refusal(&Method::POST, response, false).await,
        ));
    }
    let bytes = response.body.read_all(1 << 20).await?;
    let text = String::from_utf8_lossy(&bytes);
    let part = |name: &str| element(&text, name).filter(|text| !text.is_empty());
    match (part("AccessKeyId"), part("SecretAccessKey")) {
        (Some(access), Some(secret)) => Ok(Keys {
            access,
            secret: secret.into(),
            session: part("SessionToken").map(Secret::new),
        }),
        _ => Err(RequestFailure::Failed(Error::Protocol(format!(
            "the answer of {url} holds no keys"
        )))),
    }
}
