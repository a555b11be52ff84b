//! Values written as JSON.

/// A value written as JSON, with expressions for values and, in parentheses or not, for keys.
#[macro_export]
macro_rules! json {
    (null) => { $crate::Value::Null };
    ([]) => { $crate::Value::Array(::std::vec::Vec::new()) };
    ([ $($items:tt)+ ]) => { $crate::Value::Array($crate::json_items!([] $($items)+)) };
    ({}) => { $crate::Value::Object($crate::Map::new()) };
    ({ $($entries:tt)+ }) => {{
        let mut map = $crate::Map::new();
        $crate::json_entries!(map () ($($entries)+));
        $crate::Value::Object(map)
    }};
    ($value:expr) => {{
        #[allow(unused_imports)]
        use $crate::written::{Other as _, Tree as _};
        (&&$crate::written::Written(&$value)).to_tree()
    }};
}

/// What is written between JSON: of what is a tree already a copy is made, which costs a third of describing it anew. Which
/// of the two it is, is decided by its type: methods for references come before those for what they lead to.
#[doc(hidden)]
pub mod written {
    use serde::Serialize;

    use crate::Value;

    /// An expression.
    #[derive(Debug)]
    pub struct Written<'a, T: ?Sized>(pub &'a T);

    /// An expression that is a tree.
    pub trait Tree {
        /// The tree.
        fn to_tree(&self) -> Value;
    }

    impl Tree for &Written<'_, Value> {
        fn to_tree(&self) -> Value {
            self.0.clone()
        }
    }

    impl Tree for &Written<'_, &Value> {
        fn to_tree(&self) -> Value {
            (*self.0).clone()
        }
    }

    /// Any other expression.
    pub trait Other {
        /// Its tree.
        fn to_tree(&self) -> Value;
    }

    impl<T: Serialize + ?Sized> Other for Written<'_, T> {
        fn to_tree(&self) -> Value {
            crate::value_of(self.0)
        }
    }
}

/// The items of a list: in brackets those that are done, behind them the rest.
#[doc(hidden)]
#[macro_export]
macro_rules! json_items {
    ([$($done:expr),*]) => { ::std::vec![$($done),*] };
    ([$($done:expr),*] null $(, $($rest:tt)*)?) => {
        $crate::json_items!([$($done,)* $crate::json!(null)] $($($rest)*)?)
    };
    ([$($done:expr),*] [ $($items:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::json_items!([$($done,)* $crate::json!([ $($items)* ])] $($($rest)*)?)
    };
    ([$($done:expr),*] { $($entries:tt)* } $(, $($rest:tt)*)?) => {
        $crate::json_items!([$($done,)* $crate::json!({ $($entries)* })] $($($rest)*)?)
    };
    ([$($done:expr),*] $item:expr $(, $($rest:tt)*)?) => {
        $crate::json_items!([$($done,)* $crate::json!($item)] $($($rest)*)?)
    };
}

/// The entries of a map: in the first parentheses what was read of a key, in the second the rest.
#[doc(hidden)]
#[macro_export]
macro_rules! json_entries {
    ($map:ident () ()) => {};
    ($map:ident ($($key:tt)+) (: null $(, $($rest:tt)*)?)) => {
        $map.insert(($($key)+).into(), $crate::json!(null));
        $crate::json_entries!($map () ($($($rest)*)?));
    };
    ($map:ident ($($key:tt)+) (: [ $($items:tt)* ] $(, $($rest:tt)*)?)) => {
        $map.insert(($($key)+).into(), $crate::json!([ $($items)* ]));
        $crate::json_entries!($map () ($($($rest)*)?));
    };
    ($map:ident ($($key:tt)+) (: { $($entries:tt)* } $(, $($rest:tt)*)?)) => {
        $map.insert(($($key)+).into(), $crate::json!({ $($entries)* }));
        $crate::json_entries!($map () ($($($rest)*)?));
    };
    ($map:ident ($($key:tt)+) (: $value:expr, $($rest:tt)*)) => {
        $map.insert(($($key)+).into(), $crate::json!($value));
        $crate::json_entries!($map () ($($rest)*));
    };
    ($map:ident ($($key:tt)+) (: $value:expr)) => {
        $map.insert(($($key)+).into(), $crate::json!($value));
    };
    ($map:ident ($($key:tt)*) ($next:tt $($rest:tt)*)) => {
        $crate::json_entries!($map ($($key)* $next) ($($rest)*));
    };
}

#[cfg(test)]
mod tests {
    use crate::{Map, Value};

    #[test]
    fn written_value_reads_back_equal() {
        let (name, list) = ("n", vec![1, 2]);
        let none: Option<&str> = None;
        let value = json!({
            "a": [null, [], {}, {"b": -1.5}, name, list, 1 + 1,],
            name: {"deep": [[true]]},
            ("x".to_owned() + "y"): none,
            "call": format!("{name}!"),
            "block": if list.is_empty() { 1 } else { 2 },
            "nested": json!({"v": name}),
            "tree": &Value::from(7),
        });
        let text = r#"{"a":[null,[],{},{"b":-1.5},"n",[1,2],2],"block":2,"call":"n!","n":{"deep":[[true]]},"nested":{"v":"n"},"tree":7,"xy":null}"#;
        assert_eq!(value.to_string(), text);
        assert_eq!(json!({}), Value::Object(Map::new()));
        assert_eq!(json!(null), Value::Null);
        assert_eq!(json!([1]), Value::Array(vec![1.into()]));
    }
}
