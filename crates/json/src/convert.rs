//! Values from other things, and compared with them.

use std::borrow::Cow;

use crate::{Map, Number, Text, Value};

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Value::Bool(flag)
    }
}

impl From<Number> for Value {
    fn from(number: Number) -> Self {
        Value::Number(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Number::from_f64(number).map_or(Value::Null, Value::Number)
    }
}

impl From<Text> for Value {
    fn from(text: Text) -> Self {
        Value::String(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::String(text.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::String(text.into())
    }
}

impl From<Cow<'_, str>> for Value {
    fn from(text: Cow<'_, str>) -> Self {
        Value::String(Text::from(text))
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Value::Object(map)
    }
}

impl From<()> for Value {
    fn from((): ()) -> Self {
        Value::Null
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Into<Value>, const N: usize> From<[T; N]> for Value {
    fn from(items: [T; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Clone + Into<Value>> From<&[T]> for Value {
    fn from(items: &[T]) -> Self {
        items.iter().cloned().collect()
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Value::Array(items.into_iter().map(Into::into).collect())
    }
}

impl<K: Into<Text>, V: Into<Value>> FromIterator<(K, V)> for Value {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let entries = entries.into_iter();
        Value::Object(
            entries
                .map(|(key, value)| (key, value.into()))
                .collect::<Map>(),
        )
    }
}

macro_rules! whole_numbers {
    ($($ty:ident $as:ident),*) => {$(
        impl From<$ty> for Value {
            fn from(number: $ty) -> Self {
                Value::Number(number.into())
            }
        }

        impl PartialEq<$ty> for Value {
            fn eq(&self, other: &$ty) -> bool {
                self.$as().is_some_and(|number| <$ty>::try_from(number) == Ok(*other))
            }
        }

        impl PartialEq<$ty> for &Value {
            fn eq(&self, other: &$ty) -> bool {
                **self == *other
            }
        }

        impl PartialEq<$ty> for &mut Value {
            fn eq(&self, other: &$ty) -> bool {
                **self == *other
            }
        }

        impl PartialEq<Value> for $ty {
            fn eq(&self, other: &Value) -> bool {
                *other == *self
            }
        }
    )*};
}
whole_numbers!(i8 as_i64, i16 as_i64, i32 as_i64, i64 as_i64, isize as_i64);
whole_numbers!(u8 as_u64, u16 as_u64, u32 as_u64, u64 as_u64, usize as_u64);

macro_rules! same_as {
    ($($ty:ty => $as:ident $deref:tt),*) => {$(
        impl PartialEq<$ty> for Value {
            fn eq(&self, other: &$ty) -> bool {
                self.$as().is_some_and(|value| value == same_as!($deref other))
            }
        }

        impl PartialEq<Value> for $ty {
            fn eq(&self, other: &Value) -> bool {
                other == self
            }
        }
    )*};
    (copy $other:ident) => { *$other };
    (text $other:ident) => { &**$other };
}
same_as!(bool => as_bool copy, f64 => as_f64 copy, String => as_str text, Text => as_str text);

impl PartialEq<str> for Value {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl PartialEq<Value> for str {
    fn eq(&self, other: &Value) -> bool {
        other == self
    }
}

impl PartialEq<Value> for &str {
    fn eq(&self, other: &Value) -> bool {
        other == *self
    }
}

impl PartialEq<bool> for &Value {
    fn eq(&self, other: &bool) -> bool {
        **self == *other
    }
}

#[cfg(test)]
mod tests {
    use crate::{Value, json};

    #[test]
    fn values_compare_with_what_they_were_made_from() {
        assert_eq!(json!(3), 3);
        assert_eq!(json!(-3), -3_i64);
        assert_ne!(json!(3.5), 3);
        assert_eq!(json!("a"), "a");
        assert_eq!("a", json!("a"));
        assert_eq!(json!(true), true);
        assert_eq!(Value::from(vec!["a", "b"]), json!(["a", "b"]));
        assert_eq!(Value::from(None::<&str>), Value::Null);
        let map: Value = [("b", 1), ("a", 2)].into_iter().collect();
        assert_eq!(map.to_string(), r#"{"a":2,"b":1}"#);
        assert_eq!(format!("{map:#}"), "{\n  \"a\": 2,\n  \"b\": 1\n}");
    }
}
