//! One version of a chart in an index.

use everflow_json::Value as Json;

use super::decode::{self, Misfit, Place, Source};
use super::print::{self, Fields};
use super::time::GoTime;
use crate::chart::fields::{DEPENDENCY, METADATA};
use crate::chart::{API_VERSION_V1, Dependency, Maintainer, Metadata};

/// What an index says of one version of a chart.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ChartVersion {
    /// What `Chart.yaml` of that version says.
    pub metadata: Metadata,
    /// Where to get it: absolute, or relative to the repository. None when the index says null.
    pub urls: Option<Vec<String>>,
    /// When it was added.
    pub created: GoTime,
    /// Whether it was taken back.
    pub removed: bool,
    /// The digest of the archive.
    pub digest: String,
    checksum: String,
    engine: String,
    tiller_version: String,
    url: String,
}

/// The fields beside those of the chart.
const OWN: [&str; 8] = [
    "urls",
    "created",
    "removed",
    "digest",
    "checksum",
    "engine",
    "tillerVersion",
    "url",
];

/// All of them. The first are the chart's own, inside a struct that is embedded: their scalars stay what they are, and
/// errors name that struct on the way.
const FIELDS: [&str; METADATA.len() + OWN.len()] = {
    let mut all = [""; METADATA.len() + OWN.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = match at < METADATA.len() {
            true => METADATA[at],
            false => OWN[at - METADATA.len()],
        };
        at += 1;
    }
    all
};

impl ChartVersion {
    /// None for null.
    pub(super) fn decode(value: &Json, source: Source) -> Result<Option<Self>, Misfit> {
        let item = Place::new("IndexFile", "entries");
        let Some(object) = decode::object(value, &item, "repo.ChartVersion")? else {
            return Ok(None);
        };
        let mut version = ChartVersion::default();
        for (key, value) in object {
            match decode::canonical(key, &FIELDS) {
                Some(field) => version.read(field, value, source)?,
                None if source == Source::Yaml => return Err(Misfit::unknown(key)),
                None => {}
            }
        }
        Ok(Some(version))
    }

    fn read(&mut self, field: &'static str, value: &Json, source: Source) -> Result<(), Misfit> {
        let embedded = METADATA.contains(&field);
        let path = match embedded {
            true => format!("entries.Metadata.{field}"),
            false => format!("entries.{field}"),
        };
        let at = &Place::new("ChartVersion", path);
        let text = match field {
            "urls" => {
                self.urls = decode::coerced_list(value, at, source)?;
                return Ok(());
            }
            "created" => return decode::time(value, &mut self.created),
            "removed" => return decode::boolean(value, at, &mut self.removed),
            "digest" => &mut self.digest,
            "checksum" => &mut self.checksum,
            "engine" => &mut self.engine,
            "tillerVersion" => &mut self.tiller_version,
            "url" => &mut self.url,
            _ => return read_metadata(&mut self.metadata, field, value, source, at),
        };
        decode::coerced(value, at, source, text)
    }

    /// Cleans and checks the metadata; whether helm would take the version into its index.
    pub(super) fn validated(&mut self) -> bool {
        if self.metadata.api_version.is_empty() {
            API_VERSION_V1.clone_into(&mut self.metadata.api_version);
        }
        match self.metadata.validate() {
            Ok(()) => true,
            // Some servers drop the aliases of dependencies from their index.
            Err(message) => {
                message.starts_with("validation: more than one dependency with name or alias")
            }
        }
    }

    /// Prints it as Go does; the opening brace stands at `depth`.
    pub(super) fn print(&self, out: &mut String, depth: usize) {
        let mut fields = Fields::new(out, depth);
        print_metadata(&self.metadata, &mut fields);
        let (out, depth) = fields.field("urls");
        match &self.urls {
            Some(urls) => print::strings(out, depth, urls),
            None => out.push_str("null"),
        }
        fields.string("created", &self.created.to_string());
        fields.flag("removed", self.removed);
        fields.text("digest", &self.digest);
        fields.text("checksum", &self.checksum);
        fields.text("engine", &self.engine);
        fields.text("tillerVersion", &self.tiller_version);
        fields.text("url", &self.url);
        fields.finish();
    }
}

