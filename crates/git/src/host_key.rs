//! Whether an SSH server is the one that is meant.

use russh::keys::ssh_key::certificate::CertType;
use russh::keys::ssh_key::public::KeyData;
use russh::keys::ssh_key::{Certificate, HashAlg, PublicKey};

use super::known_hosts::KnownKeys;

/// Checks the key of a server. The words are those of Go.
pub(super) fn check_key(known: &KnownKeys, key: &PublicKey) -> Result<(), String> {
    if is_revoked(known, key.key_data()) {
        return Err("knownhosts: key is revoked".to_owned());
    }
    if known
        .keys
        .iter()
        .any(|own| own.key_data() == key.key_data())
    {
        return Ok(());
    }
    Err(match known.keys.is_empty() {
        true => "knownhosts: key is unknown",
        false => "knownhosts: key mismatch",
    }
    .to_owned())
}

/// Checks a certificate by which an authority vouches for the key of a host. `now` is in seconds since
/// 1970.
pub(super) fn check_certificate(
    known: &KnownKeys,
    certificate: &Certificate,
    host: &str,
    now: i64,
) -> Result<(), String> {
    let authority = certificate.signature_key();
    if is_revoked(known, certificate.public_key()) || is_revoked(known, authority) {
        return Err("knownhosts: key is revoked".to_owned());
    }
    if certificate.cert_type() != CertType::Host {
        return Err("ssh: certificate presented as a host key has type 1".to_owned());
    }
    let trusted = known.authorities.iter();
    let trusted = trusted.filter(|own| own.key_data() == authority);
    let fingerprints: Vec<_> = trusted
        .map(|own| own.fingerprint(HashAlg::Sha256))
        .collect();
    if fingerprints.is_empty() {
        return Err("ssh: certificate signed by unrecognized authority".to_owned());
    }
    if let Some((name, _)) = certificate.critical_options().iter().next() {
        return Err(format!(
            "ssh: unsupported critical option {name:?} in certificate"
        ));
    }
    let names = certificate.valid_principals();
    let plain = |name: &str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    // Without any name it is for all hosts.
    if !names.is_empty() && !names.iter().any(|name| plain(name) == plain(host)) {
        return Err(format!(
            "ssh: principal {host:?} not in the set of valid principals for given certificate: {names:?}"
        ));
    }
    let now = u64::try_from(now).unwrap_or(0);
    if now < certificate.valid_after() {
        return Err("ssh: cert is not yet valid".to_owned());
    }
    if now >= certificate.valid_before() {
        return Err("ssh: cert has expired".to_owned());
    }
    certificate
        .validate_at(now, fingerprints.iter())
        .map_err(|_| "ssh: certificate signature does not verify".to_owned())
}

fn is_revoked(known: &KnownKeys, key: &KeyData) -> bool {
    known.revoked.iter().any(|own| own.key_data() == key)
}

#[cfg(test)]
mod tests {
    use russh::keys::PrivateKey;
    use russh::keys::ssh_key::certificate::Builder;
    use russh::keys::ssh_key::private::Ed25519Keypair;

    use super::*;

    fn key(seed: u8) -> PrivateKey {
        PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]))
    }

    fn signed(change: impl Fn(&mut Builder)) -> Certificate {
        signed_as(CertType::Host, change)
    }

    fn signed_as(kind: CertType, change: impl Fn(&mut Builder)) -> Certificate {
        let host = key(1);
        let mut builder =
            Builder::new([7; 16], host.public_key().key_data().clone(), 100, 200).unwrap();
        builder.key_id("id").unwrap();
        builder.cert_type(kind).unwrap();
        change(&mut builder);
        builder.sign(&key(2)).unwrap()
    }

    fn named(name: &str) -> Certificate {
        signed(|builder| {
            builder.valid_principal(name).unwrap();
        })
    }

    fn known(authority: Option<u8>, revoked: Option<u8>) -> KnownKeys {
        let keys = |seed: Option<u8>| seed.map(|seed| key(seed).public_key().clone());
        KnownKeys {
            keys: Vec::new(),
            authorities: keys(authority).into_iter().collect(),
            revoked: keys(revoked).into_iter().collect(),
        }
    }

    #[test]
    fn certificates_count_for_their_names_authority_and_time() {
        let ours = known(Some(2), None);
        let check = |known: &KnownKeys, certificate: &Certificate, now| {
            check_certificate(known, certificate, "Git.Test", now).err()
        };
        let fine = named("git.test");
        assert_eq!(check(&ours, &fine, 150), None);
        assert_eq!(
            check(
                &ours,
                &signed(|builder| {
                    builder.all_principals_valid().unwrap();
                }),
                150
            ),
            None
        );
        let words = |said: Option<String>| said.unwrap_or_default();
        for (said, expected) in [
            (check(&ours, &fine, 99), "not yet valid"),
            (check(&ours, &fine, 200), "has expired"),
            (check(&ours, &fine, -1), "not yet valid"),
            (check(&ours, &named("other.test"), 150), "valid principals"),
            (check(&ours, &named("*"), 150), "valid principals"),
            (
                check(&known(Some(3), None), &fine, 150),
                "unrecognized authority",
            ),
            (
                check(&known(None, None), &fine, 150),
                "unrecognized authority",
            ),
            (check(&known(Some(2), Some(2)), &fine, 150), "revoked"),
            (check(&known(Some(2), Some(1)), &fine, 150), "revoked"),
        ] {
            let said = words(said);
            assert!(said.contains(expected), "{said:?} {expected}");
        }
        let forced = signed(|builder| {
            builder.valid_principal("git.test").unwrap();
            builder.critical_option("force-command", "x").unwrap();
        });
        assert!(words(check(&ours, &forced, 150)).contains("force-command"));
        let user = signed_as(CertType::User, |builder| {
            builder.valid_principal("git.test").unwrap();
        });
        assert!(words(check(&ours, &user, 150)).contains("type 1"));
    }

    #[test]
    fn changed_certificates_do_not_verify() {
        let mut bytes = named("git.test").to_bytes().unwrap();
        let at = bytes
            .windows(8)
            .position(|part| part == b"git.test")
            .unwrap();
        bytes[at] = b'p';
        let forged = Certificate::from_bytes(&bytes).unwrap();
        let said = check_certificate(&known(Some(2), None), &forged, "pit.test", 150);
        assert!(said.unwrap_err().contains("does not verify"));
    }

    #[test]
    fn authority_is_no_host_key_and_host_key_no_authority() {
        let both = known(Some(2), None);
        let said = check_key(&both, key(2).public_key()).unwrap_err();
        assert_eq!(said, "knownhosts: key is unknown");
        let mut only_key = known(None, None);
        only_key.keys.push(key(2).public_key().clone());
        let said = check_certificate(&only_key, &named("git.test"), "git.test", 150);
        assert!(said.unwrap_err().contains("unrecognized authority"));
    }
}
