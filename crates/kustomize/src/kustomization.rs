//! The kustomization file: its fields, and how old spellings become new ones.

use std::collections::BTreeMap;

use everflow_json::Value;

use crate::decode::{Fields, Mode};
use crate::error::{Error, Result};
use crate::fieldspec::FieldSpec;
use crate::replacement::ReplacementField;
use crate::selector::Selector;
use crate::vars::Var;

/// The names a kustomization file may have.
pub const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// `kind` of a component.
pub const COMPONENT_KIND: &str = "Component";
const KUSTOMIZATION_KIND: &str = "Kustomization";
const KUSTOMIZATION_VERSION: &str = "kustomize.config.k8s.io/v1beta1";
const COMPONENT_VERSION: &str = "kustomize.config.k8s.io/v1alpha1";

/// A kustomization file after old fields have been folded into new ones.
#[derive(Clone, Debug, Default)]
pub struct Kustomization {
    pub api_version: String,
    pub kind: String,
    pub openapi: BTreeMap<String, String>,
    pub name_prefix: String,
    pub name_suffix: String,
    pub namespace: String,
    pub common_labels: BTreeMap<String, String>,
    pub labels: Vec<Label>,
    pub common_annotations: BTreeMap<String, String>,
    pub patches_strategic_merge: Vec<String>,
    pub patches_json6902: Vec<Patch>,
    pub patches: Vec<Patch>,
    pub images: Vec<Image>,
    pub replacements: Vec<ReplacementField>,
    pub replicas: Vec<Replica>,
    pub vars: Vec<Var>,
    pub sort_options: Option<SortOptions>,
    pub resources: Vec<String>,
    pub components: Vec<String>,
    pub crds: Vec<String>,
    pub config_map_generator: Vec<GeneratorArgs>,
    pub secret_generator: Vec<GeneratorArgs>,
    pub helm_globals: HelmGlobals,
    pub helm_charts: Vec<HelmChart>,
    pub generator_options: Option<GeneratorOptions>,
    pub configurations: Vec<String>,
    pub generators: Vec<String>,
    pub transformers: Vec<String>,
    pub validators: Vec<String>,
    pub build_metadata: Vec<String>,
    /// What the real tool prints to standard error about old fields.
    pub warnings: Vec<String>,
}

/// One entry of `labels`.
#[derive(Clone, Debug, Default)]
pub struct Label {
    pub pairs: BTreeMap<String, String>,
    pub include_selectors: bool,
    pub include_templates: bool,
    pub include_volume_claim_templates: bool,
    pub fields: Vec<FieldSpec>,
}

/// One entry of `patches` or `patchesJson6902`.
#[derive(Clone, Debug, Default)]
pub struct Patch {
    pub path: String,
    pub patch: String,
    pub target: Option<Selector>,
    pub options: Option<PatchOptions>,
}

/// What a strategic merge patch may change beside fields.
#[derive(Clone, Copy, Debug, Default)]
pub struct PatchOptions {
    pub allow_name_change: bool,
    pub allow_kind_change: bool,
}

/// One entry of `images`.
#[derive(Clone, Debug, Default)]
pub struct Image {
    pub name: String,
    pub new_name: String,
    pub tag_suffix: String,
    pub new_tag: String,
    pub digest: String,
}

/// One entry of `replicas`.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    pub name: String,
    pub count: i64,
}

/// How the result is ordered.
#[derive(Clone, Debug, Default)]
pub struct SortOptions {
    pub order: String,
    pub legacy: Option<LegacySortOptions>,
}

/// Which kinds come first and last.
#[derive(Clone, Debug, Default)]
pub struct LegacySortOptions {
    pub first: Vec<String>,
    pub last: Vec<String>,
}

/// One entry of `configMapGenerator` or `secretGenerator`.
#[derive(Clone, Debug, Default)]
pub struct GeneratorArgs {
    pub name: String,
    pub namespace: String,
    pub behavior: String,
    pub literals: Vec<String>,
    pub files: Vec<String>,
    pub envs: Vec<String>,
    pub options: Option<GeneratorOptions>,
    /// Only secrets have one.
    pub secret_type: String,
}

