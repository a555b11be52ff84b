//! What a kind is made of, as constant data: the one description from which both the definition
//! of the kind for the API server and the reading and writing of its objects follow.

/// What a value is.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// A text.
    Text,
    /// A moment, written as RFC 3339.
    Moment,
    /// A boolean.
    Flag,
    /// A whole number.
    Number,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// Anything at all.
    Any,
    /// An object whose inside is not described (metadata).
    Opaque,
    /// A list of such values.
    List(&'static Shape),
    /// An object with free keys and such values.
    Map(&'static Shape),
    /// An object with known fields.
    Record(&'static Record),
}

/// An object with known fields.
#[derive(Debug)]
pub struct Record {
    /// The name of the type.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// What holds for the whole of it.
    pub rules: &'static [Rule],
    /// Its fields, in the order in which Flux declares them.
    pub fields: &'static [Field],
}

/// The next field of a record. The code that reads and writes records goes through their fields in
/// the order of the table, for both come from one declaration.
pub(crate) fn following(fields: &mut std::slice::Iter<'static, Field>) -> &'static Field {
    static NONE: Field = Field {
        name: "",
        doc: "",
        shape: Shape::Any,
        required: false,
        rules: &[],
    };
    fields.next().unwrap_or(&NONE)
}

impl Field {
    /// Whether it must be there although its type has a zero for one that is not.
    pub(crate) fn is_required_zero(&self) -> bool {
        let has_zero = matches!(
            self.shape,
            Shape::Flag | Shape::Number | Shape::List(_) | Shape::Map(_)
        );
        self.required && has_zero
    }
}

/// A field of a [`Record`].
#[derive(Debug)]
pub struct Field {
    /// The name on the wire.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// What its value is.
    pub shape: Shape,
    /// Whether it must be there.
    pub required: bool,
    /// What else holds for its value.
    pub rules: &'static [Rule],
}

/// What holds for a value beyond its shape.
#[derive(Debug, Clone, Copy)]
pub enum Rule {
    /// A text matches this expression.
    Pattern(&'static str),
    /// A text has at least so many characters.
    MinLength(u32),
    /// A text has at most so many characters.
    MaxLength(u32),
    /// A number is at least this.
    Minimum(i64),
    /// A list has at least so many items.
    MinItems(u32),
    /// The format of a text or number by OpenAPI.
    Format(&'static str),
    /// The value when there is none, as JSON text.
    Default(&'static str),
    /// It must be there although it has a default.
    Required,
    /// A list is a map by these fields of its items.
    ListMap(&'static [&'static str]),
    /// A rule in CEL and what is said when it does not hold.
    Check {
        /// The expression.
        rule: &'static str,
        /// What is said when it is false.
        message: &'static str,
    },
}

/// A column in the tables of `kubectl get`.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// `string` or `date`.
    pub kind: &'static str,
    /// Where the cell comes from.
    pub path: &'static str,
}

/// A kind and its version.
#[derive(Debug)]
pub struct KindInfo {
    /// The API group.
    pub group: &'static str,
    /// The served and stored version.
    pub version: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    /// The name of one, in lower case.
    pub singular: &'static str,
    /// What `kubectl` takes as well.
    pub short_names: &'static [&'static str],
    /// The groups of kinds it is listed with.
    pub categories: &'static [&'static str],
    /// The columns of its tables.
    pub columns: &'static [Column],
    /// What it is.
    pub doc: &'static str,
    /// What is asked for.
    pub spec: &'static Record,
    /// What has been observed, where the kind has a status.
    pub status: Option<&'static Record>,
    /// Whether the server writes `observedGeneration: -1` into the status of a new object.
    pub status_default: bool,
}

impl KindInfo {
    /// `GROUP/VERSION`.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Whether an object says of itself that it is of this kind and version.
    pub fn is_kind_of(&self, object: &everflow_json::Value) -> bool {
        let text = |name: &str| object.get(name).and_then(everflow_json::Value::as_str);
        text("kind") == Some(self.kind)
            && text("apiVersion").and_then(|version| version.split_once('/'))
                == Some((self.group, self.version))
    }

    /// The path of the collection in a namespace, or of all namespaces.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let Self {
            group,
            version,
            plural,
            ..
        } = self;
        match namespace {
            Some(namespace) => format!("/apis/{group}/{version}/namespaces/{namespace}/{plural}"),
            None => format!("/apis/{group}/{version}/{plural}"),
        }
    }
}
