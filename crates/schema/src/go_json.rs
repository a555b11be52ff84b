//! A JSON reader that keeps the order and the duplicates of keys and fails with Go's words.

use everflow_json::{Map, Number, Text, Value};

/// How deep values may nest. Go's decoder stops at 10,000; whatever walks our trees does so on the stack of its thread.
pub const DEPTH_LIMIT: usize = 250;

/// How deep Go's decoder goes.
pub const GO_DEPTH_LIMIT: usize = 10_000;

/// Go's words for a number that is too large for it.
pub fn too_large(number: &str) -> String {
    format!("json: cannot unmarshal number {number} into Go value of type float64")
}

/// A JSON value with its keys as they were written.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(Text),
    /// A list.
    Array(Vec<Json>),
    /// A map; a key may occur more than once.
    Object(Vec<(Text, Json)>),
    /// What is beyond our means: right where nobody reads it, as in fields that a kind does not have.
    Unrepresentable(Unrepresentable),
}

/// What cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum Unrepresentable {
    /// A number that is none of Go's, as it was written.
    Number(String),
    /// A list that lies too deep.
    Array,
    /// A map that lies too deep.
    Object,
}

impl Json {
    /// What Go's decoder calls it in its errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null | Json::Unrepresentable(_) => "null",
            Json::Bool(_) => "bool",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// The value of a key; the last one counts.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(entries) => entries
                .iter()
                .rev()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Json::String(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// The plain tree: sorted keys, the last duplicate wins.
    pub fn to_value(&self) -> Value {
        match self {
            Json::Null | Json::Unrepresentable(_) => Value::Null,
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Number(number) => Value::Number(number.clone()),
            Json::String(text) => Value::String(text.clone()),
            Json::Array(items) => Value::Array(items.iter().map(Json::to_value).collect()),
            Json::Object(entries) => Value::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.clone(), value.to_value()))
                    .collect::<Map>(),
            ),
        }
    }

    /// As [`Json::to_value`], without a copy.
    pub fn into_value(self) -> Value {
        match self {
            Json::Null | Json::Unrepresentable(_) => Value::Null,
            Json::Bool(flag) => Value::Bool(flag),
            Json::Number(number) => Value::Number(number),
            Json::String(text) => Value::String(text),
            Json::Array(items) => Value::Array(items.into_iter().map(Json::into_value).collect()),
            Json::Object(entries) => Value::Object(
                entries
                    .into_iter()
                    .map(|(key, value)| (key, value.into_value()))
                    .collect::<Map>(),
            ),
        }
    }

    /// The ordered tree of a plain one.
    pub fn from_value(value: &Value) -> Json {
        match value {
            Value::Null => Json::Null,
            Value::Bool(flag) => Json::Bool(*flag),
            Value::Number(number) => Json::Number(number.clone()),
            Value::String(text) => Json::String(text.clone()),
            Value::Array(items) => Json::Array(items.iter().map(Json::from_value).collect()),
            Value::Object(map) => Json::Object(
                map.iter()
                    .map(|(key, value)| (key.clone(), Json::from_value(value)))
                    .collect(),
            ),
        }
    }

    /// Whether a key occurs twice in one map.
    pub fn has_duplicates(&self) -> bool {
        match self {
            Json::Object(entries) => {
                let twice = || {
                    let mut keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
                    keys.sort_unstable();
                    keys.windows(2).any(|pair| pair[0] == pair[1])
                };
                // What a program wrote is in order most of the time.
                let in_order = entries.windows(2).all(|pair| pair[0].0 < pair[1].0);
                (!in_order && twice()) || entries.iter().any(|(_, value)| value.has_duplicates())
            }
            Json::Array(items) => items.iter().any(Json::has_duplicates),
            _ => false,
        }
    }

    /// Whether values nest no deeper than this.
    pub fn fits(&self, depth: usize) -> bool {
        match self {
            Json::Array(items) => depth > 0 && items.iter().all(|item| item.fits(depth - 1)),
            Json::Object(entries) => {
                depth > 0 && entries.iter().all(|(_, value)| value.fits(depth - 1))
            }
            _ => true,
        }
    }

    /// The same with everything that nests deeper than this marked as out of reach.
    pub fn cut(self, depth: usize) -> Json {
        match self {
            Json::Array(_) if depth == 0 => Json::Unrepresentable(Unrepresentable::Array),
            Json::Object(_) if depth == 0 => Json::Unrepresentable(Unrepresentable::Object),
            Json::Array(items) => {
                Json::Array(items.into_iter().map(|item| item.cut(depth - 1)).collect())
            }
            Json::Object(entries) => {
                let entries = entries.into_iter();
                Json::Object(
                    entries
                        .map(|(key, value)| (key, value.cut(depth - 1)))
                        .collect(),
                )
            }
            other => other,
        }
    }

    /// The paths of keys that occur twice in one map, in document order.
    pub fn duplicates(&self) -> Vec<String> {
        let mut found = Vec::new();
        // Paths are made only where there is something to tell.
        if self.has_duplicates() {
            self.collect_duplicates("", &mut found);
        }
        found
    }

    fn collect_duplicates(&self, path: &str, found: &mut Vec<String>) {
        match self {
            Json::Object(entries) => {
                for (index, (key, value)) in entries.iter().enumerate() {
                    let here = if path.is_empty() {
                        key.to_string()
                    } else {
                        format!("{path}.{key}")
                    };
                    if entries[..index].iter().any(|(earlier, _)| earlier == key)
                        && !found.contains(&here)
                    {
                        found.push(here.clone());
                    }
                    value.collect_duplicates(&here, found);
                }
            }
            Json::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    item.collect_duplicates(&format!("{path}[{index}]"), found);
                }
            }
            _ => {}
        }
    }
}

