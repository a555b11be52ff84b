//! The build itself.

use std::collections::BTreeMap;

use everflow_api::kustomization::{Kustomization, SubstituteStrategy};
use everflow_api::object::Object;
use everflow_json::Value;
use everflow_kustomize::{
    BuiltObject, Cache, Gvk, Limits, LoadRestriction, Located, OBJECTS_FLAG, Options, Output,
    Plugins, Release, Reorder, TreeView, ViewError, build_cached, paths,
};
use everflow_limits::{Budget, Exceeded, at_most};
use everflow_sops::Keys;
use everflow_yaml::{cost, emit};
use sha2::{Digest, Sha256};

use crate::decryption::{Decryption, Fault, Integrity};
use crate::error::{Error, step};
use crate::finish;
use crate::generate;
use crate::mount::{Mount, relative};
use crate::place::{self, Place};
use crate::placeholder;
use crate::substitute::{self, Variables, add_variables};

/// What to build.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The Kustomization.
    pub kustomization: &'a Object<Kustomization>,
    /// Its source; `/` is the top of it.
    pub tree: &'a dyn TreeView,
    /// The variables of `substituteFrom`, put together with [`add_variables`]. Those of
    /// `substitute` are added by the build.
    pub variables: &'a BTreeMap<String, String>,
    /// Why the variables of `substituteFrom` cannot be had. It is reported once the objects that
    /// need them are built, as Flux does.
    pub no_variables: Option<&'a str>,
    /// Whether a variable without value and default is an error.
    pub strict: bool,
    /// Whether Secrets may stay encrypted, for those who only look at the result.
    pub keep_encrypted: bool,
    /// Whether something that is clearly no value takes the place of values that stay encrypted. For
    /// those who want to see the rest work.
    pub masked: bool,
    /// The same for variables without a value.
    pub placeholders: bool,
    /// Whether variables may hold placeholders, which are then made to fit where they stand.
    pub fitted: bool,
    /// Whether the build goes on without what is on other machines.
    pub without_remote: bool,
    /// The keys of `spec.decryption`; they are used only when that is there.
    pub keys: &'a Keys,
    /// What builds share.
    pub cache: Option<&'a Cache>,
    /// How much the build may go over.
    pub limits: Limits,
    /// How much time and memory it may use.
    pub budget: &'a Budget,
}

static NO_VARIABLES: BTreeMap<String, String> = BTreeMap::new();
static NO_KEYS: Keys = Keys::new();

impl<'a> Request<'a> {
    /// A request without keys, without variables from elsewhere and with strict substitution, as
    /// Flux has it by default.
    pub fn new(
        kustomization: &'a Object<Kustomization>,
        tree: &'a dyn TreeView,
        budget: &'a Budget,
    ) -> Self {
        Request {
            kustomization,
            tree,
            variables: &NO_VARIABLES,
            no_variables: None,
            strict: true,
            keep_encrypted: false,
            masked: false,
            fitted: false,
            placeholders: false,
            without_remote: false,
            keys: &NO_KEYS,
            cache: None,
            limits: Limits::default(),
            budget,
        }
    }
}

/// The result of a build.
#[derive(Clone, Debug)]
pub struct Built {
    /// The objects, or the proof that there are none.
    pub contents: Contents,
    /// `sha256:` and the digest of the built YAML, as Flux writes it into the history.
    pub digest: String,
    /// How many bytes of YAML that is.
    pub size: usize,
    /// What does not keep the objects from being applied but should be known.
    pub warnings: Vec<Warning>,
}

/// What should be known of a build that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Whether something may be wrong, not only out of date.
    pub grave: bool,
    /// In words.
    pub text: String,
}

/// What a build came to.
#[derive(Clone, Debug)]
pub enum Contents {
    /// At least one object, in the order of the build, with the labels of the owner and with
    /// `commonMetadata`.
    Objects(Vec<Value>),
    /// There is nothing, and that is no mistake of reading.
    Empty(ProvenEmpty),
}

