//! A port with a small service behind it.
#![allow(dead_code)]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use everflow_env::SystemClock;
use everflow_serve::{Limits, Port, RequestBody};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What an answer consists of.
pub enum Answer {
    Text(Option<Bytes>),
    /// So many pieces of 64 KiB.
    Pieces(usize),
    /// An event every so often; `None` for a watch that stays quiet.
    Watch(Option<Duration>, Option<Pin<Box<tokio::time::Sleep>>>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match &mut *self {
            Answer::Text(text) => text.take(),
            Answer::Pieces(0) => None,
            Answer::Pieces(count) => {
                *count -= 1;
                Some(Bytes::from_static(&[7; 64 << 10]))
            }
            Answer::Watch(None, _) => return Poll::Pending,
            Answer::Watch(Some(every), timer) => {
                let sleeping = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(*every)));
                std::task::ready!(sleeping.as_mut().poll(context));
                *timer = None;
                Some(Bytes::from_static(b"event\n"))
            }
        };
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            _ => SizeHint::default(),
        }
    }
}

/// Answers by the path.
pub async fn answer(request: Request<RequestBody>) -> Result<Response<Answer>, Infallible> {
    let path = request.uri().path().to_owned();
    let received = request.into_body().collect().await;
    let received = received.map_or(0, |body| body.to_bytes().len());
    Ok(Response::new(match path.as_str() {
        "/large" => Answer::Pieces(1024),
        "/watch" => Answer::Watch(None, None),
        "/events" => Answer::Watch(Some(Duration::from_secs(50)), None),
        _ => Answer::Text(Some(Bytes::from(format!("{received} bytes")))),
    }))
}

pub fn port(limits: Limits) -> Port {
    Port::new(Arc::new(SystemClock::new()), limits)
}

/// Serves on a port of this machine.
pub async fn listen(limits: Limits) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let port = port(limits);
    let serving = tokio::spawn(async move {
        port.run(listener, std::future::pending(), |connection| {
            connection.http(hyper::service::service_fn(answer))
        })
        .await;
    });
    (address, serving)
}

/// Asks on a connection of its own.
pub async fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    get_on(&mut TcpStream::connect(address).await?, path).await
}

pub async fn get_on(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    path: &str,
) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Asserts that a client is served within a second.
pub async fn must_be_served(address: SocketAddr) {
    let asked = std::time::Instant::now();
    let answer = tokio::time::timeout(Duration::from_secs(1), get(address, "/")).await;
    let answer = answer.unwrap_or_else(|_| panic!("not served after {:?}", asked.elapsed()));
    let answer = answer.unwrap();
    assert!(answer.ends_with("\r\n\r\n0 bytes"), "{answer}");
}

/// A connection that has sent the beginning of a head.
pub async fn slow_head(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // It may be dropped already.
    let _ = stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        .await;
    stream
}

/// Whether the server has closed the connection.
pub async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    let read = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut byte)).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}
