//! What is in a value.

use std::ops;

use crate::{Map, Number, Text, Value};

static NULL: Value = Value::Null;

mod sealed {
    pub trait Sealed {}
    impl Sealed for usize {}
    impl Sealed for str {}
    impl Sealed for String {}
    impl Sealed for crate::Text {}
    impl<T: Sealed + ?Sized> Sealed for &T {}
}

/// A key of a map, or a place in a list.
pub trait Index: sealed::Sealed {
    /// What is there.
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value>;
    /// What is there, to be changed.
    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value>;
    /// What is there; a key that is not there yet is added.
    fn of_or_add<'v>(&self, value: &'v mut Value) -> &'v mut Value;
}

impl Index for usize {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_array()?.get(*self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_array_mut()?.get_mut(*self)
    }

    fn of_or_add<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        match value {
            Value::Array(items) => &mut items[*self],
            other => panic!("there is no item {self} in {}", other.type_name()),
        }
    }
}

impl Index for str {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        value.as_object()?.get(self)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        value.as_object_mut()?.get_mut(self)
    }

    fn of_or_add<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        match value {
            Value::Object(map) => map.entry(self).or_insert(Value::Null),
            other => panic!("there is no field {self:?} in {}", other.type_name()),
        }
    }
}

macro_rules! index_like {
    ($($ty:ty => $to:ty),*) => {$(
        impl Index for $ty {
            fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
                <$to as Index>::of(self, value)
            }

            fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
                <$to as Index>::of_mut(self, value)
            }

            fn of_or_add<'v>(&self, value: &'v mut Value) -> &'v mut Value {
                <$to as Index>::of_or_add(self, value)
            }
        }
    )*};
}
index_like!(String => str, Text => str);

impl<T: Index + ?Sized> Index for &T {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        T::of(self, value)
    }

    fn of_mut<'v>(&self, value: &'v mut Value) -> Option<&'v mut Value> {
        T::of_mut(self, value)
    }

    fn of_or_add<'v>(&self, value: &'v mut Value) -> &'v mut Value {
        T::of_or_add(self, value)
    }
}

/// What is not there reads as null.
impl<I: Index> ops::Index<I> for Value {
    type Output = Value;

    fn index(&self, index: I) -> &Value {
        index.of(self).unwrap_or(&NULL)
    }
}

/// A key that is not there yet is added.
impl<I: Index> ops::IndexMut<I> for Value {
    fn index_mut(&mut self, index: I) -> &mut Value {
        index.of_or_add(self)
    }
}

impl Value {
    /// What a key of a map or a place in a list holds.
    pub fn get<I: Index>(&self, index: I) -> Option<&Value> {
        index.of(self)
    }

    /// What a key of a map or a place in a list holds, to be changed.
    pub fn get_mut<I: Index>(&mut self, index: I) -> Option<&mut Value> {
        index.of_mut(self)
    }

    fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "a map",
        }
    }

    /// The value, which is null from now on.
    #[must_use]
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Whether it is a boolean.
    pub fn is_boolean(&self) -> bool {
        matches!(self, Value::Bool(_))
    }

    /// Whether it is a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Value::Number(_))
    }

    /// Whether it is text.
    pub fn is_string(&self) -> bool {
        matches!(self, Value::String(_))
    }

    /// Whether it is a list.
    pub fn is_array(&self) -> bool {
        matches!(self, Value::Array(_))
    }

    /// Whether it is a map.
    pub fn is_object(&self) -> bool {
        matches!(self, Value::Object(_))
    }

    /// Whether it is a whole number that fits.
    pub fn is_i64(&self) -> bool {
        matches!(self, Value::Number(number) if number.is_i64())
    }

    /// Whether it is a whole number that fits and is not negative.
    pub fn is_u64(&self) -> bool {
        matches!(self, Value::Number(number) if number.is_u64())
    }

    /// Whether it is a number with a point.
    pub fn is_f64(&self) -> bool {
        matches!(self, Value::Number(number) if number.is_f64())
    }

    /// The boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The number.
    pub fn as_number(&self) -> Option<&Number> {
        match self {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The whole number, if it fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number()?.as_i64()
    }

    /// The whole number, if it fits and is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_number()?.as_u64()
    }

    /// The number as near as can be.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number()?.as_f64()
    }

    /// The text.
    pub fn as_str(&self) -> Option<&str> {
        self.as_text().map(Text::as_str)
    }

    /// The text, which is cheap to copy.
    pub fn as_text(&self) -> Option<&Text> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The list.
    pub fn as_array(&self) -> Option<&Vec<Value>> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The list, to be changed.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The map.
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Value::Object(map) => Some(map),
            _ => None,
        }
    }

    /// The map, to be changed.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Value::Object(map) => Some(map),
            _ => None,
        }
    }

    /// What a JSON pointer (RFC 6901) points at.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        let mut at = self;
        for token in tokens(pointer)? {
            at = match at {
                Value::Object(map) => map.get(&unescaped(token))?,
                Value::Array(items) => items.get(place(token)?)?,
                _ => return None,
            };
        }
        Some(at)
    }

    /// What a JSON pointer (RFC 6901) points at, to be changed.
    pub fn pointer_mut(&mut self, pointer: &str) -> Option<&mut Value> {
        let mut at = self;
        for token in tokens(pointer)? {
            at = match at {
                Value::Object(map) => map.get_mut(&unescaped(token))?,
                Value::Array(items) => items.get_mut(place(token)?)?,
                _ => return None,
            };
        }
        Some(at)
    }
}

/// The steps of a pointer; the empty one has none, and any other begins with a slash. Pointers are short: looking at one
/// byte after the other finds the slashes sooner than a search that is made for long texts.
fn tokens(pointer: &str) -> Option<impl Iterator<Item = &str>> {
    let mut rest = match pointer.strip_prefix('/') {
        None if !pointer.is_empty() => return None,
        rest => rest,
    };
    Some(std::iter::from_fn(move || {
        let text = rest?;
        let slash = text.bytes().position(|byte| byte == b'/');
        let (token, after) = match slash.and_then(|at| text.split_at_checked(at)) {
            Some((token, after)) => (token, after.get(1..)),
            None => (text, None),
        };
        rest = after;
        Some(token)
    }))
}

fn unescaped(token: &str) -> std::borrow::Cow<'_, str> {
    match token.bytes().any(|byte| byte == b'~') {
        true => token.replace("~1", "/").replace("~0", "~").into(),
        false => token.into(),
    }
}

/// A place in a list, which has no sign and no zeros in front.
fn place(token: &str) -> Option<usize> {
    if token.starts_with('+') || (token.starts_with('0') && token.len() > 1) {
        return None;
    }
    token.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::{Value, json};

    #[test]
    fn pointers_lead_to_what_they_name() {
        let mut value = json!({"a/b": {"m~n": [1, {"x": "y"}]}, "": 5});
        assert_eq!(value.pointer("/a~1b/m~0n/1/x"), Some(&json!("y")));
        assert_eq!(value.pointer("/"), Some(&json!(5)));
        assert_eq!(value.pointer(""), Some(&value));
        for wrong in ["a", "/a~1b/m~0n/01", "/a~1b/m~0n/2", "/none/x"] {
            assert_eq!(value.pointer(wrong), None, "{wrong}");
        }
        *value.pointer_mut("/a~1b/m~0n/0").unwrap() = Value::Null;
        assert_eq!(value["a/b"]["m~n"][0], Value::Null);
    }

    #[test]
    fn missing_member_reads_as_null_and_is_created_by_assignment() {
        let mut value = Value::Null;
        assert_eq!(value["a"]["b"][3], Value::Null);
        value["a"]["b"] = 1.into();
        assert_eq!(value, json!({"a": {"b": 1}}));
        assert_eq!(value["a"].take(), json!({"b": 1}));
        assert_eq!(value, json!({"a": null}));
    }
}
