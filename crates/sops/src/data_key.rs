//! From the recipients of a file to its data key.

use crate::age;
use crate::error::Error;
use crate::keys::Keys;
use crate::metadata::{Metadata, Recipient, RecipientKind};
use crate::openpgp;
use crate::report::{self, Attempt};
use crate::shamir;

/// The key that the values are encrypted with.
pub fn find(metadata: &Metadata, keys: &Keys) -> Result<Vec<u8>, Error> {
    let mut parts = Vec::new();
    let mut outcomes = Vec::new();
    for group in &metadata.groups {
        match part(group, keys) {
            Ok(part) => {
                parts.push(part);
                outcomes.push(None);
            }
            Err(attempts) => outcomes.push(Some(attempts)),
        }
    }
    let many = metadata.groups.len() > 1;
    let needed = if many { metadata.threshold.max(1) } else { 1 };
    if parts.len() < needed {
        return Err(failure(metadata, &outcomes));
    }
    match (many, parts.first()) {
        (false, Some(key)) => Ok(key.clone()),
        _ => shamir::combine(&parts).map_err(|problem| Error::DataKey {
            report: format!("could not get data key from shamir parts: {problem}"),
        }),
    }
}

fn failure(metadata: &Metadata, outcomes: &[Option<Vec<Attempt>>]) -> Error {
    let is_supported = |kind| matches!(kind, RecipientKind::Age | RecipientKind::Pgp);
    let recipients = metadata.groups.iter().flatten();
    if recipients
        .clone()
        .any(|recipient| is_supported(recipient.kind))
    {
        let threshold = match metadata.groups.len() {
            1 => 0,
            _ => metadata.threshold,
        };
        return Error::DataKey {
            report: report::render(outcomes, threshold),
        };
    }
    Error::Unsupported {
        recipients: recipients
            .map(|recipient| (recipient.kind, recipient.name.clone()))
            .collect(),
    }
}

/// The part of the data key that any recipient of a group has.
fn part(group: &[Recipient], keys: &Keys) -> Result<Vec<u8>, Vec<Attempt>> {
    let mut attempts = Vec::new();
    for recipient in group {
        match unlock(recipient, keys) {
            Ok(part) => return Ok(part),
            Err(problem) => attempts.push(Attempt {
                recipient: recipient.name.clone(),
                problem,
            }),
        }
    }
    Err(attempts)
}

fn unlock(recipient: &Recipient, keys: &Keys) -> Result<Vec<u8>, String> {
    match recipient.kind {
        RecipientKind::Age if keys.age.is_empty() => Err(
            "failed to load age identities. The decryption Secret has no entry whose name ends \
             with .agekey"
                .to_owned(),
        ),
        RecipientKind::Age => age::decrypt(&recipient.encrypted_key, &keys.age).map_err(|error| {
            format!("failed to create reader for decrypting sops data key with age: {error}")
        }),
        RecipientKind::Pgp if keys.pgp.is_empty() => Err(
            "could not decrypt data key with PGP key: the decryption Secret has no entry whose \
             name ends with .asc"
                .to_owned(),
        ),
        RecipientKind::Pgp => openpgp::decrypt(&recipient.encrypted_key, &keys.pgp)
            .map_err(|error| format!("could not decrypt data key with PGP key: {error}")),
        kind => Err(format!("{kind} is not supported yet")),
    }
}
