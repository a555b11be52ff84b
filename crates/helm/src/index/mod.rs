//! Indexes of chart repositories, as helm reads them and Flux stores them.
//!
//! An index may be large, so it is never held as values: each chart version is decoded, checked,
//! printed as Go prints it and handed away; what stays is an [`Outline`] of a few words per
//! version, from which the whole index is put together in its order.

mod decode;
mod print;
mod select;
mod stored;
mod time;
mod version;

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek, Write};

use everflow_json::Value as Json;
use everflow_semver::Version;
use everflow_yaml::walk::{self, Collection, Stop, Visitor};
use everflow_yaml::{Limits, Position, gojson, sigs};

pub use select::{SelectError, parse_version, select_tag, select_version};
pub use stored::{StoredVersion, StoredVersions, find_versions};
pub use time::GoTime;
pub use version::ChartVersion;

use decode::{Misfit, Source};

/// Up to this size an index that cannot be read piece by piece is read as a whole.
const SMALL: usize = 4 << 20;

/// Collections in collections: more than any index has.
const NESTING: usize = 500;

/// Why an index cannot be used, in helm's words.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// There is nothing in it.
    #[error("empty index.yaml file")]
    Empty,
    /// It does not say which format it has.
    #[error("no API version specified")]
    NoApiVersion,
    /// It is not YAML.
    #[error("error converting YAML to JSON: {0}")]
    Yaml(#[source] everflow_yaml::Error),
    /// It is not JSON.
    #[error("{0}")]
    Json(#[source] gojson::JsonError),
    /// A key stands twice in a map.
    #[error(
        "error converting YAML to JSON: yaml: unmarshal errors:\n  line {line}: key {key:?} already set in map"
    )]
    Duplicate {
        /// The key.
        key: String,
        /// Where it stands the second time.
        line: u32,
    },
    /// It is large and needs to be read as a whole.
    #[error(
        "line {line}: an index of more than {SMALL} bytes may not use anchors, tags, merge keys or keys that are not strings; write it without them"
    )]
    NotPlain {
        /// Where the first of them stands.
        line: u32,
    },
    /// A value that does not fit its field, or a field that is not known.
    #[error("{0}")]
    Misfit(String),
    /// What was read could not be put aside.
    #[error("failed to put aside a part of the index: {0}")]
    Aside(#[source] io::Error),
}

/// An index with everything of it but the chart versions themselves, which were put aside.
#[derive(Debug, Default)]
pub struct Outline {
    server_info: Option<Json>,
    api_version: String,
    generated: GoTime,
    public_keys: Vec<String>,
    annotations: Vec<(String, String)>,
    /// None when the index has no entries at all, not even an empty map.
    charts: Option<BTreeMap<String, Option<Vec<Aside>>>>,
    dropped: u64,
}

/// A chart version that was put aside.
#[derive(Debug)]
struct Aside {
    version: Version,
    offset: u64,
    length: u32,
}

impl Outline {
    /// The names of the charts, in order.
    pub fn charts(&self) -> impl Iterator<Item = &str> {
        self.charts.iter().flatten().map(|(name, _)| name.as_str())
    }

    /// How many chart versions there are.
    pub fn versions(&self) -> usize {
        let versions = self.charts.iter().flatten();
        versions
            .map(|(_, versions)| versions.as_ref().map_or(0, Vec::len))
            .sum()
    }

    /// How many entries were left out because helm would not take them.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Writes the index as Flux stores it. `aside` is what [`read_index`] put aside.
    pub fn write(&self, aside: impl Read + Seek, out: &mut dyn Write) -> io::Result<()> {
        let mut aside = AsideReader::new(aside)?;
        let mut head = String::from("{\n");
        if let Some(info) = &self.server_info {
            print::member(&mut head, 1, "serverInfo", |text| {
                print::any(text, 1, info);
            });
        }
        print::member(&mut head, 1, "apiVersion", |text| {
            print::string(text, &self.api_version);
        });
        print::member(&mut head, 1, "generated", |text| {
            print::string(text, &self.generated.to_string());
        });
        head.push_str("  \"entries\": ");
        out.write_all(head.as_bytes())?;
        self.write_charts(&mut aside, out)?;
        let mut tail = String::new();
        if !self.public_keys.is_empty() {
            tail.push_str(",\n  \"publicKeys\": ");
            print::strings(&mut tail, 1, &self.public_keys);
        }
        if !self.annotations.is_empty() {
            tail.push_str(",\n  \"annotations\": ");
            print::string_map(&mut tail, 1, &self.annotations);
        }
        tail.push_str("\n}");
        out.write_all(tail.as_bytes())
    }

