//! Types of expressions while they are checked, and the types of data that a schema declares.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of data that a schema declares.
#[derive(Debug, PartialEq)]
pub struct DeclType {
    /// What it is made of.
    pub shape: DeclShape,
    /// The most characters, items or entries a value can have; zero where that has no meaning.
    pub max_elements: u64,
    /// The fewest bytes a value takes in JSON.
    pub min_size: u64,
}

/// What declared data is made of.
#[derive(Debug, PartialEq)]
pub enum DeclShape {
    /// Anything; known only when evaluated.
    Dyn,
    /// A boolean.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Double,
    /// Text.
    String,
    /// Bytes, base64 in JSON.
    Bytes,
    /// A span of time.
    Duration,
    /// A moment or a day.
    Timestamp,
    /// A list.
    List(Arc<DeclType>),
    /// A map with text for keys.
    Map(Arc<DeclType>),
    /// An object with these fields, by their escaped names.
    Object(BTreeMap<String, Arc<DeclType>>),
}

impl DeclType {
    /// The type that expressions see; objects inside are named after the path to them.
    pub fn to_type(self: &Arc<Self>, name: &str) -> Type {
        match &self.shape {
            DeclShape::Dyn => Type::Dyn,
            DeclShape::Bool => Type::Bool,
            DeclShape::Int => Type::Int,
            DeclShape::Double => Type::Double,
            DeclShape::String => Type::String,
            DeclShape::Bytes => Type::Bytes,
            DeclShape::Duration => Type::Duration,
            DeclShape::Timestamp => Type::Timestamp,
            DeclShape::List(item) => Type::list(item.to_type(&format!("{name}.@idx"))),
            DeclShape::Map(value) => {
                Type::map(Type::String, value.to_type(&format!("{name}.@elem")))
            }
            DeclShape::Object(_) => Type::Object(ObjectType {
                name: name.into(),
                decl: Some(self.clone()),
            }),
        }
    }

    /// The declared type of items or values.
    pub(super) fn element(&self) -> Option<&Arc<DeclType>> {
        match &self.shape {
            DeclShape::List(element) | DeclShape::Map(element) => Some(element),
            _ => None,
        }
    }
}

/// The type of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Known only when evaluated.
    Dyn,
    /// That of an expression with an error in it.
    Error,
    /// `null`
    Null,
    /// A boolean.
    Bool,
    /// A signed whole number.
    Int,
    /// An unsigned whole number.
    Uint,
    /// A floating-point number.
    Double,
    /// Text.
    String,
    /// Bytes.
    Bytes,
    /// A moment.
    Timestamp,
    /// A span of time.
    Duration,
    /// A list of items of one type.
    List(Arc<Type>),
    /// A map from keys of one type to values of one type.
    Map(Arc<Type>, Arc<Type>),
    /// An object with known fields, or one of Kubernetes' own types.
    Object(ObjectType),
    /// The type of types.
    Type(Option<Arc<Type>>),
    /// A type known by its name alone, with parameters.
    Opaque(Arc<str>, Vec<Type>),
    /// A type to be found.
    Param(Arc<str>),
}

/// A named object; two are the same when their names are.
#[derive(Debug, Clone)]
pub struct ObjectType {
    /// The name.
    pub name: Arc<str>,
    /// The declared fields, where there are any.
    pub decl: Option<Arc<DeclType>>,
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl ObjectType {
    /// The type of a field.
    pub(super) fn field(&self, field: &str) -> Option<Type> {
        let DeclShape::Object(fields) = &self.decl.as_ref()?.shape else {
            return None;
        };
        let decl = fields.get(field).or_else(|| {
            // A name that is a keyword may be written as it is.
            let is_keyword = crate::escape::RESERVED.contains(&field);
            is_keyword
                .then(|| fields.get(&format!("__{field}__")))
                .flatten()
        })?;
        Some(decl.to_type(&format!("{}.{field}", self.name)))
    }
}

impl Type {
    pub(super) fn list(item: Type) -> Self {
        Type::List(Arc::new(item))
    }

    pub(super) fn map(key: Type, value: Type) -> Self {
        Type::Map(Arc::new(key), Arc::new(value))
    }

    pub(super) fn optional(inner: Type) -> Self {
        Type::Opaque("optional_type".into(), vec![inner])
    }

    /// What is inside an optional.
    pub(super) fn unwrap_optional(&self) -> Option<&Type> {
        match self {
            Type::Opaque(name, params) if &**name == "optional_type" => params.first(),
            _ => None,
        }
    }

    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// Reads the text of a type in the table of functions.
    pub(super) fn parse(text: &str) -> Self {
        if let Some((name, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            return match name {
                "list" => Type::list(Type::parse(inner)),
                "map" => {
                    let (key, value) = inner.split_once(", ").unwrap_or((inner, "dyn"));
                    Type::map(Type::parse(key), Type::parse(value))
                }
                "type" => Type::Type(Some(Arc::new(Type::parse(inner)))),
                name => Type::Opaque(name.into(), vec![Type::parse(inner)]),
            };
        }
        match text {
            "dyn" => Type::Dyn,
            "null" => Type::Null,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "timestamp" => Type::Timestamp,
            "duration" => Type::Duration,
            "type" => Type::Type(None),
            "net.IP" | "net.CIDR" => Type::Opaque(text.into(), Vec::new()),
            text if text.len() == 1 => Type::Param(text.into()),
            text => Type::Object(ObjectType {
                name: text.into(),
                decl: None,
            }),
        }
    }
}

impl fmt::Display for Type {
    /// As cel-go names types in its messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => f.write_str("dyn"),
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Uint => f.write_str("uint"),
            Type::Double => f.write_str("double"),
            Type::String => f.write_str("string"),
            Type::Bytes => f.write_str("bytes"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Duration => f.write_str("duration"),
            Type::List(item) => write!(f, "list({item})"),
            Type::Map(key, value) => write!(f, "map({key}, {value})"),
            Type::Object(object) => f.write_str(&object.name),
            Type::Type(None) => f.write_str("type"),
            Type::Type(Some(inner)) => write!(f, "type({inner})"),
            Type::Param(name) => f.write_str(name),
            Type::Opaque(name, params) if params.is_empty() => f.write_str(name),
            Type::Opaque(name, params) => {
                let params: Vec<String> = params.iter().map(Type::to_string).collect();
                write!(f, "{name}({})", params.join(", "))
            }
        }
    }
}
