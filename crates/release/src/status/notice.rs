//! Events about a HelmRelease.

use std::collections::BTreeMap;

use everflow_api::Reason;
use everflow_api::helm::ReleaseSnapshot;
use everflow_api::names::group;

/// How grave an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Not so.
    Warning,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// How grave it is.
    pub severity: Severity,
    /// What has happened, as a stable code.
    pub reason: Reason,
    /// What has happened, in words.
    pub message: String,
    /// What it is about: the version of the chart, the digest of the values and so on.
    pub annotations: BTreeMap<String, String>,
}

/// What an event is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct About<'a> {
    pub chart_version: &'a str,
    pub config_digest: &'a str,
    pub app_version: &'a str,
    pub oci_digest: &'a str,
}

impl<'a> About<'a> {
    pub(super) fn snapshot(snapshot: &'a ReleaseSnapshot) -> Self {
        About {
            chart_version: &snapshot.chart_version,
            config_digest: &snapshot.config_digest,
            app_version: snapshot.app_version.as_deref().unwrap_or_default(),
            oci_digest: snapshot.oci_digest.as_deref().unwrap_or_default(),
        }
    }

    fn annotations(&self) -> BTreeMap<String, String> {
        let all = [
            ("revision", self.chart_version),
            ("token", self.config_digest),
            ("app-version", self.app_version),
            ("oci-digest", self.oci_digest),
        ];
        all.into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (format!("{}/{key}", group::HELM), value.to_owned()))
            .collect()
    }
}

impl Notice {
    pub(super) fn normal(reason: Reason, message: impl Into<String>, about: &About<'_>) -> Self {
        Notice {
            severity: Severity::Normal,
            reason,
            message: message.into(),
            annotations: about.annotations(),
        }
    }

    pub(super) fn warning(reason: Reason, message: impl Into<String>, about: &About<'_>) -> Self {
        Notice {
            severity: Severity::Warning,
            ..Notice::normal(reason, message, about)
        }
    }

    /// Puts what Helm would have logged last behind the message.
    pub(super) fn with_log(mut self, log: &[String]) -> Self {
        if !log.is_empty() {
            self.message = format!("{}\n\nLast Helm logs:\n\n{}", self.message, log.join("\n"));
        }
        self
    }
}