    fn write_charts<R: Read + Seek>(
        &self,
        aside: &mut AsideReader<R>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Some(charts) = &self.charts else {
            return out.write_all(b"null");
        };
        if charts.is_empty() {
            return out.write_all(b"{}");
        }
        let mut before = "{\n    ";
        for (name, versions) in charts {
            let mut text = String::from(before);
            before = ",\n    ";
            print::string(&mut text, name);
            text.push_str(": ");
            out.write_all(text.as_bytes())?;
            match versions {
                None => out.write_all(b"null")?,
                Some(versions) if versions.is_empty() => out.write_all(b"[]")?,
                Some(versions) => {
                    let mut before = "[\n      ";
                    for version in versions {
                        out.write_all(before.as_bytes())?;
                        before = ",\n      ";
                        aside.copy(version, out)?;
                    }
                    out.write_all(b"\n    ]")?;
                }
            }
        }
        out.write_all(b"\n  }")
    }
}

/// Reads what was put aside, which mostly lies in the order it is wanted.
struct AsideReader<R> {
    file: BufReader<R>,
    at: u64,
    buffer: Vec<u8>,
}

impl<R: Read + Seek> AsideReader<R> {
    fn new(mut file: R) -> io::Result<Self> {
        file.rewind()?;
        Ok(AsideReader {
            file: BufReader::with_capacity(64 << 10, file),
            at: 0,
            buffer: Vec::new(),
        })
    }

    fn copy(&mut self, version: &Aside, out: &mut dyn Write) -> io::Result<()> {
        let far = || io::Error::other("an offset is out of range");
        let distance = i128::from(version.offset) - i128::from(self.at);
        self.file
            .seek_relative(i64::try_from(distance).map_err(|_| far())?)?;
        self.buffer.resize(version.length as usize, 0);
        self.file.read_exact(&mut self.buffer)?;
        self.at = version.offset + u64::from(version.length);
        out.write_all(&self.buffer)
    }
}

/// Reads an index in YAML or JSON. Every chart version that helm would take is written to `aside`,
/// which [`Outline::write`] wants back.
///
/// Text that is valid JSON is read as Go's JSON decoder reads it, unknown fields ignored; anything
/// else is YAML, strictly: no duplicate keys, no unknown fields.
pub fn read_index(raw: &[u8], aside: &mut dyn Write) -> Result<Outline, IndexError> {
    if raw.is_empty() {
        return Err(IndexError::Empty);
    }
    let source = match gojson::is_valid(raw) {
        true => Source::Json,
        false => Source::Yaml,
    };
    let mut reader = Reader::new(aside, source);
    let stop = match source {
        Source::Json => walk::walk_json(raw, &mut reader),
        Source::Yaml => {
            let limits = Limits {
                nesting: NESTING,
                ..Limits::DEFAULT
            };
            walk::walk_yaml(raw, limits, &mut reader)
        }
    };
    match stop {
        Ok(()) => reader.finish(),
        Err(Stop::Visitor(error)) => Err(error),
        Err(Stop::Json(error)) => Err(IndexError::Json(error)),
        Err(Stop::Yaml(error)) => Err(IndexError::Yaml(error)),
        // Small ones are read as a whole, which also gives all duplicate keys at once.
        Err(Stop::Duplicate { .. } | Stop::NotPlain(_)) if raw.len() <= SMALL => {
            let Reader { aside, written, .. } = reader;
            read_whole(raw, aside, written)
        }
        Err(Stop::Duplicate { key, position }) => Err(IndexError::Duplicate {
            key,
            line: line_of(position),
        }),
        Err(Stop::NotPlain(position)) => Err(IndexError::NotPlain {
            line: line_of(position),
        }),
    }
}

fn line_of(position: Position) -> u32 {
    position.line
}

/// The long way. What the short way wrote stays in `aside`, unused.
fn read_whole(raw: &[u8], aside: &mut dyn Write, written: u64) -> Result<Outline, IndexError> {
    let limits = Limits {
        nesting: NESTING,
        ..Limits::DEFAULT
    };
    let value = sigs::to_json(raw, true, limits).map_err(IndexError::Yaml)?;
    let mut reader = Reader::new(aside, Source::Yaml);
    reader.written = written;
    walk::walk_value(value, &mut reader)?;
    reader.finish()
}

/// The visitor that fills an outline.
struct Reader<'w> {
    outline: Outline,
    source: Source,
    aside: &'w mut dyn Write,
    written: u64,
    /// The first value that did not fit, with its path; errors of form further on come first, as
    /// in Go.
    misfit: Option<(Vec<String>, Misfit)>,
}

impl<'w> Reader<'w> {
    fn new(aside: &'w mut dyn Write, source: Source) -> Self {
        Reader {
            outline: Outline::default(),
            source,
            aside,
            written: 0,
            misfit: None,
        }
    }

