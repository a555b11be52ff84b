//! `Chart.yaml`.

use everflow_gotemplate::{FuncError, Map, Meter, Numbers, Value, gofmt};
use everflow_json::Value as Json;

use super::decode::{Decoder, Fields};

/// `apiVersion` of charts whose dependencies stand in `requirements.yaml`.
pub const API_VERSION_V1: &str = "v1";

/// What `Chart.yaml` says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// The chart's name.
    pub name: String,
    /// A home page.
    pub home: String,
    /// Where the sources are.
    pub sources: Vec<String>,
    /// A semantic version.
    pub version: String,
    /// One sentence.
    pub description: String,
    /// Words to find it by.
    pub keywords: Vec<String>,
    /// Who keeps it; an entry may be empty in a file that is not valid.
    pub maintainers: Vec<Option<Maintainer>>,
    /// A picture's address.
    pub icon: String,
    /// `v1` or `v2`.
    pub api_version: String,
    /// A path into the values that switches the chart on.
    pub condition: String,
    /// Tags that switch the chart on.
    pub tags: String,
    /// The version of what the chart installs.
    pub app_version: String,
    /// Whether users should look elsewhere.
    pub deprecated: bool,
    /// Free for anyone's use.
    pub annotations: Vec<(String, String)>,
    /// A constraint on the Kubernetes version.
    pub kube_version: String,
    /// Charts this one needs; an entry may be empty in a file that is not valid.
    pub dependencies: Vec<Option<Dependency>>,
    /// `application` (or empty) or `library`.
    pub kind: String,
}

/// A person or a team.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Maintainer {
    /// Name.
    pub name: String,
    /// Address.
    pub email: String,
    /// Page.
    pub url: String,
}

/// A chart that another chart needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Dependency {
    /// The chart's name; its alias once dependencies are processed.
    pub name: String,
    /// A version constraint.
    pub version: String,
    /// Where it comes from.
    pub repository: String,
    /// Paths into the values, separated by commas; the first that exists decides.
    pub condition: String,
    /// Tags that switch it on or off together with others.
    pub tags: Vec<String>,
    /// Whether it takes part.
    pub enabled: bool,
    /// Values of the dependency that the parent takes over.
    pub import_values: Vec<Json>,
    /// Another name for it.
    pub alias: String,
}

impl Metadata {
    /// Takes over what `Chart.yaml` or `requirements.yaml` says; keys that are absent stay.
    pub(crate) fn absorb(&mut self, yaml: &Json) -> Result<(), String> {
        let mut decoder = Decoder::default();
        if let Some(fields) = decoder.object(yaml, "Metadata", "v2.Metadata") {
            self.read(&mut decoder, &fields);
        }
        decoder.finish()
    }

    fn read(&mut self, decoder: &mut Decoder, fields: &Fields<'_>) {
        let mut text = |name: &str, into: &mut String| {
            if fields.get(name).is_some_and(|(_, value)| !value.is_null()) {
                *into = decoder.string(fields, name);
            }
        };
        text("name", &mut self.name);
        text("home", &mut self.home);
        text("version", &mut self.version);
        text("description", &mut self.description);
        text("icon", &mut self.icon);
        text("apiVersion", &mut self.api_version);
        text("condition", &mut self.condition);
        text("tags", &mut self.tags);
        text("appVersion", &mut self.app_version);
        text("kubeVersion", &mut self.kube_version);
        text("type", &mut self.kind);
        if fields.get("sources").is_some() {
            self.sources = decoder.strings(fields, "sources");
        }
        if fields.get("keywords").is_some() {
            self.keywords = decoder.strings(fields, "keywords");
        }
        if fields.get("annotations").is_some() {
            self.annotations = decoder.string_map(fields, "annotations");
        }
        if fields.get("deprecated").is_some() {
            self.deprecated = decoder.boolean(fields, "deprecated");
        }
        if let Some((path, items)) = decoder.list(fields, "maintainers", "[]*v2.Maintainer") {
            self.maintainers = items
                .iter()
                .map(|item| Maintainer::read(decoder, item, &path))
                .collect();
        }
        if let Some((path, items)) = decoder.list(fields, "dependencies", "[]*v2.Dependency") {
            self.dependencies = items
                .iter()
                .map(|item| Dependency::read(decoder, item, &path))
                .collect();
        }
    }

