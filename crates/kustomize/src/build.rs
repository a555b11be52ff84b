//! The entry to a build.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;

use everflow_limits::{Budget, Held};
use everflow_yaml::{Node, cost};

use crate::accumulator::{Accumulator, Context};
use crate::cache::{Access, Build, BuildKey, Cache, Digest};
use crate::decode::{KUSTOMIZATION, LENIENT};
use crate::error::{Error, Result, Within};
use crate::fieldspec::FieldSpec;
use crate::kustomization::Kustomization;
use crate::loader::Loader;
use crate::meter::Meter;
use crate::options::{Options, Plugins, Release, Reorder};
use crate::reader::Reader;
use crate::resid::ResId;
use crate::resmap::{self, ResMap};
use crate::resource::Resource;
use crate::schema::Schemas;
use crate::target::Target;
use crate::transform::labels::Entries;
use crate::transform::{Transformer, name_references, order};
use crate::view::{FileView, Located, ViewError};
use crate::yaml_io;

/// What one question to a view takes in memory, roughly.
const READ: usize = 256;

const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// One object of a result.
#[derive(Clone, Debug)]
pub struct BuiltObject {
    /// The object.
    pub node: Node,
    /// Its identity.
    pub id: ResId,
    /// Its identity before any transformer renamed it.
    pub original_id: ResId,
}

impl BuiltObject {
    /// The object as `kustomize build` prints it.
    ///
    /// # Errors
    /// When YAML cannot hold it.
    pub fn to_yaml(&self) -> Result<String> {
        yaml_io::print_object(&self.node).within(|| self.id.to_string())
    }

    /// Charges what the object may take when it is printed.
    fn hold_printing<'b>(&self, budget: &'b Budget) -> Result<Held<'b>> {
        let held = budget.hold(cost::of_printing(&self.node));
        held.map_err(|exceeded| Error::from(exceeded).in_field(|| self.id.to_string()))
    }
}

/// The result of a build.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The objects in order.
    pub objects: Vec<BuiltObject>,
    /// What the real tool prints to standard error: fields that are going away.
    pub warnings: Vec<String>,
}

impl Output {
    /// The bytes that `kustomize build` prints.
    ///
    /// # Errors
    /// An object that YAML cannot hold, such as one with a number as a key.
    pub fn to_yaml(&self) -> Result<String> {
        self.to_yaml_within(&Budget::unlimited())
    }

    /// As [`Output::to_yaml`]. Deep trees are mostly indentation when they are printed: the text is
    /// charged, and stays so.
    ///
    /// # Errors
    /// As [`Output::to_yaml`].
    pub fn to_yaml_within(&self, budget: &Budget) -> Result<String> {
        const USUAL_SIZE: usize = 512;
        let mut out = String::with_capacity(self.objects.len().saturating_mul(USUAL_SIZE));
        for object in &self.objects {
            if !out.is_empty() {
                out.push_str("---\n");
            }
            let (held, before) = (object.hold_printing(budget)?, out.len());
            yaml_io::append_object(&object.node, &mut out).within(|| object.id.to_string())?;
            held.keep(out.len() - before)?;
        }
        Ok(out)
    }

    /// What it takes in memory.
    fn bytes(&self) -> usize {
        let objects = self.objects.iter();
        objects
            .map(|object| size_of::<BuiltObject>() + cost::of_tree(&object.node))
            .sum()
    }
}

/// Builds the kustomization in a directory of the view. What the result takes stays charged.
///
/// # Errors
/// Says which step failed in which file, in the words of `kustomize build`.
pub fn build(
    view: &dyn FileView,
    directory: &str,
    options: &Options,
    plugins: Plugins<'_>,
    budget: &Budget,
) -> Result<Output> {
    run(view, directory, options, plugins, None, budget)
}

