//! Signatures of commits and tags: OpenPGP and SSH.

use everflow_sops::packets::read_armored;
use pgp::composed::{DetachedSignature, SignedPublicKey};
use pgp::packet::{Signature, SignatureType};
use pgp::types::KeyDetails;
use russh::keys::ssh_key::{HashAlg, PublicKey, SshSig};

use super::{Checkout, Commit, Tag};
use crate::Error;

/// What must be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerifyMode {
    /// The commit.
    Head,
    /// The annotated tag.
    Tag,
    /// Both.
    TagAndHead,
}

impl VerifyMode {
    /// Reads Flux's words; `head` is an old form of `HEAD`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "head" | "HEAD" => Some(VerifyMode::Head),
            "Tag" => Some(VerifyMode::Tag),
            "TagAndHEAD" => Some(VerifyMode::TagAndHead),
            _ => None,
        }
    }
}

/// The keys of those whose signatures count.
#[derive(Debug, Clone, Default)]
pub struct TrustedKeys {
    /// Armoured OpenPGP key rings.
    pub pgp: Vec<String>,
    /// Lines of authorized SSH keys.
    pub ssh: Vec<String>,
}

impl TrustedKeys {
    /// Sorts the entries of a secret by their ending: `.sshpub` is SSH, all else is OpenPGP.
    pub fn from_entries<'a>(entries: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut keys = TrustedKeys::default();
        for (name, content) in entries {
            let content = String::from_utf8_lossy(content).into_owned();
            match name.ends_with(".sshpub") {
                true => keys.ssh.push(content),
                false => keys.pgp.push(content),
            }
        }
        keys
    }
}

/// Something with a signature.
pub(crate) trait Signed {
    fn signature(&self) -> &str;
    fn payload(&self) -> &[u8];
    fn noun(&self) -> &'static str;
}

impl Signed for Commit {
    fn signature(&self) -> &str {
        &self.signature
    }
    fn payload(&self) -> &[u8] {
        &self.signed
    }
    fn noun(&self) -> &'static str {
        "commit"
    }
}

impl Signed for Tag {
    fn signature(&self) -> &str {
        &self.signature
    }
    fn payload(&self) -> &[u8] {
        &self.signed
    }
    fn noun(&self) -> &'static str {
        "tag"
    }
}

/// Checks the signatures of what was fetched; gives Flux's words for what was verified. `now` is
/// in seconds since 1970.
pub fn verify(
    checkout: &Checkout,
    mode: VerifyMode,
    keys: &TrustedKeys,
    now: i64,
) -> Result<String, Error> {
    let mut said = String::from("verified signature of");
    if mode != VerifyMode::Head {
        let is_tag = checkout.reference.starts_with("refs/tags/");
        let tag_name = checkout
            .reference
            .strip_prefix("refs/tags/")
            .unwrap_or_default();
        if !is_tag {
            return Err(Error::Signature {
                reason: "InvalidVerificationMode",
                message: "cannot verify tag object's signature if a tag reference is not specified"
                    .to_owned(),
            });
        }
        let shown = match &checkout.tag {
            Some(tag) => format!("{}@{}", tag.name, tag.id),
            None => tag_name.to_owned(),
        };
        let signed = checkout
            .tag
            .as_ref()
            .filter(|tag| !tag.signature.is_empty());
        let Some(tag) = signed else {
            return Err(Error::Signature {
                reason: "InvalidGitObject",
                message: format!("cannot verify signature of tag '{shown}' since it is not signed"),
            });
        };
        let key = verify_one(tag, keys, now).map_err(|cause| Error::Signature {
            reason: "InvalidTagSignature",
            message: format!("signature verification of tag '{shown}' failed: {cause}"),
        })?;
        said.push_str(&format!("\n\t- tag '{shown}' with key '{key}'"));
    }
    if mode != VerifyMode::Tag {
        let commit = &checkout.commit;
        let key = verify_one(commit, keys, now).map_err(|cause| Error::Signature {
            reason: "InvalidCommitSignature",
            message: format!(
                "signature verification of commit '{}' failed: {cause}",
                commit.id
            ),
        })?;
        said.push_str(&format!("\n\t- commit '{}' with key '{key}'", commit.id));
    }
    Ok(said)
}