/// What generated objects get beside their data.
#[derive(Clone, Debug, Default)]
pub struct GeneratorOptions {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub disable_name_suffix_hash: bool,
    pub immutable: bool,
}

/// Settings shared by all charts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelmGlobals {
    /// Where charts are kept, relative to the kustomization root; `charts` when empty.
    pub chart_home: String,
    /// Where helm keeps its own configuration.
    pub config_home: String,
}

/// One entry of `helmCharts`.
#[derive(Clone, Debug, Default)]
pub struct HelmChart {
    /// The chart's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The repository it comes from.
    pub repo: String,
    /// The release's name.
    pub release_name: String,
    /// The release's namespace.
    pub namespace: String,
    /// Values files beside `values_file`.
    pub additional_values_files: Vec<String>,
    /// A values file, relative to the kustomization root.
    pub values_file: String,
    /// Values written in the kustomization.
    pub values_inline: Option<Value>,
    /// `merge`, `override` or `replace`.
    pub values_merge: String,
    /// Whether the chart's CRDs are printed.
    pub include_crds: bool,
    /// Whether hooks are left out.
    pub skip_hooks: bool,
    /// What `.Capabilities.APIVersions` shows.
    pub api_versions: Vec<String>,
    /// What `.Capabilities.KubeVersion` shows.
    pub kube_version: String,
    /// A template for the release's name.
    pub name_template: String,
    /// Whether tests are left out.
    pub skip_tests: bool,
    /// Helm's `--debug`.
    pub debug: bool,
    /// Helm's `--devel`.
    pub devel: bool,
}

impl Kustomization {
    /// Reads a kustomization that has been turned into JSON.
    pub fn from_json(value: &Value, mode: Mode) -> Result<Self> {
        let mut kustomization = Kustomization::default();
        let mut empty = true;
        let mut fields = Fields::new(value, "Kustomization", mode)?;
        kustomization.read_fields(&mut fields, &mut empty)?;
        fields.finish()?;
        kustomization.set_type_defaults();
        if empty {
            return Err(Error::Configuration(
                "kustomization.yaml is empty".to_owned(),
            ));
        }
        Ok(kustomization)
    }

    fn read_fields(&mut self, fields: &mut Fields<'_>, empty: &mut bool) -> Result<()> {
        self.api_version = fields.text("apiVersion")?;
        self.kind = fields.text("kind")?;
        self.name_prefix = fields.text("namePrefix")?;
        self.name_suffix = fields.text("nameSuffix")?;
        self.namespace = fields.text("namespace")?;
        *empty = self.name_prefix.is_empty() && self.name_suffix.is_empty();
        *empty &= self.namespace.is_empty();
        const PRESENCE: [&str; 26] = [
            "metadata",
            "openapi",
            "commonLabels",
            "labels",
            "commonAnnotations",
            "patchesStrategicMerge",
            "patchesJson6902",
            "patches",
            "images",
            "replacements",
            "replicas",
            "vars",
            "sortOptions",
            "resources",
            "components",
            "crds",
            "configMapGenerator",
            "secretGenerator",
            "helmGlobals",
            "helmCharts",
            "generatorOptions",
            "configurations",
            "generators",
            "transformers",
            "validators",
            "buildMetadata",
        ];
        for name in PRESENCE {
            *empty &= !fields.has(name);
        }
        fields.object("metadata", |mut meta| {
            meta.text("name")?;
            meta.text("namespace")?;
            meta.text_map("labels")?;
            meta.text_map("annotations")?;
            meta.finish()
        })?;
        self.openapi = fields.text_map("openapi")?;
        self.read_transformers(fields)?;
        self.read_generators(fields)?;
        self.read_sources(fields, empty)?;
        Ok(())
    }