/// Like [`build`], with a cache that builds may share: a file is parsed once for each content, and
/// building a tree that has not changed costs reading and hashing its files. A result that is known
/// is charged nothing: the cache has room for it.
///
/// # Errors
/// As [`build`].
pub fn build_cached(
    view: &dyn FileView,
    directory: &str,
    options: &Options,
    plugins: Plugins<'_>,
    cache: &Cache,
    budget: &Budget,
) -> Result<Arc<Output>> {
    let key = BuildKey {
        directory: directory.to_owned(),
        options: options.clone(),
    };
    // What plugins answer is not known to the cache.
    let pure = plugins.helm.is_none() && plugins.remote.is_none();
    if pure
        && let Some(known) = cache.build(&key)
        && is_unchanged(view, &known, budget)?
    {
        return Ok(Arc::clone(&known.output));
    }
    let recorder = Recorder {
        view,
        log: RefCell::default(),
    };
    let output = run(&recorder, directory, options, plugins, Some(cache), budget)?;
    let output = Arc::new(output);
    if pure {
        let reads = recorder.log.into_inner();
        let bytes = reads.len() * READ + output.bytes();
        let build = Build {
            reads,
            output: Arc::clone(&output),
        };
        cache.store_build(key, bytes, build);
    }
    Ok(output)
}

