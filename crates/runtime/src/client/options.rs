//! What a request may ask for beside its object.

use everflow_json::{Value, json};

use super::resource::{encode, push_encoded};

/// Which objects of a collection.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    /// By labels, empty for all.
    pub labels: String,
    /// By fields, empty for all.
    pub fields: String,
    /// Only their metadata.
    pub metadata_only: bool,
}

impl Selection {
    /// Those with these labels.
    pub fn labelled(labels: impl Into<String>) -> Self {
        Selection {
            labels: labels.into(),
            ..Selection::default()
        }
    }

    /// The same, but only the metadata.
    #[must_use]
    pub fn metadata(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    pub(super) fn query(&self, query: &mut Query) {
        query.add("labelSelector", &self.labels);
        query.add("fieldSelector", &self.fields);
    }

    pub(super) fn accept(&self, list: bool) -> &'static str {
        match (self.metadata_only, list) {
            (false, _) => "application/json",
            (true, false) => {
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
            (true, true) => {
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
            }
        }
    }
}

/// How a write is made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whose fields they become; empty for the server's choice.
    pub field_manager: String,
    /// Whether fields of others are taken over (apply only).
    pub force: bool,
    /// Whether nothing is stored.
    pub dry_run: bool,
    /// `Ignore`, `Warn`, `Strict` or empty.
    pub field_validation: &'static str,
    /// Whether the answer is read without `managedFields`.
    pub discard_managed_fields: bool,
}

impl WriteOptions {
    /// A write by a manager. The server would read the object once more to warn of fields that it does not know, and
    /// nobody here would hear it: applying refuses such fields anyway.
    pub fn by(field_manager: impl Into<String>) -> Self {
        WriteOptions {
            field_manager: field_manager.into(),
            field_validation: "Ignore",
            ..WriteOptions::default()
        }
    }

    /// The same, but nothing is stored.
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.dry_run = true;
        self
    }

    /// The same, and fields of others are taken over.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// The same, and nobody looks at the `managedFields` of the answer.
    #[must_use]
    pub fn without_managed_fields(mut self) -> Self {
        self.discard_managed_fields = true;
        self
    }

    pub(super) fn query(&self, query: &mut Query) {
        query.add("fieldManager", &self.field_manager);
        if self.force {
            query.add("force", "true");
        }
        if self.dry_run {
            query.add("dryRun", "All");
        }
        query.add("fieldValidation", self.field_validation);
    }
}

/// A change of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// A list of operations (RFC 6902).
    Json(Value),
    /// A merge patch (RFC 7386).
    Merge(Value),
    /// A strategic merge patch, for built-in kinds.
    Strategic(Value),
    /// Server-side apply.
    Apply(Value),
}

impl Patch {
    pub(super) fn media_type(&self) -> &'static str {
        match self {
            Patch::Json(_) => "application/json-patch+json",
            Patch::Merge(_) => "application/merge-patch+json",
            Patch::Strategic(_) => "application/strategic-merge-patch+json",
            Patch::Apply(_) => "application/apply-patch+yaml",
        }
    }

    pub(super) fn body(&self) -> &Value {
        match self {
            Patch::Json(value)
            | Patch::Merge(value)
            | Patch::Strategic(value)
            | Patch::Apply(value) => value,
        }
    }
}

/// How an object is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Only the object with this unique id.
    pub uid: String,
    /// Only the object in this version.
    pub resource_version: String,
    /// `Foreground`, `Background`, `Orphan` or empty.
    pub propagation: &'static str,
    /// Whether nothing is stored.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Only the object with this unique id.
    pub fn uid(uid: impl Into<String>) -> Self {
        DeleteOptions {
            uid: uid.into(),
            ..DeleteOptions::default()
        }
    }

    pub(super) fn body(&self) -> Value {
        let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        for (field, value) in [
            ("uid", &self.uid),
            ("resourceVersion", &self.resource_version),
        ] {
            if !value.is_empty() {
                body["preconditions"][field] = value.as_str().into();
            }
        }
        if !self.propagation.is_empty() {
            body["propagationPolicy"] = self.propagation.into();
        }
        if self.dry_run {
            body["dryRun"] = json!(["All"]);
        }
        body
    }
}

/// In whose name requests are made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// The user.
    pub user: String,
    /// Its unique id, if any.
    pub uid: String,
    /// Its groups.
    pub groups: Vec<String>,
    /// What else is known of it.
    pub extra: Vec<(String, String)>,
}

impl Impersonation {
    /// A service account.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Impersonation {
            user: format!("system:serviceaccount:{namespace}:{name}"),
            ..Impersonation::default()
        }
    }

    pub(super) fn headers(&self) -> Vec<(String, String)> {
        let mut headers = vec![("impersonate-user".to_owned(), self.user.clone())];
        if !self.uid.is_empty() {
            headers.push(("impersonate-uid".into(), self.uid.clone()));
        }
        for group in &self.groups {
            headers.push(("impersonate-group".into(), group.clone()));
        }
        for (key, value) in &self.extra {
            headers.push((
                format!("impersonate-extra-{}", encode(key)).to_ascii_lowercase(),
                value.clone(),
            ));
        }
        headers
    }
}

/// The parameters of a request, in order.
#[derive(Debug, Default)]
pub(super) struct Query {
    text: String,
}

impl Query {
    /// Adds a parameter; an empty one is left out.
    pub(super) fn add(&mut self, name: &str, value: &str) {
        if value.is_empty() {
            return;
        }
        if self.text.is_empty() {
            // Most have room in it.
            self.text.reserve(160);
        }
        self.text.push(if self.text.is_empty() { '?' } else { '&' });
        self.text.push_str(name);
        self.text.push('=');
        push_encoded(&mut self.text, value);
    }

    pub(super) fn on(self, mut path: String) -> String {
        path.push_str(&self.text);
        path
    }
}