impl Contents {
    /// The objects.
    pub fn objects(&self) -> &[Value] {
        match self {
            Contents::Objects(objects) => objects,
            Contents::Empty(_) => &[],
        }
    }
}

/// The proof that a build succeeded and came to nothing: all that was applied before may be
/// deleted. Only [`build`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenEmpty {
    because: EmptyBecause,
}

impl ProvenEmpty {
    /// Why there is nothing.
    pub fn because(&self) -> &EmptyBecause {
        &self.because
    }
}

/// Why a build comes to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmptyBecause {
    /// The directory has no kustomization file and no manifest.
    NoManifests {
        /// The directory in the source.
        path: String,
    },
    /// Its kustomization file builds to nothing.
    NothingBuilt {
        /// The directory in the source.
        path: String,
    },
}

/// Builds a Kustomization. What the result takes stays charged.
///
/// # Errors
/// Says what is wrong, in which file and on which line as far as known.
pub fn build(request: &Request<'_>) -> Result<Built, Error> {
    let spec = &request.kustomization.spec;
    let (limits, budget) = (request.limits, request.budget);
    let directory = directory(request)?;
    let mut mount = Mount::new(request.tree);
    let generated = generate::kustomization_file(&mut mount, &directory, spec, limits, budget)?;
    let decryption = spec
        .decryption
        .as_ref()
        .filter(|_| !request.keep_encrypted)
        .map(|_| Decryption {
            keys: request.keys,
            budget,
        });
    if let Some(decryption) = &decryption {
        decryption.sources(&mut mount, &directory)?;
    }
    let output = run_kustomize(&mount, &directory, request)?;
    let variables = variables(request)?;
    let mut work = Work {
        mount: &mount,
        budget,
        printed: Printed::default(),
        variables: variables.as_ref().map(|values| Variables {
            values,
            strict: request.strict,
            placeholders: request.placeholders,
            missing: request.no_variables,
            budget,
        }),
        decryption,
        identities: BTreeMap::new(),
        warnings: output
            .warnings
            .iter()
            .map(|text| Warning {
                grave: false,
                text: text.trim_end().to_owned(),
            })
            .collect(),
    };
    let objects = work.all(&output)?;
    let (mut warnings, printed) = (work.warnings, work.printed);
    let mut objects = finish::expand(objects);
    let exceeded = |cause| Error::of_limit(step::BUILD, shown(&directory), cause);
    let count = objects.len() as u64;
    at_most(count, limits.objects, "objects in one build", OBJECTS_FLAG).map_err(exceeded)?;
    let metadata = finish::bytes(request.kustomization);
    if request.keep_encrypted && request.masked {
        let all = objects.len();
        objects.retain(|object| !placeholder::is_nameless(object));
        let left_out = all - objects.len();
        if left_out > 0 {
            let text = format!(
                "{left_out} objects are left out: their kind or name is encrypted too \
                 (encrypted_regex: ^(data|stringData)$ leaves these readable)"
            );
            warnings.push(Warning { grave: true, text });
        }
    }
    for object in &mut objects {
        budget.charge(metadata).map_err(exceeded)?;
        if request.fitted {
            placeholder::fit(object);
        }
        if request.keep_encrypted && request.masked {
            placeholder::fill(object);
        }
        finish::add_metadata(object, request.kustomization);
        let may_stay = request.keep_encrypted || finish::stays_encrypted(object);
        if finish::is_encrypted_secret(object) && !may_stay {
            return Err(still_encrypted(&mount, object, budget));
        }
    }
    let path = shown(&directory);
    let because = match generated.no_manifests {
        true => EmptyBecause::NoManifests { path },
        false => EmptyBecause::NothingBuilt { path },
    };
    Ok(Built {
        contents: match objects.is_empty() {
            true => Contents::Empty(ProvenEmpty { because }),
            false => Contents::Objects(objects),
        },
        digest: format!("sha256:{}", hex(&printed.digest.finalize())),
        size: printed.size,
        warnings,
    })
}

