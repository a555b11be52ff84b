//! Sending a pack to a server and hearing what became of it.

use super::GitClient;
use super::object::ObjectId;
use super::pkt::{Decoder, Packet, put_flush, put_line, text};
use super::protocol::Capabilities;
use super::session::{Service, Session};
use crate::{Deadline, Error};
use everflow_fetch::http::printable;

/// A name on the server that is to name another commit.
pub(super) struct RefUpdate {
    /// The full name.
    pub(super) name: String,
    /// What it must name now; `None` when it must not be there.
    pub(super) old: Option<ObjectId>,
    pub(super) new: ObjectId,
}

/// What the server did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The name names the new commit.
    Done,
    /// The name names something else than it should have; nothing was sent.
    Moved,
    /// The server has not taken it, for this reason.
    Refused(String),
}

const AGENT: &str = concat!("agent=everflow/", env!("CARGO_PKG_VERSION"));
const NOTHING: &str = "0000000000000000000000000000000000000000";
/// Bytes of a report. It has a line for each name, and we send one.
const LARGEST_REPORT: usize = 256 << 10;

/// Sends a pack and asks that a name be moved to a commit in it.
pub(super) async fn send(
    client: &GitClient,
    update: &RefUpdate,
    pack: &[u8],
    deadline: &Deadline,
) -> Result<Sent, Error> {
    let http = client.http.as_ref();
    let (env, remote) = (&client.env, &client.remote);
    let mut session = Session::open(Service::Push, http, env, remote, deadline).await?;
    let greeted = session.greeted();
    let current = greeted.iter().find(|one| one.name == update.name);
    if current.map(|one| one.id) != update.old {
        return Ok(Sent::Moved);
    }
    let framed = session.capabilities().has("side-band-64k");
    let mut message = command(session.capabilities(), update)?;
    message.extend_from_slice(pack);
    session.ask(message).await?;
    let report = report(&mut session, framed).await?;
    judge(&report, &update.name)
}

fn command(capabilities: &Capabilities, update: &RefUpdate) -> Result<Vec<u8>, Error> {
    if !capabilities.has("report-status") {
        return Err(Error::Protocol(
            "the git server does not tell what becomes of a push (report-status)".to_owned(),
        ));
    }
    let mut features = " report-status".to_owned();
    if capabilities.has("side-band-64k") {
        features.push_str(" side-band-64k");
    }
    if capabilities.has("object-format") {
        features.push_str(" object-format=sha1");
    }
    if capabilities.has("agent") {
        features.push(' ');
        features.push_str(AGENT);
    }
    let old = update.old.map_or(NOTHING.to_owned(), |id| id.to_string());
    let mut out = Vec::new();
    let (new, name) = (update.new, &update.name);
    put_line(&mut out, &format!("{old} {new} {name}\0{features}"));
    put_flush(&mut out);
    Ok(out)
}

/// The lines of the report.
async fn report(session: &mut Session, framed: bool) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    let mut size = 0;
    let mut inner = Decoder::default();
    loop {
        let ended = match framed {
            true => match session.pack_frame().await? {
                Some(bytes) => {
                    size += bytes.len();
                    inner.feed(&bytes);
                    false
                }
                None => true,
            },
            false => match session.packet().await? {
                Some(Packet::Data(line)) => {
                    size += line.len();
                    lines.push(text(&line));
                    false
                }
                _ => true,
            },
        };
        while let Some(packet) = inner.next()? {
            if let Packet::Data(line) = packet {
                lines.push(text(&line));
            }
        }
        if size > LARGEST_REPORT {
            return Err(Error::TooLarge {
                what: "the report of the git server".to_owned(),
                limit: LARGEST_REPORT as u64,
            });
        }
        if ended {
            return Ok(lines);
        }
    }
}

fn judge(report: &[String], name: &str) -> Result<Sent, Error> {
    let unpacked = report.iter().find_map(|line| line.strip_prefix("unpack "));
    match unpacked {
        Some("ok") => {}
        Some(why) => {
            let why = printable(why);
            return Ok(Sent::Refused(format!("it cannot store the objects: {why}")));
        }
        None => {
            return Err(Error::Protocol(
                "the git server did not say what became of the push".to_owned(),
            ));
        }
    }
    for line in report {
        if line.strip_prefix("ok ") == Some(name) {
            return Ok(Sent::Done);
        }
        let refused = line
            .strip_prefix("ng ")
            .and_then(|rest| rest.strip_prefix(name));
        if let Some(why) = refused {
            return Ok(Sent::Refused(printable(why.trim()).to_string()));
        }
    }
    Err(Error::Protocol(format!(
        "the git server did not say what became of {name}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "refs/heads/main";

    fn judged(lines: &[&str]) -> Result<Sent, Error> {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        judge(&lines, NAME)
    }

    #[test]
    fn reports_are_understood() {
        let done = judged(&["unpack ok", "ok refs/heads/main"]);
        assert_eq!(done.unwrap(), Sent::Done);
        let refused = judged(&["unpack ok", "ng refs/heads/main pre-receive hook declined"]);
        assert_eq!(
            refused.unwrap(),
            Sent::Refused("pre-receive hook declined".to_owned())
        );
        let broken = judged(&["unpack index-pack abnormal exit"]);
        assert!(matches!(broken.unwrap(), Sent::Refused(why) if why.contains("abnormal")));
        assert!(judged(&[]).is_err());
        assert!(judged(&["unpack ok", "ok refs/heads/other"]).is_err());
    }

    #[test]
    fn a_push_names_what_is_expected_and_what_is_new() {
        let one = ObjectId([0x11; 20]);
        let update = RefUpdate {
            name: NAME.to_owned(),
            old: None,
            new: one,
        };
        let mut capabilities = Capabilities::version_2();
        assert!(command(&capabilities, &update).is_err());
        capabilities.add("report-status".to_owned());
        capabilities.add("side-band-64k".to_owned());
        let asked = String::from_utf8(command(&capabilities, &update).unwrap()).unwrap();
        let expected = format!("{NOTHING} {one} {NAME}\0 report-status side-band-64k\n0000");
        assert!(asked.ends_with(&expected), "{asked}");
    }
}
