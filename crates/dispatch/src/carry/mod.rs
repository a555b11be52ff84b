//! Carries out what a delivery describes: requests over HTTP, tokens, messages over NATS.

mod nats;

use everflow_env::Env;
use everflow_fetch::http::{
    Client as HttpClient, ClientOptions, Limits, Proxy, Request as HttpRequest, TlsOptions,
};
use everflow_fetch::{Deadline, Error as FetchError, Secret as FetchSecret, Url};
use everflow_notify::Secret;
use everflow_notify::exchange::{
    Answer, Connection, GithubApp, Outcome, Reply, Request, Step, Tls, Unreachable,
};
use everflow_notify::provider::Delivery;
use http::header::{self, HeaderValue};
use ring::rand::SystemRandom;

/// How much of an answer is read: lists of statuses and comments are the largest.
const LARGEST_ANSWER: usize = 4 << 20;

/// Carries out a delivery once, to its end or to the deadline. `heard` is told what came of each step, without secrets.
pub(crate) async fn carry(
    env: &Env,
    delivery: &mut Delivery,
    deadline: &Deadline,
    heard: &mut (dyn FnMut(String) + Send),
) -> Outcome {
    let connection = delivery.connection().clone();
    let client = client(env, &connection);
    let mut step = delivery.start();
    loop {
        let reply = match step {
            Step::Done(outcome) => return outcome,
            Step::Send(request) => {
                let reply = match &client {
                    Ok(client) => send(client, &request, deadline).await,
                    Err(why) => Reply::Unreachable(why.clone()),
                };
                heard(told(&delivery.shown(&request), &reply));
                reply
            }
            Step::GithubToken(app) => match github_client(env, &connection, &app) {
                Ok(client) => github_token(env, &client, &app, deadline).await,
                Err(why) => Reply::Unreachable(why),
            },
            Step::GoogleToken(account) => {
                match account.token(env.clock.now(), &SystemRandom::new()) {
                    Ok(token) => Reply::Token { token, slug: None },
                    Err(error) => Reply::Unreachable(lasting(error.to_string())),
                }
            }
            Step::Nats(publish) => {
                let tls = connection.tls.as_ref().map(tls_options);
                match nats::publish(env, &publish, tls.as_ref(), deadline).await {
                    Ok(()) => Reply::Published,
                    Err(why) => Reply::Unreachable(why),
                }
            }
        };
        step = delivery.next(reply);
    }
}

/// A request and what was answered, in a line.
fn told(request: &str, reply: &Reply) -> String {
    match reply {
        Reply::Answer(answer) => format!("{request} was answered {}", answer.status),
        _ => format!("{request} was not answered"),
    }
}

fn lasting(message: impl Into<String>) -> Unreachable {
    Unreachable {
        message: message.into(),
        is_final: true,
    }
}

fn tls_options(tls: &Tls) -> TlsOptions {
    TlsOptions {
        ca: tls.ca.clone(),
        client: tls.client.as_ref().map(|(certificate, key)| {
            let key = FetchSecret::new(key.reveal().clone());
            (certificate.clone(), key)
        }),
        without_system_roots: tls.ca.is_some(),
        insecure: false,
    }
}

fn client(env: &Env, connection: &Connection) -> Result<HttpClient, Unreachable> {
    let proxy = connection.proxy.as_ref();
    let proxy = proxy.map(|address| Proxy::new(address.reveal(), None));
    let proxy = proxy
        .transpose()
        .map_err(|_| lasting("the proxy's address is none"))?;
    let options = ClientOptions {
        tls: connection.tls.as_ref().map(tls_options).unwrap_or_default(),
        proxy,
        limits: Limits {
            body: LARGEST_ANSWER as u64,
            ..Limits::default()
        },
        user_agent: String::new(),
    };
    HttpClient::new(env, options).map_err(|error| lasting(error.to_string()))
}

async fn send(client: &HttpClient, request: &Request, deadline: &Deadline) -> Reply {
    let url = match Url::parse(request.address.reveal()) {
        Ok(url) => url,
        // The address may be secret, and the error repeats it.
        Err(_) => return Reply::Unreachable(lasting("the address is no URL")),
    };
    let mut sent = HttpRequest::get(&url).with_method(request.method.clone());
    sent.headers = request.headers.clone();
    // A kept connection that turns out to be closed would have the request sent twice.
    sent.headers
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    sent.body = request.body.clone().into();
    if sent.headers.contains_key(header::AUTHORIZATION) {
        sent.auth = None;
    }
    match client.send(sent, deadline).await {
        Ok(response) => {
            let retry_after = response.header(header::RETRY_AFTER).map(str::to_owned);
            let status = response.status.as_u16();
            let body = response.body.read_some(LARGEST_ANSWER).await;
            Reply::Answer(Answer {
                status,
                retry_after,
                body,
            })
        }
        Err(error) => Reply::Unreachable(unreachable(&error)),
    }
}

/// What a failure below HTTP means; its address is not repeated.
fn unreachable(error: &FetchError) -> Unreachable {
    let cause = match error {
        FetchError::Request { cause, .. } => cause,
        error => error,
    };
    let is_final = match cause {
        FetchError::Tls(_) | FetchError::Authentication(_) | FetchError::Url(_) => true,
        FetchError::Protocol(text) => text.starts_with("unsupported protocol scheme"),
        _ => false,
    };
    let message = match cause {
        FetchError::Url(_) => "the address is no URL".to_owned(),
        cause => cause.to_string(),
    };
    Unreachable { message, is_final }
}

/// The client for the API that gives tokens to apps, which has a proxy of its own.
fn github_client(
    env: &Env,
    connection: &Connection,
    app: &GithubApp,
) -> Result<HttpClient, Unreachable> {
    let connection = Connection {
        proxy: app.proxy.clone(),
        ..connection.clone()
    };
    client(env, &connection)
}

async fn github_token(
    env: &Env,
    client: &HttpClient,
    app: &GithubApp,
    deadline: &Deadline,
) -> Reply {
    let asked = everflow_git::GithubApp {
        app_id: app.app_id.clone(),
        private_key: FetchSecret::new(app.private_key.reveal().clone()),
        installation_id: app.installation_id.clone(),
        installation_owner: app.installation_owner.clone(),
        base_url: app.base_url.clone(),
    };
    let now = env.clock.now().seconds;
    let got = async {
        let token = asked.token(client, now, deadline).await?;
        let slug = match app.wants_slug {
            true => Some(asked.slug(client, now, deadline).await?),
            false => None,
        };
        Ok::<_, FetchError>((token, slug))
    };
    match got.await {
        Ok((token, slug)) => Reply::Token {
            token: Secret::new(token.token.reveal().clone()),
            slug,
        },
        Err(error) => Reply::Unreachable(unreachable(&error)),
    }
}
