//! Which key an SSH server must have.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use russh::keys::ssh_key::PublicKey;

use crate::Error;

/// The keys that are known of one host.
#[derive(Debug, Default)]
pub(crate) struct KnownKeys {
    pub(super) keys: Vec<PublicKey>,
    /// Keys that vouch for those of the host.
    pub(super) authorities: Vec<PublicKey>,
    /// Keys that nobody may use, whatever host their line names.
    pub(super) revoked: Vec<PublicKey>,
}

/// Finds the keys of a host among the lines of a known_hosts file.
pub(crate) fn find(lines: &[u8], host: &str, port: u16) -> Result<KnownKeys, Error> {
    let text = std::str::from_utf8(lines)
        .map_err(|_| Error::Authentication("invalid 'known_hosts': it is not text".to_owned()))?;
    let name = match port {
        22 => host.to_lowercase(),
        _ => format!("[{}]:{port}", host.to_lowercase()),
    };
    let mut known = KnownKeys::default();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace();
        let mut hosts = words.next().unwrap_or_default();
        let mut list = &mut known.keys;
        let mut everywhere = false;
        if hosts.starts_with('@') {
            match hosts {
                "@revoked" => {
                    list = &mut known.revoked;
                    everywhere = true;
                }
                "@cert-authority" => list = &mut known.authorities,
                // A mark that nobody knows trusts nothing.
                _ => continue,
            }
            hosts = words.next().unwrap_or_default();
        }
        if !everywhere && !matches_host(hosts, &name) {
            continue;
        }
        let key = match (words.next(), words.next()) {
            (Some(kind), Some(key)) => PublicKey::from_openssh(&format!("{kind} {key}")).ok(),
            _ => None,
        };
        let Some(key) = key else {
            return Err(Error::Authentication(format!(
                "invalid 'known_hosts': line {} is malformed",
                number + 1
            )));
        };
        list.push(key);
    }
    Ok(known)
}

fn matches_host(hosts: &str, name: &str) -> bool {
    if let Some(hashed) = hosts.strip_prefix("|1|") {
        return matches_hash(hashed, name).unwrap_or(false);
    }
    let mut found = false;
    for pattern in hosts.to_lowercase().split(',') {
        match pattern.strip_prefix('!') {
            Some(pattern) if matches_pattern(pattern, name) => return false,
            Some(_) => {}
            None => found |= matches_pattern(pattern, name),
        }
    }
    found
}

fn matches_hash(hashed: &str, name: &str) -> Option<bool> {
    let (salt, hash) = hashed.split_once('|')?;
    let salt = STANDARD.decode(salt).ok()?;
    let hash = STANDARD.decode(hash).ok()?;
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
    Some(hmac::verify(&key, name.as_bytes(), &hash).is_ok())
}

/// `*` and `?`; brackets stand for themselves.
fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut place) = (0, 0);
    let mut back = None;
    while place < name.len() {
        match pattern.get(at) {
            Some('*') => {
                back = Some((at, place));
                at += 1;
            }
            Some(char) if *char == '?' || *char == name[place] => {
                at += 1;
                place += 1;
            }
            _ => match back {
                Some((star, from)) => {
                    back = Some((star, from + 1));
                    at = star + 1;
                    place = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|char| *char == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";

    fn count(lines: &str, host: &str, port: u16) -> (usize, usize) {
        let known = find(lines.as_bytes(), host, port).unwrap();
        (known.keys.len(), known.authorities.len())
    }

    #[test]
    fn revoked_keys_are_revoked_for_every_host() {
        for pattern in ["r", "*", "other,!github.com", "|1|x|y"] {
            let lines = format!("github.com {KEY}\n@revoked {pattern} {KEY}\n");
            let known = find(lines.as_bytes(), "github.com", 22).unwrap();
            assert_eq!((known.keys.len(), known.revoked.len()), (1, 1), "{pattern}");
        }
        assert!(find(b"@revoked r ssh-ed25519 nonsense", "github.com", 22).is_err());
    }

    #[test]
    fn authorities_count_for_the_hosts_of_their_lines() {
        let lines =
            format!("@cert-authority *.Example.org,!Bad.example.org {KEY}\n@other * {KEY}\n");
        assert_eq!(count(&lines, "git.example.org", 22), (0, 1));
        assert_eq!(count(&lines, "bad.example.org", 22), (0, 0));
        assert_eq!(count(&lines, "example.com", 22), (0, 0));
        assert!(find(b"@cert-authority * ssh-ed25519 nonsense", "x", 22).is_err());
    }

    #[test]
    fn hosts_are_found_by_name_pattern_port_and_hash() {
        let lines = format!(
            "# comment\ngithub.com,*.example.org,!BAD.example.org {KEY} me\n[other]:2222 {KEY}\n"
        );
        assert_eq!(count(&lines, "github.com", 22), (1, 0));
        assert_eq!(count(&lines, "GitHub.com", 22), (1, 0));
        assert_eq!(count(&lines, "github.com", 2222), (0, 0));
        assert_eq!(count(&lines, "git.example.org", 22), (1, 0));
        assert_eq!(count(&lines, "bad.example.org", 22), (0, 0));
        assert_eq!(count(&lines, "other", 2222), (1, 0));
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"salt");
        let hash = STANDARD.encode(hmac::sign(&key, b"hidden"));
        let line = format!("|1|{}|{hash} {KEY}\n", STANDARD.encode(b"salt"));
        assert_eq!(count(&line, "hidden", 22), (1, 0));
        assert_eq!(count(&line, "shown", 22), (0, 0));
        assert!(find(b"github.com ssh-ed25519 nonsense", "github.com", 22).is_err());
    }
}
