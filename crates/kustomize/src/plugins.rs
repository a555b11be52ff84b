//! Generators and transformers with configurations of their own, and those made from the fields of a
//! kustomization.

use everflow_json::{Map, Value as Json, json};
use everflow_limits::Held;
use everflow_yaml::{Node, cost};

use crate::decode::{Fields, PLUGIN};
use crate::error::{Error, Result, Within};
use crate::fieldspec::FieldSpec;
use crate::generate::{self, Kind};
use crate::kustomization::{
    GeneratorArgs, HelmChart, HelmGlobals, Image, Patch, PatchOptions, Replica,
};
use crate::loader::Loader;
use crate::options::Plugins;
use crate::paths;
use crate::replacement::{Replacement, ReplacementField};
use crate::resource::Resource;
use crate::schema::Schemas;
use crate::selector::Selector;
use crate::transform::Transformer;
use crate::transform::images::ImageChange;
use crate::transform::json_patch::{self, Json6902};
use crate::transform::labels::Entries;
use crate::transform::names::Affix;
use crate::transform::namespace::{Namespace, Subjects};
use crate::transform::patch::{Content, PatchEntry, StrategicMerge};
use crate::transform::replicas::Replicas;
use crate::transform::value_add::{ValueAdd, ValueTarget};
use crate::yaml_io;

/// A generator with its settings.
pub enum Generator {
    /// A ConfigMap or Secret.
    Map(Kind, GeneratorArgs),
    /// A chart.
    Helm(Box<HelmChart>, HelmGlobals),
    /// A service account for workload identity.
    Iam(IamPolicy),
}

/// The settings of the `IAMPolicyGenerator`.
#[derive(Clone, Debug, Default)]
pub struct IamPolicy {
    cloud: String,
    kubernetes_name: String,
    kubernetes_namespace: String,
    account_name: String,
    project_id: String,
}

impl Generator {
    /// What messages call it.
    pub fn name(&self) -> &str {
        match self {
            Generator::Map(_, args) => &args.name,
            Generator::Helm(chart, _) => &chart.name,
            Generator::Iam(_) => "IAMPolicyGenerator",
        }
    }

    /// Makes the objects.
    pub fn generate(
        &self,
        loader: &Loader<'_>,
        schemas: &Schemas,
        plugins: &Plugins<'_>,
    ) -> Result<Vec<Resource>> {
        match self {
            Generator::Map(kind, args) => {
                generate::generate(*kind, args, loader, schemas).map(|one| vec![one])
            }
            Generator::Iam(policy) => policy.generate(schemas),
            Generator::Helm(chart, globals) => inflate(chart, globals, loader, schemas, plugins),
        }
    }
}

impl IamPolicy {
    fn generate(&self, schemas: &Schemas) -> Result<Vec<Resource>> {
        if self.cloud != "gke" {
            return Err(Error::Configuration(format!(
                "cloud provider {} not supported yet",
                self.cloud
            )));
        }
        let mut metadata = json!({
            "annotations": {
                "iam.gke.io/gcp-service-account": format!(
                    "{}@{}.iam.gserviceaccount.com",
                    self.account_name, self.project_id
                )
            },
            "name": self.kubernetes_name,
        });
        if !self.kubernetes_namespace.is_empty() {
            metadata["namespace"] = Json::from(self.kubernetes_namespace.as_str());
        }
        let object = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
        Ok(vec![Resource::new(Node::from_json(&object), schemas)])
    }
}

fn inflate(
    chart: &HelmChart,
    globals: &HelmGlobals,
    loader: &Loader<'_>,
    schemas: &Schemas,
    plugins: &Plugins<'_>,
) -> Result<Vec<Resource>> {
    let Some(helm) = plugins.helm else {
        return Err(Error::Helm(format!(
            "cannot inflate chart {:?}: this build has no Helm engine",
            chart.name
        )));
    };
    let read = |path: &str| loader.load(path).map_err(|error| error.to_string());
    let text = helm
        .inflate(chart, globals, loader.root(), &read)
        .map_err(Error::Helm)?;
    let objects = yaml_io::read_objects(&text, loader.meter().budget)?;
    Ok(objects
        .into_iter()
        .map(|node| {
            let mut resource = Resource::new(node, schemas);
            resource.helm_generated = true;
            resource
        })
        .collect())
}

