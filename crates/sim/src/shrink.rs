//! Makes plans short.

use crate::plan::{Fault, Plan};

/// Takes faults away for as long as `fails` still says so.
pub fn shrink(plan: &Plan, mut fails: impl FnMut(&Plan) -> bool) -> Plan {
    let mut best = plan.clone();
    let mut size = best.faults.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let mut smaller = false;
        while at < best.faults.len() {
            let end = (at + size).min(best.faults.len());
            let mut faults: Vec<Fault> = best.faults[..at].to_vec();
            faults.extend_from_slice(&best.faults[end..]);
            let candidate = Plan {
                faults,
                ..best.clone()
            };
            if fails(&candidate) {
                best = candidate;
                smaller = true;
            } else {
                at = end;
            }
        }
        if size == 1 && !smaller {
            break;
        }
        if !smaller {
            size = (size / 2).max(1);
        }
    }
    if best.later > 0 {
        let candidate = Plan {
            later: 0,
            ..best.clone()
        };
        if fails(&candidate) {
            best = candidate;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrinking_keeps_only_the_faults_that_matter() {
        let jump = |at| Fault::Jump {
            replica: 0,
            at,
            seconds: 1,
        };
        let plan = Plan {
            seed: 1,
            later: 5,
            faults: (0..9).map(jump).collect(),
        };
        let short = shrink(&plan, |plan| {
            plan.faults.contains(&jump(2)) && plan.faults.contains(&jump(7))
        });
        assert_eq!((short.faults, short.later), (vec![jump(2), jump(7)], 0));
    }
}