/// The key that signed, or why it is not verified.
pub(crate) fn verify_one(
    signed: &dyn Signed,
    keys: &TrustedKeys,
    now: i64,
) -> Result<String, String> {
    let signature = signed.signature().trim();
    let kind = signature_kind(signature);
    let noun = signed.noun();
    match kind {
        "openpgp" if keys.pgp.is_empty() => Err(
            "PGP signature detected but no PGP public keys found in secret (keys with .asc suffix)"
                .to_owned(),
        ),
        "openpgp" => verify_pgp(signature, signed.payload(), &keys.pgp, now)
            .map_err(|cause| format!("unable to verify Git {noun}: {cause}")),
        "ssh" if keys.ssh.is_empty() => Err(
            "SSH signature detected but no SSH public keys found in secret (keys with .sshpub suffix)"
                .to_owned(),
        ),
        "ssh" => verify_ssh(signature, signed.payload(), &keys.ssh)
            .map_err(|cause| format!("unable to verify Git {noun} SSH signature: {cause}")),
        other => Err(format!("unsupported signature type: {other}")),
    }
}

fn signature_kind(signature: &str) -> &'static str {
    let begins = |marks: &[&str]| marks.iter().any(|mark| signature.starts_with(mark));
    if signature.is_empty() {
        "empty"
    } else if begins(&[
        "-----BEGIN PGP SIGNATURE-----",
        "-----BEGIN PGP MESSAGE-----",
    ]) {
        "openpgp"
    } else if begins(&["-----BEGIN SSH SIGNATURE-----"]) {
        "ssh"
    } else if begins(&["-----BEGIN SIGNED MESSAGE-----"]) {
        "x509"
    } else {
        "unknown"
    }
}

fn verify_ssh(signature: &str, payload: &[u8], authorized: &[String]) -> Result<String, String> {
    let signature = SshSig::from_pem(signature)
        .map_err(|error| format!("unable to unarmor SSH signature: {error}"))?;
    let mut unread = None;
    let mut tried = false;
    for keys in authorized {
        let keys = match authorized_keys(keys) {
            Ok(keys) => keys,
            Err(error) => {
                unread.get_or_insert(error);
                continue;
            }
        };
        tried = true;
        for key in keys {
            if key.verify("git", payload, &signature).is_ok() {
                return Ok(key.fingerprint(HashAlg::Sha256).to_string());
            }
        }
    }
    match (tried, unread) {
        (false, Some(error)) => Err(format!("unable to parse authorized keys: {error}")),
        _ => Err(
            "unable to verify payload with any of the given authorized keys: no matching key found"
                .to_owned(),
        ),
    }
}

fn authorized_keys(text: &str) -> Result<Vec<PublicKey>, String> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            // Options may stand in front of the key.
            let start = ["ssh-", "ecdsa-", "sk-"]
                .iter()
                .filter_map(|mark| {
                    let at = line.find(mark)?;
                    (at == 0 || line.as_bytes()[at - 1] == b' ').then_some(at)
                })
                .min()
                .unwrap_or(0);
            PublicKey::from_openssh(&line[start..])
                .map_err(|error| format!("unable to parse authorized key: {error}"))
        })
        .collect()
}

fn verify_pgp(
    signature: &str,
    payload: &[u8],
    rings: &[String],
    now: i64,
) -> Result<String, String> {
    let signature = read_armored::<DetachedSignature>(signature.as_bytes())
        .and_then(|read| {
            let first = read.into_iter().next();
            first.unwrap_or_else(|| Err("no matching packet found".to_owned()))
        })
        .map_err(|error| format!("unable to read the armored signature: {error}"))?;
    if expired(
        signature.signature.created(),
        signature.signature.signature_expiration_time(),
        now,
    ) {
        return Err("the signature has expired".to_owned());
    }
    let mut unread = None;
    let mut tried = false;
    for ring in rings {
        let keys: Vec<SignedPublicKey> = match read_armored(ring.trim().as_bytes()) {
            Ok(keys) => keys.into_iter().filter_map(Result::ok).collect(),
            Err(error) => {
                unread.get_or_insert(error);
                continue;
            }
        };
        tried = true;
        for key in &keys {
            if signed_by(key, &signature, payload, now) {
                return Ok(hex_upper(key.primary_key.legacy_key_id().as_ref()));
            }
        }
    }
    match (tried, unread) {
        (false, Some(error)) => Err(format!("unable to read armored key ring: {error}")),
        _ => Err(
            "unable to verify payload with any of the given key rings: no matching key found"
                .to_owned(),
        ),
    }
}

fn hex_upper(bytes: &[u8]) -> String {
    everflow_fetch::archive::digest::hex(bytes).to_uppercase()
}

fn expired(
    created: Option<pgp::types::Timestamp>,
    span: Option<pgp::types::Duration>,
    now: i64,
) -> bool {
    match (created, span) {
        (Some(created), Some(span)) if span.as_secs() > 0 => {
            i64::from(created.as_secs()) + i64::from(span.as_secs()) <= now
        }
        _ => false,
    }
}

