//! A port: what accepts connections and has them served.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use everflow_env::{Clock, Stream, within};
use futures_util::future::{Either, select};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::activity::Activity;
use crate::admission::{Admission, Place, Verdict, counted_address};
use crate::connection::{Connection, guarded};
use crate::limits::Limits;
use crate::system;
use crate::wire::Wire;

/// A pause when there is nothing to do but to wait until somebody gives something back.
const PAUSE: Duration = Duration::from_millis(5);

/// What the connections of one port have in common. Clones share it.
#[derive(Debug, Clone)]
pub struct Port {
    clock: Arc<dyn Clock>,
    limits: Arc<Limits>,
    admission: Arc<Admission>,
}

impl Port {
    /// A port with these limits. It takes at most half of the files that the process may open: the rest is for files,
    /// and for connections that the program opens itself.
    pub fn new(clock: Arc<dyn Clock>, limits: Limits) -> Self {
        let connections = limits.connections.min(system::open_files() / 2);
        let admission = Admission::new(connections, limits.per_address.min(connections));
        Port {
            clock,
            limits: Arc::new(limits),
            admission,
        }
    }

    fn activity(&self, address: Option<IpAddr>) -> Arc<Activity> {
        Activity::new(self.clock.clone(), self.limits.clone(), address)
    }

    /// Serves a stream that comes from elsewhere than a listener. It takes no place.
    pub async fn serve<S, W>(&self, stream: S, handle: impl FnOnce(Connection<Wire<S>>) -> W)
    where
        S: Stream + 'static,
        W: Future<Output = ()>,
    {
        let activity = self.activity(None);
        let wire = Wire::new(stream, activity.clone());
        // Nobody ever asks it to stop.
        let (_stop, stopping) = watch::channel(false);
        let work = handle(Connection::new(wire, activity.clone(), stopping));
        guarded(&activity, work).await;
    }

    /// Serves all connections of a listener until told to stop. Requests under way then have a moment to finish.
    pub async fn run<W>(
        &self,
        listener: TcpListener,
        stop: impl Future<Output = ()>,
        handle: impl Fn(Connection<Wire<TcpStream>>) -> W,
    ) where
        W: Future<Output = ()> + Send + 'static,
    {
        system::widen(&listener);
        let (stopping, stop_seen) = watch::channel(false);
        let mut open = JoinSet::new();
        let accepting = async {
            loop {
                let Some((stream, place, activity)) = self.accept(&listener).await else {
                    continue;
                };
                system::prepare(&stream);
                let wire = Wire::new(stream, activity.clone());
                let work = handle(Connection::new(wire, activity.clone(), stop_seen.clone()));
                open.spawn(async move {
                    let _place = place;
                    guarded(&activity, work).await;
                });
                while open.try_join_next().is_some() {}
            }
        };
        match select(pin!(stop), pin!(accepting)).await {
            Either::Left(((), _)) => {}
            Either::Right((never, _)) => never,
        }
        drop(listener);
        stopping.send_replace(true);
        let finished = async { while open.join_next().await.is_some() {} };
        // What has not finished then ends with the set.
        let _ = within(&*self.clock, self.limits.grace, finished).await;
    }

    /// The next connection that has a place.
    async fn accept(&self, listener: &TcpListener) -> Option<(TcpStream, Place, Arc<Activity>)> {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                self.recover(&error).await;
                return None;
            }
        };
        let activity = self.activity(counted_address(address.ip()));
        loop {
            match self.admission.admit(&activity) {
                Verdict::Admitted(place) => return Some((stream, place, activity)),
                Verdict::Refused => return None,
                Verdict::Full => {
                    let _ = within(&*self.clock, PAUSE, self.admission.freed()).await;
                }
            }
        }
    }

    /// Some errors concern one connection that is gone already. The others say that the process or the machine has run
    /// out of something, most likely of files that may be open: idle connections give theirs back.
    async fn recover(&self, error: &io::Error) {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
        if matches!(
            error.kind(),
            ConnectionAborted | ConnectionReset | Interrupted
        ) {
            return;
        }
        self.admission.drop_some_idle();
        self.clock.sleep(PAUSE).await;
    }
}
