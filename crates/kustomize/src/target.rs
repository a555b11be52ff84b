//! One kustomization and all it includes.

use std::rc::Rc;

use everflow_json::{Value as Json, json};

use crate::accumulator::{Accumulator, Config, Context};
use crate::config::TransformerConfig;
use crate::crds;
use crate::decode::{KUSTOMIZATION, Mode};
use crate::error::{Error, Result, Within};
use crate::fieldspec::{FieldSpec, merge_spec, merge_specs};
use crate::generate::Kind;
use crate::kustomization::{COMPONENT_KIND, FILE_NAMES, Kustomization, Label};
use crate::loader::Loader;
use crate::origin::{self, Origin};
use crate::plugins::{self, Generator, Plugin};
use crate::resmap::{self, ResMap};
use crate::resource::Resource;
use crate::transform::Transformer;
use crate::transform::images::ImageChange;
use crate::transform::labels::Entries;
use crate::transform::names::Affix;
use crate::transform::namespace::{Namespace, Subjects};
use crate::transform::replicas::Replicas;
use crate::yaml_io;

/// A kustomization in its directory.
pub struct Target<'a> {
    context: &'a Context<'a>,
    loader: Loader<'a>,
    pub kustomization: Rc<Kustomization>,
    file_name: &'static str,
    build_metadata: Vec<String>,
    origin: Option<Origin>,
    helm_namespace: String,
}

impl<'a> Target<'a> {
    /// Reads the kustomization in the loader's directory.
    pub fn load(context: &'a Context<'a>, loader: Loader<'a>, mode: Mode) -> Result<Self> {
        let (kustomization, file_name) = context.reader.kustomization(&loader, mode)?;
        kustomization.check_type(loader.root())?;
        Ok(Target {
            context,
            loader,
            build_metadata: kustomization.build_metadata.clone(),
            kustomization,
            file_name,
            origin: None,
            helm_namespace: String::new(),
        })
    }

    /// Takes over the `openapi` field.
    pub fn configure_openapi(&self, outermost: bool) -> Result<()> {
        let openapi = &self.kustomization.openapi;
        let document = match openapi.get("path") {
            Some(path) => Some(self.loader.load(path)?),
            None => None,
        };
        self.context.schemas.configure(
            openapi.get("version").map(String::as_str),
            document.as_deref(),
            outermost,
        )
    }

    /// Starts to write origins down, if the kustomization asks for it.
    pub fn track_origins(&mut self) {
        if !self.build_metadata.is_empty() {
            self.origin = Some(Origin::default());
        }
    }

    /// Builds a kustomization from nothing.
    pub fn accumulate_alone(&mut self) -> Result<Accumulator> {
        let empty = Accumulator::new(self.context);
        self.accumulate(empty)
    }

    /// Builds on what is there: nothing for a kustomization, the includer's objects for a component.
    fn accumulate(&mut self, mut all: Accumulator) -> Result<Accumulator> {
        let kustomization = Rc::clone(&self.kustomization);
        self.add_resources(&mut all, &kustomization.resources)
            .within(|| "accumulating resources".to_owned())?;
        let config = Config::with_files(&kustomization.configurations, &self.loader, self.context)?;
        all.config
            .merge(&config, self.context)
            .within(|| "merging config".to_owned())?;
        if !kustomization.crds.is_empty() {
            let names = || format!("[{}]", kustomization.crds.join(" "));
            let config = crds::load(&self.loader, &kustomization.crds)
                .within(|| format!("loading CRDs {}", names()))?;
            all.config
                .merge(&Config::Custom(Rc::new(config)), self.context)
                .within(|| format!("merging CRDs {}", names()))?;
        }
        self.run_generators(&mut all)?;
        let mut all = self
            .add_components(all, &kustomization.components)
            .within(|| "accumulating components".to_owned())?;
        self.run_transformers(&mut all)?;
        self.run_validators(&mut all)?;
        all.vars
            .merge_with_objects(&kustomization.vars, &mut all.resources)?;
        Ok(all)
    }

    // ---- resources and components ----