/// Whether a key, or one of its subkeys, made the signature and may do so now.
fn signed_by(
    key: &SignedPublicKey,
    signature: &DetachedSignature,
    payload: &[u8],
    now: i64,
) -> bool {
    let primary = &key.primary_key;
    let revoked = key
        .details
        .revocation_signatures
        .iter()
        .any(|one| one.verify_key(primary).is_ok());
    if revoked || !primary_is_alive(key, now) {
        return false;
    }
    if primary_may_sign(key) && signature.verify(primary, payload).is_ok() {
        return true;
    }
    key.public_subkeys.iter().any(|subkey| {
        let of = |kind| {
            let same = move |one: &&Signature| one.typ() == Some(kind);
            subkey.signatures.iter().filter(same)
        };
        let revoked = of(SignatureType::SubkeyRevocation)
            .any(|one| one.verify_subkey_binding(primary, &subkey.key).is_ok());
        let bound = of(SignatureType::SubkeyBinding).any(|one| {
            one.key_flags().sign()
                && !expired(
                    Some(subkey.key.created_at()),
                    one.key_expiration_time(),
                    now,
                )
                && one.verify_subkey_binding(primary, &subkey.key).is_ok()
                && one.embedded_signature().is_some_and(|back| {
                    back.verify_primary_key_binding(&subkey.key, primary)
                        .is_ok()
                })
        });
        !revoked && bound && signature.verify(&subkey.key, payload).is_ok()
    })
}

/// The newest of the key's statements about itself, each checked.
fn self_signature(key: &SignedPublicKey) -> Option<&Signature> {
    let primary = &key.primary_key;
    let users = key.details.users.iter().flat_map(|user| {
        user.signatures.iter().filter(move |one| {
            one.typ() != Some(SignatureType::CertRevocation)
                && one
                    .verify_certification(primary, pgp::types::Tag::UserId, &user.id)
                    .is_ok()
        })
    });
    let direct = key
        .details
        .direct_signatures
        .iter()
        .filter(|one| one.verify_key(primary).is_ok());
    users
        .chain(direct)
        .max_by_key(|one| one.created().map_or(0, |time| time.as_secs()))
}

fn primary_is_alive(key: &SignedPublicKey, now: i64) -> bool {
    self_signature(key).is_some_and(|own| {
        !expired(
            Some(key.primary_key.created_at()),
            own.key_expiration_time(),
            now,
        )
    })
}

fn primary_may_sign(key: &SignedPublicKey) -> bool {
    self_signature(key).is_some_and(|own| {
        let flags = own.key_flags();
        // A key that says nothing about its use may be used for all.
        flags.sign() || !(flags.certify() || flags.encrypt_comms() || flags.encrypt_storage())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObjectId;

    fn commit(signature: &str, signed: &[u8]) -> Commit {
        let text = format!("tree {}\n\nx", "1".repeat(40));
        let mut commit = Commit::parse(ObjectId([1; 20]), text.as_bytes()).unwrap();
        commit.signature = signature.to_owned();
        commit.signed = signed.to_vec();
        commit
    }

    #[test]
    fn missing_and_unsupported_signatures_are_refused() {
        let keys = TrustedKeys::default();
        for (signature, expected) in [
            ("", "unsupported signature type: empty"),
            (
                "-----BEGIN SIGNED MESSAGE-----",
                "unsupported signature type: x509",
            ),
            ("hello", "unsupported signature type: unknown"),
            (
                "-----BEGIN PGP SIGNATURE-----",
                "PGP signature detected but no PGP public keys found in secret (keys with .asc suffix)",
            ),
            (
                "-----BEGIN SSH SIGNATURE-----",
                "SSH signature detected but no SSH public keys found in secret (keys with .sshpub suffix)",
            ),
        ] {
            let error = verify_one(&commit(signature, b"x"), &keys, 0).unwrap_err();
            assert_eq!(error, expected);
        }
        let keys = TrustedKeys {
            pgp: vec!["nonsense".to_owned()],
            ssh: vec!["ssh-ed25519 nonsense".to_owned()],
        };
        for signature in [
            "-----BEGIN PGP SIGNATURE-----\nxx",
            "-----BEGIN SSH SIGNATURE-----\nxx",
        ] {
            assert!(verify_one(&commit(signature, b"x"), &keys, 0).is_err());
        }
    }

    #[test]
    fn modes_are_read() {
        assert_eq!(VerifyMode::parse("head"), Some(VerifyMode::Head));
        assert_eq!(
            VerifyMode::parse("TagAndHEAD"),
            Some(VerifyMode::TagAndHead)
        );
        assert_eq!(VerifyMode::parse("other"), None);
    }
}