    fn read_transformers(&mut self, fields: &mut Fields<'_>) -> Result<()> {
        if fields.has("commonLabels") {
            self.warn_deprecated("commonLabels", "labels", false);
        }
        self.common_labels = fields.text_map("commonLabels")?;
        self.labels = fields.objects("labels", Label::read)?;
        self.common_annotations = fields.text_map("commonAnnotations")?;
        if fields.has("patchesJson6902") {
            self.warn_deprecated("patchesJson6902", "patches", false);
        }
        if fields.has("patchesStrategicMerge") {
            self.warn_deprecated("patchesStrategicMerge", "patches", false);
        }
        self.patches_strategic_merge = fields.texts("patchesStrategicMerge")?;
        self.patches_json6902 = fields.objects("patchesJson6902", Patch::read)?;
        self.patches = fields.objects("patches", Patch::read)?;
        self.images = fields.objects("images", Image::read)?;
        if fields.has("imageTags") {
            self.warn_deprecated("imageTags", "images", false);
        }
        self.images
            .extend(fields.objects("imageTags", Image::read)?);
        self.replacements = fields.objects("replacements", ReplacementField::read)?;
        self.replicas = fields.objects("replicas", Replica::read)?;
        if fields.has("vars") {
            self.warn_deprecated("vars", "replacements", true);
        }
        self.vars = fields.objects("vars", Var::read)?;
        self.sort_options = fields.object("sortOptions", SortOptions::read)?;
        Ok(())
    }

    fn read_generators(&mut self, fields: &mut Fields<'_>) -> Result<()> {
        self.config_map_generator = fields.objects("configMapGenerator", |args| {
            GeneratorArgs::read(args, false)
        })?;
        self.secret_generator =
            fields.objects("secretGenerator", |args| GeneratorArgs::read(args, true))?;
        let globals = fields.object("helmGlobals", HelmGlobals::read)?;
        self.helm_charts = fields.objects("helmCharts", HelmChart::read)?;
        let mut old_globals = HelmGlobals::default();
        let old = fields.objects("helmChartInflationGenerator", |chart| {
            HelmChart::read_old(chart, &mut old_globals)
        })?;
        self.helm_charts.extend(old);
        self.helm_globals = globals.unwrap_or(old_globals);
        self.generator_options = fields.object("generatorOptions", |mut options| {
            let read = GeneratorOptions::read(&mut options)?;
            options.finish()?;
            Ok(read)
        })?;
        Ok(())
    }

    fn read_sources(&mut self, fields: &mut Fields<'_>, empty: &mut bool) -> Result<()> {
        self.resources = fields.texts("resources")?;
        if fields.has("bases") {
            let warning = "# Warning: 'bases' is deprecated. Please use 'resources' instead. Run 'kustomize edit fix' to update your Kustomization automatically.";
            self.warnings.insert(0, warning.to_owned());
        }
        let bases = fields.texts("bases")?;
        *empty &= bases.is_empty() && self.images.is_empty() && self.helm_charts.is_empty();
        self.resources.extend(bases);
        self.components = fields.texts("components")?;
        self.crds = fields.texts("crds")?;
        self.configurations = fields.texts("configurations")?;
        self.generators = fields.texts("generators")?;
        self.transformers = fields.texts("transformers")?;
        self.validators = fields.texts("validators")?;
        self.build_metadata = fields.texts("buildMetadata")?;
        Ok(())
    }

    fn warn_deprecated(&mut self, old: &str, new: &str, experimental: bool) {
        let note = if experimental { "[EXPERIMENTAL] " } else { "" };
        self.warnings.push(format!(
            "# Warning: '{old}' is deprecated. Please use '{new}' instead. {note}Run 'kustomize edit fix' to update your Kustomization automatically."
        ));
    }

    fn set_type_defaults(&mut self) {
        if self.kind.is_empty() {
            self.kind = KUSTOMIZATION_KIND.to_owned();
        }
        if self.api_version.is_empty() {
            self.api_version = self.required_version().to_owned();
        }
    }

