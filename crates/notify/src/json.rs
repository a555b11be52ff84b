//! JSON as Go's `json.Marshal` prints structs: fields in the order of their declaration, maps sorted, `<`, `>`
//! and `&` escaped. Receivers of some requests check signatures over these bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use everflow_yaml::gojson::{HtmlEscape, write_escaped};

/// A value to print.
#[derive(Debug, Clone)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    /// A struct.
    Fields(Vec<(&'static str, Json<'a>)>),
    /// A map of texts.
    Map(&'a BTreeMap<String, String>),
    /// JSON that has been printed already.
    Printed(String),
}

/// Fields in the order in which they are added.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a>(Vec<(&'static str, Json<'a>)>);

impl<'a> Fields<'a> {
    pub(crate) fn new() -> Self {
        Fields(Vec::new())
    }

    /// A field.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Json<'a>>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    /// A field that is left out when it is empty.
    pub(crate) fn with_some(self, name: &'static str, text: impl Into<Cow<'a, str>>) -> Self {
        let text = text.into();
        match text.is_empty() {
            true => self,
            false => self.with(name, text),
        }
    }

    pub(crate) fn done(self) -> Json<'a> {
        Json::Fields(self.0)
    }
}

impl<'a> From<&'a str> for Json<'a> {
    fn from(text: &'a str) -> Self {
        Json::Text(text.into())
    }
}

impl<'a> From<&'a String> for Json<'a> {
    fn from(text: &'a String) -> Self {
        Json::Text(text.as_str().into())
    }
}

impl From<String> for Json<'_> {
    fn from(text: String) -> Self {
        Json::Text(text.into())
    }
}

impl<'a> From<Cow<'a, str>> for Json<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Json::Text(text)
    }
}

impl From<bool> for Json<'_> {
    fn from(flag: bool) -> Self {
        Json::Bool(flag)
    }
}

impl From<i64> for Json<'_> {
    fn from(number: i64) -> Self {
        Json::Int(number)
    }
}

impl<'a> From<Vec<Json<'a>>> for Json<'a> {
    fn from(items: Vec<Json<'a>>) -> Self {
        Json::List(items)
    }
}

impl<'a> From<Fields<'a>> for Json<'a> {
    fn from(fields: Fields<'a>) -> Self {
        fields.done()
    }
}

impl<'a> From<&'a BTreeMap<String, String>> for Json<'a> {
    fn from(map: &'a BTreeMap<String, String>) -> Self {
        Json::Map(map)
    }
}

impl Json<'_> {
    /// As `json.Marshal` prints it.
    pub(crate) fn print(&self) -> String {
        let mut out = String::new();
        self.push(&mut out, HtmlEscape::On);
        out
    }

    /// As an encoder prints it that leaves HTML alone and ends the line.
    pub(crate) fn print_plain_line(&self) -> String {
        let mut out = String::new();
        self.push(&mut out, HtmlEscape::Off);
        out.push('\n');
        out
    }

    fn push(&self, out: &mut String, html: HtmlEscape) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
            Json::Int(number) => out.push_str(&number.to_string()),
            Json::Text(text) => write_escaped(out, text, html),
            Json::Printed(text) => out.push_str(text),
            Json::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    separate(out, index);
                    item.push(out, html);
                }
                out.push(']');
            }
            Json::Fields(fields) => {
                out.push('{');
                for (index, (name, value)) in fields.iter().enumerate() {
                    separate(out, index);
                    write_escaped(out, name, html);
                    out.push(':');
                    value.push(out, html);
                }
                out.push('}');
            }
            Json::Map(map) => {
                out.push('{');
                for (index, (name, value)) in map.iter().enumerate() {
                    separate(out, index);
                    write_escaped(out, name, html);
                    out.push(':');
                    write_escaped(out, value, html);
                }
                out.push('}');
            }
        }
    }
}

fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push(',');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_html_is_escaped_as_asked() {
        let map = BTreeMap::from([
            ("b".to_owned(), "<x>".to_owned()),
            ("a".to_owned(), String::new()),
        ]);
        let json = Fields::new()
            .with("z", "a & b")
            .with_some("empty", "")
            .with("a", vec![Json::Int(1), Json::Null, Json::Bool(true)])
            .with("map", &map)
            .done();
        assert_eq!(
            json.print(),
            r#"{"z":"a \u0026 b","a":[1,null,true],"map":{"a":"","b":"\u003cx\u003e"}}"#
        );
        assert_eq!(
            json.print_plain_line(),
            "{\"z\":\"a & b\",\"a\":[1,null,true],\"map\":{\"a\":\"\",\"b\":\"<x>\"}}\n"
        );
    }
}