/// Where objects of a build stand in the source, as `apiVersion`, kind and name tell them apart
/// after the build. It builds once more: this is for those who have something to complain about.
pub fn places(request: &Request<'_>, wanted: &[(String, String, String)]) -> Vec<Option<Place>> {
    let unknown = || vec![None; wanted.len()];
    let Ok(directory) = directory(request) else {
        return unknown();
    };
    let mut mount = Mount::new(request.tree);
    let spec = &request.kustomization.spec;
    let (limits, budget) = (request.limits, request.budget);
    if generate::kustomization_file(&mut mount, &directory, spec, limits, budget).is_err() {
        return unknown();
    }
    let uncached = Request {
        cache: None,
        ..*request
    };
    let Ok(output) = run_kustomize(&mount, &directory, &uncached) else {
        return unknown();
    };
    let place = |(api_version, kind, name): &(String, String, String)| {
        let gvk = everflow_kustomize::Gvk::new(api_version, kind);
        let same = |built: &&BuiltObject| built.id.gvk == gvk && built.id.name == *name;
        let original = output.objects.iter().find(same).map(|it| &it.original_id);
        let (gvk, name) = original.map_or((&gvk, name.as_str()), |id| (&id.gvk, id.name.as_str()));
        let places = place::of_objects(&mount, gvk, name, budget);
        places.into_iter().next()
    };
    wanted.iter().map(place).collect()
}

/// The directory to build: `spec.path` inside the source, wherever it points.
fn directory(request: &Request<'_>) -> Result<String, Error> {
    let path = request
        .kustomization
        .spec
        .path
        .as_deref()
        .unwrap_or_default();
    let path = paths::clean(&format!("/{path}"));
    match request.tree.locate(&path) {
        Ok(Located::Directory(real)) => Ok(real),
        Ok(Located::File(_)) => Err(Error::NotADirectory { path: shown(&path) }),
        Err(ViewError::NotFound { .. }) => Err(Error::PathNotFound { path: shown(&path) }),
        Err(error) => Err(Error::Read(error.to_string())),
    }
}

/// A path of the source as people write it.
fn shown(path: &str) -> String {
    match path.trim_start_matches('/') {
        "" => ".".to_owned(),
        path => path.to_owned(),
    }
}

/// All variables, unless there is nothing to substitute.
fn variables(request: &Request<'_>) -> Result<Option<BTreeMap<String, String>>, Error> {
    let Some(post_build) = &request.kustomization.spec.post_build else {
        return Ok(None);
    };
    let pairs = request.variables.iter().chain(&post_build.substitute);
    let bytes = pairs.map(|(name, value)| size_of::<(String, String)>() + name.len() + value.len());
    let charged = request.budget.charge(bytes.sum());
    charged.map_err(|cause| Error::of_limit(step::SUBSTITUTE, "spec.postBuild", cause))?;
    let mut values = request.variables.clone();
    add_variables(&mut values, &post_build.substitute);
    let always = post_build.substitute_strategy == Some(SubstituteStrategy::Always);
    let any =
        always || request.no_variables.is_some() || request.placeholders || !values.is_empty();
    Ok(any.then_some(values))
}

fn run_kustomize(
    mount: &Mount<'_>,
    directory: &str,
    request: &Request<'_>,
) -> Result<std::sync::Arc<Output>, Error> {
    let options = Options {
        without_remote: request.without_remote,
        load_restriction: LoadRestriction::None,
        reorder: Reorder::None,
        release: Release::V5_8,
        lenient: true,
        limits: request.limits,
        ..Options::default()
    };
    let budget = request.budget;
    let outer = Mount::outer(directory);
    let plugins = Plugins::default();
    let result = match request.cache {
        Some(cache) => build_cached(mount, &outer, &options, plugins, cache, budget),
        None => everflow_kustomize::build(mount, &outer, &options, plugins, budget).map(Into::into),
    };
    result.map_err(|error| {
        if let Some(error) = Error::of_kustomize(step::BUILD, "", &error) {
            return error;
        }
        let text = relative(&error.to_string());
        Error::Kustomize {
            places: place::in_message(mount, &text, budget),
            cause: error.reason(),
            text: cause_first(text),
        }
    })
}