/// Reads one JSON document; the error is the text Go's decoder gives.
pub fn parse(input: &[u8]) -> Result<Json, String> {
    parse_within(input, DEPTH_LIMIT)
}

/// As [`parse`], with another limit for nesting.
pub fn parse_within(input: &[u8], levels: usize) -> Result<Json, String> {
    Reader::new(input, levels).document()
}

/// As [`parse`], with [`Json::Unrepresentable`] for what is out of reach instead of an error.
pub fn parse_open(input: &[u8]) -> Result<Json, String> {
    let mut reader = Reader::new(input, DEPTH_LIMIT);
    reader.open = true;
    reader.document()
}

/// The text of a member of a document that is known to be JSON; of several the last one counts.
pub fn member_text<'a>(input: &'a [u8], name: &str) -> Option<&'a str> {
    let mut reader = Reader::new(input, DEPTH_LIMIT);
    let mut found = None;
    reader.space();
    if reader.peek() != Some(b'{') {
        return None;
    }
    reader.at += 1;
    loop {
        reader.space();
        if reader.peek() != Some(b'"') {
            break;
        }
        let key = reader.string().ok()?;
        reader.space();
        reader.at += 1;
        reader.space();
        let start = reader.at;
        reader.value(1).ok()?;
        if key == name {
            found = input.get(start..reader.at);
        }
        reader.space();
        if reader.peek() != Some(b',') {
            break;
        }
        reader.at += 1;
    }
    std::str::from_utf8(found?).ok()
}

struct Reader<'a> {
    input: &'a [u8],
    /// The same as text, if it is text from its start to its end.
    text: Option<&'a str>,
    at: usize,
    levels: usize,
    /// What is out of reach is passed over.
    open: bool,
    /// What was read of lists and maps that are not whole yet; each takes its own from the end.
    items: Vec<Json>,
    entries: Vec<(Text, Json)>,
}

fn quote_char(input: &[u8], at: usize, byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\n' => "'\\n'".to_owned(),
        b'\r' => "'\\r'".to_owned(),
        b'\t' => "'\\t'".to_owned(),
        b'\\' => "'\\\\'".to_owned(),
        0x20..=0x7e => format!("'{}'", char::from(byte)),
        0 => "'\\x00'".to_owned(),
        1..=0x1f | 0x7f => format!("'\\x{byte:02x}'"),
        _ => {
            let _ = (input, at);
            // Go looks at single bytes here and prints them as the code point of that value.
            match char::from(byte) {
                c @ '\u{a1}'..='\u{ac}' | c @ '\u{ae}'..='\u{ff}' => format!("'{c}'"),
                c => format!("'\\u{:04x}'", c as u32),
            }
        }
    }
}

impl<'a> Reader<'a> {
    fn new(input: &'a [u8], levels: usize) -> Self {
        Reader {
            input,
            text: std::str::from_utf8(input).ok(),
            at: 0,
            levels,
            open: false,
            items: Vec::new(),
            entries: Vec::new(),
        }
    }

