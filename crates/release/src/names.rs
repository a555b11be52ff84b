//! What a HelmRelease's release is called and where it is.

use everflow_api::helm::{HelmRelease, ReleaseSnapshot};
use everflow_api::object::Object;
use sha2::{Digest as _, Sha256};

use crate::digest::hex;

/// The longest name of a release.
pub const LONGEST_NAME: usize = 53;
/// How much of a hash stands in for what was cut off.
const SHORT_HASH: usize = 12;

/// Where a release is: its identity for Helm, and where its records stand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseTarget {
    /// The name of the release.
    pub name: String,
    /// The namespace it is released to.
    pub namespace: String,
    /// The namespace of its records.
    pub storage_namespace: String,
}

impl ReleaseTarget {
    /// Of a HelmRelease as it is asked for now.
    pub fn of(object: &Object<HelmRelease>) -> Self {
        let own = object.metadata.namespace();
        let spec = &object.spec;
        ReleaseTarget {
            name: shortened(&requested_name(object)),
            namespace: spec.target_namespace.as_deref().unwrap_or(own).to_owned(),
            storage_namespace: spec.storage_namespace.as_deref().unwrap_or(own).to_owned(),
        }
    }

    /// Of what was released, as the status of a HelmRelease remembers it.
    pub fn of_snapshot(snapshot: &ReleaseSnapshot, storage_namespace: &str) -> Self {
        ReleaseTarget {
            name: snapshot.name.clone(),
            namespace: snapshot.namespace.clone(),
            storage_namespace: storage_namespace.to_owned(),
        }
    }
}

/// The name of the release as it was asked for, however long. Messages of failed actions have it.
pub fn requested_name(object: &Object<HelmRelease>) -> String {
    let name = &object.metadata.name;
    match (&object.spec.release_name, &object.spec.target_namespace) {
        (Some(requested), _) => requested.clone(),
        (None, Some(namespace)) => format!("{namespace}-{name}"),
        (None, None) => name.clone(),
    }
}

/// A name that is not too long: of a longer one the first forty characters and a part of its hash.
///
/// ```
/// use everflow_release::names::shortened;
/// assert_eq!(shortened("release-name"), "release-name");
/// assert_eq!(
///     shortened("release-name-with-very-long-name-which-is-longer-than-53-characters"),
///     "release-name-with-very-long-name-which-i-788ca0d0d7b0",
/// );
/// ```
pub fn shortened(name: &str) -> String {
    if name.len() <= LONGEST_NAME {
        return name.to_owned();
    }
    let mut end = LONGEST_NAME - SHORT_HASH - 1;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let hash = hex(&Sha256::digest(name.as_bytes()));
    format!("{}-{}", &name[..end], &hash[..SHORT_HASH])
}

/// How the target of a HelmRelease differs from what was released for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The records are to stand in another namespace.
    StorageNamespace,
    /// It is to be released to another namespace.
    ReleaseNamespace,
    /// The release has another name.
    ReleaseName,
    /// The chart has another name.
    ChartName,
}

impl Moved {
    /// What it is that changed, in Flux's words.
    pub fn as_str(self) -> &'static str {
        match self {
            Moved::StorageNamespace => "storage namespace",
            Moved::ReleaseNamespace => "release namespace",
            Moved::ReleaseName => "release name",
            Moved::ChartName => "chart name",
        }
    }
}

/// Whether what was released last is not what is asked for, so that it has to be uninstalled first. A chart
/// of another name does not count where it is to be upgraded to in place.
pub fn moved(object: &Object<HelmRelease>, chart_name: &str) -> Option<Moved> {
    use everflow_api::helm::{ChartNameChangeStrategy, latest};
    let stored = object.status.storage_namespace.as_deref()?;
    let last = latest(&object.status.history)?;
    let target = ReleaseTarget::of(object);
    let strategy = object
        .spec
        .upgrade
        .as_ref()
        .and_then(|upgrade| upgrade.chart_name_change_strategy);
    if target.storage_namespace != stored {
        Some(Moved::StorageNamespace)
    } else if target.namespace != last.namespace {
        Some(Moved::ReleaseNamespace)
    } else if target.name != last.name {
        Some(Moved::ReleaseName)
    } else if chart_name != last.chart_name
        && strategy != Some(ChartNameChangeStrategy::InPlaceUpdate)
    {
        Some(Moved::ChartName)
    } else {
        None
    }
}
