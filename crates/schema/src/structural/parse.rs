//! Reads an `openAPIV3Schema` into the type model.

use everflow_json::{Map, Value};
use smol_str::SmolStr;

use crate::error::Error;
use crate::model::{
    Field, JsonType, ListKind, ListType, MapType, ObjectType, ScalarKind, Shape, Type, TypeId,
    TypeTable,
};
use crate::schema::Schema;
use crate::validation::{CelRule, Validation};

/// Nesting beyond this is refused instead of overflowing the stack.
const MAX_DEPTH: usize = 200;

/// Reads a whole schema.
pub(crate) fn parse(schema: &Value) -> Result<Schema, Error> {
    let mut parser = Parser {
        types: TypeTable::new(),
        path: Vec::new(),
    };
    let root = parser.node(schema)?;
    Ok(Schema {
        types: parser.types,
        root,
    })
}

struct Parser {
    types: TypeTable,
    path: Vec<String>,
}

impl Parser {
    fn fail<T>(&self, problem: impl Into<String>) -> Result<T, Error> {
        let path = self.path.iter().map(|step| format!(".{step}")).collect();
        Err(Error::MalformedSchema {
            path,
            problem: problem.into(),
        })
    }

    fn within<T>(
        &mut self,
        step: impl Into<String>,
        work: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.path.push(step.into());
        let result = work(self);
        self.path.pop();
        result
    }