/// Either kind of plugin.
pub enum Plugin {
    /// It makes objects.
    Generator(Generator),
    /// It changes objects.
    Transformer(Transformer),
}

/// What a configuration may take as settings, in times of its tree.
const SETTINGS: usize = 4;

/// Makes a plugin from a configuration object. What it takes is held.
pub fn load(
    resource: &Resource,
    loader: &Loader<'_>,
    enable_helm: bool,
    held: &mut Held<'_>,
) -> Result<Plugin> {
    let id = resource.original_id();
    let gvk = resource.gvk();
    if !gvk.group.is_empty() || gvk.version != "builtin" {
        return Err(Error::Plugin(format!(
            "external plugins disabled; unable to load external plugin '{}'",
            id.gvk.kind
        )));
    }
    held.grow(SETTINGS * cost::of_tree(&resource.node))?;
    let json =
        yaml_io::to_json(&resource.node).within(|| format!("marshalling yaml from res {id}"))?;
    configure(&gvk.kind, &json, loader, enable_helm)
        .ok_or_else(|| Error::Plugin(format!("unable to load builtin {gvk}")))?
        .map_err(|error| match error.exceeded() {
            Some(_) => error.above_field(&format!("plugin {id}:")),
            None => error.within(format!("plugin {id} fails configuration")),
        })
}

fn configure(
    kind: &str,
    json: &Json,
    loader: &Loader<'_>,
    enable_helm: bool,
) -> Option<Result<Plugin>> {
    let fields = || Fields::new(json, kind, PLUGIN);
    let generator = |made: Result<Generator>| Some(made.map(Plugin::Generator));
    let transformer = |made: Result<Transformer>| Some(made.map(Plugin::Transformer));
    let with = |read: &dyn Fn(&mut Fields<'_>) -> Result<Transformer>| {
        transformer(fields().and_then(|mut fields| read(&mut fields)))
    };
    match kind {
        "ConfigMapGenerator" => generator(fields().and_then(|f| map_generator(f, Kind::ConfigMap))),
        "SecretGenerator" => generator(fields().and_then(|f| map_generator(f, Kind::Secret))),
        "HelmChartInflationGenerator" => {
            generator(fields().and_then(|mut fields| helm_generator(&mut fields, enable_helm)))
        }
        "IAMPolicyGenerator" => {
            generator(fields().and_then(|mut fields| iam_generator(&mut fields)))
        }
        "AnnotationsTransformer" => with(&|fields| {
            let entries = fields.text_map("annotations")?;
            Ok(Transformer::Entries(Entries::new(
                &entries,
                &specs(fields)?,
            )))
        }),
        "LabelTransformer" => with(&|fields| {
            let entries = fields.text_map("labels")?;
            Ok(Transformer::Entries(Entries::new(
                &entries,
                &specs(fields)?,
            )))
        }),
        "HashTransformer" => with(&|_| Ok(Transformer::Hash)),
        "ImageTagTransformer" => with(&|fields| {
            let image = fields
                .object("imageTag", |mut image| Image::read(&mut image))?
                .unwrap_or_default();
            Ok(Transformer::Image(ImageChange::new(
                &image,
                &specs(fields)?,
            )))
        }),
        "NamespaceTransformer" => with(&namespace_transformer),
        "PatchJson6902Transformer" => with(&|fields| {
            let target = selector(fields, "target")?;
            json6902(target, fields.text("path")?, fields.text("jsonOp")?, loader)
        }),
        "PatchStrategicMergeTransformer" => with(&|fields| {
            strategic_merge(&fields.texts("paths")?, &fields.text("patches")?, loader)
        }),
        "PatchTransformer" => with(&|fields| {
            let patch = Patch::read(fields)?;
            patch_entry(&patch, loader, || yaml_io::quote_json(json))
        }),
        "PrefixTransformer" => with(&|fields| affix(fields, "prefix").map(Transformer::Prefix)),
        "SuffixTransformer" => with(&|fields| affix(fields, "suffix").map(Transformer::Suffix)),
        "PrefixSuffixTransformer" => with(&|fields| {
            Ok(Transformer::All(vec![
                Transformer::Prefix(affix(fields, "prefix")?),
                Transformer::Suffix(affix(fields, "suffix")?),
            ]))
        }),
        "ReplacementTransformer" => with(&|fields| {
            let entries = fields.objects("replacements", ReplacementField::read)?;
            replacements(&entries, loader)
        }),
        "ReplicaCountTransformer" => with(&|fields| {
            let replica = fields
                .object("replica", |mut replica| Replica::read(&mut replica))?
                .unwrap_or_default();
            Ok(Transformer::Replicas(Replicas::new(
                &replica,
                &specs(fields)?,
            )))
        }),
        "ValueAddTransformer" => with(&|fields| value_add(fields, loader)),
        _ => None,
    }
}

