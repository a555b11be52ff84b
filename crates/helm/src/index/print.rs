//! JSON as `json.MarshalIndent` with two spaces prints helm's structs.

use everflow_json::Value as Json;
use everflow_yaml::gojson::{self, HtmlEscape, write_escaped};

/// Ends with a comma and a line break: for fields that another one follows for sure.
pub(super) fn member(out: &mut String, depth: usize, name: &str, value: impl FnOnce(&mut String)) {
    indent(out, depth);
    string(out, name);
    out.push_str(": ");
    value(out);
    out.push_str(",\n");
}

pub(super) fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

pub(super) fn string(out: &mut String, text: &str) {
    write_escaped(out, text, HtmlEscape::On);
}

/// A value of any kind that stands at a depth.
pub(super) fn any(out: &mut String, depth: usize, value: &Json) {
    let text = gojson::pretty(value, "  ");
    let mut lines = text.split('\n');
    out.push_str(lines.next().unwrap_or_default());
    for line in lines {
        out.push('\n');
        indent(out, depth);
        out.push_str(line);
    }
}

pub(super) fn strings(out: &mut String, depth: usize, texts: &[String]) {
    items(out, depth, texts, |out, text| string(out, text));
}

pub(super) fn items<T>(
    out: &mut String,
    depth: usize,
    items: &[T],
    mut one: impl FnMut(&mut String, &T),
) {
    if items.is_empty() {
        out.push_str("[]");
        return;
    }
    let mut before = "[\n";
    for item in items {
        out.push_str(before);
        before = ",\n";
        indent(out, depth + 1);
        one(out, item);
    }
    out.push('\n');
    indent(out, depth);
    out.push(']');
}

pub(super) fn string_map(out: &mut String, depth: usize, map: &[(String, String)]) {
    let mut fields = Fields::new(out, depth);
    for (key, value) in map {
        fields.string(key, value);
    }
    fields.finish();
}

/// The fields of an object, separated as they come.
pub(super) struct Fields<'o> {
    out: &'o mut String,
    depth: usize,
    empty: bool,
}

impl<'o> Fields<'o> {
    pub(super) fn new(out: &'o mut String, depth: usize) -> Self {
        out.push('{');
        Fields {
            out,
            depth,
            empty: true,
        }
    }

    /// Where the value of a field goes, and at which depth.
    pub(super) fn field(&mut self, name: &str) -> (&mut String, usize) {
        self.out.push_str(if self.empty { "\n" } else { ",\n" });
        self.empty = false;
        indent(self.out, self.depth + 1);
        string(self.out, name);
        self.out.push_str(": ");
        (self.out, self.depth + 1)
    }

    pub(super) fn string(&mut self, name: &str, text: &str) {
        let (out, _) = self.field(name);
        string(out, text);
    }

    /// A field that is left out when it is empty.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.string(name, text);
        }
    }

    /// A list that is left out when it is empty.
    pub(super) fn texts(&mut self, name: &str, texts: &[String]) {
        if !texts.is_empty() {
            let (out, depth) = self.field(name);
            strings(out, depth, texts);
        }
    }

    /// A flag that is left out when it is not set.
    pub(super) fn flag(&mut self, name: &str, flag: bool) {
        if flag {
            let (out, _) = self.field(name);
            out.push_str("true");
        }
    }

    pub(super) fn finish(self) {
        if !self.empty {
            self.out.push('\n');
            indent(self.out, self.depth);
        }
        self.out.push('}');
    }
}
