//! Bodies that tell how they move.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::activity::{Activity, Running};

/// The body of a request. It is cut, with its connection, when it comes slower than the least pace.
#[derive(Debug)]
pub struct RequestBody {
    inner: Incoming,
    activity: Arc<Activity>,
    awaited: bool,
}

impl RequestBody {
    pub(crate) fn new(inner: Incoming, activity: Arc<Activity>) -> Self {
        RequestBody {
            inner,
            activity,
            awaited: false,
        }
    }

    fn await_more(&mut self, awaited: bool) {
        if self.awaited != awaited {
            self.awaited = awaited;
            self.activity.awaited(awaited);
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let poll = Pin::new(&mut self.inner).poll_frame(context);
        self.await_more(poll.is_pending());
        let frame = ready!(poll);
        if let Some(Ok(frame)) = &frame {
            let count = frame.data_ref().map_or(0, Bytes::len);
            self.activity.received(count);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.await_more(false);
    }
}

/// The body of an answer. Between a piece that was handed out and the wish for the next one the client is waited for.
#[derive(Debug)]
pub(crate) struct ResponseBody<B> {
    inner: B,
    running: Running,
    due: bool,
}

impl<B> ResponseBody<B> {
    pub(crate) fn new(inner: B, running: Running) -> Self {
        ResponseBody {
            inner,
            running,
            due: false,
        }
    }

    fn hand_out(&mut self, due: bool) {
        if self.due != due {
            self.due = due;
            self.running.0.due(due);
        }
    }
}

impl<B: Body + Unpin> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.hand_out(false);
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok());
        if data.is_some_and(|frame| frame.data_ref().is_some_and(|data| data.has_remaining())) {
            self.hand_out(true);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> Drop for ResponseBody<B> {
    fn drop(&mut self) {
        self.hand_out(false);
    }
}
