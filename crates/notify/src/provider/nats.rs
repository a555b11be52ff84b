//! NATS: one connection, one message. The protocol is spoken here, line by line; the bytes come and go through the
//! caller.

use everflow_json::{Map, Value};

use super::nkey::KeyPair;
use super::settings::Settings;
use super::webhook::Immediate;
use crate::exchange::{Exchange, Outcome, Reply, Step};
use crate::failure::{Failure, Retry};
use crate::url::Url;
use crate::{Event, Secret, SecretData};

const DEFAULT_PORT: u16 = 4_222;
const CLIENT_NAME: &str = "NATS Provider Publisher";
/// No line of a server is longer.
const LONGEST_LINE: usize = 256 << 10;

/// Where a server of NATS is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether TLS is wanted whatever the server says.
    pub tls: bool,
    login: Option<(String, Option<Secret<String>>)>,
}

/// A message for a subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Publish {
    /// Servers of one cluster: any of them will do.
    pub servers: Vec<Server>,
    /// The subject.
    pub subject: String,
    payload: Vec<u8>,
    login: Login,
}

/// How the client shows who it is.
#[derive(Debug, Clone, PartialEq, Default)]
enum Login {
    #[default]
    None,
    Password(String, Secret<String>),
    Key(KeyPair),
    /// A token of a user, and the key it is for.
    Jwt(Secret<String>, KeyPair),
}

/// What to do next on a connection.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Read more.
    Read,
    /// Write this, then read more.
    Write(Secret<Vec<u8>>),
    /// Begin TLS, then write this and read more.
    StartTls(Secret<Vec<u8>>),
    /// The server has the message.
    Done,
    /// The server is_refusal.
    Refused(String),
}

/// One connection to a server.
#[derive(Debug)]
pub struct Session<'p> {
    publish: &'p Publish,
    server: &'p Server,
    unread: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The server speaks first.
    Version,
    /// Who we are has been told.
    Connecting,
    /// The message has been written.
    Publishing,
}

impl Publish {
    /// A connection to a server.
    pub fn session<'p>(&'p self, server: &'p Server) -> Session<'p> {
        Session {
            publish: self,
            server,
            unread: Vec::new(),
            state: State::Version,
        }
    }
}

impl Session<'_> {
    /// Takes what the server sent.
    pub fn read(&mut self, bytes: &[u8]) -> Progress {
        self.unread.extend_from_slice(bytes);
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            match self.line(line.trim_end()) {
                Progress::Read => {}
                progress => return progress,
            }
        }
        match self.unread.len() > LONGEST_LINE {
            true => Progress::Refused("the server does not speak the protocol of NATS".to_owned()),
            false => Progress::Read,
        }
    }

    fn line(&mut self, line: &str) -> Progress {
        let (verb, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        match (verb.to_ascii_uppercase().as_str(), self.state) {
            ("INFO", State::Version) => self.greeted(rest),
            ("PONG", State::Connecting) => {
                self.state = State::Publishing;
                Progress::Write(Secret::new(self.message()))
            }
            ("PONG", State::Publishing) => Progress::Done,
            ("PING", _) => Progress::Write(Secret::new(b"PONG\r\n".to_vec())),
            ("-ERR", _) => Progress::Refused(format!("nats: {}", rest.trim_matches('\''))),
            ("INFO" | "+OK" | "", _) => Progress::Read,
            _ => Progress::Refused("the server does not speak the protocol of NATS".to_owned()),
        }
    }

    fn greeted(&mut self, info: &str) -> Progress {
        let info: Value = everflow_json::text::read(info.as_bytes()).unwrap_or_default();
        let largest = info["max_payload"].as_u64().unwrap_or(u64::MAX);
        if self.publish.payload.len() as u64 > largest {
            return Progress::Refused("nats: maximum payload exceeded".to_owned());
        }
        let tls = self.server.tls || info["tls_required"].as_bool() == Some(true);
        let nonce = info["nonce"].as_str().unwrap_or_default();
        self.state = State::Connecting;
        let hello = format!("CONNECT {}\r\nPING\r\n", self.options(nonce, tls));
        let hello = Secret::new(hello.into_bytes());
        match tls {
            true => Progress::StartTls(hello),
            false => Progress::Write(hello),
        }
    }

    fn options(&self, nonce: &str, tls: bool) -> Value {
        let mut options = Map::new();
        let mut set = |name: &str, value: Value| {
            options.insert(name.into(), value);
        };
        for (name, flag) in [
            ("verbose", false),
            ("pedantic", false),
            ("tls_required", tls),
            ("echo", true),
            ("headers", true),
            ("no_responders", true),
        ] {
            set(name, Value::Bool(flag));
        }
        set("name", Value::from(CLIENT_NAME));
        set("lang", Value::from("rust"));
        set("version", Value::from(env!("CARGO_PKG_VERSION")));
        set("protocol", Value::from(1));
        match (&self.publish.login, &self.server.login) {
            (Login::Password(user, password), _) => {
                set("user", Value::from(user.as_str()));
                set("pass", Value::from(password.reveal().as_str()));
            }
            (Login::Key(key), _) => {
                set("nkey", Value::from(key.public_key()));
                set("sig", Value::from(key.sign(nonce)));
            }
            (Login::Jwt(token, key), _) => {
                set("jwt", Value::from(token.reveal().as_str()));
                set("sig", Value::from(key.sign(nonce)));
            }
            (Login::None, Some((user, Some(password)))) => {
                set("user", Value::from(user.as_str()));
                set("pass", Value::from(password.reveal().as_str()));
            }
            (Login::None, Some((token, None))) => set("auth_token", Value::from(token.as_str())),
            (Login::None, None) => {}
        }
        Value::Object(options)
    }

    fn message(&self) -> Vec<u8> {
        let Publish {
            subject, payload, ..
        } = self.publish;
        let mut out = format!("PUB {subject} {}\r\n", payload.len()).into_bytes();
        out.extend(payload);
        out.extend(b"\r\nPING\r\n");
        out
    }
}

