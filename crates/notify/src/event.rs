//! Events as the controllers of Flux post them.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use everflow_time::Timestamp;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::Error;
use crate::json::{Fields, Json};

/// The largest body that the event server and the receivers take.
pub const LARGEST_BODY: usize = 3 << 20;

/// The severity of what should be known.
pub const INFO: &str = "info";
/// The severity of what went wrong.
pub const ERROR: &str = "error";
/// The reason of events that tell of work going on.
pub const PROGRESSING: &str = "Progressing";

/// Which object an event is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectReference {
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its unique id.
    pub uid: String,
    /// The version of its API.
    pub api_version: String,
    /// The version of the stored object.
    pub resource_version: String,
    /// A part of it.
    pub field_path: String,
}

impl ObjectReference {
    /// The API group; empty for the core group, and for versions that are none.
    pub fn group(&self) -> &str {
        match self.api_version.split_once('/') {
            Some((group, version)) if !version.contains('/') => group,
            _ => "",
        }
    }

    /// `KIND/NAMESPACE/NAME`, with the parts that are empty.
    pub fn path(&self) -> String {
        format!("{}/{}/{}", self.kind, self.namespace, self.name)
    }

    /// `kind/NAME.NAMESPACE`, as most messages name objects.
    pub(crate) fn title(&self) -> String {
        format!("{}.{}", self.lower_name(), self.namespace)
    }

    /// `kind/NAME`, the kind in lower case.
    pub(crate) fn lower_name(&self) -> String {
        format!("{}/{}", self.kind.to_lowercase(), self.name)
    }
}

/// An event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The object it is about.
    pub involved: ObjectReference,
    /// `trace`, `info` or `error`; nobody checks that it is.
    pub severity: String,
    /// When it happened, if that is told.
    pub timestamp: Option<Timestamp>,
    /// What happened, in words.
    pub message: String,
    /// What happened, as a stable code.
    pub reason: String,
    /// What else is known.
    pub metadata: BTreeMap<String, String>,
    /// Which controller tells of it.
    pub reporting_controller: String,
    /// Which instance of it.
    pub reporting_instance: String,
}

impl Event {
    /// Reads the body of a request to the event server as Go's decoder does: names of fields in any case, of equal
    /// ones the last counts, `null` for the empty event.
    ///
    /// # Errors
    /// When it is too large, no JSON, or a field has another type.
    pub fn read(body: &[u8]) -> Result<Self, Error> {
        if body.len() > LARGEST_BODY {
            return Err(Error::TooLarge {
                limit: LARGEST_BODY,
            });
        }
        let text = String::from_utf8_lossy(body);
        let read: Nullable<Event> =
            everflow_json::from_str(&text).map_err(|error| Error::BadEvent(error.to_string()))?;
        Ok(read.0.unwrap_or_default())
    }

    /// The event as Flux forwards it, to the byte.
    pub fn to_json(&self) -> String {
        self.json().print()
    }

    pub(crate) fn json(&self) -> Json<'_> {
        let object = &self.involved;
        let involved = Fields::new()
            .with_some("kind", &object.kind)
            .with_some("namespace", &object.namespace)
            .with_some("name", &object.name)
            .with_some("uid", &object.uid)
            .with_some("apiVersion", &object.api_version)
            .with_some("resourceVersion", &object.resource_version)
            .with_some("fieldPath", &object.field_path);
        let timestamp = match self.timestamp {
            Some(timestamp) => Json::from(timestamp.rfc3339()),
            None => Json::Null,
        };
        let mut fields = Fields::new()
            .with("involvedObject", involved)
            .with("severity", &self.severity)
            .with("timestamp", timestamp)
            .with("message", &self.message)
            .with("reason", &self.reason);
        if !self.metadata.is_empty() {
            fields = fields.with("metadata", &self.metadata);
        }
        fields
            .with("reportingController", &self.reporting_controller)
            .with_some("reportingInstance", &self.reporting_instance)
            .done()
    }

    /// Whether it tells of something that went wrong.
    pub fn is_error(&self) -> bool {
        self.severity == ERROR
    }

    /// Whether it tells of work going on.
    pub fn is_progressing(&self) -> bool {
        self.reason == PROGRESSING
    }

    /// When it happened in seconds since 1970; for Go's zero time when that is not told.
    pub(crate) fn unix_seconds(&self) -> i64 {
        const YEAR_ONE: i64 = -62_135_596_800;
        self.timestamp
            .map_or(YEAR_ONE, |timestamp| timestamp.seconds)
    }

    /// When it happened, as RFC 3339.
    pub(crate) fn rfc3339(&self) -> String {
        match self.timestamp {
            Some(timestamp) => timestamp.rfc3339(),
            None => ZERO_TIME.to_owned(),
        }
    }
}

/// Go's zero time.
pub(crate) const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// A value, or `null`, which leaves what was there before.
struct Nullable<T>(Option<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Nullable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(Nullable)
    }
}

/// What is filled in field by field, in the order of the text.
trait Filled: Default {
    /// What it is, for errors.
    const WHAT: &'static str;

    /// Reads the value of a field; those that are not known are passed over.
    fn fill<'de, A: MapAccess<'de>>(&mut self, name: &str, values: &mut A) -> Result<(), A::Error>;
}

struct FilledVisitor<T>(PhantomData<T>);

