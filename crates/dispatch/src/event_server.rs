//! Where controllers in other processes post their events.

use std::sync::Arc;

use bytes::Bytes;
use everflow_env::{BoxFuture, Clock, Stream};
use everflow_fetch::storage::Posts;
use everflow_notify::{Error, Event};
use everflow_runtime::Signal;
use everflow_serve::RequestBody;
use http::{Request, Response};
use tokio::net::TcpListener;

use crate::Intake;
use crate::web::{Answer, Answering, Inbound, Web};

/// The server for events. It looks neither at the method nor at the path, as Flux's.
#[derive(Clone)]
pub struct EventServer {
    web: Web<Events>,
}

impl std::fmt::Debug for EventServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EventServer")
    }
}

struct Events {
    intake: Intake,
}

impl EventServer {
    /// A server that hands events to a dispatcher.
    pub fn new(clock: &Arc<dyn Clock>, intake: Intake) -> Self {
        EventServer {
            web: Web::new(clock, Events { intake }),
        }
    }

    /// Serves all connections of a listener until told to stop.
    pub async fn run(&self, listener: TcpListener, stop: Signal) {
        self.web.run(listener, stop).await;
    }

    /// Serves one connection to its end.
    pub async fn serve(&self, stream: impl Stream + 'static) {
        self.web.serve(stream).await;
    }
}

/// It can share the port of the artifacts, which nobody posts to.
impl Posts for EventServer {
    fn answer(&self, request: Request<RequestBody>) -> BoxFuture<'static, Response<Bytes>> {
        let web = self.web.clone();
        Box::pin(async move { web.answer(request).await.response() })
    }
}

impl Answering for Events {
    fn at_once(&self, _: &str) -> Option<Answer> {
        None
    }

    fn answer(self: Arc<Self>, inbound: Inbound) -> BoxFuture<'static, Answer> {
        Box::pin(async move {
            let event = match Event::read(&inbound.body) {
                Ok(event) => event,
                Err(Error::TooLarge { .. }) => return Answer::status(413),
                Err(_) => return Answer::status(400),
            };
            drop(inbound);
            let Some(verdict) = self.intake.post(event).await else {
                return Answer::later();
            };
            let mut answer = match verdict.is_new {
                true => Answer::status(202),
                false => Answer::text(429, "Too Many Requests"),
            };
            answer.headers.extend(verdict.headers());
            answer
        })
    }
}