fn specs(fields: &mut Fields<'_>) -> Result<Vec<FieldSpec>> {
    fields.objects("fieldSpecs", FieldSpec::read)
}

fn selector(fields: &mut Fields<'_>, name: &str) -> Result<Option<Selector>> {
    fields.object(name, |mut selector| Selector::read(&mut selector))
}

fn affix(fields: &mut Fields<'_>, name: &str) -> Result<Affix> {
    let text = fields.text(name)?;
    if !fields.has("fieldSpecs") {
        return Err(Error::Configuration(
            "fieldSpecs is not expected to be nil".to_owned(),
        ));
    }
    Ok(Affix::new(&text, &specs(fields)?))
}

fn map_generator(mut fields: Fields<'_>, kind: Kind) -> Result<Generator> {
    let mut args = GeneratorArgs::read(&mut fields, kind == Kind::Secret)?;
    fields.object("metadata", |mut meta| {
        if args.name.is_empty() {
            args.name = meta.text("name")?;
        }
        if args.namespace.is_empty() {
            args.namespace = meta.text("namespace")?;
        }
        Ok(())
    })?;
    Ok(Generator::Map(kind, args))
}

fn helm_generator(fields: &mut Fields<'_>, enable_helm: bool) -> Result<Generator> {
    require_helm(enable_helm)?;
    let globals = HelmGlobals {
        chart_home: fields.text("chartHome")?,
        config_home: fields.text("configHome")?,
    };
    Ok(Generator::Helm(Box::new(HelmChart::read(fields)?), globals))
}

/// An error unless charts may be used.
pub fn require_helm(enabled: bool) -> Result<()> {
    if enabled {
        return Ok(());
    }
    Err(Error::Helm("must specify --enable-helm".to_owned()))
}

fn iam_generator(fields: &mut Fields<'_>) -> Result<Generator> {
    let mut policy = IamPolicy {
        cloud: fields.text("cloud")?,
        ..IamPolicy::default()
    };
    fields.object("kubernetesService", |mut service| {
        policy.kubernetes_name = service.text("name")?;
        policy.kubernetes_namespace = service.text("namespace")?;
        Ok(())
    })?;
    fields.object("serviceAccount", |mut account| {
        policy.account_name = account.text("name")?;
        policy.project_id = account.text("projectId")?;
        Ok(())
    })?;
    Ok(Generator::Iam(policy))
}

fn namespace_transformer(fields: &mut Fields<'_>) -> Result<Transformer> {
    let namespace = fields
        .object("metadata", |mut meta| meta.text("namespace"))?
        .unwrap_or_default();
    let subjects = Subjects::parse(&fields.text("setRoleBindingSubjects")?)?;
    let unset_only = fields.flag("unsetOnly")?;
    Ok(Transformer::Namespace(Namespace::new(
        &namespace,
        &specs(fields)?,
        unset_only,
        subjects,
    )))
}

