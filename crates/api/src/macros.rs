//! Declarations from which both the Rust type and the description of it follow.

use crate::describe::Rule;

/// Whether a field must be there: its type says so, or a rule.
pub(crate) const fn is_required(by_type: bool, rules: &[Rule]) -> bool {
    let mut index = 0;
    while index < rules.len() {
        if matches!(rules[index], Rule::Required) {
            return true;
        }
        index += 1;
    }
    by_type
}

/// Declares a record: a struct whose fields, their names on the wire, rules and texts are given
/// once.
///
/// ```text
/// record! {
///     /// What it is.
///     [Check { rule: "...", message: "..." }]
///     pub struct Name {
///         /// What the field is.
///         field "nameOnTheWire": Type [Pattern("..."), MaxLength(5)],
///     }
/// }
/// ```
macro_rules! record {
    (
        $(#[doc = $doc:literal])+
        $([$($rule:expr),* $(,)?])?
        pub struct $name:ident {
            $(
                $(#[doc = $field_doc:literal])+
                $field:ident $key:literal: $type:ty $([$($field_rule:expr),* $(,)?])?,
            )*
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $name {
            $(
                $(#[doc = $field_doc])+
                pub $field: $type,
            )*
            /// Fields that are not known, and known ones in another spelling.
            pub extra: $crate::wire::Extra,
        }

        impl $name {
            /// The description of the record.
            pub const RECORD: &'static $crate::describe::Record = {
                #[allow(unused_imports)]
                use $crate::describe::Rule::*;
                // One table for all uses of the constant.
                static TABLE: $crate::describe::Record = $crate::describe::Record {
                    name: stringify!($name),
                    doc: concat!($($doc),+),
                    rules: &[$($($rule),*)?],
                    fields: &[$(
                        $crate::describe::Field {
                            name: $key,
                            doc: concat!($($field_doc),+),
                            shape: <$type as $crate::wire::Wire>::SHAPE,
                            required: $crate::macros::is_required(
                                <$type as $crate::wire::Wire>::REQUIRED,
                                &[$($($field_rule),*)?],
                            ),
                            rules: &[$($($field_rule),*)?],
                        },
                    )*],
                };
                &TABLE
            };
        }

        impl $crate::wire::Wire for $name {
            const SHAPE: $crate::describe::Shape = $crate::describe::Shape::Record(Self::RECORD);

            fn read(
                value: &everflow_json::Value,
                at: &$crate::error::At<'_>,
            ) -> Result<Self, $crate::error::FieldError> {
                let map = $crate::wire::object(value, at)?;
                let extra = $crate::wire::take_unknown(map, Self::RECORD);
                #[allow(unused_mut, clippy::needless_update)]
                let mut record = Self {
                    extra,
                    ..Self::default()
                };
                #[allow(unused_mut, unused_variables)]
                let mut fields = Self::RECORD.fields.iter();
                $($crate::wire::take(
                    map,
                    $crate::describe::following(&mut fields),
                    at,
                    &mut record.$field,
                    &mut record.extra,
                )?;)*
                Ok(record)
            }

            #[allow(unused_mut, unused_variables)]
            fn write(&self, exact: bool) -> Option<everflow_json::Value> {
                let mut map = match exact {
                    true => self.extra.clone(),
                    false => $crate::wire::Extra::new(),
                };
                let mut fields = Self::RECORD.fields.iter();
                $($crate::wire::put(
                    &mut map,
                    $crate::describe::following(&mut fields),
                    &self.$field,
                    exact,
                );)*
                Some(everflow_json::Value::Object(map))
            }
        }
    };
}

/// Declares an enum of texts; the first is the default.
macro_rules! choice {
    (
        $(#[doc = $doc:literal])+
        pub enum $name:ident {
            $(#[doc = $first_doc:literal])+
            $first:ident = $first_text:literal,
            $(
                $(#[doc = $variant_doc:literal])+
                $variant:ident = $text:literal,
            )*
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub enum $name {
            $(#[doc = $first_doc])+
            #[default]
            $first,
            $(
                $(#[doc = $variant_doc])+
                $variant,
            )*
        }

        impl $name {
            /// The texts on the wire, in order.
            pub const TEXTS: &'static [&'static str] = &[$first_text, $($text),*];

            /// The text on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    Self::$first => $first_text,
                    $(Self::$variant => $text,)*
                }
            }

            /// The one with this text.
            pub fn from_text(text: &str) -> Option<Self> {
                match text {
                    $first_text => Some(Self::$first),
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::wire::Wire for $name {
            const SHAPE: $crate::describe::Shape = $crate::describe::Shape::Choice(Self::TEXTS);

            fn read(
                value: &everflow_json::Value,
                at: &$crate::error::At<'_>,
            ) -> Result<Self, $crate::error::FieldError> {
                let read = value.as_str().and_then(Self::from_text);
                read.ok_or_else(|| $crate::wire::not_among(value, at, Self::TEXTS))
            }

            fn write(&self, _: bool) -> Option<everflow_json::Value> {
                Some(everflow_json::Value::from(self.as_str()))
            }
        }
    };
}

/// Declares a kind: a type without values that names it, its spec and its status.
macro_rules! kind {
    (
        $(#[doc = $doc:literal])+
        $name:ident in $group:path {
            version: $version:literal,
            plural: $plural:literal,
            singular: $singular:literal,
            short_names: $short_names:expr,
            categories: $categories:expr,
            columns: $columns:expr,
            spec: $spec:ty,
            status: $status:ty, $status_record:expr, $status_default:literal,
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {}

        impl $crate::object::Kind for $name {
            const INFO: &'static $crate::describe::KindInfo = {
                static TABLE: $crate::describe::KindInfo = $crate::describe::KindInfo {
                group: $group,
                version: $version,
                kind: stringify!($name),
                plural: $plural,
                singular: $singular,
                short_names: &$short_names,
                categories: &$categories,
                columns: &$columns,
                doc: concat!($($doc),+),
                spec: <$spec>::RECORD,
                status: $status_record,
                status_default: $status_default,
                };
                &TABLE
            };
            type Spec = $spec;
            type Status = $status;
        }
    };
}
