//! Mistakes with connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use everflow_env::{BoxFuture, Dialer, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Mutex, OwnedMutexGuard};

/// Hosts that are no providers.
const OTHERS: [&str; 6] = ["bucket", "git", "registry", "sink", "storage", "web"];

/// A dialer that has one connection for all providers.
#[derive(Debug)]
pub(crate) struct OneConnection {
    pub inner: Arc<dyn Dialer>,
    pub taken: Arc<Mutex<()>>,
}

impl Dialer for OneConnection {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let connecting = self.inner.connect(host, port);
        if OTHERS.contains(&host) {
            return connecting;
        }
        let taken = self.taken.clone();
        Box::pin(async move {
            let held = taken.lock_owned().await;
            let stream = connecting.await?;
            Ok(Box::new(Held {
                stream,
                _held: held,
            }) as Box<dyn Stream>)
        })
    }
}

struct Held {
    stream: Box<dyn Stream>,
    _held: OwnedMutexGuard<()>,
}

impl AsyncRead for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Held {
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