    /// Cleans the texts and checks what helm checks; the message is helm's.
    pub(crate) fn validate(&mut self) -> Result<(), String> {
        self.sanitize();
        let wrong = |message: String| Err(format!("validation: {message}"));
        if self.api_version.is_empty() {
            return wrong("chart.metadata.apiVersion is required".to_owned());
        }
        if self.name.is_empty() {
            return wrong("chart.metadata.name is required".to_owned());
        }
        let quoted = gofmt::quote(self.name.as_bytes());
        if self.name == "." || self.name == ".." {
            return wrong(format!("chart.metadata.name {quoted} is not allowed"));
        }
        if self.name.contains('/') {
            return wrong(format!("chart.metadata.name {quoted} is invalid"));
        }
        if self.version.is_empty() {
            return wrong("chart.metadata.version is required".to_owned());
        }
        if everflow_semver::Version::parse(&self.version).is_err() {
            return wrong(format!(
                "chart.metadata.version {} is invalid",
                gofmt::quote(self.version.as_bytes())
            ));
        }
        if !matches!(self.kind.as_str(), "" | "application" | "library") {
            return wrong("chart.metadata.type must be application or library".to_owned());
        }
        if self.maintainers.iter().any(Option::is_none) {
            return wrong("maintainers must not contain empty or null nodes".to_owned());
        }
        self.validate_dependencies()
    }

    fn validate_dependencies(&self) -> Result<(), String> {
        let mut names = Vec::new();
        for dependency in &self.dependencies {
            let Some(dependency) = dependency else {
                return Err(
                    "validation: dependencies must not contain empty or null nodes".to_owned(),
                );
            };
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if !dependency.alias.chars().all(allowed) {
                return Err(format!(
                    "validation: dependency {} has disallowed characters in the alias",
                    gofmt::quote(dependency.name.as_bytes())
                ));
            }
            let name = match dependency.alias.as_str() {
                "" => dependency.name.as_str(),
                alias => alias,
            };
            if names.contains(&name) {
                return Err(format!(
                    "validation: more than one dependency with name or alias {}",
                    gofmt::quote(name.as_bytes())
                ));
            }
            names.push(name);
        }
        Ok(())
    }

    fn sanitize(&mut self) {
        for text in [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ] {
            *text = sanitized(text);
        }
        for text in self.sources.iter_mut().chain(&mut self.keywords) {
            *text = sanitized(text);
        }
        for maintainer in self.maintainers.iter_mut().flatten() {
            maintainer.name = sanitized(&maintainer.name);
            maintainer.email = sanitized(&maintainer.email);
            maintainer.url = sanitized(&maintainer.url);
        }
        for dependency in self.dependencies.iter_mut().flatten() {
            dependency.name = sanitized(&dependency.name);
            dependency.version = sanitized(&dependency.version);
            dependency.repository = sanitized(&dependency.repository);
            dependency.condition = sanitized(&dependency.condition);
            for tag in &mut dependency.tags {
                *tag = sanitized(tag);
            }
        }
    }

