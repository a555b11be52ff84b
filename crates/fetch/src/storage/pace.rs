//! Connections that must not stand still.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use everflow_env::{BoxFuture, Clock, Stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that fails when nothing moves for too long: neither a client that reads slowly nor one
/// that says nothing can hold a place for ever.
pub(crate) struct Paced<S> {
    stream: S,
    clock: Arc<dyn Clock>,
    patience: Duration,
    timer: Option<BoxFuture<'static, ()>>,
}

impl<S: Stream> Paced<S> {
    pub(crate) fn new(stream: S, clock: Arc<dyn Clock>, patience: Duration) -> Self {
        Paced {
            stream,
            clock,
            patience,
            timer: None,
        }
    }

    fn judge<T>(
        &mut self,
        poll: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.timer = None;
            return poll;
        }
        let timer = self
            .timer
            .get_or_insert_with(|| self.clock.sleep(self.patience));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: Stream> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.judge(poll, context)
    }
}

impl<S: Stream> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(poll, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(poll, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(poll, context)
    }
}
