//! What one API server of several has seen so far.

use everflow_env::watch;

/// What an API server shows where the real one answers from its cache: gets and lists with a `resourceVersion` of 0 or of
/// something it has seen, watches, and the state that watches begin with. Reads without a `resourceVersion` and writes
/// are always up to date, as they are in a real cluster.
///
/// Clients with different views of one server are clients of different API servers: each view lags on its own. A view
/// goes backwards only when it is told to ([`View::hold_at`]), as a client does that is moved to a slower server.
#[derive(Debug)]
pub struct View {
    limit: watch::Sender<Option<u64>>,
}

impl Default for View {
    fn default() -> Self {
        View {
            limit: watch::Sender::new(None),
        }
    }
}

impl View {
    /// A view that is up to date.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on nothing newer than this revision is shown.
    pub fn hold_at(&self, revision: u64) {
        self.limit.send_replace(Some(revision));
    }

    /// Shows everything up to this revision, and never less than before. A view that is up to date stays so.
    pub fn advance_to(&self, revision: u64) {
        self.limit.send_if_modified(|limit| match limit {
            Some(known) if *known < revision => {
                *known = revision;
                true
            }
            _ => false,
        });
    }

    /// Shows everything there is and will be.
    pub fn catch_up(&self) {
        self.limit.send_replace(None);
    }

    /// The newest revision shown, when it is held at one.
    pub fn limit(&self) -> Option<u64> {
        *self.limit.borrow()
    }

    /// Wakes when more is shown.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<u64>> {
        self.limit.subscribe()
    }
}
