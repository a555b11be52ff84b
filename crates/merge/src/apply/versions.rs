//! The versions of a kind: their schemas, and conversion between them.

use everflow_json::{Value, json};
use everflow_schema::SchemaView;

/// What the field manager has to know about the versions of a kind.
pub trait Versions {
    /// The schema of the kind in an API version (`apps/v1`); none when the version is not served.
    fn schema(&self, api_version: &str) -> Option<SchemaView<'_>>;

    /// Converts an object into another version of the kind that [`Versions::schema`] knows.
    ///
    /// # Errors
    /// The reason, when the object cannot be converted.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;
}

/// A kind with one version only.
#[derive(Debug, Clone, Copy)]
pub struct SingleVersion<'s> {
    api_version: &'s str,
    schema: SchemaView<'s>,
}

impl<'s> SingleVersion<'s> {
    /// The kind in the version `api_version`.
    #[must_use]
    pub fn new(api_version: &'s str, schema: SchemaView<'s>) -> Self {
        Self {
            api_version,
            schema,
        }
    }
}

impl Versions for SingleVersion<'_> {
    fn schema(&self, api_version: &str) -> Option<SchemaView<'_>> {
        (api_version == self.api_version).then_some(self.schema)
    }

    fn convert(&self, object: &Value, _api_version: &str) -> Result<Value, String> {
        Ok(object.clone())
    }
}

/// Versions that differ in `apiVersion` alone, as custom resources with conversion strategy None.
#[derive(Debug, Clone, Default)]
pub struct SameContent<'s> {
    schemas: Vec<(&'s str, SchemaView<'s>)>,
}

impl<'s> SameContent<'s> {
    /// The kind with these versions.
    #[must_use]
    pub fn new(schemas: Vec<(&'s str, SchemaView<'s>)>) -> Self {
        Self { schemas }
    }
}

impl Versions for SameContent<'_> {
    fn schema(&self, api_version: &str) -> Option<SchemaView<'_>> {
        self.schemas
            .iter()
            .find(|(version, _)| *version == api_version)
            .map(|(_, schema)| *schema)
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String> {
        let mut converted = object.clone();
        if let Some(fields) = converted.as_object_mut() {
            fields.insert("apiVersion".into(), json!(api_version));
        }
        Ok(converted)
    }
}
