//! One kustomization and all it includes.

use std::rc::Rc;

use everflow_json::{Value as Json, json};
use everflow_limits::{Budget, Held};
use everflow_yaml::cost;

use crate::accumulator::{Accumulator, Config, Context};
use crate::config::TransformerConfig;
use crate::crds;
use crate::decode::{KUSTOMIZATION, Mode};
use crate::error::{Error, Result, Within};
use crate::fieldspec::{self, FieldSpec, merge_spec, merge_specs};
use crate::generate::Kind;
use crate::kustomization::{COMPONENT_KIND, FILE_NAMES, GeneratorOptions, Kustomization, Label};
use crate::loader::Loader;
use crate::origin::{self, Origin};
use crate::paths;
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
    /// What the kustomization takes in memory.
    _held: Held<'a>,
}

impl<'a> Target<'a> {
    /// Reads the kustomization in the loader's directory.
    pub fn load(context: &'a Context<'a>, loader: Loader<'a>, mode: Mode) -> Result<Self> {
        let (kustomization, file_name, held) = context.reader.kustomization(&loader, mode)?;
        kustomization.check_type(loader.root())?;
        Ok(Target {
            context,
            loader,
            build_metadata: kustomization.build_metadata.clone(),
            kustomization,
            file_name,
            origin: None,
            helm_namespace: String::new(),
            _held: held,
        })
    }

    /// The path of the kustomization file.
    pub fn file(&self) -> String {
        paths::join(self.loader.root(), self.file_name)
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
            self.context.meter.budget,
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
    fn accumulate(&mut self, all: Accumulator) -> Result<Accumulator> {
        let built = self.take_steps(all);
        built.in_file(|| self.file())
    }

    fn take_steps(&mut self, mut all: Accumulator) -> Result<Accumulator> {
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
            .merge_with_objects(&kustomization.vars, &mut all.resources, self.budget())?;
        Ok(all)
    }

    fn budget(&self) -> &'a Budget {
        self.context.meter.budget
    }

    // ---- resources and components ----