    fn document(&mut self) -> Result<Json, String> {
        self.space();
        let value = self.value(0)?;
        self.space();
        match self.peek() {
            None => Ok(value),
            Some(byte) => Err(format!(
                "invalid character {} after top-level value",
                quote_char(self.input, self.at, byte)
            )),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn unexpected<T>(&self, context: &str) -> Result<T, String> {
        match self.peek() {
            None => Err("unexpected end of JSON input".to_owned()),
            Some(byte) => Err(format!(
                "invalid character {} {context}",
                quote_char(self.input, self.at, byte)
            )),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth >= self.levels && matches!(self.peek(), Some(b'{' | b'[')) {
            return match self.open {
                true => self.pass_over(depth).map(Json::Unrepresentable),
                false => self.unexpected("exceeded max depth"),
            };
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b't') => self.literal("true", Json::Bool(true)),
            Some(b'f') => self.literal("false", Json::Bool(false)),
            Some(b'n') => self.literal("null", Json::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.unexpected("looking for beginning of value"),
        }
    }

    fn literal(&mut self, word: &str, value: Json) -> Result<Json, String> {
        for (index, expected) in word.bytes().enumerate() {
            if self.peek() != Some(expected) {
                return self.unexpected(&format!(
                    "in literal {word} (expecting '{}')",
                    &word[index..=index]
                ));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.at;
        let mut float = false;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return self.unexpected("in numeric literal"),
        }
        if self.peek() == Some(b'.') {
            float = true;
            self.at += 1;
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return self.unexpected("after decimal point in numeric literal");
            }
            self.digits();
        }
        if let Some(b'e' | b'E') = self.peek() {
            float = true;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return self.unexpected("in exponent of numeric literal");
            }
            self.digits();
        }
        let text = std::str::from_utf8(&self.input[start..self.at]).unwrap_or("0");
        if !float && let Ok(whole) = text.parse::<i64>() {
            return Ok(Json::Number(whole.into()));
        }
        let wide: f64 = text.parse().unwrap_or(f64::INFINITY);
        match Number::from_f64(wide) {
            Some(number) => Ok(Json::Number(number)),
            None if self.open => Ok(Json::Unrepresentable(Unrepresentable::Number(
                text.to_owned(),
            ))),
            None => Err(too_large(text)),
        }
    }

    /// Reads a list or a map without keeping it, as deep as Go goes, and without the stack that this would take.
    fn pass_over(&mut self, depth: usize) -> Result<Unrepresentable, String> {
        let whole = match self.peek() {
            Some(b'[') => Unrepresentable::Array,
            _ => Unrepresentable::Object,
        };
        let mut open: Vec<u8> = Vec::new();
        loop {
            // Here begins a value.
            match self.peek() {
                Some(bracket @ (b'{' | b'[')) => {
                    if depth + open.len() >= GO_DEPTH_LIMIT {
                        return self.unexpected("exceeded max depth");
                    }
                    self.at += 1;
                    self.space();
                    // The closing brackets come two after the opening ones.
                    if self.peek() == Some(bracket + 2) {
                        self.at += 1;
                    } else {
                        open.push(bracket);
                        self.key_of(bracket)?;
                        continue;
                    }
                }
                _ => drop(self.value(0)?),
            }
            // Here one has ended.
            loop {
                let Some(&bracket) = open.last() else {
                    return Ok(whole);
                };
                self.space();
                match self.peek() {
                    Some(b',') => {
                        self.at += 1;
                        self.space();
                        self.key_of(bracket)?;
                        break;
                    }
                    Some(byte) if byte == bracket + 2 => {
                        self.at += 1;
                        open.pop();
                    }
                    _ if bracket == b'[' => return self.unexpected("after array element"),
                    _ => return self.unexpected("after object key:value pair"),
                }
            }
        }
    }

    /// Reads the key of the next value, where values have keys.
    fn key_of(&mut self, bracket: u8) -> Result<(), String> {
        if bracket == b'{' {
            self.key()?;
        }
        Ok(())
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    fn string(&mut self) -> Result<Text, String> {
        self.at += 1;
        // Most strings are plain from quote to quote.
        let start = self.at;
        self.plain();
        let text = match self.text {
            Some(text) => text.get(start..self.at),
            None => std::str::from_utf8(&self.input[start..self.at]).ok(),
        };
        if self.peek() == Some(b'"')
            && let Some(text) = text
        {
            self.at += 1;
            return Ok(text.into());
        }
        let mut bytes = self.input[start..self.at].to_vec();
        loop {
            match self.peek() {
                None => return Err("unexpected end of JSON input".to_owned()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(String::from_utf8_lossy(&bytes).into());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut bytes)?;
                }
                Some(byte) if byte < 0x20 => return self.unexpected("in string literal"),
                Some(_) => {
                    let start = self.at;
                    self.plain();
                    bytes.extend_from_slice(&self.input[start..self.at]);
                }
            }
        }
    }

    /// Passes over what stands for itself in a string.
    fn plain(&mut self) {
        let rest = &self.input[self.at..];
        let special = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < 0x20;
        self.at += rest.iter().position(special).unwrap_or(rest.len());
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), String> {
        let plain = match self.peek() {
            Some(c @ (b'"' | b'\\' | b'/')) => c,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let first = self.hex4()?;
                let mut decoded = char::from_u32(first);
                if (0xd800..0xdc00).contains(&first)
                    && self.input.get(self.at..self.at + 2) == Some(b"\\u")
                {
                    let back = self.at;
                    self.at += 2;
                    let second = self.hex4()?;
                    if (0xdc00..0xe000).contains(&second) {
                        decoded =
                            char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
                    } else {
                        self.at = back;
                    }
                }
                let mut buffer = [0; 4];
                bytes.extend_from_slice(
                    decoded
                        .unwrap_or('\u{fffd}')
                        .encode_utf8(&mut buffer)
                        .as_bytes(),
                );
                return Ok(());
            }
            _ => return self.unexpected("in string escape code"),
        };
        bytes.push(plain);
        self.at += 1;
        Ok(())
    }

    fn hex4(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            match self.peek().and_then(|byte| char::from(byte).to_digit(16)) {
                Some(digit) => code = code * 16 + digit,
                None => return self.unexpected("in \\u hexadecimal character escape"),
            }
            self.at += 1;
        }
        Ok(code)
    }