/// Whether all that a build read is as it was.
fn is_unchanged(view: &dyn FileView, known: &Build, budget: &Budget) -> Result<bool> {
    for (access, digest) in &known.reads {
        budget.check()?;
        if ask(view, access) != *digest {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Asks a view and hashes its answer.
fn ask(view: &dyn FileView, access: &Access) -> Digest {
    match access {
        Access::Locate(path) => Digest::of(format!("{:?}", view.locate(path)).as_bytes()),
        Access::Read(path) => match view.read(path) {
            Ok(content) => Digest::of(&content),
            Err(error) => Digest::of(format!("{error:?}").as_bytes()),
        },
    }
}

/// A view that writes down what it is asked.
struct Recorder<'a> {
    view: &'a dyn FileView,
    log: RefCell<Vec<(Access, Digest)>>,
}

impl FileView for Recorder<'_> {
    fn locate(&self, path: &str) -> std::result::Result<Located, ViewError> {
        let answer = self.view.locate(path);
        let digest = Digest::of(format!("{answer:?}").as_bytes());
        let mut log = self.log.borrow_mut();
        log.push((Access::Locate(path.to_owned()), digest));
        answer
    }

    fn read(&self, path: &str) -> std::result::Result<Arc<[u8]>, ViewError> {
        let answer = self.view.read(path);
        let digest = match &answer {
            Ok(content) => Digest::of(content),
            Err(error) => Digest::of(format!("{error:?}").as_bytes()),
        };
        let mut log = self.log.borrow_mut();
        log.push((Access::Read(path.to_owned()), digest));
        answer
    }
}

fn run(
    view: &dyn FileView,
    directory: &str,
    options: &Options,
    plugins: Plugins<'_>,
    cache: Option<&Cache>,
    budget: &Budget,
) -> Result<Output> {
    let meter = Meter::new(budget, options.limits);
    let restriction = options.load_restriction;
    let loader = Loader::new(view, directory, restriction, plugins.remote, &meter)?
        .without_remote(options.without_remote);
    let context = Context {
        options,
        plugins,
        schemas: Rc::new(Schemas::new(options.release)),
        reader: Reader::new(cache),
        meter: &meter,
    };
    let mode = match options.lenient {
        true => LENIENT,
        false => KUSTOMIZATION,
    };
    let mut target = Target::load(&context, loader, mode)?;
    target.configure_openapi(true)?;
    target.track_origins();
    let mut all = target.accumulate_alone()?;
    let file = target.file();
    let kustomization = Rc::clone(&target.kustomization);
    // What it was made of is not needed any more.
    drop(target);
    complete(&mut all, &kustomization, &context).in_file(|| file)?;
    let objects = all
        .resources
        .into_resources()
        .into_iter()
        .map(|resource| BuiltObject {
            id: resource.id().clone(),
            original_id: resource.original_id(),
            node: resource.node,
        })
        .collect();
    Ok(Output {
        objects,
        warnings: context.reader.take_warnings(),
    })
}

/// What is done once everything is there.
fn complete(
    all: &mut Accumulator,
    kustomization: &Kustomization,
    context: &Context<'_>,
) -> Result<()> {
    let (options, budget) = (context.options, context.meter.budget);
    Transformer::Hash.apply(&mut all.resources, options.release, budget)?;
    let config = all.config.clone();
    let config = config.get(context);
    name_references::fix(&mut all.resources, &config.name_reference, budget)?;
    all.vars.resolve(&mut all.resources, config, budget)?;
    drop_local_config(&mut all.resources)?;
    finish(&mut all.resources, kustomization, options, budget)
}

/// Drops objects that are only there for kustomize. The real tool does so by identity, so one that
/// shares it with an object to be printed stays, and one that shares it with another of its like is
/// an error.
fn drop_local_config(resources: &mut ResMap) -> Result<()> {
    let is_printed = |resource: &&Resource| !resource.is_local_config();
    resmap::check_unique(resources.iter().filter(is_printed))?;
    if resources.iter().all(|resource| is_printed(&resource)) {
        return Ok(());
    }
    let printed: HashSet<ResId> = resources
        .iter()
        .filter(is_printed)
        .map(|resource| resource.id().clone())
        .collect();
    let mut dropped = HashSet::new();
    for resource in resources.iter().filter(|resource| !is_printed(resource)) {
        if !printed.contains(resource.id()) && !dropped.insert(resource.id()) {
            return Err(Error::Conflict(format!(
                "id {} not found in removal",
                resource.id()
            )));
        }
    }
    resources.retain(|resource| !resource.is_local_config() || printed.contains(resource.id()));
    Ok(())
}

fn finish(
    resources: &mut ResMap,
    kustomization: &Kustomization,
    options: &Options,
    budget: &Budget,
) -> Result<()> {
    match (&kustomization.sort_options, options.reorder) {
        (Some(sort), _) => order::apply(resources, sort)?,
        (None, Reorder::Legacy) => order::sort_by_default(resources)?,
        (None, Reorder::None) => {}
    }
    let wants = |name: &str| kustomization.build_metadata.iter().any(|item| item == name);
    if options.managed_by_label || wants("managedByLabel") {
        let manager = match options.release {
            Release::V5_8 => "kustomize-v5.8.1",
            Release::Next => "kustomize-(devel)",
        };
        let labels = [(MANAGED_BY.to_owned(), manager.to_owned())].into();
        let specs = [FieldSpec::everywhere("metadata/labels", true)];
        let labels = Transformer::Entries(Entries::new(&labels, &specs));
        labels.apply(resources, options.release, budget)?;
    }
    let (origins, transformations) = (wants("originAnnotations"), wants("transformerAnnotations"));
    for resource in resources.contents_mut() {
        budget.check()?;
        resource.finish_annotations(origins, transformations);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use everflow_limits::Budget;

    use crate::{MemoryView, Options, Plugins, build};

    fn without_remote(base: &str) -> crate::Result<String> {
        let view: MemoryView = [
            ("/app/kustomization.yaml", "resources: [../base]\n"),
            ("/base/kustomization.yaml", base),
            (
                "/base/map.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: here}\n",
            ),
            (
                "/base/patch.yaml",
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: elsewhere}\nspec: {replicas: 2}\n",
            ),
        ]
        .into_iter()
        .map(|(path, text)| (path, text.as_bytes()))
        .collect();
        let options = Options {
            without_remote: true,
            ..Options::default()
        };
        let budget = Budget::unlimited();
        build(&view, "/app", &options, Plugins::default(), &budget)?.to_yaml()
    }

    #[test]
    fn patches_for_what_is_left_out_are_left_out_too() {
        for patches in [
            "patches: [{path: patch.yaml}]",
            "patchesStrategicMerge: [patch.yaml]",
        ] {
            let remote = "https://example.com/all.yaml";
            let text = without_remote(&format!("resources: [map.yaml, \"{remote}\"]\n{patches}\n"));
            assert!(text.unwrap().contains("name: here"), "{patches}");
            let error = without_remote(&format!("resources: [map.yaml]\n{patches}\n"));
            let error = error.unwrap_err().to_string();
            assert!(error.contains("no matches for Id"), "{error}");
        }
    }
}