fn value_add(fields: &mut Fields<'_>, loader: &Loader<'_>) -> Result<Transformer> {
    let read_target = |fields: &mut Fields<'_>| {
        let target = ValueTarget {
            selector: selector(fields, "selector")?,
            field_path: fields.path("fieldPath", '/')?,
            position: fields.integer("filePathPosition")?,
        };
        if target.field_path.is_empty() {
            return Err(Error::Configuration("fieldPath cannot be empty".to_owned()));
        }
        if target.position < 0 {
            return Err(Error::Configuration(format!(
                "value of FilePathPosition ({}) cannot be negative",
                target.position
            )));
        }
        Ok(target)
    };
    let mut value = fields.text("value")?.trim().to_owned();
    if value.is_empty() {
        value = paths::base(loader.root()).to_owned();
    }
    let mut targets = fields.objects("targets", read_target)?;
    let file = fields.text("targetFilePath")?;
    if !file.is_empty() {
        let content = loader.load(&file)?;
        let read = || {
            let (json, _held) = yaml_io::sigs_json(&content, loader.meter().budget)?;
            Fields::new(&json, "targets", PLUGIN)?.objects("targets", read_target)
        };
        targets.extend(read().in_file(|| file_of(loader, &file))?);
    }
    if targets.is_empty() {
        return Err(Error::Configuration(
            "must specify at least one target".to_owned(),
        ));
    }
    Ok(Transformer::ValueAdd(ValueAdd { value, targets }))
}

/// An entry of `patchesJson6902`.
pub fn json6902(
    target: Option<Selector>,
    path: String,
    operations: String,
    loader: &Loader<'_>,
) -> Result<Transformer> {
    let invalid = |text: &str| Err(Error::Patch(text.to_owned()));
    if target
        .as_ref()
        .is_none_or(|target| target.id.name.is_empty())
    {
        return invalid("must specify the target name");
    }
    let text = match (path.is_empty(), operations.is_empty()) {
        (true, true) => return invalid("empty file path and empty jsonOp"),
        (false, false) => return invalid("must specify a file path or jsonOp, not both"),
        (true, false) => operations,
        (false, true) => {
            let content = loader.load(&path)?;
            let text = String::from_utf8_lossy(&content).into_owned();
            if text.is_empty() {
                return invalid(&format!("patch file '{path}' empty seems to be empty"));
            }
            text
        }
    };
    let budget = loader.meter().budget;
    let parsed = json_patch::parse(&text, budget);
    let parsed = parsed.in_file(|| file_of(loader, &path)).within(|| {
        let json = yaml_io::sigs_json(text.as_bytes(), budget);
        let shown = json.map_or_else(
            |_| text.clone(),
            |(json, _held)| everflow_yaml::gojson::to_string(&json),
        );
        format!("decoding {shown}")
    })?;
    if parsed.as_array().is_none_or(Vec::is_empty) {
        return invalid(&format!(
            "patch appears to be empty; file={path}, JsonOp={text}"
        ));
    }
    Ok(Transformer::Json6902(Json6902 {
        target,
        operations: parsed,
    }))
}

/// `patchesStrategicMerge`: each text is a patch, or the path of a file with some.
pub fn strategic_merge(texts: &[String], inline: &str, loader: &Loader<'_>) -> Result<Transformer> {
    if texts.is_empty() && inline.is_empty() {
        return Err(Error::Patch(
            "empty file path and empty patch content".to_owned(),
        ));
    }
    let budget = loader.meter().budget;
    let mut patches = Vec::new();
    for text in texts {
        match yaml_io::read_objects(text.as_bytes(), budget) {
            Ok(objects) => patches.extend(objects),
            Err(error) if error.exceeded().is_some() => return Err(error),
            Err(_) => {
                let content = loader.load(text)?;
                let read = yaml_io::read_objects(&content, budget);
                let read = read.in_file(|| file_of(loader, text));
                patches.extend(read.map_err(|error| in_file(error, text))?);
            }
        }
    }
    if !inline.is_empty() {
        patches.extend(yaml_io::read_objects(inline.as_bytes(), budget)?);
    }
    if patches.is_empty() {
        return Err(Error::Patch(format!(
            "patch appears to be empty; files=[{}], Patch={inline}",
            texts.join(" ")
        )));
    }
    Ok(Transformer::StrategicMerge(StrategicMerge { patches }))
}

/// The file that a kustomization names, unless it names none.
fn file_of(loader: &Loader<'_>, path: &str) -> String {
    match path {
        "" => String::new(),
        path => paths::join(loader.root(), path),
    }
}

/// Names the file of a YAML error.
pub fn in_file(error: Error, path: &str) -> Error {
    match error {
        Error::Malformed(text) => Error::Malformed(format!("{text} in File: {path}")),
        other => other,
    }
}