    fn finish(self) -> Result<Outline, IndexError> {
        if let Some((_, misfit)) = self.misfit {
            return Err(IndexError::Misfit(misfit.message(self.source)));
        }
        let mut outline = self.outline;
        if outline.api_version.is_empty() {
            return Err(IndexError::NoApiVersion);
        }
        for versions in outline.charts.iter_mut().flatten() {
            if let Some(versions) = versions.1 {
                versions.sort_by(|a, b| b.version.cmp_precedence(&a.version));
            }
        }
        Ok(outline)
    }

    fn charts(&mut self) -> &mut BTreeMap<String, Option<Vec<Aside>>> {
        self.outline.charts.get_or_insert_default()
    }

    /// Keeps what Go would find first: it sorts the keys of YAML before it looks at values.
    fn note(&mut self, path: &[String], misfit: Misfit) {
        let earlier = self
            .misfit
            .as_ref()
            .is_none_or(|(known, _)| self.source == Source::Yaml && path < &known[..]);
        if earlier {
            self.misfit = Some((path.to_vec(), misfit));
        }
    }

    /// Decodes one item of a chart's list.
    fn version(&mut self, path: &[String], chart: &str, value: Json) -> Result<(), IndexError> {
        let decoded = match ChartVersion::decode(&value, self.source) {
            Ok(decoded) => decoded,
            Err(misfit) => {
                self.note(path, misfit);
                return Ok(());
            }
        };
        let kept = decoded.and_then(|mut version| version.validated().then_some(version));
        let parsed = kept.and_then(|kept| {
            let version = Version::parse(&kept.metadata.version).ok()?;
            Some((kept, version))
        });
        let Some((kept, version)) = parsed else {
            self.outline.dropped += 1;
            return Ok(());
        };
        let mut text = String::with_capacity(512);
        kept.print(&mut text, 3);
        self.aside
            .write_all(text.as_bytes())
            .map_err(IndexError::Aside)?;
        let aside = Aside {
            version,
            offset: self.written,
            length: u32::try_from(text.len()).unwrap_or(u32::MAX),
        };
        self.written += text.len() as u64;
        let versions = self.charts().entry(chart.to_owned()).or_default();
        versions.get_or_insert_default().push(aside);
        Ok(())
    }

    fn field(&mut self, name: &str, value: &Json) -> Result<(), Misfit> {
        let source = self.source;
        let Some(field) = decode::canonical(name, &decode::INDEX_FIELDS) else {
            return match source {
                Source::Json => Ok(()),
                Source::Yaml => Err(Misfit::unknown(name)),
            };
        };
        let at = decode::Place::new("IndexFile", field);
        let outline = &mut self.outline;
        match field {
            "serverInfo" => {
                if let Some(object) = decode::object(value, &at, "map[string]interface {}")? {
                    let mut info = Json::Object(object.clone());
                    gojson::numbers_as_f64(&mut info);
                    outline.server_info = Some(info).filter(|_| !object.is_empty());
                }
            }
            "apiVersion" => decode::coerced(value, &at, source, &mut outline.api_version)?,
            "generated" => decode::time(value, &mut outline.generated)?,
            "entries" => {
                // Gone into when it is a map; null leaves it as it is.
                decode::object(value, &at, "map[string]repo.ChartVersions")?;
            }
            "publicKeys" => {
                if let Some(keys) = decode::coerced_list(value, &at, source)? {
                    outline.public_keys = keys;
                }
            }
            _ => {
                if let Some(map) = decode::coerced_map(value, &at, source)? {
                    outline.annotations = map;
                }
            }
        }
        Ok(())
    }
}

fn is_entries(key: &str) -> bool {
    decode::canonical(key, &decode::INDEX_FIELDS) == Some("entries")
}

impl Visitor for Reader<'_> {
    type Error = IndexError;

    fn enter(&mut self, path: &[String], is_item: bool, collection: Collection) -> bool {
        match (path, collection) {
            _ if is_item => false,
            ([], Collection::Map) => true,
            ([top], Collection::Map) if is_entries(top) => {
                self.charts();
                true
            }
            ([top, chart], Collection::List) if is_entries(top) => {
                // Of equal keys in JSON the last one counts.
                self.charts().insert(chart.clone(), Some(Vec::new()));
                true
            }
            _ => false,
        }
    }

    fn value(&mut self, path: &[String], is_item: bool, value: Json) -> Result<(), IndexError> {
        let misfit = match path {
            [] => match value {
                Json::Null => return Ok(()),
                other => Misfit::root(&other),
            },
            [top, chart] if is_entries(top) => match (is_item, value) {
                (true, value) => return self.version(path, chart, value),
                (false, Json::Null) => {
                    self.charts().insert(chart.clone(), None);
                    return Ok(());
                }
                (false, other) => Misfit::kind(
                    &other,
                    &decode::Place::new("IndexFile", "entries"),
                    "repo.ChartVersions",
                ),
            },
            [top, ..] => match self.field(top, &value) {
                Ok(()) => return Ok(()),
                Err(misfit) => misfit,
            },
        };
        self.note(path, misfit);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
