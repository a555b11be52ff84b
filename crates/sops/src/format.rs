//! How files are written.

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Anything; encrypted it is one text in a JSON envelope.
    Binary,
    /// Lines of the form `NAME=value`.
    Dotenv,
    /// Sections of keys with values.
    Ini,
    /// JSON.
    Json,
    /// YAML, also of more than one document.
    Yaml,
}

impl Format {
    /// The format that the ending of a file's name stands for; binary for all others.
    pub fn of_path(path: &str) -> Format {
        if path.ends_with(".yaml") || path.ends_with(".yml") {
            Format::Yaml
        } else if path.ends_with(".json") || path.ends_with(".dockerconfigjson") {
            Format::Json
        } else if path.ends_with(".env") {
            Format::Dotenv
        } else if path.ends_with(".ini") {
            Format::Ini
        } else {
            Format::Binary
        }
    }

    /// The format of an encrypted content, by what only SOPS writes.
    pub fn detect(content: &[u8]) -> Option<Format> {
        [Format::Json, Format::Dotenv, Format::Ini, Format::Yaml]
            .into_iter()
            .find(|format| format.is_marked(content))
    }

    /// Whether a content of this format carries the mark of an encrypted file.
    pub fn is_marked(self, content: &[u8]) -> bool {
        let mark: &[u8] = match self {
            Format::Binary | Format::Json => b"\"mac\": \"ENC[",
            Format::Dotenv => b"sops_mac=ENC[",
            Format::Ini => b"[sops]",
            Format::Yaml => b"mac: ENC[",
        };
        content.windows(mark.len()).any(|window| window == mark)
    }

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Format::Binary => "binary",
            Format::Dotenv => "dotenv",
            Format::Ini => "INI",
            Format::Json => "JSON",
            Format::Yaml => "YAML",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_and_marks() {
        assert_eq!(Format::of_path("a/b.yml"), Format::Yaml);
        assert_eq!(Format::of_path(".dockerconfigjson"), Format::Json);
        assert_eq!(Format::of_path("app.env"), Format::Dotenv);
        assert_eq!(Format::of_path("x.ini"), Format::Ini);
        assert_eq!(Format::of_path("x.txt"), Format::Binary);
        assert_eq!(
            Format::detect(b"a: b\nsops:\n    mac: ENC[x"),
            Some(Format::Yaml)
        );
        assert_eq!(
            Format::detect(b"{\"sops\": {\"mac\": \"ENC[x"),
            Some(Format::Json)
        );
        assert_eq!(Format::detect(b"mac: none"), None);
    }
}