pub(super) fn nats(settings: &Settings, event: &Event) -> Result<Box<dyn Exchange>, String> {
    if settings.address.is_empty() {
        return Err("NATS server (address) cannot be empty".to_owned());
    }
    let subject = &settings.channel;
    if subject.is_empty() {
        return Err("NATS subject (channel) cannot be empty".to_owned());
    }
    if subject.contains(|char: char| char.is_whitespace() || char.is_control()) {
        return Err("NATS subject (channel) must not contain blanks".to_owned());
    }
    let context = format!("error publishing event to subject {subject}: ");
    let login = match login(settings) {
        Ok(login) => login,
        Err(why) => {
            let failure = Failure {
                context,
                ..Failure::never(why)
            };
            return Ok(Box::new(Immediate(Outcome::Failed(failure))));
        }
    };
    let servers = servers(settings)?;
    Ok(Box::new(Publishing {
        context,
        publish: Publish {
            servers,
            subject: subject.clone(),
            payload: event.to_json().into_bytes(),
            login,
        },
    }))
}

fn servers(settings: &Settings) -> Result<Vec<Server>, String> {
    let addresses = settings.address.reveal().split(',').map(str::trim);
    let addresses = addresses.filter(|address| !address.is_empty());
    addresses
        .map(|address| {
            let address = match address.contains("://") {
                true => address.to_owned(),
                false => format!("nats://{address}"),
            };
            let url = Url::parse(&address)
                .map_err(|cause| format!("invalid NATS server {}: {cause}", settings.address))?;
            if !matches!(url.scheme.as_str(), "nats" | "tls") || url.host_name().is_empty() {
                return Err(format!(
                    "invalid NATS server {}: expected nats://HOST:PORT or tls://HOST:PORT",
                    settings.address
                ));
            }
            let login = url.user_and_password();
            Ok(Server {
                host: url.host_name().to_owned(),
                port: url.port().unwrap_or(DEFAULT_PORT),
                tls: url.scheme == "tls",
                login: login.map(|(user, password)| (user, password.map(Secret::new))),
            })
        })
        .collect()
}

fn login(settings: &Settings) -> Result<Login, String> {
    let content = |secret: &SecretData, key| secret.text(key).filter(|text| !text.is_empty());
    if let Some(creds) = content(&settings.secret, "creds") {
        return user_credentials(&creds);
    }
    if let Some(seed) = content(&settings.secret, "nkey") {
        let key = KeyPair::from_seed(seed.trim());
        return key
            .map(Login::Key)
            .map_err(|why| format!("error parsing nkey seed: {why}"));
    }
    let (user, password) = (&settings.username, &settings.password);
    if !user.is_empty() && !password.reveal().is_empty() {
        return Ok(Login::Password(user.clone(), password.clone()));
    }
    Ok(Login::None)
}

