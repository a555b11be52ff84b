//! A little plain HTTP: posting events, serving metrics and health.

use std::sync::Arc;

use bytes::Bytes;
use everflow_env::{BoxFuture, Env, SystemClock};
use everflow_json::Value;
use everflow_serve::{Limits, Port, RequestBody};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::client::TransportError;
use crate::error::Error;
use crate::signal::Signal;

/// Where plain HTTP goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    host: String,
    port: u16,
    path: String,
}

impl Url {
    /// Reads `http://host[:port][/path]`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: &str| Error::Config {
            path: text.to_owned(),
            why: why.to_owned(),
        };
        let uri: http::Uri = text
            .parse()
            .map_err(|_| wrong("it is not a URL: use http://host[:port][/path]"))?;
        if uri.scheme_str() != Some("http") {
            return Err(wrong("only http:// is supported for the address of events"));
        }
        let host = uri.host().ok_or_else(|| wrong("it names no host"))?;
        Ok(Url {
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(80),
            path: uri.path().to_owned(),
        })
    }
}

/// Posts JSON; the code of the answer.
pub(crate) async fn post(env: &Env, url: &Url, body: &Value) -> Result<u16, TransportError> {
    // A trailing dot makes a name absolute for the resolver; it is no part of the Host header.
    let stream = env.dialer.connect(&url.host, url.port).await;
    let stream = stream.map_err(|error| TransportError::new(&error))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| TransportError::new(&error))?;
    let request = http::Request::builder()
        .method("POST")
        .uri(&url.path)
        .header("host", format!("{}:{}", url.host, url.port))
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(everflow_json::text::to_vec(body))))
        .map_err(|error| TransportError::new(&error))?;
    let exchange = async {
        let response = sender.send_request(request).await?;
        let code = response.status().as_u16();
        response.into_body().collect().await?;
        Ok::<u16, hyper::Error>(code)
    };
    let (exchange, connection) = (std::pin::pin!(exchange), std::pin::pin!(connection));
    let result = match futures_util::future::select(exchange, connection).await {
        futures_util::future::Either::Left((result, _)) => result,
        futures_util::future::Either::Right((_, exchange)) => exchange.await,
    };
    result.map_err(|error| TransportError::new(&error))
}

/// Code, media type and text of an answer.
pub type PlainAnswer = (u16, &'static str, String);

/// Answers requests for a path.
pub type PlainHandler = Arc<dyn Fn(String) -> BoxFuture<'static, PlainAnswer> + Send + Sync>;

/// Connections that a server of small texts has at once: who asks it is a scraper or a probe.
const CONNECTIONS: usize = 64;

/// Serves small texts until `stop` is raised.
pub async fn serve_plain(listener: TcpListener, handler: PlainHandler, stop: Signal) {
    let limits = Limits::for_connections(CONNECTIONS);
    let port = Port::new(Arc::new(SystemClock::new()), limits);
    port.run(listener, stop.raised(), |connection| {
        let handler = handler.clone();
        connection.http1(service_fn(move |request: http::Request<RequestBody>| {
            let answer = handler(request.uri().path().to_owned());
            async move {
                let (code, media_type, text) = answer.await;
                http::Response::builder()
                    .status(code)
                    .header("content-type", media_type)
                    .body(Full::new(Bytes::from(text)))
            }
        }))
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked() {
        let url =
            Url::parse("http://notification-controller.flux-system.svc.cluster.local./").unwrap();
        assert_eq!((url.port, url.path.as_str()), (80, "/"));
        assert_eq!(Url::parse("http://host:9000/x").unwrap().port, 9000);
        for wrong in ["host", "https://host/", "http://", ":"] {
            assert_eq!(Url::parse(wrong).unwrap_err().reason(), "Config", "{wrong}");
        }
    }
}
