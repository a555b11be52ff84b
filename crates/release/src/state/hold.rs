//! Who is at work on a release, and whether it is proven that they are not any more.

use everflow_time::{Duration, Timestamp};

use crate::record::Place;
use crate::record::mark::Holder;

/// When an action of someone else may be taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakeOver {
    /// Whether it may at all.
    pub enabled: bool,
    /// How long nothing must have been written by someone who makes no notes, as the helm CLI. Without
    /// it, such an action is waited for without end.
    pub patience: Option<Duration>,
    /// Since when we hold the Lease without which Flux's helm-controller does nothing.
    pub flux_stopped: Option<Timestamp>,
    /// Whether it is known that no other process of ours runs, where there is no election.
    pub alone: bool,
}

impl Default for TakeOver {
    fn default() -> Self {
        TakeOver {
            enabled: true,
            patience: Some(Duration::from_seconds(15 * 60)),
            flux_stopped: None,
            alone: false,
        }
    }
}

/// Who is at work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// We are.
    Own,
    /// Someone was, and is no more.
    Abandoned {
        /// Who it was.
        by: String,
        /// What proves it.
        proof: String,
    },
    /// Someone is, as far as is known.
    Busy {
        /// Who it is.
        by: String,
        /// When it was last heard of.
        since: Option<Timestamp>,
        /// When the action may be taken up, if nothing is heard until then.
        until: Option<Timestamp>,
    },
}

/// The field manager of Flux's helm-controller and of ourselves.
const HELM_CONTROLLER: &str = "helm-controller";

/// Finds out who is at work on a record whose action is under way.
pub fn hold(place: &Place, me: &Holder, rules: &TakeOver, now: Timestamp) -> Hold {
    let Some(progress) = &place.progress else {
        return unnoted(place, rules, now);
    };
    let holder = &progress.holder;
    if holder == me {
        return Hold::Own;
    }
    let by = holder.identity.clone();
    let busy = |until| Hold::Busy {
        by: by.clone(),
        since: place.written,
        until,
    };
    if !rules.enabled {
        return busy(None);
    }
    match (&holder.lease, &me.lease) {
        (Some(theirs), Some(ours)) if theirs == ours => match holder.epoch < me.epoch {
            true => Hold::Abandoned {
                proof: format!(
                    "its time of leadership {} of Lease {theirs} is over",
                    holder.epoch
                ),
                by,
            },
            // Ours is over.
            false => busy(None),
        },
        (Some(theirs), Some(ours)) if keep_each_other_out(theirs, ours) => Hold::Abandoned {
            proof: format!("Lease {theirs} lets nobody work on it since {ours} does"),
            by,
        },
        (None, None) if rules.alone => Hold::Abandoned {
            by,
            proof: "no other process runs".to_owned(),
        },
        _ => patient(place, by, rules, now),
    }
}

/// Whether two Leases are of one installation that shared its work in one way and shares it in another now: those ways are
/// never in force at once. Two shards of the same cut are.
fn keep_each_other_out(theirs: &str, ours: &str) -> bool {
    let (their_base, their_cut) = cut(theirs);
    let (our_base, our_cut) = cut(ours);
    their_base == our_base && their_cut != our_cut
}

/// The Lease that all have in common, and into how many shards the work is cut.
fn cut(lease: &str) -> (&str, Option<&str>) {
    let is_number =
        |text: &str| !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit());
    let shard = lease.rsplit_once("-shard-").and_then(|(base, shard)| {
        let (shard, count) = shard.split_once("-of-")?;
        (is_number(shard) && is_number(count)).then_some((base, Some(count)))
    });
    shard.unwrap_or((lease, None))
}

/// Someone who makes no notes: Flux, the helm CLI, or a record that was changed by hand.
fn unnoted(place: &Place, rules: &TakeOver, now: Timestamp) -> Hold {
    let by = match place.writer.as_str() {
        "" => "an unknown writer".to_owned(),
        HELM_CONTROLLER => "Flux's helm-controller".to_owned(),
        writer => writer.to_owned(),
    };
    if !rules.enabled {
        return Hold::Busy {
            by,
            since: place.written,
            until: None,
        };
    }
    let is_flux = place.writer == HELM_CONTROLLER;
    match (rules.flux_stopped, place.written) {
        (Some(stopped), Some(written)) if is_flux && written <= stopped => Hold::Abandoned {
            by,
            proof: format!("its Lease is ours since {stopped}"),
        },
        _ => patient(place, by, rules, now),
    }
}

