//! One connection, from its handshake to its end.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use everflow_env::Stream;
use futures_util::future::{Either, select};
use http::{Request, Response};
use http_body::Body;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::activity::{Activity, Look};
use crate::body::{RequestBody, ResponseBody};

/// What HTTP/1 keeps of a connection in memory, so also how large a head may be.
const BUFFER: usize = 128 << 10;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A connection to serve.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    activity: Arc<Activity>,
    stopping: watch::Receiver<bool>,
}

impl<S: Stream + 'static> Connection<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>, stopping: watch::Receiver<bool>) -> Self {
        Connection {
            stream,
            activity,
            stopping,
        }
    }

    /// The stream of the connection, to ask it for certificates.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// Speaks TLS on the connection.
    pub async fn tls(self, acceptor: &TlsAcceptor) -> io::Result<Connection<TlsStream<S>>> {
        self.activity.handshake_begins();
        let stream = acceptor.accept(self.stream).await?;
        self.activity.handshake_ended();
        Ok(Connection {
            stream,
            activity: self.activity,
            stopping: self.stopping,
        })
    }

    /// Answers requests by HTTP/1 to the end of the connection.
    pub async fn http1<V, B>(self, service: V)
    where
        V: Service<Request<RequestBody>, Response = Response<B>>,
        V::Future: Send + 'static,
        V::Error: Into<BoxError>,
        B: Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let builder = Builder::new(TokioExecutor::new()).http1_only();
        self.answer(builder, service).await;
    }

    /// Answers requests by HTTP/1 or HTTP/2, as the client likes, to the end of the connection.
    pub async fn http<V, B>(self, service: V)
    where
        V: Service<Request<RequestBody>, Response = Response<B>>,
        V::Future: Send + 'static,
        V::Error: Into<BoxError>,
        B: Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let builder = Builder::new(TokioExecutor::new());
        self.answer(builder, service).await;
    }

    async fn answer<V, B>(mut self, mut builder: Builder<TokioExecutor>, service: V)
    where
        V: Service<Request<RequestBody>, Response = Response<B>>,
        V::Future: Send + 'static,
        V::Error: Into<BoxError>,
        B: Body + Send + Unpin + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        builder.http1().max_buf_size(BUFFER);
        let activity = self.activity;
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let running = activity.request();
            let request = request.map(|body| RequestBody::new(body, activity.clone()));
            let answering = service.call(request);
            async move {
                let response = answering.await?;
                Ok::<_, V::Error>(response.map(|body| ResponseBody::new(body, running)))
            }
        });
        let mut serving = pin!(builder.serve_connection(TokioIo::new(self.stream), service));
        let stopping = pin!(async { drop(self.stopping.wait_for(|stopping| *stopping).await) });
        // A connection that breaks is the client's affair.
        if let Either::Right(_) = select(serving.as_mut(), stopping).await {
            serving.as_mut().graceful_shutdown();
            let _ = serving.await;
        }
    }
}

/// Does the work of a connection unless its time is up or its place is needed; then it is dropped with all it holds.
pub(crate) async fn guarded(activity: &Activity, work: impl Future<Output = ()>) {
    let mut work = pin!(work);
    loop {
        let Look::Again(span) = activity.look() else {
            return;
        };
        let timer = activity.clock.sleep(span);
        let cut = pin!(activity.is_cut());
        match select(work.as_mut(), select(cut, timer)).await {
            Either::Left(((), _)) | Either::Right((Either::Left(((), _)), _)) => return,
            Either::Right((Either::Right(((), _)), _)) => {}
        }
    }
}
