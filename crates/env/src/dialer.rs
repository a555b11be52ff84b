//! Connections.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::BoxFuture;

/// Bytes to and from another machine.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Opens plain connections. TLS, proxies and protocols lie on top of them; so do deadlines.
pub trait Dialer: Send + Sync + fmt::Debug {
    /// Connects to a host, by name or address, and a port.
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;

    /// The addresses that a name stands for; none where names are not looked up here.
    fn lookup(&self, _host: &str, _port: u16) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// TCP by the machine's own resolver.
#[derive(Debug, Clone, Copy)]
pub struct TcpDialer;

impl Dialer for TcpDialer {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let host = host.trim_matches(['[', ']']).to_owned();
        Box::pin(async move {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }

    fn lookup(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let host = host.trim_matches(['[', ']']).to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((host.as_str(), port)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Who listens at which host and port.
type Listeners = BTreeMap<(String, u16), mpsc::UnboundedSender<DuplexStream>>;

/// Connections to servers in the same process.
#[derive(Debug, Clone, Default)]
pub struct MemoryDialer {
    listeners: Arc<Mutex<Listeners>>,
}

impl MemoryDialer {
    /// Nothing listens yet.
    pub fn new() -> Self {
        MemoryDialer::default()
    }

    /// Listens at a host and port; the other ends of new connections come out of the receiver.
    /// Whoever listened there before is cut off.
    pub fn listen(&self, host: &str, port: u16) -> mpsc::UnboundedReceiver<DuplexStream> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.insert((host.to_owned(), port), sender);
        receiver
    }
}

impl Dialer for MemoryDialer {
    fn connect(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let listener = listeners.get(&(host.to_owned(), port)).cloned();
        let refused = format!("dial tcp {host}:{port}: connect: connection refused");
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(64 * 1024);
            match listener.is_some_and(|listener| listener.send(theirs).is_ok()) {
                true => Ok(Box::new(ours) as Box<dyn Stream>),
                false => Err(io::Error::new(io::ErrorKind::ConnectionRefused, refused)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn in_memory_connections_reach_the_listener() {
        let dialer = MemoryDialer::new();
        let mut incoming = dialer.listen("git.example", 443);
        let mut ours = dialer.connect("git.example", 443).await.unwrap();
        let mut theirs = incoming.recv().await.unwrap();
        ours.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        theirs.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        let refused = dialer.connect("git.example", 80).await.err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
}