    fn array(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(Vec::new()));
        }
        let start = self.items.len();
        loop {
            self.space();
            let item = self.value(depth + 1)?;
            self.items.push(item);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::Array(self.items.split_off(start)));
                }
                _ => return self.unexpected("after array element"),
            }
        }
    }

    /// A key and the colon behind it.
    fn key(&mut self) -> Result<Text, String> {
        if self.peek() != Some(b'"') {
            return self.unexpected("looking for beginning of object key string");
        }
        let key = self.string()?;
        self.space();
        if self.peek() != Some(b':') {
            return self.unexpected("after object key");
        }
        self.at += 1;
        self.space();
        Ok(key)
    }

    fn object(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(Vec::new()));
        }
        let start = self.entries.len();
        loop {
            self.space();
            let key = self.key()?;
            let value = self.value(depth + 1)?;
            self.entries.push((key, value));
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Json::Object(self.entries.split_off(start)));
                }
                _ => return self.unexpected("after object key:value pair"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_nested_too_deep_are_skipped() {
        let deep = |depth: usize, inner: &str| {
            format!(
                "{{\"a\": {}{inner}{}, \"b\": 1}}",
                "[".repeat(depth),
                "]".repeat(depth)
            )
        };
        let text = deep(9_000, r#"{"x": [], "y": {"z": 1, "w": [2, 3]}}, {}"#);
        assert!(parse(text.as_bytes()).is_err());
        let tree = parse_open(text.as_bytes()).unwrap();
        assert_eq!(tree.get("b"), Some(&Json::Number(1.into())));
        let too_deep = parse_open(deep(10_000, "").as_bytes());
        assert!(too_deep.unwrap_err().contains("exceeded max depth"));
        for (inner, problem) in [
            ("1 2", "after array element"),
            ("{1}", "looking for beginning of object key string"),
            (r#"{"a" 1}"#, "after object key"),
            (r#"{"a": 1 2}"#, "after object key:value pair"),
            (r#"{"a": }"#, "looking for beginning of value"),
        ] {
            let error = parse_open(deep(300, inner).as_bytes()).unwrap_err();
            assert!(error.contains(problem), "{inner}: {error}");
        }
    }

    #[test]
    fn numbers_beyond_go_are_kept_as_they_were_written() {
        let tree = parse_open(b"[1e400]").unwrap();
        let number = Json::Unrepresentable(Unrepresentable::Number("1e400".to_owned()));
        assert_eq!(tree, Json::Array(vec![number]));
        assert!(parse(b"[1e400]").is_err());
    }
}
