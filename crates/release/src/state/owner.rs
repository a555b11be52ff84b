//! Which of several HelmReleases a release belongs to.

use everflow_time::Timestamp;

use crate::record::StoredSummary;

/// A HelmRelease that asks for a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: Option<Timestamp>,
}

/// The HelmRelease that a revision was made for, as namespace and name: as we noted it, or as the labels
/// in its manifest say.
pub fn made_for(last: &StoredSummary) -> Option<(&str, &str)> {
    match (&last.place.made_from, &last.summary.origin) {
        (Some(from), _) => Some((&from.namespace, &from.name)),
        (None, Some((namespace, name))) => Some((namespace, name)),
        (None, None) => None,
    }
}

/// The owner among all HelmReleases that ask for one release: the one that the newest revision was made
/// for, or else the one that was there first.
pub fn owner<'c>(claims: &'c [Claim], last: Option<&StoredSummary>) -> Option<&'c Claim> {
    let made_for = last.and_then(made_for);
    let of_record = claims
        .iter()
        .find(|claim| made_for == Some((claim.namespace.as_str(), claim.name.as_str())));
    of_record.or_else(|| {
        claims
            .iter()
            .min_by_key(|claim| (claim.created, &claim.namespace, &claim.name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Place, Summary};
    use everflow_helm::release::Release;

    fn claim(name: &str, created: i64) -> Claim {
        Claim {
            namespace: "apps".into(),
            name: name.into(),
            created: Some(Timestamp::from_seconds(created)),
        }
    }

    #[test]
    fn the_record_decides_and_without_one_the_oldest() {
        let claims = [claim("one", 1), claim("two", 2)];
        assert_eq!(owner(&claims, None), Some(&claims[0]));
        let record = |name: &str| StoredSummary {
            summary: Summary::of(&Release {
                manifest: format!(
                    "helm.toolkit.fluxcd.io/name: {name}\nhelm.toolkit.fluxcd.io/namespace: apps\n"
                ),
                ..Release::default()
            }),
            place: Place::default(),
        };
        assert_eq!(owner(&claims, Some(&record("two"))), Some(&claims[1]));
        // One that does not ask for it any more does not own it.
        assert_eq!(owner(&claims, Some(&record("gone"))), Some(&claims[0]));
    }
}