    fn add_resources(&mut self, all: &mut Accumulator, paths: &[String]) -> Result<()> {
        for path in paths {
            if self.loader.leaves_out(path) {
                all.resources.note_gap();
                continue;
            }
            let Err(file_error) = self.add_file(all, path) else {
                continue;
            };
            if matches!(file_error.cause(), Error::Remote(_) | Error::Limit(_)) {
                return Err(file_error);
            }
            let loader = match self.loader.enter(path) {
                Ok(loader) => loader,
                Err(_) if file_error.is_malformed() => return Err(file_error),
                Err(error) => {
                    let text = format!("accumulation err='{file_error}'");
                    return Err(match file_error.cause() {
                        Error::Restricted(_) => Error::Restricted(format!("{text}: {error}")),
                        _ => error.within(text),
                    });
                }
            };
            self.add_directory(path, loader)
                .and_then(|(root, sub)| {
                    all.merge(sub, self.context)
                        .within(|| format!("recursed merging from path '{root}'"))
                })
                .within(|| format!("accumulation err='{file_error}'"))?;
        }
        Ok(())
    }

    fn add_file(&self, all: &mut Accumulator, path: &str) -> Result<()> {
        let context = || format!("accumulating resources from '{path}'");
        let mut resources = self.read_file(path).within(context)?;
        if let Some(origin) = &self.origin {
            let origin = origin.append(path);
            for resource in &mut resources {
                origin::set(resource, &origin);
            }
        }
        all.resources
            .append_all(resources)
            .within(|| format!("merging resources from '{path}'"))
    }

    fn read_file(&self, path: &str) -> Result<Vec<Resource>> {
        let content = self.loader.load(path)?;
        let objects = self
            .context
            .reader
            .objects(&content, path)
            .map_err(|error| plugins::in_file(error, path))?;
        self.wrap(objects)
    }

    fn wrap(&self, objects: Vec<everflow_yaml::Node>) -> Result<Vec<Resource>> {
        let schemas = &self.context.schemas;
        let resources: Vec<Resource> = objects
            .into_iter()
            .map(|node| Resource::new(node, schemas))
            .collect();
        resmap::check_unique(&resources)?;
        Ok(resources)
    }