fn patient(place: &Place, by: String, rules: &TakeOver, now: Timestamp) -> Hold {
    let since = place.written;
    let until = match (since, rules.patience) {
        (Some(since), Some(patience)) => Some(since + patience.unsigned()),
        _ => None,
    };
    match until {
        Some(until) if until <= now => Hold::Abandoned {
            by,
            proof: format!("nothing was written since {}", since.unwrap_or_default()),
        },
        until => Hold::Busy { by, since, until },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::ActionKind;
    use crate::record::mark::Progress;

    fn me(epoch: u64) -> Holder {
        Holder {
            identity: format!("engine-{epoch}"),
            lease: Some("flux-system/leader".into()),
            epoch,
        }
    }

    fn noted(holder: Holder) -> Place {
        Place {
            progress: Some(Progress::new(ActionKind::Install, holder, None)),
            written: Some(Timestamp::from_seconds(100)),
            ..Place::default()
        }
    }

    fn written_by(writer: &str) -> Place {
        Place {
            writer: writer.into(),
            written: Some(Timestamp::from_seconds(100)),
            ..Place::default()
        }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(seconds)
    }

    #[test]
    fn holder_with_an_older_epoch_is_gone_and_a_newer_one_is_not() {
        let rules = TakeOver::default();
        assert_eq!(hold(&noted(me(3)), &me(3), &rules, at(101)), Hold::Own);
        let older = hold(&noted(me(2)), &me(3), &rules, at(101));
        assert!(matches!(older, Hold::Abandoned { by, .. } if by == "engine-2"));
        // However long ago: we are the ones whose time is over.
        let newer = hold(&noted(me(4)), &me(3), &rules, at(1_000_000));
        assert!(matches!(newer, Hold::Busy { until: None, .. }));
    }

    #[test]
    fn holder_with_another_shard_layout_has_abandoned_the_action() {
        let rules = TakeOver::default();
        let held = |lease: &str| Holder {
            lease: Some(lease.to_owned()),
            ..me(9)
        };
        let ours = held("flux-system/engine-shard-3-of-8");
        for theirs in ["flux-system/engine", "flux-system/engine-shard-3-of-4"] {
            let hold = hold(&noted(held(theirs)), &ours, &rules, at(101));
            assert!(matches!(hold, Hold::Abandoned { .. }), "{theirs}");
        }
        let single = held("flux-system/engine");
        let hold_by_single = hold(&noted(ours.clone()), &single, &rules, at(101));
        assert!(matches!(hold_by_single, Hold::Abandoned { .. }));
        // Another object of the same release may be worked on now.
        for theirs in [
            "flux-system/engine-shard-7-of-8",
            "flux-system/engine-shard-",
            "other/engine-shard-3-of-8",
        ] {
            let hold = hold(&noted(held(theirs)), &ours, &rules, at(101));
            assert!(matches!(hold, Hold::Busy { .. }), "{theirs}");
        }
    }

    #[test]
    fn a_holder_of_another_lease_is_waited_for() {
        let rules = TakeOver::default();
        let other = Holder {
            lease: Some("other/leader".into()),
            ..me(1)
        };
        let busy = hold(&noted(other.clone()), &me(3), &rules, at(101));
        assert!(matches!(busy, Hold::Busy { until: Some(until), .. } if until == at(1_000)));
        let over = hold(&noted(other), &me(3), &rules, at(1_000));
        assert!(matches!(over, Hold::Abandoned { .. }));
    }

    #[test]
    fn action_of_the_helm_cli_is_waited_for_and_named() {
        let rules = TakeOver::default();
        let busy = hold(&written_by("Helm"), &me(3), &rules, at(999));
        let expected = Hold::Busy {
            by: "Helm".into(),
            since: Some(at(100)),
            until: Some(at(1_000)),
        };
        assert_eq!(busy, expected);
        let endless = TakeOver {
            patience: None,
            ..rules
        };
        let busy = hold(&written_by("Helm"), &me(3), &endless, at(1_000_000));
        assert!(matches!(busy, Hold::Busy { until: None, .. }));
    }

    #[test]
    fn flux_has_abandoned_its_action_once_its_lease_is_ours() {
        let stopped = TakeOver {
            flux_stopped: Some(at(150)),
            ..TakeOver::default()
        };
        let flux = written_by(HELM_CONTROLLER);
        assert!(matches!(
            hold(&flux, &me(3), &stopped, at(151)),
            Hold::Abandoned { .. }
        ));
        let cli = written_by("Helm");
        assert!(matches!(
            hold(&cli, &me(3), &stopped, at(151)),
            Hold::Busy { .. }
        ));
        let running = TakeOver::default();
        assert!(matches!(
            hold(&flux, &me(3), &running, at(151)),
            Hold::Busy { .. }
        ));
    }

    #[test]
    fn takeover_can_be_disabled() {
        let off = TakeOver {
            enabled: false,
            flux_stopped: Some(at(150)),
            ..TakeOver::default()
        };
        for place in [
            noted(me(2)),
            written_by(HELM_CONTROLLER),
            written_by("Helm"),
        ] {
            let hold = hold(&place, &me(3), &off, at(1_000_000));
            assert!(matches!(hold, Hold::Busy { until: None, .. }), "{hold:?}");
        }
        assert_eq!(hold(&noted(me(3)), &me(3), &off, at(101)), Hold::Own);
    }
}