fn read_metadata(
    metadata: &mut Metadata,
    field: &str,
    value: &Json,
    source: Source,
    at: &Place,
) -> Result<(), Misfit> {
    let text = match field {
        "name" => &mut metadata.name,
        "home" => &mut metadata.home,
        "version" => &mut metadata.version,
        "description" => &mut metadata.description,
        "icon" => &mut metadata.icon,
        "apiVersion" => &mut metadata.api_version,
        "condition" => &mut metadata.condition,
        "tags" => &mut metadata.tags,
        "appVersion" => &mut metadata.app_version,
        "kubeVersion" => &mut metadata.kube_version,
        "type" => &mut metadata.kind,
        "deprecated" => return decode::boolean(value, at, &mut metadata.deprecated),
        "sources" => {
            metadata.sources = decode::strings(value, at)?.unwrap_or_default();
            return Ok(());
        }
        "keywords" => {
            metadata.keywords = decode::strings(value, at)?.unwrap_or_default();
            return Ok(());
        }
        "annotations" => {
            metadata.annotations = read_annotations(value, source, at)?;
            return Ok(());
        }
        "maintainers" => {
            let items = decode::list(value, at, "[]*v2.Maintainer")?;
            metadata.maintainers = items
                .into_iter()
                .flatten()
                .map(|item| read_maintainer(item, source, at))
                .collect::<Result<_, _>>()?;
            return Ok(());
        }
        _ => {
            let items = decode::list(value, at, "[]*v2.Dependency")?;
            metadata.dependencies = items
                .into_iter()
                .flatten()
                .map(|item| read_dependency(item, source, at))
                .collect::<Result<_, _>>()?;
            return Ok(());
        }
    };
    decode::string(value, at, text)
}

/// The fields of a chart's metadata that hold text.
const TEXTS: [&str; 11] = [
    "name",
    "home",
    "version",
    "description",
    "icon",
    "apiVersion",
    "condition",
    "tags",
    "appVersion",
    "kubeVersion",
    "type",
];

/// `sigs.k8s.io/yaml` looks up the keys of the annotations among the fields of the struct around
/// them: scalars become text only where such a field is text.
fn read_annotations(
    value: &Json,
    source: Source,
    at: &Place,
) -> Result<Vec<(String, String)>, Misfit> {
    let object = decode::object(value, at, "map[string]string")?;
    let mut annotations = Vec::new();
    for (key, value) in object.into_iter().flatten() {
        let source = match decode::canonical(key, &TEXTS) {
            Some(_) => source,
            None => Source::Json,
        };
        let mut text = String::new();
        decode::coerced(value, at, source, &mut text)?;
        annotations.push((key.to_string(), text));
    }
    Ok(annotations)
}

fn read_maintainer(value: &Json, source: Source, at: &Place) -> Result<Option<Maintainer>, Misfit> {
    let Some(object) = decode::object(value, at, "v2.Maintainer")? else {
        return Ok(None);
    };
    let mut maintainer = Maintainer::default();
    for (key, value) in object {
        let Some(field) = decode::canonical(key, &["name", "email", "url"]) else {
            match source {
                Source::Yaml => return Err(Misfit::unknown(key)),
                Source::Json => continue,
            }
        };
        let at = Place::new(
            "Maintainer",
            format!("entries.Metadata.maintainers.{field}"),
        );
        let text = match field {
            "name" => &mut maintainer.name,
            "email" => &mut maintainer.email,
            _ => &mut maintainer.url,
        };
        decode::string(value, &at, text)?;
    }
    Ok(Some(maintainer))
}

