//! Keys and values of generated objects: literals, files, and files of `KEY=value` lines.

use everflow_limits::Held;

use crate::error::{Error, Result, Within};
use crate::kustomization::GeneratorArgs;
use crate::loader::Loader;
use crate::paths;

/// All pairs, sorted by key; a key may come only once.
pub fn load(args: &GeneratorArgs, loader: &Loader<'_>) -> Result<Vec<(String, Vec<u8>)>> {
    let mut pairs = Pairs {
        pairs: Vec::new(),
        held: loader.meter().budget.hold(0)?,
    };
    let loading = |error: Error| error.within("loading KV pairs");
    let list = |texts: &[String]| format!("[{}]", texts.join(" "));
    from_env_files(&args.envs, loader, &mut pairs)
        .within(|| format!("env source files: {}", list(&args.envs)))
        .map_err(loading)?;
    from_literals(&args.literals, &mut pairs)
        .within(|| format!("literal sources {}", list(&args.literals)))
        .map_err(loading)?;
    from_files(&args.files, loader, &mut pairs)
        .within(|| format!("file sources: {}", list(&args.files)))
        .map_err(loading)?;
    let mut pairs = pairs.pairs;
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    if let Some(repeated) = pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(Error::Configuration(format!(
            "configmap {} illegally repeats the key `{}`",
            args.name, repeated[0].0
        )));
    }
    Ok(pairs)
}

/// Pairs, and what is charged for them.
struct Pairs<'b> {
    pairs: Vec<(String, Vec<u8>)>,
    held: Held<'b>,
}

impl Pairs<'_> {
    fn push(&mut self, key: &str, value: &[u8]) -> Result<()> {
        self.held
            .grow(size_of::<(String, Vec<u8>)>() + key.len() + value.len())?;
        self.pairs.push((key.to_owned(), value.to_vec()));
        Ok(())
    }
}

fn from_literals(literals: &[String], pairs: &mut Pairs<'_>) -> Result<()> {
    for literal in literals {
        let (key, value) = literal
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| {
                Error::Configuration(format!(
                    "invalid literal source {literal}, expected key=value"
                ))
            })?;
        pairs.push(key, unquote(value).as_bytes())?;
    }
    Ok(())
}

/// Takes one pair of quotes off.
fn unquote(text: &str) -> &str {
    for quote in ['"', '\''] {
        if text.len() >= 2
            && let Some(inner) = text
                .strip_prefix(quote)
                .and_then(|rest| rest.strip_suffix(quote))
        {
            return inner;
        }
    }
    text
}

fn from_files(files: &[String], loader: &Loader<'_>, pairs: &mut Pairs<'_>) -> Result<()> {
    for source in files {
        let (key, path) = file_source(source)?;
        pairs.push(key, &loader.load(path)?)?;
    }
    Ok(())
}

/// Splits `[key=]path`.
fn file_source(source: &str) -> Result<(&str, &str)> {
    let invalid = |text: String| Err(Error::Configuration(text));
    match source.matches('=').count() {
        0 => Ok((paths::base(source), source)),
        1 => match source.split_once('=').unwrap_or_default() {
            ("", path) => invalid(format!(
                "missing key name for file path {path:?} in source {source:?}"
            )),
            (key, "") => invalid(format!(
                "missing file path for key name {key:?} in source {source:?}"
            )),
            pair => Ok(pair),
        },
        _ => invalid(format!(
            "source {source:?} key name or file path contains '='"
        )),
    }
}

fn from_env_files(files: &[String], loader: &Loader<'_>, pairs: &mut Pairs<'_>) -> Result<()> {
    for path in files {
        let content = loader.load(path)?;
        for (number, line) in content.split(|byte| *byte == b'\n').enumerate() {
            if let Some((key, value)) = env_line(line, number)? {
                pairs.push(key, value)?;
            }
        }
    }
    Ok(())
}

fn env_line(line: &[u8], number: usize) -> Result<Option<(&str, &[u8])>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let Ok(text) = std::str::from_utf8(line) else {
        return Err(Error::Configuration(format!(
            "line {line:?} has invalid utf8 bytes : {}",
            String::from_utf8_lossy(line)
        )));
    };
    let text = match number {
        0 => text.strip_prefix('\u{feff}').unwrap_or(text),
        _ => text,
    };
    let text = text.trim_start();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    if key.is_empty() {
        return Ok(None);
    }
    Ok(Some((key, value.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_split() {
        assert_eq!(file_source("./a/b.txt").unwrap(), ("b.txt", "./a/b.txt"));
        assert_eq!(file_source("k=a/b.txt").unwrap(), ("k", "a/b.txt"));
        assert!(file_source("=a").is_err());
        assert!(file_source("a=b=c").is_err());
    }

    #[test]
    fn env_lines_are_read() {
        fn read(line: &str) -> Option<(&str, &[u8])> {
            env_line(line.as_bytes(), 1).unwrap()
        }
        assert_eq!(read("  A=b=c "), Some(("A", b"b=c ".as_slice())));
        assert_eq!(read("# no"), None);
        assert_eq!(read("KEY"), Some(("KEY", b"".as_slice())));
        assert_eq!(read("A=1\r"), Some(("A", b"1".as_slice())));
    }

    #[test]
    fn one_pair_of_quotes_goes() {
        assert_eq!(unquote("\"a b\""), "a b");
        assert_eq!(unquote("'"), "'");
        assert_eq!(unquote("\"a'"), "\"a'");
    }
}