    fn node(&mut self, schema: &Value) -> Result<TypeId, Error> {
        if self.path.len() > MAX_DEPTH {
            return self.fail(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        let Some(schema) = schema.as_object() else {
            return self.fail("must be an object");
        };
        let json_type = match self.text(schema, "type")? {
            None => None,
            Some("") => None,
            Some(text) => match JsonType::parse(text) {
                Some(known) => Some(known),
                None => {
                    return self.fail(format!(
                        "unknown type {text:?} (string, integer, number, boolean, object or array)"
                    ));
                }
            },
        };
        let mut node = Type::plain(json_type, Shape::Any);
        node.nullable = self.flag(schema, "nullable")?.unwrap_or(false);
        node.default = schema.get("default").cloned();
        node.preserve_unknown_fields = self
            .flag(schema, "x-kubernetes-preserve-unknown-fields")?
            .unwrap_or(false);
        node.embedded_resource = self
            .flag(schema, "x-kubernetes-embedded-resource")?
            .unwrap_or(false);
        node.shape = self.shape(schema, json_type)?;
        node.validation = self.validation(schema)?;
        Ok(self.types.add(node))
    }

    fn shape(&mut self, schema: &Map, json_type: Option<JsonType>) -> Result<Shape, Error> {
        if self.flag(schema, "x-kubernetes-int-or-string")? == Some(true) {
            return Ok(Shape::IntOrString);
        }
        let format = self
            .text(schema, "format")?
            .filter(|text| !text.is_empty())
            .map(SmolStr::new);
        let scalar = |scalar| {
            Ok(Shape::Scalar {
                scalar,
                format: format.clone(),
            })
        };
        match json_type {
            Some(JsonType::String) => scalar(ScalarKind::String),
            Some(JsonType::Integer) => scalar(ScalarKind::Integer),
            Some(JsonType::Number) => scalar(ScalarKind::Number),
            Some(JsonType::Boolean) => scalar(ScalarKind::Boolean),
            Some(JsonType::Object) => self.object(schema).map(Shape::Object),
            Some(JsonType::Array) => self.list(schema).map(Shape::List),
            None if ["properties", "additionalProperties", "required"]
                .iter()
                .any(|key| schema.contains_key(key)) =>
            {
                self.object(schema).map(Shape::Object)
            }
            None if schema.contains_key("items") => self.list(schema).map(Shape::List),
            None => Ok(Shape::Any),
        }
    }

    fn object(&mut self, schema: &Map) -> Result<ObjectType, Error> {
        let mut object = ObjectType {
            required: self.texts(schema, "required")?,
            ..ObjectType::default()
        };
        if let Some(properties) = self.map(schema, "properties")? {
            for (name, property) in properties {
                let type_id = self.within("properties", |parser| {
                    parser.within(name.as_str(), |parser| parser.node(property))
                })?;
                object.fields.list_mut().push(Field {
                    name: name.clone(),
                    type_id,
                    required: object.required.iter().any(|required| required == name),
                    default: property.get("default").cloned(),
                    patch: None,
                    map_type: None,
                    wire: None,
                });
            }
        }
        match schema.get("additionalProperties") {
            None | Some(Value::Null) => {}
            Some(Value::Bool(allowed)) => object.additional_allowed = Some(*allowed),
            Some(additional) => {
                object.additional =
                    Some(self.within("additionalProperties", |parser| parser.node(additional))?);
            }
        }
        match self.text(schema, "x-kubernetes-map-type")? {
            None => {}
            Some("granular") => object.map_type_declared = true,
            Some("atomic") => {
                object.map_type_declared = true;
                object.map_type = MapType::Atomic;
            }
            Some(other) => {
                return self.fail(format!(
                    "unknown x-kubernetes-map-type {other:?} (granular or atomic)"
                ));
            }
        }
        Ok(object)
    }

    fn list(&mut self, schema: &Map) -> Result<ListType, Error> {
        let item = match schema.get("items") {
            None | Some(Value::Null) => self.types.add(Type::plain(None, Shape::Any)),
            Some(items) => self.within("items", |parser| parser.node(items))?,
        };
        let declared = self.text(schema, "x-kubernetes-list-type")?;
        let kind = match declared {
            None | Some("atomic") => ListKind::Atomic,
            Some("set") => ListKind::Set,
            Some("map") => ListKind::Map {
                keys: self.texts(schema, "x-kubernetes-list-map-keys")?,
            },
            Some(other) => {
                return self.fail(format!(
                    "unknown x-kubernetes-list-type {other:?} (atomic, set or map)"
                ));
            }
        };
        Ok(ListType {
            item,
            kind,
            kind_declared: declared.is_some(),
        })
    }

    fn validation(&mut self, schema: &Map) -> Result<Option<Box<Validation>>, Error> {
        let validation = Validation {
            enum_values: self.list_of(schema, "enum")?.cloned().unwrap_or_default(),
            format: self
                .text(schema, "format")?
                .filter(|text| !text.is_empty())
                .map(SmolStr::new),
            pattern: self
                .text(schema, "pattern")?
                .filter(|text| !text.is_empty())
                .map(SmolStr::new),
            minimum: self.number(schema, "minimum")?,
            exclusive_minimum: self.flag(schema, "exclusiveMinimum")?.unwrap_or(false),
            maximum: self.number(schema, "maximum")?,
            exclusive_maximum: self.flag(schema, "exclusiveMaximum")?.unwrap_or(false),
            multiple_of: self.number(schema, "multipleOf")?,
            min_length: self.integer(schema, "minLength")?,
            max_length: self.integer(schema, "maxLength")?,
            min_items: self.integer(schema, "minItems")?,
            max_items: self.integer(schema, "maxItems")?,
            unique_items: self.flag(schema, "uniqueItems")?.unwrap_or(false),
            min_properties: self.integer(schema, "minProperties")?,
            max_properties: self.integer(schema, "maxProperties")?,
            all_of: self.nodes(schema, "allOf")?,
            any_of: self.nodes(schema, "anyOf")?,
            one_of: self.nodes(schema, "oneOf")?,
            not: match schema.get("not") {
                None | Some(Value::Null) => None,
                Some(not) => Some(self.within("not", |parser| parser.node(not))?),
            },
            rules: self.rules(schema)?,
        };
        Ok((validation != Validation::default()).then(|| Box::new(validation)))
    }

    fn nodes(&mut self, schema: &Map, key: &str) -> Result<Vec<TypeId>, Error> {
        let Some(list) = self.list_of(schema, key)? else {
            return Ok(Vec::new());
        };
        let mut nodes = Vec::with_capacity(list.len());
        for (at, entry) in list.iter().enumerate() {
            nodes.push(self.within(format!("{key}[{at}]"), |parser| parser.node(entry))?);
        }
        Ok(nodes)
    }

    fn rules(&mut self, schema: &Map) -> Result<Vec<CelRule>, Error> {
        const KEY: &str = "x-kubernetes-validations";
        let Some(list) = self.list_of(schema, KEY)? else {
            return Ok(Vec::new());
        };
        let mut rules = Vec::with_capacity(list.len());
        for (at, entry) in list.iter().enumerate() {
            rules.push(self.within(format!("{KEY}[{at}]"), |parser| parser.rule(entry))?);
        }
        Ok(rules)
    }

    fn rule(&mut self, entry: &Value) -> Result<CelRule, Error> {
        let Some(entry) = entry.as_object() else {
            return self.fail("must be an object");
        };
        let text = |key| Ok::<_, Error>(self.text(entry, key)?.map(SmolStr::new));
        Ok(CelRule {
            rule: text("rule")?.unwrap_or_default(),
            message: text("message")?,
            message_expression: text("messageExpression")?,
            reason: text("reason")?,
            field_path: text("fieldPath")?,
            optional_old_self: self.flag(entry, "optionalOldSelf")?,
        })
    }

    fn text<'v>(&self, schema: &'v Map, key: &str) -> Result<Option<&'v str>, Error> {
        match schema.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => self.fail(format!("{key} must be a string")),
        }
    }

    fn texts(&self, schema: &Map, key: &str) -> Result<Vec<SmolStr>, Error> {
        let Some(list) = self.list_of(schema, key)? else {
            return Ok(Vec::new());
        };
        let texts: Option<Vec<SmolStr>> = list
            .iter()
            .map(|entry| entry.as_str().map(SmolStr::new))
            .collect();
        match texts {
            Some(texts) => Ok(texts),
            None => self.fail(format!("{key} must be a list of strings")),
        }
    }

    fn flag(&self, schema: &Map, key: &str) -> Result<Option<bool>, Error> {
        match schema.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(_) => self.fail(format!("{key} must be a boolean")),
        }
    }

    fn number(&self, schema: &Map, key: &str) -> Result<Option<Value>, Error> {
        match schema.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(number @ Value::Number(_)) => Ok(Some(number.clone())),
            Some(_) => self.fail(format!("{key} must be a number")),
        }
    }

    fn integer(&self, schema: &Map, key: &str) -> Result<Option<i64>, Error> {
        let Some(number) = self.number(schema, key)? else {
            return Ok(None);
        };
        let whole = number
            .as_f64()
            .filter(|value| value.fract() == 0.0)
            .map(|value| value as i64);
        match number.as_i64().or(whole) {
            Some(integer) => Ok(Some(integer)),
            None => self.fail(format!("{key} must be an integer")),
        }
    }

    fn list_of<'v>(&self, schema: &'v Map, key: &str) -> Result<Option<&'v Vec<Value>>, Error> {
        match schema.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(_) => self.fail(format!("{key} must be a list")),
        }
    }

    fn map<'v>(&self, schema: &'v Map, key: &str) -> Result<Option<&'v Map>, Error> {
        match schema.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(_) => self.fail(format!("{key} must be an object")),
        }
    }
}