/// Messages begin with the cause; what is being patched follows.
fn cause_first(text: String) -> String {
    let patched = text.strip_prefix("patching ");
    match patched.and_then(|rest| rest.split_once(": ")) {
        Some((object, cause)) => format!("{cause}, when patching {object}"),
        None => text,
    }
}

/// What was printed so far.
#[derive(Default)]
struct Printed {
    digest: Sha256,
    size: usize,
}

impl Printed {
    fn push(&mut self, text: &str) {
        self.digest.update(text.as_bytes());
        self.size += text.len();
    }
}

/// What is done to each object after kustomize.
struct Work<'a> {
    mount: &'a Mount<'a>,
    budget: &'a Budget,
    printed: Printed,
    variables: Option<Variables<'a>>,
    decryption: Option<Decryption<'a>>,
    warnings: Vec<Warning>,
    /// How many objects there are of each identity.
    identities: BTreeMap<Identity, usize>,
}

/// Kind, name and namespace of an object.
type Identity = (String, String, String, String);

impl Work<'_> {
    fn all(&mut self, output: &Output) -> Result<Vec<Value>, Error> {
        let mut objects = Vec::with_capacity(output.objects.len());
        for built in &output.objects {
            let object = self.json(built)?;
            *self.identities.entry(identity(&object)).or_default() += 1;
            objects.push(object);
        }
        for (built, object) in output.objects.iter().zip(&mut objects) {
            let changed = self.one(built, object)?;
            if self.printed.size > 0 {
                self.printed.push("---\n");
            }
            let text = match changed {
                true => self.changed_yaml(built, object)?,
                false => self.yaml(built)?,
            };
            self.printed.push(&text);
        }
        Ok(objects)
    }

    /// True when the object is another one now.
    fn one(&mut self, built: &BuiltObject, object: &mut Value) -> Result<bool, Error> {
        let text = |value: &Value| value.as_str().unwrap_or_default().is_empty();
        if text(&object["apiVersion"]) || text(&object["kind"]) || text(&object["metadata"]["name"])
        {
            return Err(Error::Identity {
                text: object.to_string(),
                place: self.place_of(built),
            });
        }
        let decrypted = self.decrypt(built, object)?;
        let Some(variables) = &self.variables else {
            return Ok(decrypted);
        };
        if substitute::opts_out(object) {
            return Ok(decrypted);
        }
        let yaml = match decrypted {
            true => self.changed_yaml(built, object)?,
            false => self.yaml(built)?,
        };
        let exceeded = |cause| Error::of_limit(step::SUBSTITUTE, object_name(built), cause);
        let _yaml = self.budget.hold(yaml.len()).map_err(exceeded)?;
        let substituted = variables.apply(&yaml).map_err(|fault| {
            let (text, variable) = match fault {
                substitute::Fault::Problem { text, variable } => (text, variable),
                substitute::Fault::Exceeded(cause) => return exceeded(cause),
            };
            let original = &built.original_id;
            let place = variable.as_ref().and_then(|name| {
                let text = format!("${{{name}");
                place::of_text(
                    self.mount,
                    &original.gvk,
                    &original.name,
                    &text,
                    self.budget,
                )
            });
            Error::PostBuild {
                object: object_name(built),
                text,
                place: place.or_else(|| self.place_of(built)),
                variable,
            }
        })?;
        let before = identity(object);
        let after = identity(&substituted);
        self.exchange(object, substituted).map_err(exceeded)?;
        if before != after {
            self.identities
                .entry(before)
                .and_modify(|count| *count -= 1);
            let count = self.identities.entry(after).or_default();
            *count += 1;
            if *count > 1 {
                return Err(Error::Duplicate {
                    object: object_name(built),
                    place: self.place_of(built),
                });
            }
        }
        Ok(true)
    }

    /// True when something in the object was encrypted.
    fn decrypt(&mut self, built: &BuiltObject, object: &mut Value) -> Result<bool, Error> {
        let Some(decryption) = &self.decryption else {
            return Ok(false);
        };
        let exceeded = |cause| Error::of_limit(step::DECRYPT, object_name(built), cause);
        let decrypted = decryption.object(self.mount, object);
        let decrypted = decrypted.map_err(|fault| match fault {
            Fault::Exceeded(cause) => exceeded(cause),
            Fault::Problem(text) => Error::Decryption {
                object: object_name(built),
                place: self.place_of(built),
                text,
            },
        })?;
        let Some((plain, integrity)) = decrypted else {
            return Ok(false);
        };
        self.exchange(object, plain).map_err(exceeded)?;
        if let Integrity::Unknown = integrity {
            let text = format!(
                "{} was decrypted, but whether it was changed after its encryption could not be \
                 verified: the file it comes from was not found",
                object_name(built)
            );
            self.warnings.push(Warning { grave: true, text });
        }
        Ok(true)
    }

    /// Puts a new object in the place of an old one, which is charged no more.
    fn exchange(&self, object: &mut Value, new: Value) -> Result<(), Exceeded> {
        self.budget.charge(cost::of_json(&new))?;
        self.budget.release(cost::of_json(object));
        *object = new;
        Ok(())
    }

    fn json(&self, built: &BuiltObject) -> Result<Value, Error> {
        let exceeded = |cause| Error::of_limit(step::BUILD, object_name(built), cause);
        let held = self.budget.hold(2 * cost::of_tree(&built.node));
        let held = held.map_err(exceeded)?;
        let json = built.node.marshal_json();
        let json = json.map_err(|error| self.unprintable(&error.to_string()))?;
        held.keep(cost::of_json(&json)).map_err(exceeded)?;
        Ok(json)
    }

    /// An object as kustomize prints it.
    fn yaml(&self, built: &BuiltObject) -> Result<String, Error> {
        let exceeded = |cause| Error::of_limit(step::BUILD, object_name(built), cause);
        let most = cost::of_printing(&built.node);
        let _held = self.budget.hold(most).map_err(exceeded)?;
        built
            .to_yaml()
            .map_err(|error| self.unprintable(&error.to_string()))
    }

    /// An object that is another one now.
    fn changed_yaml(&self, built: &BuiltObject, object: &Value) -> Result<String, Error> {
        let exceeded = |cause| Error::of_limit(step::BUILD, object_name(built), cause);
        let most = cost::of_printing_json(object);
        let _held = self.budget.hold(most).map_err(exceeded)?;
        Ok(emit::sigs(object))
    }

    fn unprintable(&self, text: &str) -> Error {
        let text = relative(text);
        Error::Kustomize {
            places: place::in_message(self.mount, &text, self.budget),
            text,
            cause: "InvalidResource",
        }
    }

    fn place_of(&self, built: &BuiltObject) -> Option<Place> {
        let original = &built.original_id;
        let places = place::of_objects(self.mount, &original.gvk, &original.name, self.budget);
        places.into_iter().next()
    }
}

/// An object as messages of Flux name it.
fn object_name(built: &BuiltObject) -> String {
    format!("{}/{}", built.id.gvk, built.id.name)
}

fn identity(object: &Value) -> Identity {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let meta = &object["metadata"];
    let namespace = match text(&meta["namespace"]) {
        empty if empty.is_empty() => "default".to_owned(),
        namespace => namespace,
    };
    (
        group.to_owned(),
        text(&object["kind"]),
        text(&meta["name"]),
        namespace,
    )
}

fn still_encrypted(mount: &Mount<'_>, object: &Value, budget: &Budget) -> Error {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &object["metadata"];
    let name = text(&meta["name"]);
    let shown = match text(&meta["namespace"]) {
        none if none.is_empty() => format!("Secret/{name}"),
        namespace => format!("Secret/{namespace}/{name}"),
    };
    let places = place::of_objects(mount, &Gvk::new("v1", "Secret"), &name, budget);
    Error::StillEncrypted {
        object: shown,
        place: places.into_iter().next(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
