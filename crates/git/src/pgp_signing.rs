//! Signing commits with PGP keys.

use pgp::composed::{ArmorOptions, Deserializable as _, DetachedSignature, SignedSecretKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{SignatureConfig, SignatureType, Subpacket, SubpacketData};
use pgp::types::{KeyDetails, KeyVersion, Password, SigningKey, Timestamp};

use everflow_fetch::Secret;

use crate::Error;

/// The longest ring of keys that is read.
const LONGEST: usize = 16 << 20;

/// A key of a ring, and what unlocks it.
#[derive(Clone)]
pub(super) struct PgpKey {
    key: SignedSecretKey,
    passphrase: Secret<String>,
}

impl PgpKey {
    /// Takes the key with an id out of a ring, armored or not; without an id the first one.
    pub(super) fn read(ring: &[u8], passphrase: Secret<String>, id: &str) -> Result<Self, Error> {
        if ring.len() > LONGEST {
            return Err(failed(format!("is longer than {LONGEST} bytes")));
        }
        let read = SignedSecretKey::from_reader_many(ring);
        let (keys, _) = read.map_err(|error| failed(format!("cannot be read: {error}")))?;
        // What is no secret key may stand in a ring, too.
        let mut keys = keys.filter_map(Result::ok);
        let wanted = id.trim_start_matches("0x").to_lowercase();
        let Some(key) = keys.find(|key| wanted.is_empty() || is_called(key, &wanted)) else {
            return Err(failed(match wanted.is_empty() {
                true => "holds no secret key".to_owned(),
                false => format!("holds no secret key {id:?}"),
            }));
        };
        let found = PgpKey { key, passphrase };
        found.unlock()?;
        Ok(found)
    }

    /// Whether the passphrase fits, before anything is signed.
    fn unlock(&self) -> Result<(), Error> {
        let password = self.password();
        let unlocked = match self.subkey() {
            Some(subkey) => subkey.unlock(&password, |_, _| Ok(())),
            None => self.key.primary_key.unlock(&password, |_, _| Ok(())),
        };
        match unlocked {
            Ok(Ok(())) => Ok(()),
            _ if self.passphrase.reveal().is_empty() => Err(failed(
                "is protected by a passphrase: give it, too".to_owned(),
            )),
            _ => Err(failed("is not unlocked by this passphrase".to_owned())),
        }
    }

    fn password(&self) -> Password {
        Password::from(self.passphrase.reveal().as_str())
    }

    /// The newest subkey that is there for signing.
    fn subkey(&self) -> Option<&pgp::packet::SecretSubkey> {
        let may_sign = self.key.secret_subkeys.iter().filter(|subkey| {
            let mut signatures = subkey.signatures.iter();
            let is_revoked = subkey
                .signatures
                .iter()
                .any(|one| one.typ() == Some(SignatureType::SubkeyRevocation));
            !is_revoked && signatures.any(|one| one.key_flags().sign())
        });
        let newest = may_sign.max_by_key(|subkey| subkey.key.created_at().as_secs());
        newest.map(|subkey| &subkey.key)
    }

    /// The armored signature of a commit that is made at a time.
    pub(super) fn sign(&self, commit: &[u8], seconds: i64) -> Result<String, Error> {
        let signature = match self.subkey() {
            Some(subkey) => self.sign_with(subkey, commit, seconds),
            None => self.sign_with(&self.key.primary_key, commit, seconds),
        };
        signature.map_err(|error| {
            Error::Authentication(format!("the commit cannot be signed with PGP: {error}"))
        })
    }

    fn sign_with(
        &self,
        key: &impl SigningKey,
        commit: &[u8],
        seconds: i64,
    ) -> Result<String, pgp::errors::Error> {
        if key.version() != KeyVersion::V4 {
            let text = format!("keys of version {:?} are not signed with", key.version());
            return Err(std::io::Error::other(text).into());
        }
        let kind = SignatureType::Binary;
        let mut config = SignatureConfig::v4(kind, key.algorithm(), HashAlgorithm::Sha512);
        let time = Timestamp::from_secs(u32::try_from(seconds).unwrap_or_default());
        config.hashed_subpackets = vec![
            Subpacket::regular(SubpacketData::IssuerFingerprint(key.fingerprint()))?,
            Subpacket::regular(SubpacketData::SignatureCreationTime(time))?,
        ];
        let issuer = SubpacketData::IssuerKeyId(key.legacy_key_id());
        config.unhashed_subpackets = vec![Subpacket::regular(issuer)?];
        let signature = config.sign(key, &self.password(), commit)?;
        DetachedSignature::new(signature).to_armored_string(ArmorOptions::default())
    }
}

/// Whether an id, in small letters, ends the fingerprint of the key or of one of its subkeys.
fn is_called(key: &SignedSecretKey, id: &str) -> bool {
    let is_it = |fingerprint: String| fingerprint.to_lowercase().ends_with(id);
    is_it(key.primary_key.fingerprint().to_string())
        || key
            .secret_subkeys
            .iter()
            .any(|subkey| is_it(subkey.key.fingerprint().to_string()))
}

fn failed(why: String) -> Error {
    Error::Authentication(format!("the PGP key ring {why}"))
}
