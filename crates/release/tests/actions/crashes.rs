//! A crash between any two steps leads to the same end.

use std::collections::BTreeSet;

use everflow_json::Value;
use everflow_release::action::{Outcome, Step};
use proptest::prelude::*;

use crate::cases::{Case, cases};
use crate::driver::{Crash, carry_out, holder, in_progress, is_fenced, resume};
use crate::model::Cluster;

fn end(case: &Case, crashes: &[Crash]) -> (Cluster, Option<Outcome>, usize) {
    let mut cluster = case.cluster.clone();
    let report = carry_out(&mut cluster, &case.action, crashes);
    (cluster, report.outcome, report.steps)
}

/// Where two trees differ.
fn differences(found: &Value, expected: &Value) -> Vec<String> {
    match (found, expected) {
        (Value::Object(one), Value::Object(two)) => {
            let keys: BTreeSet<&str> = one
                .keys()
                .chain(two.keys())
                .map(|key| key.as_str())
                .collect();
            let below = |key| {
                let below = differences(&found[key], &expected[key]);
                below.into_iter().map(move |path| format!("{key}.{path}"))
            };
            keys.into_iter().flat_map(below).collect()
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            let pairs = one.iter().zip(two).enumerate();
            let below = |(index, (one, two)): (usize, (&Value, &Value))| {
                let below = differences(one, two);
                below.into_iter().map(move |path| format!("{index}.{path}"))
            };
            pairs.flat_map(below).collect()
        }
        _ if found == expected => Vec::new(),
        _ => vec![format!(": {found}, not {expected}")],
    }
}

fn same_end(case: &Case, crashes: &[Crash]) {
    let (whole, expected, _) = end(case, &[]);
    let (broken, outcome, _) = end(case, crashes);
    if outcome.is_some() {
        assert_eq!(outcome, expected, "{}: {crashes:?}", case.name);
    }
    let differences = differences(&broken.lasting(), &whole.lasting());
    assert!(
        differences.is_empty(),
        "{}: {crashes:?}: {differences:#?}",
        case.name
    );
}

#[test]
fn a_crash_at_any_step_leads_to_the_same_end() {
    for case in cases() {
        let (_, _, steps) = end(&case, &[]);
        assert!(steps > 0, "{}", case.name);
        for step in 0..steps {
            for before in [true, false] {
                same_end(&case, &[Crash { step, before }]);
            }
        }
    }
}

#[test]
fn process_that_lost_its_action_cannot_write() {
    for case in cases() {
        let (_, _, steps) = end(&case, &[]);
        for at in 0..steps {
            let mut cluster = case.cluster.clone();
            let mut old = (case.action.begin)(&cluster, &case.action.plan, holder(1));
            for _ in 0..at {
                let result = cluster.carry_out(&old.step()).unwrap();
                let now = cluster.tick();
                old.done(result, now);
            }
            let Some(stored) = in_progress(&cluster) else {
                continue;
            };
            let version = stored.release.version;
            let writes = match old.step() {
                // Records of other revisions come to the same, whoever writes them.
                Step::WriteRecord { write, .. } => write.release.version == version,
                step => matches!(step, Step::NoteProgress { .. }),
            };
            let Some(stored) = Some(stored).filter(|_| writes) else {
                continue;
            };
            let now = cluster.tick();
            let new = resume(&cluster, &case.action, stored, holder(2), now);
            cluster.carry_out(&new.step()).unwrap();
            assert!(is_fenced(&mut cluster, &old), "{} at {at}", case.name);
        }
    }
}

/// How many cases there are.
const CASES: usize = 21;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_number_of_crashes_leads_to_the_same_end(
        case in 0..CASES,
        crashes in prop::collection::vec((0_usize..12, any::<bool>()), 0..6),
    ) {
        let crashes: Vec<Crash> = crashes
            .into_iter()
            .map(|(step, before)| Crash { step, before })
            .collect();
        thread_local!(static ALL: Vec<Case> = cases());
        ALL.with(|all| {
            assert_eq!(all.len(), CASES);
            same_end(&all[case], &crashes);
        });
    }
}