/// An entry of `patches`.
pub fn patch_entry(
    patch: &Patch,
    loader: &Loader<'_>,
    print: impl FnOnce() -> String,
) -> Result<Transformer> {
    let inline = patch.patch.trim();
    let (text, source) = match (inline.is_empty(), patch.path.is_empty()) {
        (true, true) => {
            return Err(Error::Patch(format!(
                "must specify one of patch and path in\n{}",
                print()
            )));
        }
        (false, false) => {
            return Err(Error::Patch(format!(
                "patch and path can't be set at the same time\n{}",
                print()
            )));
        }
        (false, true) => (inline.to_owned(), format!("[patch: {inline:?}]")),
        (true, false) => {
            let path = &patch.path;
            let content = loader
                .load(path)
                .within(|| format!("failed to get the patch file from path({path})"))?;
            let text = String::from_utf8_lossy(&content).into_owned();
            (text, format!("[path: {path:?}]"))
        }
    };
    Ok(Transformer::Patch(PatchEntry {
        content: Content::parse(&text, &source, loader.meter().budget)
            .in_file(|| file_of(loader, &patch.path))?,
        target: patch.target.clone(),
        options: patch.options.unwrap_or_default(),
        source,
    }))
}

/// `replacements`, those in files included.
pub fn replacements(entries: &[ReplacementField], loader: &Loader<'_>) -> Result<Transformer> {
    let mut all = Vec::new();
    for entry in entries {
        if entry.path.is_empty() {
            all.push(entry.replacement.clone());
            continue;
        }
        let targets = entry.replacement.targets.as_ref();
        if entry.replacement.source.is_some() || targets.is_some_and(|targets| !targets.is_empty())
        {
            return Err(Error::Configuration(
                "cannot specify both path and inline replacement".to_owned(),
            ));
        }
        let file = || file_of(loader, &entry.path);
        let content = loader.load(&entry.path)?;
        let (json, _held) = yaml_io::sigs_json(&content, loader.meter().budget).in_file(file)?;
        loader
            .meter()
            .budget
            .charge(SETTINGS * cost::of_json(&json))?;
        let read = |json: &Json| {
            let mut fields = Fields::new(json, "Replacement", PLUGIN)?;
            Replacement::read(&mut fields).in_file(file)
        };
        match &json {
            Json::Array(items) => {
                for item in items {
                    all.push(read(item)?);
                }
            }
            Json::Object(_) => all.push(read(&json)?),
            other => {
                let kind = match other {
                    Json::String(_) => "string",
                    Json::Bool(_) => "bool",
                    Json::Number(_) => "float64",
                    _ => "invalid",
                };
                return Err(Error::Configuration(format!(
                    "unsupported replacement type encountered within replacement path: {kind}"
                )));
            }
        }
    }
    Ok(Transformer::Replacements(all))
}

/// A selector as configuration prints it.
pub fn selector_json(selector: &Selector) -> Json {
    let mut map = Map::new();
    let id = &selector.id;
    for (name, value) in [
        ("group", id.gvk.group.as_str()),
        ("version", &id.gvk.version),
        ("kind", &id.gvk.kind),
        ("name", &id.name),
        ("namespace", &id.namespace),
        ("annotationSelector", &selector.annotation_selector),
        ("labelSelector", &selector.label_selector),
    ] {
        if !value.is_empty() {
            map.insert(name.into(), Json::from(value));
        }
    }
    Json::Object(map)
}

/// A patch as configuration prints it.
pub fn patch_json(patch: &Patch, text_field: &str) -> Json {
    let mut map = Map::new();
    if !patch.path.is_empty() {
        map.insert("path".into(), Json::from(patch.path.as_str()));
    }
    if !patch.patch.is_empty() {
        map.insert(text_field.into(), Json::from(patch.patch.as_str()));
    }
    if let Some(target) = &patch.target {
        map.insert("target".into(), selector_json(target));
    }
    if let Some(PatchOptions {
        allow_name_change,
        allow_kind_change,
    }) = patch.options
    {
        let mut options = Map::new();
        if allow_kind_change {
            options.insert("allowKindChange".into(), Json::from(true));
        }
        if allow_name_change {
            options.insert("allowNameChange".into(), Json::from(true));
        }
        map.insert("options".into(), Json::Object(options));
    }
    Json::Object(map)
}
