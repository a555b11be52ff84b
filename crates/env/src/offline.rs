//! A world without other machines.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{BoxFuture, Dialer, Stream};

/// Connects to the world's own servers and to nobody else: not even names are resolved. It is a rule
/// of the dialer, so that nothing above it has to remember that it must not connect.
#[derive(Debug, Clone)]
pub struct OfflineDialer {
    inner: Arc<dyn Dialer>,
    own: Arc<Mutex<BTreeSet<(String, u16)>>>,
    refused: Arc<AtomicU64>,
}

impl OfflineDialer {
    /// Refuses everything so far.
    pub fn new(inner: Arc<dyn Dialer>) -> Self {
        OfflineDialer {
            inner,
            own: Arc::default(),
            refused: Arc::default(),
        }
    }

    /// Allows a server of the world's own, by exactly this host and port.
    pub fn allow(&self, host: &str, port: u16) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.insert((host.to_owned(), port));
    }

    /// How many connections were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Dialer for OfflineDialer {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if own.contains(&(host.to_owned(), port)) {
            return self.inner.connect(host, port);
        }
        self.refused.fetch_add(1, Ordering::Relaxed);
        let text = format!("dial tcp {host}:{port}: not connected, because of --offline");
        let refused = io::Error::new(io::ErrorKind::PermissionDenied, text);
        Box::pin(async move { Err(refused) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryDialer;

    #[tokio::test]
    async fn only_own_servers_are_connected_to() {
        let memory = MemoryDialer::new();
        let (_own, mut foreign) = (
            memory.listen("127.0.0.1", 9_000),
            memory.listen("git.example", 443),
        );
        let dialer = OfflineDialer::new(Arc::new(memory.clone()));
        dialer.allow("127.0.0.1", 9_000);
        assert!(dialer.connect("127.0.0.1", 9_000).await.is_ok());
        for (host, port) in [
            ("git.example", 443),
            ("127.0.0.1", 9_001),
            ("localhost", 9_000),
        ] {
            let error = dialer.connect(host, port).await.err().unwrap();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            let text = error.to_string();
            assert!(text.contains(host) && text.contains("--offline"), "{text}");
        }
        assert_eq!(dialer.refused(), 3);
        assert!(foreign.try_recv().is_err());
    }
}