    /// Reads the kustomization of a directory that this one names.
    fn sub_target(&mut self, path: &str, loader: Loader<'a>) -> Result<Target<'a>> {
        let root = loader.root().to_owned();
        let mut sub = Target::load(self.context, loader, KUSTOMIZATION)
            .within(|| format!("couldn't make target for path '{root}'"))?;
        sub.build_metadata.clone_from(&self.build_metadata);
        sub.origin = self.origin.as_ref().map(|origin| origin.append(path));
        sub.helm_namespace = if self.kustomization.namespace.is_empty() {
            self.helm_namespace.clone()
        } else {
            self.kustomization.namespace.clone()
        };
        sub.configure_openapi(false)?;
        Ok(sub)
    }

    fn add_directory(&mut self, path: &str, loader: Loader<'a>) -> Result<(String, Accumulator)> {
        let root = loader.root().to_owned();
        let mut sub = self.sub_target(path, loader)?;
        if sub.kustomization.is_component() {
            return Err(Error::Configuration(format!(
                "expected kind != '{COMPONENT_KIND}' for path '{root}'"
            )));
        }
        let built = sub
            .accumulate_alone()
            .within(|| format!("recursed accumulation of path '{root}'"))?;
        Ok((root, built))
    }

    fn add_components(&mut self, mut all: Accumulator, paths: &[String]) -> Result<Accumulator> {
        for path in paths {
            if self.loader.leaves_out(path) {
                all.resources.note_gap();
                continue;
            }
            let loader = self
                .loader
                .enter(path)
                .map_err(|error| requote(error, "loader.New"))?;
            all = self
                .add_component(path, loader, all)
                .map_err(|error| requote(error, "accumulateDirectory:"))?;
        }
        Ok(all)
    }

    fn add_component(
        &mut self,
        path: &str,
        loader: Loader<'a>,
        all: Accumulator,
    ) -> Result<Accumulator> {
        let root = loader.root().to_owned();
        let mut sub = self.sub_target(path, loader)?;
        if !sub.kustomization.is_component() {
            return Err(Error::Configuration(format!(
                "expected kind '{COMPONENT_KIND}' for path '{root}' but got '{}'",
                sub.kustomization.kind
            )));
        }
        let built = sub
            .accumulate(all)
            .within(|| format!("recursed accumulation of path '{root}'"))?;
        // What a component leaves is added to nothing, which checks it and can drop field specs.
        let mut whole = Accumulator::new(self.context);
        whole
            .merge(built, self.context)
            .within(|| format!("recursed merging from path '{root}'"))?;
        Ok(whole)
    }

    // ---- generators ----

    fn run_generators(&mut self, all: &mut Accumulator) -> Result<()> {
        let mut generators = self.builtin_generators()?;
        generators.extend(
            self.external_generators()
                .within(|| "loading generator plugins".to_owned())?,
        );
        for (generator, origin) in generators {
            let made =
                generator.generate(&self.loader, &self.context.schemas, &self.context.plugins)?;
            for mut resource in made {
                if let Some(origin) = &origin
                    && resource.annotation(crate::resource::ORIGIN).is_none()
                {
                    origin::set(&mut resource, origin);
                }
                all.resources
                    .absorb(resource)
                    .within(|| format!("merging from generator {}", generator.name()))?;
            }
        }
        Ok(())
    }

    fn builtin_generators(&self) -> Result<Vec<(Generator, Option<Origin>)>> {
        let kustomization = &self.kustomization;
        let mut generators = Vec::new();
        for (kind, list, plugin) in [
            (
                Kind::ConfigMap,
                &kustomization.config_map_generator,
                "ConfigMapGenerator",
            ),
            (
                Kind::Secret,
                &kustomization.secret_generator,
                "SecretGenerator",
            ),
        ] {
            for args in list {
                let mut args = args.clone();
                args.apply_defaults(kustomization.generator_options.as_ref());
                generators.push((Generator::Map(kind, args), self.plugin_origin(plugin)));
            }
        }
        for chart in &kustomization.helm_charts {
            const PLUGIN: &str = "HelmChartInflationGenerator";
            plugins::require_helm(self.context.options.enable_helm).within(|| {
                let config = json!({"name": chart.name, "namespace": chart.namespace});
                trouble(PLUGIN, &config)
            })?;
            let mut chart = chart.clone();
            if chart.namespace.is_empty() {
                chart.namespace = if kustomization.namespace.is_empty() {
                    self.helm_namespace.clone()
                } else {
                    kustomization.namespace.clone()
                };
            }
            let globals = kustomization.helm_globals.clone();
            generators.push((
                Generator::Helm(Box::new(chart), globals),
                self.plugin_origin(PLUGIN),
            ));
        }
        Ok(generators)
    }

    fn plugin_origin(&self, plugin: &str) -> Option<Origin> {
        self.origin
            .as_ref()
            .map(|origin| origin.of_builtin(self.file_name, plugin))
    }

    fn external_generators(&mut self) -> Result<Vec<(Generator, Option<Origin>)>> {
        let paths = Rc::clone(&self.kustomization);
        let configs = self.plugin_configs(&paths.generators, "configuring external generator")?;
        let mut generators = Vec::new();
        for config in configs {
            let load = || "failed to load generator".to_owned();
            match plugins::load(&config, &self.loader, self.context.options.enable_helm)
                .within(load)?
            {
                Plugin::Generator(generator) => {
                    generators.push((generator, Origin::of_plugin(&config)));
                }
                Plugin::Transformer(_) => {
                    return Err(Error::Plugin(format!(
                        "plugin {} not a generator",
                        config.original_id()
                    )))
                    .within(load);
                }
            }
        }
        Ok(generators)
    }

    /// The configurations of plugins: written in place, or in files and directories.
    fn plugin_configs(&mut self, entries: &[String], what: &str) -> Result<Vec<Resource>> {
        if entries.is_empty() {
            return Ok(Vec::new());
        }
        let mut configs = Accumulator::new(self.context);
        let mut paths = Vec::new();
        for entry in entries {
            let objects =
                yaml_io::read_objects(entry.as_bytes()).and_then(|objects| self.wrap(objects));
            let Ok(mut resources) = objects else {
                paths.push(entry.clone());
                continue;
            };
            if let Some(origin) = &self.origin {
                let origin = origin.append(self.file_name);
                for resource in &mut resources {
                    origin::set(resource, &origin);
                }
            }
            configs
                .resources
                .append_all(resources)
                .within(|| what.to_owned())?;
        }
        self.add_resources(&mut configs, &paths)?;
        Ok(configs.resources.into_resources())
    }

    // ---- transformers ----

    fn run_transformers(&mut self, all: &mut Accumulator) -> Result<()> {
        let config = all.config.clone();
        let mut transformers = self.builtin_transformers(config.get(self.context))?;
        let kustomization = Rc::clone(&self.kustomization);
        transformers.extend(self.external_transformers(&kustomization.transformers)?);
        for (transformer, origin) in transformers {
            transformer.apply(&mut all.resources, self.context.options.release)?;
            if let Some(origin) = origin {
                for resource in all.resources.contents_mut() {
                    if !resource.is_empty() {
                        origin::add_transformation(resource, &origin)?;
                    }
                }
            }
            all.resources.drop_empty();
        }
        Ok(())
    }

    fn external_transformers(
        &mut self,
        entries: &[String],
    ) -> Result<Vec<(Transformer, Option<Origin>)>> {
        let configs = self.plugin_configs(entries, "configuring external transformer")?;
        let mut transformers = Vec::new();
        for config in configs {
            match plugins::load(&config, &self.loader, self.context.options.enable_helm)? {
                Plugin::Transformer(transformer) => {
                    transformers.push((transformer, Origin::of_plugin(&config)));
                }
                Plugin::Generator(_) => {
                    return Err(Error::Plugin(format!(
                        "plugin {} not a transformer",
                        config.original_id()
                    )));
                }
            }
        }
        Ok(transformers)
    }

    fn builtin_transformers(
        &self,
        config: &TransformerConfig,
    ) -> Result<Vec<(Transformer, Option<Origin>)>> {
        let kustomization = &self.kustomization;
        let mut list = TransformerList {
            target: self,
            transformers: Vec::new(),
        };
        if !kustomization.patches_strategic_merge.is_empty() {
            const PLUGIN: &str = "PatchStrategicMergeTransformer";
            let texts = &kustomization.patches_strategic_merge;
            let patches = plugins::strategic_merge(texts, "", &self.loader)
                .within(|| trouble(PLUGIN, &json!({ "paths": texts })))?;
            list.add(PLUGIN, patches);
        }
        for patch in &kustomization.patches {
            const PLUGIN: &str = "PatchTransformer";
            let json = || plugins::patch_json(patch, "patch");
            let entry = plugins::patch_entry(patch, &self.loader, || yaml_io::print_json(&json()))
                .within(|| trouble(PLUGIN, &json()))?;
            list.add(PLUGIN, entry);
        }
        if !kustomization.namespace.is_empty() {
            let namespace = Namespace::new(
                &kustomization.namespace,
                &config.namespace,
                false,
                Subjects::NamedDefault,
            );
            list.add("NamespaceTransformer", Transformer::Namespace(namespace));
        }
        if !kustomization.name_prefix.is_empty() {
            let prefix = Affix::new(&kustomization.name_prefix, &config.name_prefix);
            list.add("PrefixTransformer", Transformer::Prefix(prefix));
        }
        if !kustomization.name_suffix.is_empty() {
            let suffix = Affix::new(&kustomization.name_suffix, &config.name_suffix);
            list.add("SuffixTransformer", Transformer::Suffix(suffix));
        }
        list.add_labels(config)?;
        if !kustomization.common_annotations.is_empty() {
            let entries = Entries::new(
                &kustomization.common_annotations,
                &config.common_annotations,
            );
            list.add("AnnotationsTransformer", Transformer::Entries(entries));
        }
        list.add_rest(config)?;
        Ok(list.transformers)
    }

    // ---- validators ----

    fn run_validators(&mut self, all: &mut Accumulator) -> Result<()> {
        let kustomization = Rc::clone(&self.kustomization);
        let validators = self.external_transformers(&kustomization.validators)?;
        for (validator, _) in validators {
            let before = contents(&all.resources)?;
            validator.apply(&mut all.resources, self.context.options.release)?;
            if before != contents(&all.resources)? {
                return Err(Error::Plugin(
                    "validator shouldn't modify the resource map".to_owned(),
                ));
            }
        }
        Ok(())
    }
}

/// The transformers of a kustomization in the making.
struct TransformerList<'t, 'a> {
    target: &'t Target<'a>,
    transformers: Vec<(Transformer, Option<Origin>)>,
}

impl TransformerList<'_, '_> {
    fn add(&mut self, plugin: &str, transformer: Transformer) {
        let origin = self.target.plugin_origin(plugin);
        self.transformers.push((transformer, origin));
    }