    fn required_version(&self) -> &'static str {
        if self.is_component() {
            COMPONENT_VERSION
        } else {
            KUSTOMIZATION_VERSION
        }
    }

    /// True for a component.
    pub fn is_component(&self) -> bool {
        self.kind == COMPONENT_KIND
    }

    /// Checks `kind` and `apiVersion` of the file under `root`.
    pub fn check_type(&self, root: &str) -> Result<()> {
        let mut problems = Vec::new();
        if self.kind != KUSTOMIZATION_KIND && self.kind != COMPONENT_KIND {
            problems.push(format!(
                "kind should be {KUSTOMIZATION_KIND} or {COMPONENT_KIND}"
            ));
        }
        let required = self.required_version();
        if self.api_version != required {
            problems.push(format!("apiVersion for {} should be {required}", self.kind));
        }
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::Configuration(format!(
            "Failed to read kustomization file under {root}:\n{}",
            problems.join("\n")
        )))
    }
}

impl Label {
    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Label {
            pairs: fields.text_map("pairs")?,
            include_selectors: fields.flag("includeSelectors")?,
            include_templates: fields.flag("includeTemplates")?,
            include_volume_claim_templates: fields.flag("includeVolumeClaimTemplates")?,
            fields: fields.objects("fields", FieldSpec::read)?,
        })
    }
}

impl Patch {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Patch {
            path: fields.text("path")?,
            patch: fields.text("patch")?,
            target: fields.object("target", |mut target| {
                let selector = Selector::read(&mut target)?;
                target.finish()?;
                Ok(selector)
            })?,
            options: fields.object("options", |mut options| {
                let read = PatchOptions {
                    allow_name_change: options.flag("allowNameChange")?,
                    allow_kind_change: options.flag("allowKindChange")?,
                };
                options.finish()?;
                Ok(read)
            })?,
        })
    }
}

impl Image {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Image {
            name: fields.text("name")?,
            new_name: fields.text("newName")?,
            tag_suffix: fields.text("tagSuffix")?,
            new_tag: fields.text("newTag")?,
            digest: fields.text("digest")?,
        })
    }
}

impl Replica {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Replica {
            name: fields.text("name")?,
            count: fields.integer("count")?,
        })
    }
}

impl SortOptions {
    pub(crate) fn read(mut fields: Fields<'_>) -> Result<Self> {
        let options = SortOptions {
            order: fields.text("order")?,
            legacy: fields.object("legacySortOptions", |mut legacy| {
                let read = LegacySortOptions {
                    first: legacy.texts("orderFirst")?,
                    last: legacy.texts("orderLast")?,
                };
                legacy.finish()?;
                Ok(read)
            })?,
        };
        fields.finish()?;
        Ok(options)
    }
}

impl GeneratorArgs {
    pub(crate) fn read(fields: &mut Fields<'_>, secret: bool) -> Result<Self> {
        let mut args = GeneratorArgs {
            name: fields.text("name")?,
            namespace: fields.text("namespace")?,
            behavior: fields.text("behavior")?,
            literals: fields.texts("literals")?,
            files: fields.texts("files")?,
            envs: fields.texts("envs")?,
            ..GeneratorArgs::default()
        };
        let env = fields.text("env")?;
        if !env.is_empty() && !fields.mode().coerce {
            args.envs.push(env);
        }
        args.options = fields.object("options", |mut options| {
            let read = GeneratorOptions::read(&mut options)?;
            options.finish()?;
            Ok(read)
        })?;
        if secret {
            args.secret_type = fields.text("type")?;
        }
        Ok(args)
    }

    /// Fills in what the whole kustomization wants of its generated objects.
    pub fn apply_defaults(&mut self, global: Option<&GeneratorOptions>) {
        let Some(global) = global else { return };
        let local = self.options.get_or_insert_default();
        for (key, value) in &global.labels {
            local.labels.entry(key.clone()).or_insert(value.clone());
        }
        for (key, value) in &global.annotations {
            local
                .annotations
                .entry(key.clone())
                .or_insert(value.clone());
        }
        local.disable_name_suffix_hash |= global.disable_name_suffix_hash;
        local.immutable |= global.immutable;
    }
}