impl<'de, T: Filled> Visitor<'de> for FilledVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::WHAT)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut filled = T::default();
        while let Some(name) = map.next_key::<String>()? {
            filled.fill(&name, &mut map)?;
        }
        Ok(filled)
    }
}

fn text<'de, A: MapAccess<'de>>(target: &mut String, values: &mut A) -> Result<(), A::Error> {
    if let Some(text) = values.next_value::<Nullable<String>>()?.0 {
        *target = text;
    }
    Ok(())
}

impl Filled for ObjectReference {
    const WHAT: &'static str = "an object reference";

    fn fill<'de, A: MapAccess<'de>>(&mut self, name: &str, values: &mut A) -> Result<(), A::Error> {
        let fields = [
            ("kind", &mut self.kind),
            ("namespace", &mut self.namespace),
            ("name", &mut self.name),
            ("uid", &mut self.uid),
            ("apiVersion", &mut self.api_version),
            ("resourceVersion", &mut self.resource_version),
            ("fieldPath", &mut self.field_path),
        ];
        for (field, target) in fields {
            if name.eq_ignore_ascii_case(field) {
                return text(target, values);
            }
        }
        values.next_value::<IgnoredAny>().map(|_| ())
    }
}

impl Filled for Event {
    const WHAT: &'static str = "an event";

    fn fill<'de, A: MapAccess<'de>>(&mut self, name: &str, values: &mut A) -> Result<(), A::Error> {
        let fields = [
            ("severity", &mut self.severity),
            ("message", &mut self.message),
            ("reason", &mut self.reason),
            ("reportingController", &mut self.reporting_controller),
            ("reportingInstance", &mut self.reporting_instance),
        ];
        for (field, target) in fields {
            if name.eq_ignore_ascii_case(field) {
                return text(target, values);
            }
        }
        if name.eq_ignore_ascii_case("involvedObject") {
            // A second one is read on top of the first.
            self.involved = values.next_value_seed(OnTop(std::mem::take(&mut self.involved)))?;
            return Ok(());
        }
        if name.eq_ignore_ascii_case("metadata") {
            match values
                .next_value::<Nullable<BTreeMap<String, Nullable<String>>>>()?
                .0
            {
                Some(entries) => {
                    let entries = entries.into_iter();
                    self.metadata
                        .extend(entries.map(|(key, value)| (key, value.0.unwrap_or_default())));
                }
                None => self.metadata.clear(),
            }
            return Ok(());
        }
        if name.eq_ignore_ascii_case("timestamp") {
            self.timestamp = match values.next_value::<Nullable<String>>()?.0 {
                None => None,
                Some(text) => Some(Timestamp::parse(&text).ok_or_else(|| {
                    serde::de::Error::custom(format!("timestamp {text:?} is not RFC 3339"))
                })?),
            };
            return Ok(());
        }
        values.next_value::<IgnoredAny>().map(|_| ())
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FilledVisitor(PhantomData))
    }
}

/// Reads fields on top of those that are there.
struct OnTop(ObjectReference);

impl<'de> DeserializeSeed<'de> for OnTop {
    type Value = ObjectReference;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for OnTop {
    type Value = ObjectReference;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ObjectReference::WHAT)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(self.0)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(self.0)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            self.0.fill(&name, &mut map)?;
        }
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_in_any_case_are_read_and_the_last_one_counts() {
        let event = Event::read(
            br#"{"message":"a","Message":"b","INVOLVEDOBJECT":{"Kind":"X"},"involvedObject":{"name":"y"},
                "timestamp":"2026-01-02T05:04:05.9+02:00","unknown":[1,{"a":2}],"metadata":{"a":null}}"#,
        )
        .unwrap();
        assert_eq!(event.message, "b");
        assert_eq!(event.involved.path(), "X//y");
        assert_eq!(event.rfc3339(), "2026-01-02T03:04:05Z");
        assert_eq!(event.metadata["a"], "");
    }

    #[test]
    fn null_and_the_empty_object_are_the_empty_event() {
        assert_eq!(Event::read(b"null").unwrap(), Event::default());
        assert_eq!(Event::read(b" {} ").unwrap(), Event::default());
        assert_eq!(
            Event::default().to_json(),
            r#"{"involvedObject":{},"severity":"","timestamp":null,"message":"","reason":"","reportingController":""}"#
        );
    }

    #[test]
    fn other_shapes_are_refused() {
        for body in [
            "",
            "[1]",
            "\"x\"",
            "nope",
            "{} {}",
            r#"{"message":1}"#,
            r#"{"timestamp":"yesterday"}"#,
            r#"{"metadata":{"a":1}}"#,
            r#"{"involvedObject":[]}"#,
        ] {
            assert!(
                matches!(Event::read(body.as_bytes()), Err(Error::BadEvent(_))),
                "{body}"
            );
        }
        let large = vec![b' '; LARGEST_BODY + 1];
        assert!(matches!(Event::read(&large), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn the_group_is_that_of_a_version_with_one_slash() {
        for (version, group) in [
            ("v1", ""),
            ("a.b/v1", "a.b"),
            ("a/b/c", ""),
            ("", ""),
            ("/", ""),
        ] {
            let object = ObjectReference {
                api_version: version.to_owned(),
                ..ObjectReference::default()
            };
            assert_eq!(object.group(), group, "{version}");
        }
    }
}