    fn add_labels(&mut self, config: &TransformerConfig) -> Result<()> {
        let kustomization = Rc::clone(&self.target.kustomization);
        if kustomization.labels.is_empty() && kustomization.common_labels.is_empty() {
            return Ok(());
        }
        const PLUGIN: &str = "LabelTransformer";
        for label in &kustomization.labels {
            let specs =
                label_specs(label, config).within(|| "failed to merge labels".to_owned())?;
            self.add(
                PLUGIN,
                Transformer::Entries(Entries::new(&label.pairs, &specs)),
            );
        }
        let common = Entries::new(&kustomization.common_labels, &config.common_labels);
        self.add(PLUGIN, Transformer::Entries(common));
        Ok(())
    }

    fn add_rest(&mut self, config: &TransformerConfig) -> Result<()> {
        let kustomization = Rc::clone(&self.target.kustomization);
        let loader = &self.target.loader;
        for patch in &kustomization.patches_json6902 {
            const PLUGIN: &str = "PatchJson6902Transformer";
            let made = plugins::json6902(
                patch.target.clone(),
                patch.path.clone(),
                patch.patch.clone(),
                loader,
            )
            .within(|| trouble(PLUGIN, &plugins::patch_json(patch, "jsonOp")))?;
            self.add(PLUGIN, made);
        }
        for replica in &kustomization.replicas {
            let replicas = Replicas::new(replica, &config.replicas);
            self.add("ReplicaCountTransformer", Transformer::Replicas(replicas));
        }
        for image in &kustomization.images {
            let change = ImageChange::new(image, &config.images);
            self.add("ImageTagTransformer", Transformer::Image(change));
        }
        if !kustomization.replacements.is_empty() {
            const PLUGIN: &str = "ReplacementTransformer";
            let made = plugins::replacements(&kustomization.replacements, loader)
                .within(|| format!("trouble configuring builtin {PLUGIN}"))?;
            self.add(PLUGIN, made);
        }
        Ok(())
    }
}

fn label_specs(label: &Label, config: &TransformerConfig) -> Result<Vec<FieldSpec>> {
    let mut specs = label.fields.clone();
    merge_specs(&mut specs, &config.labels)?;
    if label.include_selectors {
        merge_specs(&mut specs, &config.common_labels)?;
        return Ok(specs);
    }
    if label.include_templates {
        merge_specs(&mut specs, &config.template_labels)
            .within(|| "failed to merge template fieldSpec".to_owned())?;
    }
    if label.include_volume_claim_templates {
        merge_specs(&mut specs, &config.volume_claim_template_labels)
            .within(|| "failed to merge volumeClaimTemplate fieldSpec".to_owned())?;
    }
    merge_spec(&mut specs, &FieldSpec::everywhere("metadata/labels", true))?;
    Ok(specs)
}

/// What the objects hold, apart from the label that validators may set.
fn contents(resources: &ResMap) -> Result<Vec<Json>> {
    resources
        .iter()
        .map(|resource| {
            let mut json = yaml_io::to_json(&resource.node)?;
            if let Some(labels) = json
                .pointer_mut("/metadata/labels")
                .and_then(Json::as_object_mut)
            {
                labels.remove("validated-by");
            }
            Ok(json)
        })
        .collect()
}

fn trouble(plugin: &str, config: &Json) -> String {
    format!(
        "trouble configuring builtin {plugin} with config: `\n{}`",
        yaml_io::print_json(config)
    )
}

/// Puts the text of an error in quotes, as the real tool does for components.
fn requote(error: Error, context: &str) -> Error {
    let text = format!("{context} {:?}", error.to_string());
    match error.cause() {
        Error::Load(_) => Error::Load(text),
        Error::Restricted(_) => Error::Restricted(text),
        Error::Cycle(_) => Error::Cycle(text),
        Error::Malformed(_) => Error::Malformed(text),
        Error::Conflict(_) => Error::Conflict(text),
        Error::Remote(_) => Error::Remote(text),
        Error::Limit(_) => Error::Limit(text),
        Error::Patch(_) => Error::Patch(text),
        Error::Replacement(_) => Error::Replacement(text),
        Error::Variable(_) => Error::Variable(text),
        _ => Error::Configuration(text),
    }
}

/// The error for a directory without a kustomization file.
pub fn missing_kustomization(root: &str) -> Error {
    let names: Vec<String> = FILE_NAMES.iter().map(|name| format!("'{name}'")).collect();
    Error::Load(format!(
        "unable to find one of {} or {} in directory '{root}'",
        names[..names.len() - 1].join(", "),
        names[names.len() - 1]
    ))
}
