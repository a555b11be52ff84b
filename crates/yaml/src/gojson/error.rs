//! What `encoding/json` says about bad input.

/// Why JSON text was refused, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// A character that cannot stand where it does.
    #[error("invalid character {character} {context}")]
    InvalidCharacter {
        /// The character as Go quotes it.
        character: String,
        /// Where it stood, such as `looking for beginning of value`.
        context: &'static str,
        /// Bytes read, the bad one included.
        offset: usize,
    },
    /// The text ended inside a value, or held none.
    #[error("unexpected end of JSON input")]
    UnexpectedEnd,
    /// Arrays and objects are nested deeper than Go allows.
    #[error("exceeded max depth")]
    TooDeep,
    /// A number that does not fit a Go `float64`.
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    NumberTooLarge(String),
    /// A value that does not fit the Go type it is decoded into.
    #[error("json: cannot unmarshal {found} into {place} of type {wanted}")]
    WrongType {
        /// What stood there: `string`, or `number 1.5`.
        found: String,
        /// Where: `Go value`, or `Go struct field ObjectMeta.name`.
        place: String,
        /// The Go type.
        wanted: String,
    },
    /// NaN or an infinity, which JSON cannot hold.
    #[error("json: unsupported value: {0}")]
    UnsupportedValue(String),
}

impl JsonError {
    pub(super) fn invalid(byte: u8, context: &'static str, offset: usize) -> Self {
        JsonError::InvalidCharacter {
            character: quote(byte),
            context,
            offset,
        }
    }
}

/// Go quotes the byte as if it were a code point: 0xEF shows as `'ï'`.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\\' => "'\\\\'".to_owned(),
        0x07 => "'\\a'".to_owned(),
        0x08 => "'\\b'".to_owned(),
        0x0C => "'\\f'".to_owned(),
        b'\n' => "'\\n'".to_owned(),
        b'\r' => "'\\r'".to_owned(),
        b'\t' => "'\\t'".to_owned(),
        0x0B => "'\\v'".to_owned(),
        0x00..=0x1F | 0x7F => format!("'\\x{byte:02x}'"),
        0x80..=0xA0 | 0xAD => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}