/// A file with a token and a seed, each between lines of hyphens.
fn user_credentials(text: &str) -> Result<Login, String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if line.starts_with("---") && line.ends_with("---") {
            block = match block.take() {
                Some(content) => {
                    blocks.push(content);
                    None
                }
                None => Some(String::new()),
            };
        } else if let Some(content) = &mut block {
            content.push_str(line);
        }
    }
    let [token, seed, ..] = blocks.as_slice() else {
        return Err(
            "error parsing credentials: expected a JWT and a seed, each between lines of hyphens"
                .to_owned(),
        );
    };
    let key = KeyPair::from_seed(seed).map_err(|why| format!("error parsing nkey seed: {why}"))?;
    Ok(Login::Jwt(Secret::new(token.clone()), key))
}

#[derive(Debug)]
struct Publishing {
    context: String,
    publish: Publish,
}

impl Exchange for Publishing {
    fn start(&mut self) -> Step {
        Step::Nats(Box::new(self.publish.clone()))
    }

    fn next(&mut self, reply: Reply) -> Step {
        match reply {
            Reply::Published => Step::Done(Outcome::Delivered),
            Reply::Unreachable(why) => Failure {
                context: format!("{}error connecting to server: ", self.context),
                retry: match why.is_final {
                    true => Retry::Never,
                    false => Retry::Later,
                },
                ..Failure::never(why.message)
            }
            .done(),
            _ => crate::exchange::unexpected().done(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn publish() -> Publish {
        Publish {
            servers: vec![Server {
                host: "h".to_owned(),
                port: 4222,
                tls: false,
                login: None,
            }],
            subject: "s".to_owned(),
            payload: b"{}".to_vec(),
            login: Login::Password("u".to_owned(), "hunter2".into()),
        }
    }

    #[test]
    fn a_message_is_published_after_the_login_and_confirmed() {
        let publish = publish();
        let mut session = publish.session(&publish.servers[0]);
        assert_eq!(session.read(b"INFO {\"max_payl"), Progress::Read);
        let Progress::Write(hello) = session.read(b"oad\":100}\r\n") else {
            panic!("the login is written");
        };
        let hello = String::from_utf8(hello.reveal().clone()).unwrap();
        assert!(hello.starts_with("CONNECT {") && hello.contains("\"pass\":\"hunter2\""));
        let Progress::Write(message) = session.read(b"PONG\r\n") else {
            panic!("the message is written");
        };
        assert_eq!(message.reveal(), b"PUB s 2\r\n{}\r\nPING\r\n");
        assert_eq!(session.read(b"PONG\r\n"), Progress::Done);
        assert!(!format!("{publish:?} {session:?}").contains("hunter2"));
    }

    #[test]
    fn refusals_and_payloads_that_are_too_large_end_it() {
        let publish = publish();
        let mut session = publish.session(&publish.servers[0]);
        let refused = session.read(b"INFO {}\r\n-ERR 'Authorization Violation'\r\n");
        assert!(matches!(refused, Progress::Write(_)));
        assert_eq!(
            session.read(b""),
            Progress::Refused("nats: Authorization Violation".to_owned())
        );
        let mut session = publish.session(&publish.servers[0]);
        let refused = session.read(b"INFO {\"max_payload\":1}\r\n");
        assert_eq!(
            refused,
            Progress::Refused("nats: maximum payload exceeded".to_owned())
        );
    }

    #[test]
    fn a_server_that_wants_tls_gets_the_login_only_within() {
        let publish = publish();
        let mut session = publish.session(&publish.servers[0]);
        let progress = session.read(b"INFO {\"tls_required\":true}\r\n");
        assert!(matches!(progress, Progress::StartTls(_)));
    }

    proptest! {
        #[test]
        fn any_bytes_of_a_server_are_taken(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..8)) {
            let publish = publish();
            let mut session = publish.session(&publish.servers[0]);
            let _ = session.read(b"INFO {}\r\n");
            for part in parts {
                let _ = session.read(&part);
            }
        }
    }
}