    fn add_resources(&mut self, all: &mut Accumulator, paths: &[String]) -> Result<()> {
        for path in paths {
            self.budget().check()?;
            if self.loader.leaves_out(path) {
                all.resources.note_gap();
                continue;
            }
            let Err(file_error) = self.add_file(all, path) else {
                continue;
            };
            let cause = file_error.cause();
            if matches!(
                cause,
                Error::Remote(_) | Error::Limit(_) | Error::Exceeded(_)
            ) {
                return Err(file_error);
            }
            let loader = match self.loader.enter(path) {
                Ok(loader) => loader,
                Err(error) if error.exceeded().is_some() => return Err(error),
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
                origin::set(resource, &origin, self.budget())?;
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
            .objects(&content, path, self.context.meter)
            .in_file(|| paths::join(self.loader.root(), path))
            .map_err(|error| plugins::in_file(error, path))?;
        self.wrap(objects)
    }

    fn wrap(&self, objects: Vec<everflow_yaml::Node>) -> Result<Vec<Resource>> {
        self.budget()
            .charge(objects.len() * size_of::<Resource>())?;
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
        let mut held = self.budget().hold(0)?;
        let mut generators = self.builtin_generators(&mut held)?;
        generators.extend(
            self.external_generators(&mut held)
                .within(|| "loading generator plugins".to_owned())?,
        );
        for (generator, origin) in generators {
            let made =
                generator.generate(&self.loader, &self.context.schemas, &self.context.plugins)?;
            self.context.meter.add_objects(made.len())?;
            self.budget().charge(made.len() * size_of::<Resource>())?;
            for mut resource in made {
                if let Some(origin) = &origin
                    && resource.annotation(crate::resource::ORIGIN).is_none()
                {
                    origin::set(&mut resource, origin, self.budget())?;
                }
                all.resources
                    .absorb(resource, self.budget())
                    .within(|| format!("merging from generator {}", generator.name()))?;
            }
        }
        Ok(())
    }

    fn builtin_generators(&self, held: &mut Held<'_>) -> Result<Vec<(Generator, Option<Origin>)>> {
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
            let defaults = kustomization.generator_options.as_ref();
            let bytes = defaults.map_or(0, GeneratorOptions::bytes);
            for args in list {
                held.grow(size_of_val(args) + bytes)?;
                let mut args = args.clone();
                args.apply_defaults(defaults);
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

    fn external_generators(
        &mut self,
        held: &mut Held<'_>,
    ) -> Result<Vec<(Generator, Option<Origin>)>> {
        let paths = Rc::clone(&self.kustomization);
        let configs = self.plugin_configs(&paths.generators, "configuring external generator")?;
        let mut generators = Vec::new();
        for config in configs {
            let load = || "failed to load generator".to_owned();
            let helm = self.context.options.enable_helm;
            match plugins::load(&config, &self.loader, helm, held).within(load)? {
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
            let objects = yaml_io::read_objects(entry.as_bytes(), self.budget());
            let mut resources = match objects.and_then(|objects| self.wrap(objects)) {
                Ok(resources) => resources,
                Err(error) if error.exceeded().is_some() => return Err(error),
                Err(_) => {
                    paths.push(entry.clone());
                    continue;
                }
            };
            self.context.meter.add_objects(resources.len())?;
            if let Some(origin) = &self.origin {
                let origin = origin.append(self.file_name);
                for resource in &mut resources {
                    origin::set(resource, &origin, self.budget())?;
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
        let budget = self.budget();
        let mut held = budget.hold(0)?;
        let config = all.config.clone();
        let mut transformers = self.builtin_transformers(config.get(self.context), &mut held)?;
        let kustomization = Rc::clone(&self.kustomization);
        transformers.extend(self.external_transformers(&kustomization.transformers, &mut held)?);
        for (transformer, origin) in transformers {
            transformer.apply(&mut all.resources, self.context.options.release, budget)?;
            if let Some(origin) = origin {
                for resource in all.resources.contents_mut() {
                    if !resource.is_empty() {
                        origin::add_transformation(resource, &origin, budget)?;
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
        held: &mut Held<'_>,
    ) -> Result<Vec<(Transformer, Option<Origin>)>> {
        let configs = self.plugin_configs(entries, "configuring external transformer")?;
        let mut transformers = Vec::new();
        for config in configs {
            let helm = self.context.options.enable_helm;
            match plugins::load(&config, &self.loader, helm, held)? {
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
        held: &mut Held<'a>,
    ) -> Result<Vec<(Transformer, Option<Origin>)>> {
        let kustomization = &self.kustomization;
        let mut list = TransformerList {
            target: self,
            transformers: Vec::new(),
            held,
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
            let entry = plugins::patch_entry(patch, &self.loader, || yaml_io::quote_json(&json()))
                .within(|| trouble(PLUGIN, &json()))?;
            list.add(PLUGIN, entry);
        }
        if !kustomization.namespace.is_empty() {
            list.hold(&config.namespace)?;
            let namespace = Namespace::new(
                &kustomization.namespace,
                &config.namespace,
                false,
                Subjects::NamedDefault,
            );
            list.add("NamespaceTransformer", Transformer::Namespace(namespace));
        }
        if !kustomization.name_prefix.is_empty() {
            list.hold(&config.name_prefix)?;
            let prefix = Affix::new(&kustomization.name_prefix, &config.name_prefix);
            list.add("PrefixTransformer", Transformer::Prefix(prefix));
        }
        if !kustomization.name_suffix.is_empty() {
            list.hold(&config.name_suffix)?;
            let suffix = Affix::new(&kustomization.name_suffix, &config.name_suffix);
            list.add("SuffixTransformer", Transformer::Suffix(suffix));
        }
        list.add_labels(config)?;
        if !kustomization.common_annotations.is_empty() {
            list.hold(&config.common_annotations)?;
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
        let budget = self.budget();
        let mut held = budget.hold(0)?;
        let validators = self.external_transformers(&kustomization.validators, &mut held)?;
        for (validator, _) in validators {
            let mut held = budget.hold(0)?;
            let before = contents(&all.resources, &mut held)?;
            validator.apply(&mut all.resources, self.context.options.release, budget)?;
            if before != contents(&all.resources, &mut held)? {
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
    held: &'t mut Held<'a>,
}

impl TransformerList<'_, '_> {
    /// Charges a transformer with copies of these specs.
    fn hold(&mut self, specs: &[FieldSpec]) -> Result<()> {
        let bytes = size_of::<(Transformer, Option<Origin>)>() + 2 * fieldspec::bytes(specs);
        Ok(self.held.grow(bytes)?)
    }

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
            let budget = self.target.budget();
            let specs = label_specs(label, config, budget)
                .within(|| "failed to merge labels".to_owned())?;
            self.hold(&specs)?;
            self.add(
                PLUGIN,
                Transformer::Entries(Entries::new(&label.pairs, &specs)),
            );
        }
        self.hold(&config.common_labels)?;
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
            self.hold(&config.replicas)?;
            let replicas = Replicas::new(replica, &config.replicas);
            self.add("ReplicaCountTransformer", Transformer::Replicas(replicas));
        }
        for image in &kustomization.images {
            self.hold(&config.images)?;
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

fn label_specs(
    label: &Label,
    config: &TransformerConfig,
    budget: &Budget,
) -> Result<Vec<FieldSpec>> {
    let mut specs = label.fields.clone();
    merge_specs(&mut specs, &config.labels, budget)?;
    if label.include_selectors {
        merge_specs(&mut specs, &config.common_labels, budget)?;
        return Ok(specs);
    }
    if label.include_templates {
        merge_specs(&mut specs, &config.template_labels, budget)
            .within(|| "failed to merge template fieldSpec".to_owned())?;
    }
    if label.include_volume_claim_templates {
        merge_specs(&mut specs, &config.volume_claim_template_labels, budget)
            .within(|| "failed to merge volumeClaimTemplate fieldSpec".to_owned())?;
    }
    merge_spec(&mut specs, &FieldSpec::everywhere("metadata/labels", true))?;
    Ok(specs)
}

/// What the objects hold, apart from the label that validators may set.
fn contents(resources: &ResMap, held: &mut Held<'_>) -> Result<Vec<Json>> {
    resources
        .iter()
        .map(|resource| {
            held.grow(cost::of_tree(&resource.node))?;
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
        yaml_io::quote_json(config)
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
        Error::Exceeded(_) => error,
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