fn read_dependency(value: &Json, source: Source, at: &Place) -> Result<Option<Dependency>, Misfit> {
    let Some(object) = decode::object(value, at, "v2.Dependency")? else {
        return Ok(None);
    };
    let mut dependency = Dependency::default();
    for (key, value) in object {
        let Some(field) = decode::canonical(key, &DEPENDENCY) else {
            match source {
                Source::Yaml => return Err(Misfit::unknown(key)),
                Source::Json => continue,
            }
        };
        let at = &Place::new(
            "Dependency",
            format!("entries.Metadata.dependencies.{field}"),
        );
        match field {
            "name" => decode::string(value, at, &mut dependency.name)?,
            "version" => decode::string(value, at, &mut dependency.version)?,
            "repository" => decode::string(value, at, &mut dependency.repository)?,
            "condition" => decode::string(value, at, &mut dependency.condition)?,
            "alias" => decode::string(value, at, &mut dependency.alias)?,
            "enabled" => decode::boolean(value, at, &mut dependency.enabled)?,
            "tags" => dependency.tags = decode::strings(value, at)?.unwrap_or_default(),
            _ => {
                let items = decode::list(value, at, "[]interface {}")?;
                let mut items = items.cloned().unwrap_or_default();
                items
                    .iter_mut()
                    .for_each(everflow_yaml::gojson::numbers_as_f64);
                dependency.import_values = items;
            }
        }
    }
    Ok(Some(dependency))
}

fn print_metadata(metadata: &Metadata, fields: &mut Fields<'_>) {
    fields.text("name", &metadata.name);
    fields.text("home", &metadata.home);
    fields.texts("sources", &metadata.sources);
    fields.text("version", &metadata.version);
    fields.text("description", &metadata.description);
    fields.texts("keywords", &metadata.keywords);
    if !metadata.maintainers.is_empty() {
        let (out, depth) = fields.field("maintainers");
        print::items(
            out,
            depth,
            &metadata.maintainers,
            |out, maintainer| match maintainer {
                None => out.push_str("null"),
                Some(maintainer) => {
                    let mut fields = Fields::new(out, depth + 1);
                    fields.text("name", &maintainer.name);
                    fields.text("email", &maintainer.email);
                    fields.text("url", &maintainer.url);
                    fields.finish();
                }
            },
        );
    }
    fields.text("icon", &metadata.icon);
    fields.text("apiVersion", &metadata.api_version);
    fields.text("condition", &metadata.condition);
    fields.text("tags", &metadata.tags);
    fields.text("appVersion", &metadata.app_version);
    fields.flag("deprecated", metadata.deprecated);
    if !metadata.annotations.is_empty() {
        let (out, depth) = fields.field("annotations");
        print::string_map(out, depth, &metadata.annotations);
    }
    fields.text("kubeVersion", &metadata.kube_version);
    if !metadata.dependencies.is_empty() {
        let (out, depth) = fields.field("dependencies");
        print::items(
            out,
            depth,
            &metadata.dependencies,
            |out, dependency| match dependency {
                None => out.push_str("null"),
                Some(dependency) => print_dependency(dependency, out, depth + 1),
            },
        );
    }
    fields.text("type", &metadata.kind);
}

fn print_dependency(dependency: &Dependency, out: &mut String, depth: usize) {
    let mut fields = Fields::new(out, depth);
    fields.string("name", &dependency.name);
    fields.text("version", &dependency.version);
    fields.string("repository", &dependency.repository);
    fields.text("condition", &dependency.condition);
    fields.texts("tags", &dependency.tags);
    fields.flag("enabled", dependency.enabled);
    if !dependency.import_values.is_empty() {
        let (out, depth) = fields.field("import-values");
        print::items(out, depth, &dependency.import_values, |out, value| {
            print::any(out, depth + 1, value);
        });
    }
    fields.text("alias", &dependency.alias);
    fields.finish();
}