impl GeneratorOptions {
    /// What a copy takes in memory.
    pub fn bytes(&self) -> usize {
        let pairs = self.labels.iter().chain(&self.annotations);
        let pair = |(key, value): (&String, &String)| {
            2 * size_of::<(String, String)>() + key.len() + value.len()
        };
        size_of_val(self) + pairs.map(pair).sum::<usize>()
    }

    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(GeneratorOptions {
            labels: fields.text_map("labels")?,
            annotations: fields.text_map("annotations")?,
            disable_name_suffix_hash: fields.flag("disableNameSuffixHash")?,
            immutable: fields.flag("immutable")?,
        })
    }
}

impl HelmGlobals {
    fn read(mut fields: Fields<'_>) -> Result<Self> {
        let globals = HelmGlobals {
            chart_home: fields.text("chartHome")?,
            config_home: fields.text("configHome")?,
        };
        fields.finish()?;
        Ok(globals)
    }
}

impl HelmChart {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(HelmChart {
            name: fields.text("name")?,
            version: fields.text("version")?,
            repo: fields.text("repo")?,
            release_name: fields.text("releaseName")?,
            namespace: fields.text("namespace")?,
            additional_values_files: fields.texts("additionalValuesFiles")?,
            values_file: fields.text("valuesFile")?,
            values_inline: fields.take("valuesInline").cloned(),
            values_merge: fields.text("valuesMerge")?,
            include_crds: fields.flag("includeCRDs")?,
            skip_hooks: fields.flag("skipHooks")?,
            api_versions: fields.texts("apiVersions")?,
            kube_version: fields.text("kubeVersion")?,
            name_template: fields.text("nameTemplate")?,
            skip_tests: fields.flag("skipTests")?,
            debug: fields.flag("debug")?,
            devel: fields.flag("devel")?,
        })
    }

    /// Reads an entry of the old `helmChartInflationGenerator`.
    fn read_old(fields: &mut Fields<'_>, globals: &mut HelmGlobals) -> Result<Self> {
        let home = fields.text("helmHome")?;
        if !home.is_empty() {
            globals.config_home = home;
        }
        let charts = fields.text("chartHome")?;
        if !charts.is_empty() {
            globals.chart_home = charts;
        }
        for ignored in ["chartRepoName", "helmBin", "releaseNamespace"] {
            fields.text(ignored)?;
        }
        fields.texts("extraArgs")?;
        Ok(HelmChart {
            name: fields.text("chartName")?,
            version: fields.text("chartVersion")?,
            repo: fields.text("chartRepoUrl")?,
            values_file: fields.text("values")?,
            values_inline: fields.take("valuesLocal").cloned(),
            values_merge: fields.text("valuesMerge")?,
            release_name: fields.text("releaseName")?,
            ..HelmChart::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::KUSTOMIZATION;
    use everflow_json::json;

    #[test]
    fn old_fields_become_new_ones() {
        let read = Kustomization::from_json(
            &json!({
                "bases": ["../base"],
                "resources": ["a.yaml"],
                "imageTags": [{"name": "nginx", "newTag": "1"}],
                "configMapGenerator": [{"name": "c", "env": "x.env"}],
            }),
            KUSTOMIZATION,
        )
        .unwrap();
        assert_eq!(read.resources, ["a.yaml", "../base"]);
        assert_eq!(read.images[0].new_tag, "1");
        assert_eq!(read.config_map_generator[0].envs, ["x.env"]);
        assert_eq!(read.kind, "Kustomization");
        assert_eq!(read.warnings.len(), 2);
    }

    #[test]
    fn a_file_that_says_nothing_is_refused() {
        for value in [json!({}), json!({"namePrefix": ""}), json!(null)] {
            let error = Kustomization::from_json(&value, KUSTOMIZATION).unwrap_err();
            assert_eq!(error.to_string(), "kustomization.yaml is empty");
        }
        assert!(Kustomization::from_json(&json!({"resources": []}), KUSTOMIZATION).is_ok());
    }
}
