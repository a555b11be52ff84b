//! Serialises JSON values as text inside formats that do not describe themselves.

use everflow_json::Value;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

pub(crate) fn serialize<S: Serializer>(
    value: &Option<Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(Value::to_string).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Value>, D::Error> {
    Option::<String>::deserialize(deserializer)?
        .map(|text| everflow_json::from_str(&text).map_err(D::Error::custom))
        .transpose()
}

/// The same for lists of values.
pub(crate) mod list {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        values: &[Value],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        values
            .iter()
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Value>, D::Error> {
        Vec::<String>::deserialize(deserializer)?
            .into_iter()
            .map(|text| everflow_json::from_str(&text).map_err(D::Error::custom))
            .collect()
    }
}
