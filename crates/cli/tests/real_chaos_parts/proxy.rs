//! The address that stands for the ClusterIP: connections go to one of the API servers, as kube-proxy would have it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::place::SERVERS;

/// What becomes of what goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    #[default]
    Pass,
    /// Connections are accepted, and nothing comes through until this is over.
    Silent,
    /// Connections are reset.
    Reset,
    /// Each piece takes so long.
    Slow(Duration),
}

#[derive(Debug, Default)]
struct Rules {
    /// By the address of the client.
    modes: BTreeMap<String, Mode>,
    up: [bool; 2],
    turn: usize,
}

/// Passes connections on.
#[derive(Debug, Clone)]
pub struct Proxy {
    rules: Arc<Mutex<Rules>>,
}

impl Proxy {
    pub async fn start(address: &str) -> Self {
        let proxy = Proxy {
            rules: Arc::default(),
        };
        let listener = TcpListener::bind(address).await.unwrap();
        let accepting = proxy.clone();
        tokio::spawn(async move {
            while let Ok((stream, from)) = listener.accept().await {
                let client = from.ip().to_string();
                tokio::spawn(accepting.clone().pass(stream, client));
            }
        });
        proxy
    }

    /// What becomes of a client's connections, those that are open included.
    pub fn set(&self, client: &str, mode: Mode) {
        self.rules
            .lock()
            .unwrap()
            .modes
            .insert(client.to_owned(), mode);
    }

    /// Whether a server is there to be connected to.
    pub fn set_server(&self, number: usize, up: bool) {
        self.rules.lock().unwrap().up[number] = up;
    }

    fn mode(&self, client: &str) -> Mode {
        let rules = self.rules.lock().unwrap();
        rules.modes.get(client).copied().unwrap_or_default()
    }

    /// The servers take turns.
    fn next_server(&self) -> Option<usize> {
        let mut rules = self.rules.lock().unwrap();
        rules.turn += 1;
        let turn = rules.turn;
        (0..2)
            .map(|more| (turn + more) % 2)
            .find(|number| rules.up[*number])
    }

    async fn pass(self, stream: TcpStream, client: String) {
        let _ = stream.set_nodelay(true);
        if self.mode(&client) == Mode::Reset {
            let _ = stream.set_zero_linger();
            return;
        }
        let Some(number) = self.next_server() else {
            let _ = stream.set_zero_linger();
            return;
        };
        let Ok(server) = TcpStream::connect((SERVERS[number], 6443)).await else {
            let _ = stream.set_zero_linger();
            return;
        };
        let _ = server.set_nodelay(true);
        let (mut from, mut to) = stream.into_split();
        let (mut back, mut forth) = server.into_split();
        let there = self.pump(&client, &mut from, &mut forth);
        let here = self.pump(&client, &mut back, &mut to);
        tokio::select! { () = there => {} () = here => {} }
    }

    async fn pump(
        &self,
        client: &str,
        from: &mut (impl tokio::io::AsyncRead + Unpin),
        to: &mut (impl tokio::io::AsyncWrite + Unpin),
    ) {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let Ok(read @ 1..) = from.read(&mut buffer).await else {
                return;
            };
            loop {
                match self.mode(client) {
                    Mode::Pass => break,
                    Mode::Reset => return,
                    Mode::Silent => tokio::time::sleep(Duration::from_millis(20)).await,
                    Mode::Slow(span) => {
                        tokio::time::sleep(span).await;
                        break;
                    }
                }
            }
            if to.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    }
}
