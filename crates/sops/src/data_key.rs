//! From the recipients of a file to its data key.

use everflow_limits::{Budget, Held};

use crate::age;
use crate::error::{Error, Fault};
use crate::keys::Keys;
use crate::metadata::{Metadata, Recipient, RecipientKind};
use crate::openpgp;
use crate::report::{self, Attempt};
use crate::shamir;

/// How long a data key is that is encrypted for one recipient: those that sops writes are a hundredth of
/// it.
const LONGEST: usize = 64 << 10;
/// What is noted of a recipient that was tried in vain.
const NOTE: usize = 1 << 10;

/// The key that the values are encrypted with.
pub fn find(metadata: &Metadata, keys: &Keys, budget: &Budget) -> Result<Vec<u8>, Error> {
    let mut notes = budget.hold(0)?;
    let mut parts = Vec::new();
    let mut outcomes = Vec::new();
    for group in &metadata.groups {
        match part(group, keys, budget, &mut notes)? {
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
fn part(
    group: &[Recipient],
    keys: &Keys,
    budget: &Budget,
    notes: &mut Held<'_>,
) -> Result<Result<Vec<u8>, Vec<Attempt>>, Error> {
    let mut attempts = Vec::new();
    for recipient in group {
        notes.grow(NOTE + 2 * recipient.name.len())?;
        match unlock(recipient, keys, budget) {
            Ok(part) => return Ok(Ok(part)),
            Err(Fault::Exceeded(exceeded)) => return Err(exceeded.into()),
            Err(Fault::Problem(problem)) => attempts.push(Attempt {
                recipient: recipient.name.clone(),
                problem,
            }),
        }
    }
    Ok(Err(attempts))
}

fn unlock(recipient: &Recipient, keys: &Keys, budget: &Budget) -> Result<Vec<u8>, Fault> {
    if recipient.encrypted_key.len() > LONGEST {
        let problem = format!("the encrypted data key is longer than {LONGEST} bytes");
        return Err(problem.into());
    }
    match recipient.kind {
        RecipientKind::Age if keys.age.is_empty() => Err(
            "failed to load age identities. The decryption Secret has no entry whose name ends \
             with .agekey"
                .into(),
        ),
        RecipientKind::Age => {
            let words = |problem| {
                format!("failed to create reader for decrypting sops data key with age: {problem}")
            };
            age::decrypt(&recipient.encrypted_key, &keys.age, budget)
                .map_err(|fault| fault.map(words))
        }
        RecipientKind::Pgp if keys.pgp.is_empty() => Err(
            "could not decrypt data key with PGP key: the decryption Secret has no entry whose \
             name ends with .asc"
                .into(),
        ),
        RecipientKind::Pgp => {
            let words = |problem| format!("could not decrypt data key with PGP key: {problem}");
            openpgp::decrypt(&recipient.encrypted_key, &keys.pgp, budget)
                .map_err(|fault| fault.map(words))
        }
        kind => Err(format!("{kind} is not supported yet").into()),
    }
}
