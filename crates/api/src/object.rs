//! Whole objects: metadata, what is asked for and what has been observed.

use std::collections::BTreeMap;

use everflow_json::{Map, Value};
use everflow_time::Timestamp;

use crate::describe::KindInfo;
use crate::error::{ApiError, At, FieldError};
use crate::names::annotation;
use crate::view;
use crate::wire::{Extra, Wire, object};

/// A kind of Flux.
pub trait Kind: std::fmt::Debug + Clone + PartialEq {
    /// What it is called and what it is made of.
    const INFO: &'static KindInfo;
    /// What is asked for.
    type Spec: Wire + std::fmt::Debug + Clone;
    /// What has been observed.
    type Status: Wire + std::fmt::Debug + Clone + Default;
}

record! {
    /// Who owns an object.
    pub struct OwnerReference {
        /// The version of the owner's API.
        api_version "apiVersion": String,
        /// The kind of the owner.
        kind "kind": String,
        /// The name of the owner.
        name "name": String,
        /// The unique id of the owner.
        uid "uid": String,
        /// Whether this owner manages the object.
        controller "controller": Option<bool>,
        /// Whether the owner is kept until the object is gone.
        block_owner_deletion "blockOwnerDeletion": Option<bool>,
    }
}

record! {
    /// The metadata of an object, as far as controllers look at it; the rest is in `extra`.
    pub struct ObjectMeta {
        /// The name.
        name "name": String,
        /// The namespace.
        namespace "namespace": Option<String>,
        /// The unique id.
        uid "uid": Option<String>,
        /// The version of the stored object.
        resource_version "resourceVersion": Option<String>,
        /// Counts the changes of the spec.
        generation "generation": i64,
        /// When it was created.
        creation_timestamp "creationTimestamp": Option<Timestamp>,
        /// When its deletion was asked for.
        deletion_timestamp "deletionTimestamp": Option<Timestamp>,
        /// Its labels.
        labels "labels": BTreeMap<String, String>,
        /// Its annotations.
        annotations "annotations": BTreeMap<String, String>,
        /// Who owns it.
        owner_references "ownerReferences": Vec<OwnerReference>,
        /// Who must agree before it goes.
        finalizers "finalizers": Vec<String>,
    }
}

impl ObjectMeta {
    /// The namespace, empty when there is none.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Whether its deletion was asked for.
    pub fn is_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The value of the annotation that asks for an attempt at once.
    pub fn requested_at(&self) -> Option<&str> {
        let value = self.annotations.get(annotation::REQUESTED_AT)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// Whether a release was asked for although nothing changed.
    pub fn force_requested(&self) -> bool {
        self.equals_request(annotation::FORCE_AT)
    }

    /// Whether forgetting the counted failures was asked for.
    pub fn reset_requested(&self) -> bool {
        self.equals_request(annotation::RESET_AT)
    }

    fn equals_request(&self, name: &str) -> bool {
        let request = self.requested_at();
        request.is_some() && request == self.annotations.get(name).map(String::as_str)
    }
}

/// An object of a kind, made from JSON for one attempt.
///
/// ```
/// use everflow_api::object::Object;
/// use everflow_api::source::GitRepository;
///
/// let object = everflow_json::json!({
///     "apiVersion": "source.toolkit.fluxcd.io/v1",
///     "kind": "GitRepository",
///     "metadata": {"namespace": "apps", "name": "podinfo"},
///     "spec": {"url": "https://github.com/stefanprodan/podinfo", "interval": "1m", "future": 1},
/// });
/// let read = Object::<GitRepository>::read(&object)?;
/// assert_eq!(read.spec.interval.to_string(), "1m0s");
/// assert_eq!(read.to_value(), object);
///
/// let mut broken = object;
/// broken["spec"]["interval"] = "often".into();
/// assert_eq!(
///     Object::<GitRepository>::read(&broken).unwrap_err().to_string(),
///     "GitRepository/apps/podinfo: spec.interval: expected a duration such as 30s, 10m or 1h30m, \
///      found \"often\"",
/// );
/// # Ok::<(), everflow_api::error::ApiError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Object<K: Kind> {
    /// Name, labels, annotations and what the server keeps.
    pub metadata: ObjectMeta,
    /// What is asked for.
    pub spec: K::Spec,
    /// What has been observed.
    pub status: K::Status,
    /// Other fields beside these.
    pub extra: Extra,
}