    /// The chart as templates see it under `.Chart`.
    pub fn to_template_value(&self, is_root: bool, meter: &Meter<'_>) -> Result<Map, FuncError> {
        let texts = |items: &[String]| Value::list(items.iter().map(Value::string).collect());
        let maintainers = self.maintainers.iter().flatten().map(|maintainer| {
            Value::map([
                ("Name", Value::string(&maintainer.name)),
                ("Email", Value::string(&maintainer.email)),
                ("URL", Value::string(&maintainer.url)),
            ])
        });
        let dependencies = self.dependencies.iter().flatten();
        let dependencies: Vec<Value> = dependencies
            .map(|dependency| dependency.to_template_value(meter))
            .collect::<Result<_, _>>()?;
        Ok([
            ("Name", Value::string(&self.name)),
            ("Home", Value::string(&self.home)),
            ("Sources", texts(&self.sources)),
            ("Version", Value::string(&self.version)),
            ("Description", Value::string(&self.description)),
            ("Keywords", texts(&self.keywords)),
            ("Maintainers", Value::list(maintainers.collect())),
            ("Icon", Value::string(&self.icon)),
            ("APIVersion", Value::string(&self.api_version)),
            ("Condition", Value::string(&self.condition)),
            ("Tags", Value::string(&self.tags)),
            ("AppVersion", Value::string(&self.app_version)),
            ("Deprecated", Value::Bool(self.deprecated)),
            ("Annotations", string_map(&self.annotations)),
            ("KubeVersion", Value::string(&self.kube_version)),
            ("Dependencies", Value::list(dependencies)),
            ("Type", Value::string(&self.kind)),
            ("IsRoot", Value::Bool(is_root)),
        ]
        .into_iter()
        .collect())
    }
}

impl Maintainer {
    fn read(decoder: &mut Decoder, item: &Json, path: &str) -> Option<Self> {
        let fields = decoder.object(item, path, "v2.Maintainer")?;
        Some(Maintainer {
            name: decoder.string(&fields, "name"),
            email: decoder.string(&fields, "email"),
            url: decoder.string(&fields, "url"),
        })
    }
}

impl Dependency {
    pub(crate) fn read(decoder: &mut Decoder, item: &Json, path: &str) -> Option<Self> {
        let fields = decoder.object(item, path, "v2.Dependency")?;
        Some(Dependency {
            name: decoder.string(&fields, "name"),
            version: decoder.string(&fields, "version"),
            repository: decoder.string(&fields, "repository"),
            condition: decoder.string(&fields, "condition"),
            tags: decoder.strings(&fields, "tags"),
            enabled: decoder.boolean(&fields, "enabled"),
            import_values: decoder
                .list(&fields, "import-values", "[]interface {}")
                .map(|(_, items)| items.clone())
                .unwrap_or_default(),
            alias: decoder.string(&fields, "alias"),
        })
    }

    fn to_template_value(&self, meter: &Meter<'_>) -> Result<Value, FuncError> {
        let import_values: Vec<Value> = self
            .import_values
            .iter()
            .map(|value| Value::from_json(value, Numbers::Float64, meter))
            .collect::<Result<_, _>>()?;
        Ok(Value::map([
            ("Name", Value::string(&self.name)),
            ("Version", Value::string(&self.version)),
            ("Repository", Value::string(&self.repository)),
            ("Condition", Value::string(&self.condition)),
            (
                "Tags",
                Value::list(self.tags.iter().map(Value::string).collect()),
            ),
            ("Enabled", Value::Bool(self.enabled)),
            ("ImportValues", Value::list(import_values)),
            ("Alias", Value::string(&self.alias)),
        ]))
    }
}

/// A `map[string]string`.
fn string_map(entries: &[(String, String)]) -> Value {
    Value::Map(Map::typed(
        everflow_gotemplate::GoType::STRING_MAP,
        entries
            .iter()
            .map(|(key, value)| (key.into(), Value::string(value)))
            .collect(),
    ))
}

/// White space becomes blanks, what cannot be printed goes.
fn sanitized(text: &str) -> String {
    text.chars()
        .filter_map(|character| match character {
            blank if blank.is_whitespace() => Some(' '),
            printable if gofmt::is_print(u32::from(printable)) => Some(printable),
            _ => None,
        })
        .collect()
}
