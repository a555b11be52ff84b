//! Connections of one replica to the hosts of the world, and what goes wrong with them.

use std::fmt;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use everflow_env::{BoxFuture, Dialer, MemoryDialer, Stream};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::clock::WrongClock;
use crate::plan::HostFate;

/// Judges connections.
pub trait LineJudge: Send + Sync + fmt::Debug {
    /// What becomes of a connection to a host; `None` when nothing special.
    fn connect(&self, host: &str) -> Option<HostFate>;
}

/// A dialer whose connections are judged.
#[derive(Debug, Clone)]
pub struct JudgedDialer {
    /// The hosts.
    pub hosts: MemoryDialer,
    /// Who judges.
    pub judge: Arc<dyn LineJudge>,
    /// The clock of a process that may stand still.
    pub clock: Option<Arc<WrongClock>>,
}

impl Dialer for JudgedDialer {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let (hosts, host) = (self.hosts.clone(), host.to_owned());
        let fate = self.judge.connect(&host);
        let clock = self.clock.clone();
        Box::pin(async move {
            let stream = connected(hosts, host, port, fate).await?;
            Ok(match clock {
                Some(clock) => Box::new(StoppedStream {
                    stream,
                    clock,
                    sleep: None,
                }),
                None => stream,
            })
        })
    }
}

async fn connected(
    hosts: MemoryDialer,
    host: String,
    port: u16,
    fate: Option<HostFate>,
) -> io::Result<Box<dyn Stream>> {
    match fate {
        None => hosts.connect(&host, port).await,
        Some(HostFate::Refused) => {
            let text = format!("dial tcp {host}:{port}: connect: connection refused");
            Err(io::Error::new(io::ErrorKind::ConnectionRefused, text))
        }
        Some(HostFate::Slow(millis)) => {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            hosts.connect(&host, port).await
        }
        Some(HostFate::Silent) => Ok(limited(hosts.connect(&host, port).await?, 0, true)),
        Some(HostFate::SilentAfter(bytes)) => {
            Ok(limited(hosts.connect(&host, port).await?, bytes, true))
        }
        Some(HostFate::CutAfter(bytes)) => {
            Ok(limited(hosts.connect(&host, port).await?, bytes, false))
        }
        Some(HostFate::Answers(status)) => Ok(canned(status, None)),
        Some(HostFate::TooBusy(seconds)) => Ok(canned(429, Some(seconds))),
    }
}

/// The stream of a process that hears nothing while it stands still.
struct StoppedStream {
    stream: Box<dyn Stream>,
    clock: Arc<WrongClock>,
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl AsyncRead for StoppedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while let Some(left) = self.clock.stopped() {
            let sleep = self
                .sleep
                .get_or_insert_with(|| Box::pin(tokio::time::sleep(left)));
            match sleep.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => self.sleep = None,
            }
        }
        self.sleep = None;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for StoppedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn limited(stream: Box<dyn Stream>, bytes: usize, silent: bool) -> Box<dyn Stream> {
    Box::new(Limited {
        stream,
        left: bytes,
        silent,
    })
}

/// A host that gives the same answer to everything.
fn canned(status: u16, retry_after: Option<u32>) -> Box<dyn Stream> {
    let (ours, mut theirs) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        let mut buffer = [0; 4096];
        let mut seen: Vec<u8> = Vec::new();
        while let Ok(count @ 1..) = theirs.read(&mut buffer).await {
            seen.extend_from_slice(&buffer[..count]);
            if seen.windows(4).any(|window| window == b"\r\n\r\n") {
                break;
            }
        }
        let retry = retry_after.map(|seconds| format!("Retry-After: {seconds}\r\n"));
        let answer = format!(
            "HTTP/1.1 {status} Simulated\r\n{}Content-Length: 0\r\nConnection: close\r\n\r\n",
            retry.unwrap_or_default()
        );
        let _ = theirs.write_all(answer.as_bytes()).await;
        // What the client still sends is taken in, so that it gets to read the answer.
        while let Ok(1..) = theirs.read(&mut buffer).await {}
    });
    Box::new(ours)
}

/// A stream from which only so much can be read.
struct Limited {
    stream: Box<dyn Stream>,
    left: usize,
    silent: bool,
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            return match self.silent {
                true => Poll::Pending,
                false => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            };
        }
        let mut bytes = [0; 4096];
        let most = self.left.min(buffer.remaining()).min(bytes.len());
        let mut part = ReadBuf::new(&mut bytes[..most]);
        let polled = Pin::new(&mut self.stream).poll_read(context, &mut part);
        buffer.put_slice(part.filled());
        self.left -= part.filled().len();
        polled
    }
}

impl AsyncWrite for Limited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
