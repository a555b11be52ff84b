//! Whether a release is what is asked for.

use everflow_json::Map;

use super::Facts;
use crate::digest;
use crate::error::Error;
use crate::record::StoredSummary;
use crate::record::mark::MadeFrom;
use crate::values::merged_config;

/// What is asked for, as far as a release is compared with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// The name of the chart.
    pub chart_name: String,
    /// Its version, with what it is known by.
    pub chart_version: String,
    /// The values.
    pub values: Map,
    /// Their digest.
    pub config_digest: String,
    /// The digest of the post-renderers, empty when there are none.
    pub post_renderers: String,
    /// The digest of the common metadata, empty when there is none.
    pub common_metadata: String,
}

/// Whether a release that the status does not know is the one that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Adoption {
    Same,
    Other,
    NeedsRendering,
}

/// What has changed since a revision was made; none when it is what is asked for.
pub(super) fn differs(
    facts: &Facts<'_>,
    record: &StoredSummary,
) -> Result<Option<&'static str>, Error> {
    let (wanted, summary) = (facts.wanted, &record.summary);
    let chart = (&summary.chart_name, &summary.chart_version);
    if chart != (&wanted.chart_name, &wanted.chart_version) {
        return Ok(Some("release chart changed"));
    }
    if !has_wanted_values(facts, record)? {
        return Ok(Some("release config values changed"));
    }
    // What Flux made says nothing of them; its status does, for the generation that it observed.
    let made_from = record.place.made_from.as_ref();
    let before = made_from.map(|from| (&from.post_renderers, &from.common_metadata));
    let status = &facts.object.status;
    let is_new = status.observed_generation != facts.object.metadata.generation;
    let none = String::new();
    let remembered = (
        status
            .observed_post_renderers_digest
            .as_ref()
            .unwrap_or(&none),
        status
            .observed_common_metadata_digest
            .as_ref()
            .unwrap_or(&none),
    );
    let before = match before {
        Some(before) => before,
        None if is_new && !status.history.is_empty() => remembered,
        None => (&wanted.post_renderers, &wanted.common_metadata),
    };
    Ok(if *before.0 != wanted.post_renderers {
        Some("postrenderers digest has changed")
    } else if *before.1 != wanted.common_metadata {
        Some("common metadata digest has changed")
    } else {
        None
    })
}

fn has_wanted_values(facts: &Facts<'_>, record: &StoredSummary) -> Result<bool, Error> {
    if record.summary.config_digest == facts.wanted.config_digest {
        return Ok(true);
    }
    let upgrade = facts.object.spec.upgrade.as_ref();
    if !upgrade.is_some_and(|upgrade| upgrade.preserve_values) {
        return Ok(false);
    }
    // An upgrade would keep what the release has.
    let merged = merged_config(&facts.wanted.values, &record.summary.config, facts.budget)?;
    Ok(digest::of_values(&merged) == record.summary.config_digest)
}

/// Whether a revision was made for this HelmRelease from what it asks for.
pub(super) fn is_made_for(facts: &Facts<'_>, record: &StoredSummary) -> Result<bool, Error> {
    let is_own = record
        .place
        .made_from
        .as_ref()
        .is_some_and(|from| is_of(from, facts));
    Ok(is_own && differs(facts, record)?.is_none())
}

fn is_of(from: &MadeFrom, facts: &Facts<'_>) -> bool {
    let metadata = &facts.object.metadata;
    let uid = metadata.uid.as_deref().unwrap_or_default();
    (from.namespace.as_str(), &from.name) == (metadata.namespace(), &metadata.name)
        && (from.uid.is_empty() || uid.is_empty() || from.uid == uid)
}

/// Whether a deployed release that the status does not know is what is asked for: then the status is told,
/// and no revision is made.
pub(super) fn adoption(facts: &Facts<'_>, record: &StoredSummary) -> Result<Adoption, Error> {
    let (wanted, summary) = (facts.wanted, &record.summary);
    let chart = (&summary.chart_name, &summary.chart_version);
    if chart != (&wanted.chart_name, &wanted.chart_version) || !has_wanted_values(facts, record)? {
        return Ok(Adoption::Other);
    }
    if let Some(from) = &record.place.made_from {
        let same = (&from.post_renderers, &from.common_metadata)
            == (&wanted.post_renderers, &wanted.common_metadata);
        if is_of(from, facts) {
            return Ok(match same {
                true => Adoption::Same,
                false => Adoption::Other,
            });
        }
    }
    let metadata = &facts.object.metadata;
    let own = (metadata.namespace().to_owned(), metadata.name.clone());
    let status = &facts.object.status;
    let is_plain = wanted.post_renderers.is_empty()
        && wanted.common_metadata.is_empty()
        && status.observed_post_renderers_digest.is_none()
        && status.observed_common_metadata_digest.is_none();
    // Rendered for this HelmRelease, as labels in the manifest say, and nothing but chart and values
    // decides what it is.
    if summary.origin == Some(own) && is_plain {
        return Ok(Adoption::Same);
    }
    Ok(match facts.rendered {
        None => Adoption::NeedsRendering,
        Some(rendered) if rendered == summary.manifest_digest => Adoption::Same,
        Some(_) => Adoption::Other,
    })
}
