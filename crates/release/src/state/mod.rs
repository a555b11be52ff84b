//! How a release stands, compared with what is asked for.
//!
//! It is found out anew at every attempt, from storage. What the status of a HelmRelease remembers is
//! compared with it, and believed only where storage says nothing.

mod compare;
mod hold;
mod owner;

use everflow_api::helm::{HelmRelease, latest};
use everflow_api::object::Object;
use everflow_json::Map;
use everflow_limits::Budget;
use everflow_time::Timestamp;

use crate::action::ActionKind;
use crate::error::Error;
use crate::record::mark::{Holder, Stage};
use crate::record::{Entry, Status, Storage, StoredSummary, is_observed};
pub use compare::Wanted;
use compare::{Adoption, adoption, differs, is_made_for};
pub use hold::{Hold, TakeOver, hold};
pub use owner::{Claim, made_for, owner};

/// How a release stands.
#[derive(Debug)]
pub enum State {
    /// There is none.
    Absent {
        /// Why.
        why: &'static str,
    },
    /// It belongs to another HelmRelease, which must not be touched.
    OwnedByOther {
        /// The other's namespace and name.
        owner: (String, String),
    },
    /// The newest record cannot be read.
    Unreadable {
        /// What is wrong, and the remedy.
        message: String,
    },
    /// Someone else is at work on it.
    Locked {
        /// What is being done.
        status: Status,
        /// Who does it.
        by: String,
        /// When it was last heard of.
        since: Option<Timestamp>,
        /// When it is taken over, if nothing is heard until then.
        until: Option<Timestamp>,
    },
    /// An action was left in the middle.
    Interrupted {
        /// Which.
        action: ActionKind,
        /// How to go on.
        how: GoOn,
        /// Who left it, and how that is known; none when we did.
        from: Option<(String, String)>,
    },
    /// It is there, and it is not what was made for the HelmRelease last.
    Unmanaged {
        /// Why.
        why: String,
    },
    /// Whether it is what is asked for can only be told when the chart is rendered.
    NeedsRendering,
    /// Its last action failed.
    Failed {
        /// What failed.
        why: &'static str,
        /// Whether the status knows of it.
        is_observed: bool,
    },
    /// Something else is asked for.
    OutOfSync {
        /// What has changed.
        why: &'static str,
    },
    /// It has not been tested.
    Untested,
    /// Its objects are not as they are to be.
    Drifted,
    /// It is what is asked for.
    InSync {
        /// Whether the status knows of it. If not, it is to be told, and nothing else.
        is_observed: bool,
    },
}

/// How to go on with an action that was left in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoOn {
    /// Take it up where it was left.
    Resume,
    /// Begin anew, as the same revision, with what is asked for now.
    Anew,
    /// End it as failed; something else is asked for now.
    Abandon,
    /// Do it once more: it has failed, and there is nothing else to do.
    Again,
}

/// What the state of a release follows from.
pub struct Facts<'a> {
    /// The HelmRelease with its status.
    pub object: &'a Object<HelmRelease>,
    /// All records of the release.
    pub storage: &'a Storage,
    /// What is asked for.
    pub wanted: &'a Wanted,
    /// The HelmReleases that ask for this release, this one included.
    pub claims: &'a [Claim],
    /// The digest of the manifest that the chart renders to, when it was rendered.
    pub rendered: Option<&'a str>,
    /// Whether objects differ from the manifest, when that was looked for.
    pub has_drifted: bool,
    /// The process that asks.
    pub me: &'a Holder,
    /// When actions of others may be taken up.
    pub take_over: &'a TakeOver,
    /// Now.
    pub now: Timestamp,
    /// What comparing values may use.
    pub budget: &'a Budget,
}

/// Finds out how a release stands.
///
/// # Errors
/// When values cannot be compared.
pub fn determine(facts: &Facts<'_>) -> Result<State, Error> {
    let last = match facts.storage.last() {
        Err(entry) => return Ok(unreadable(entry)),
        Ok(last) => last,
    };
    if let Some(owner) = other_owner(facts, last) {
        return Ok(State::OwnedByOther { owner });
    }
    let Some(last) = last else {
        return Ok(State::Absent {
            why: "no release in storage for object",
        });
    };
    if last.summary.status.is_in_progress() {
        return in_progress(facts, last);
    }
    let history = &facts.object.status.history;
    let is_observed = latest(history).is_some_and(|cur| is_observed(cur, &last.summary));
    match (last.summary.status, is_observed) {
        (Status::Uninstalled, _) => Ok(State::Absent {
            why: "found uninstalled release in storage",
        }),
        (Status::Deployed, true) => deployed(facts, last),
        (Status::Deployed, false) => unobserved(facts, last),
        (Status::Failed, true) => Ok(failed(true)),
        (Status::Failed, false) if is_made_for(facts, last)? => Ok(failed(false)),
        (status, _) => Ok(State::Unmanaged {
            why: unmanaged_why(facts, status),
        }),
    }
}

fn failed(is_observed: bool) -> State {
    State::Failed {
        why: "",
        is_observed,
    }
}

fn unmanaged_why(facts: &Facts<'_>, status: Status) -> String {
    match status {
        Status::Superseded | Status::Unknown => format!("the newest record in storage is {status}"),
        _ if facts.object.status.history.is_empty() => {
            "found existing release in storage".to_owned()
        }
        _ => "release not observed to be made for object".to_owned(),
    }
}

