//! The keywords of a schema, sorted out once, so that holding a value against it need not search for
//! each of them by name.

use everflow_json::Value;

macro_rules! keywords {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// A keyword that has a meaning here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Keyword {
            $($name),*
        }

        const COUNT: usize = [$(Keyword::$name),*].len();

        impl Keyword {
            fn named(name: &str) -> Option<Keyword> {
                Some(match name {
                    $($text => Keyword::$name,)*
                    _ => return None,
                })
            }

            /// How it is written.
            pub(super) fn text(self) -> &'static str {
                match self {
                    $(Keyword::$name => $text),*
                }
            }
        }
    };
}

keywords! {
    AdditionalItems = "additionalItems",
    AdditionalProperties = "additionalProperties",
    AllOf = "allOf",
    AnyOf = "anyOf",
    Const = "const",
    Contains = "contains",
    Dependencies = "dependencies",
    DependentRequired = "dependentRequired",
    DependentSchemas = "dependentSchemas",
    DynamicRef = "$dynamicRef",
    Else = "else",
    Enum = "enum",
    ExclusiveMaximum = "exclusiveMaximum",
    ExclusiveMinimum = "exclusiveMinimum",
    Format = "format",
    Id = "$id",
    IdOfDraft4 = "id",
    If = "if",
    Items = "items",
    MaxContains = "maxContains",
    MaxItems = "maxItems",
    MaxLength = "maxLength",
    MaxProperties = "maxProperties",
    Maximum = "maximum",
    MinContains = "minContains",
    MinItems = "minItems",
    MinLength = "minLength",
    MinProperties = "minProperties",
    Minimum = "minimum",
    MultipleOf = "multipleOf",
    Not = "not",
    OneOf = "oneOf",
    Pattern = "pattern",
    PatternProperties = "patternProperties",
    PrefixItems = "prefixItems",
    Properties = "properties",
    PropertyNames = "propertyNames",
    RecursiveRef = "$recursiveRef",
    Ref = "$ref",
    Required = "required",
    Then = "then",
    Type = "type",
    UnevaluatedItems = "unevaluatedItems",
    UnevaluatedProperties = "unevaluatedProperties",
    UniqueItems = "uniqueItems",
}

/// The keywords of one schema.
#[derive(Clone, Copy)]
pub(super) struct Keywords<'d> {
    values: [Option<&'d Value>; COUNT],
    /// How many entries the schema has.
    pub(super) entries: usize,
}

impl<'d> Keywords<'d> {
    pub(super) fn of(schema: &'d Value) -> Self {
        let mut values = [None; COUNT];
        let mut count = 0;
        if let Value::Object(entries) = schema {
            count = entries.len();
            for (name, value) in entries {
                if let Some(keyword) = Keyword::named(name) {
                    values[keyword as usize] = Some(value);
                }
            }
        }
        Keywords {
            values,
            entries: count,
        }
    }

    pub(super) fn get(&self, keyword: Keyword) -> Option<&'d Value> {
        self.values[keyword as usize]
    }
}