impl<K: Kind> Object<K> {
    /// Reads an object. Its kind and version may be missing, as in stores that hold one kind only,
    /// but not be others.
    ///
    /// # Errors
    /// Names the object, the field, what is wrong with it and what it must be.
    pub fn read(value: &Value) -> Result<Self, ApiError> {
        check_kind(K::INFO, value)?;
        Self::read_parts(value).map_err(|field| ApiError::Field {
            object: view::name_as(K::INFO.kind, value),
            field,
        })
    }

    /// Reads only what is asked for.
    ///
    /// # Errors
    /// As [`Object::read`], of the spec alone.
    pub fn read_spec(value: &Value) -> Result<K::Spec, ApiError> {
        let nothing = Value::Object(Map::new());
        let spec = value.get("spec").filter(|spec| !spec.is_null());
        K::Spec::read(spec.unwrap_or(&nothing), &At::Field(&At::Root, "spec")).map_err(|field| {
            ApiError::Field {
                object: view::name_as(K::INFO.kind, value),
                field,
            }
        })
    }

    fn read_parts(value: &Value) -> Result<Self, FieldError> {
        let map = object(value, &At::Root)?;
        let nothing = Value::Object(Map::new());
        let part = |name: &str| {
            map.get(name)
                .filter(|part| !part.is_null())
                .unwrap_or(&nothing)
        };
        let at = |name| At::Field(&At::Root, name);
        Ok(Self {
            metadata: ObjectMeta::read(part("metadata"), &at("metadata"))?,
            spec: K::Spec::read(part("spec"), &at("spec"))?,
            status: K::Status::read(part("status"), &at("status"))?,
            extra: beside_parts(map),
        })
    }

    /// The object as JSON, with all that it was read with.
    pub fn to_value(&self) -> Value {
        let mut map = self.extra.clone();
        map.entry("apiVersion")
            .or_insert_with(|| Value::String(K::INFO.api_version().into()));
        map.entry("kind")
            .or_insert_with(|| Value::from(K::INFO.kind));
        for (name, part) in [
            ("metadata", self.metadata.write(true)),
            ("spec", self.spec.write(true)),
            ("status", self.status.write(true)),
        ] {
            if let Some(part) = part.filter(|part| !is_empty(part)) {
                map.insert(name.into(), part);
            }
        }
        Value::Object(map)
    }

    /// `KIND/NAMESPACE/NAME`, as messages name it.
    pub fn name(&self) -> String {
        view::joined(K::INFO.kind, self.metadata.namespace(), &self.metadata.name)
    }
}

/// What stands beside the parts that are read; parts without content are kept as they stand.
fn beside_parts(map: &Map) -> Extra {
    let mut extra = Extra::new();
    for (name, part) in map {
        if is_empty(part) || !matches!(name.as_str(), "metadata" | "spec" | "status") {
            extra.insert(name.clone(), part.clone());
        }
    }
    extra
}

fn is_empty(part: &Value) -> bool {
    part.is_null() || part.as_object().is_some_and(Map::is_empty)
}

fn check_kind(info: &KindInfo, value: &Value) -> Result<(), ApiError> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let expected = info.api_version();
    let wrong_kind = text("kind").is_some_and(|kind| kind != info.kind);
    let wrong_version = text("apiVersion").is_some_and(|version| version != expected);
    if !wrong_kind && !wrong_version {
        return Ok(());
    }
    Err(ApiError::WrongKind {
        object: view::name_of(value),
        found: format!(
            "{} {}",
            text("apiVersion").unwrap_or_default(),
            text("kind").unwrap_or_default()
        ),
        expected: format!("{expected} {}", info.kind),
    })
}