fn unreadable(entry: &Entry) -> State {
    let message = match entry {
        Entry::Unreadable { secret, cause, .. } => format!(
            "release record Secret {secret} cannot be read: {cause}; restore it from a backup, or delete \
             it to go on from the records that are left"
        ),
        Entry::Read(_) => String::new(),
    };
    State::Unreadable { message }
}

fn other_owner(facts: &Facts<'_>, last: Option<&StoredSummary>) -> Option<(String, String)> {
    let metadata = &facts.object.metadata;
    let owner = owner(facts.claims, last)?;
    let is_own = (owner.namespace.as_str(), &owner.name) == (metadata.namespace(), &metadata.name);
    (!is_own).then(|| (owner.namespace.clone(), owner.name.clone()))
}

/// A record whose action is under way, or was left in the middle.
fn in_progress(facts: &Facts<'_>, last: &StoredSummary) -> Result<State, Error> {
    let status = last.summary.status;
    let stage = last.place.progress.as_ref().map(|progress| progress.stage);
    let noted = last.place.progress.as_ref().map(|progress| progress.action);
    let action = noted.unwrap_or(match status {
        Status::PendingInstall => ActionKind::Install,
        Status::PendingUpgrade => ActionKind::Upgrade,
        Status::PendingRollback => ActionKind::Rollback,
        _ => ActionKind::Uninstall,
    });
    if stage == Some(Stage::Failed) {
        return Ok(State::Interrupted {
            action,
            how: GoOn::Again,
            from: None,
        });
    }
    let from = match hold(&last.place, facts.me, facts.take_over, facts.now) {
        Hold::Busy { by, since, until } => {
            return Ok(State::Locked {
                status,
                by,
                since,
                until,
            });
        }
        Hold::Own => None,
        Hold::Abandoned { by, proof } => Some((by, proof)),
    };
    let is_wanted = match action {
        ActionKind::Install | ActionKind::Upgrade if stage != Some(Stage::Failing) => {
            differs(facts, last)?.is_none()
        }
        // What is rolled back or uninstalled does not depend on what is asked for, and a failure is to be
        // told.
        _ => true,
    };
    let how = match (is_wanted, last.can_begin_anew()) {
        (true, _) => GoOn::Resume,
        (false, true) => GoOn::Anew,
        (false, false) => GoOn::Abandon,
    };
    Ok(State::Interrupted { action, how, from })
}

/// A deployed release that the status does not know, as after a status that was lost.
fn unobserved(facts: &Facts<'_>, last: &StoredSummary) -> Result<State, Error> {
    match adoption(facts, last)? {
        Adoption::Same => match after_release(facts, last)? {
            State::InSync { .. } => Ok(State::InSync { is_observed: false }),
            // The status has to know of the release before it is tested or put right, and before tests are gone on
            // with that were left in the middle: what comes of them is told of the release that it knows.
            State::Untested | State::Drifted | State::Failed { .. } | State::Interrupted { .. } => {
                Ok(State::InSync { is_observed: false })
            }
            other => Ok(other),
        },
        Adoption::NeedsRendering => Ok(State::NeedsRendering),
        Adoption::Other => Ok(State::Unmanaged {
            why: unmanaged_why(facts, last.summary.status),
        }),
    }
}

fn deployed(facts: &Facts<'_>, last: &StoredSummary) -> Result<State, Error> {
    match differs(facts, last)? {
        Some(why) => Ok(State::OutOfSync { why }),
        None => after_release(facts, last),
    }
}

/// A release that is what is asked for: its tests and its drift.
fn after_release(facts: &Facts<'_>, last: &StoredSummary) -> Result<State, Error> {
    let object = facts.object;
    if let Some(state) = interrupted_test(facts, last) {
        return Ok(state);
    }
    let current = latest(&object.status.history);
    if object.spec.test.as_ref().is_some_and(|test| test.enable) {
        let Some(current) = current.filter(|current| current.has_been_tested()) else {
            return Ok(State::Untested);
        };
        let remedy = crate::remedy::Remedy::active(object);
        if remedy.is_some_and(|remedy| !remedy.ignores_tests) && current.has_failed_test() {
            return Ok(State::Failed {
                why: "release has test in failed phase",
                is_observed: true,
            });
        }
    }
    Ok(match facts.has_drifted {
        true => State::Drifted,
        false => State::InSync { is_observed: true },
    })
}

/// Tests that were left in the middle: they are noted beside the record of the release that they test.
fn interrupted_test(facts: &Facts<'_>, last: &StoredSummary) -> Option<State> {
    let progress = last.place.progress.as_ref()?;
    if progress.action != ActionKind::Test {
        return None;
    }
    let status = last.summary.status;
    Some(
        match hold(&last.place, facts.me, facts.take_over, facts.now) {
            Hold::Busy { by, since, until } => State::Locked {
                status,
                by,
                since,
                until,
            },
            hold => State::Interrupted {
                action: ActionKind::Test,
                how: GoOn::Resume,
                from: match hold {
                    Hold::Abandoned { by, proof } => Some((by, proof)),
                    _ => None,
                },
            },
        },
    )
}

/// What is asked for, as far as a release is compared with it.
impl Wanted {
    /// Of a HelmRelease, its chart and its values.
    pub fn new(
        object: &Object<HelmRelease>,
        chart_name: &str,
        chart_version: &str,
        values: Map,
    ) -> Self {
        Wanted {
            chart_name: chart_name.to_owned(),
            chart_version: chart_version.to_owned(),
            config_digest: crate::digest::of_values(&values),
            values,
            post_renderers: crate::render::post_renderers_digest(object),
            common_metadata: crate::render::common_metadata_digest(object),
        }
    }
}
