//! The build itself.

use std::collections::BTreeMap;

use everflow_api::kustomization::{Kustomization, SubstituteStrategy};
use everflow_api::object::Object;
use everflow_json::Value;
use everflow_kustomize::{
    BuiltObject, Cache, Gvk, LoadRestriction, Located, Options, Output, Plugins, Release, Reorder,
    TreeView, ViewError, build_cached, paths,
};
use everflow_sops::Keys;
use everflow_yaml::emit;
use sha2::{Digest, Sha256};

use crate::decryption::{Decryption, Integrity};
use crate::error::Error;
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
}

static NO_VARIABLES: BTreeMap<String, String> = BTreeMap::new();
static NO_KEYS: Keys = Keys::new();

impl<'a> Request<'a> {
    /// A request without keys, without variables from elsewhere and with strict substitution, as
    /// Flux has it by default.
    pub fn new(kustomization: &'a Object<Kustomization>, tree: &'a dyn TreeView) -> Self {
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

/// Builds a Kustomization.
///
/// # Errors
/// Says what is wrong, in which file and on which line as far as known.
pub fn build(request: &Request<'_>) -> Result<Built, Error> {
    let spec = &request.kustomization.spec;
    let directory = directory(request)?;
    let mut mount = Mount::new(request.tree);
    let generated = generate::kustomization_file(&mut mount, &directory, spec)?;
    let decryption = spec
        .decryption
        .as_ref()
        .filter(|_| !request.keep_encrypted)
        .map(|_| Decryption { keys: request.keys });
    if let Some(decryption) = &decryption {
        decryption.sources(&mut mount, &directory)?;
    }
    let output = run_kustomize(&mount, &directory, request)?;
    let variables = variables(request);
    let mut work = Work {
        mount: &mount,
        variables: variables.as_ref().map(|values| Variables {
            values,
            strict: request.strict,
            placeholders: request.placeholders,
            missing: request.no_variables,
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
    let (yaml, objects) = work.all(&output)?;
    let mut warnings = work.warnings;
    let digest = format!("sha256:{}", hex(&Sha256::digest(yaml.as_bytes())));
    let mut objects = finish::expand(objects);
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
        if request.fitted {
            placeholder::fit(object);
        }
        if request.keep_encrypted && request.masked {
            placeholder::fill(object);
        }
        finish::add_metadata(object, request.kustomization);
        let may_stay = request.keep_encrypted || finish::stays_encrypted(object);
        if finish::is_encrypted_secret(object) && !may_stay {
            return Err(still_encrypted(&mount, object));
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
        digest,
        size: yaml.len(),
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
    if generate::kustomization_file(&mut mount, &directory, spec).is_err() {
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
        place::of_objects(&mount, gvk, name).into_iter().next()
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
fn variables(request: &Request<'_>) -> Option<BTreeMap<String, String>> {
    let post_build = request.kustomization.spec.post_build.as_ref()?;
    let mut values = request.variables.clone();
    add_variables(&mut values, &post_build.substitute);
    let always = post_build.substitute_strategy == Some(SubstituteStrategy::Always);
    (always || request.no_variables.is_some() || request.placeholders || !values.is_empty())
        .then_some(values)
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
        ..Options::default()
    };
    let outer = Mount::outer(directory);
    let plugins = Plugins::default();
    let result = match request.cache {
        Some(cache) => build_cached(mount, &outer, &options, plugins, cache),
        None => everflow_kustomize::build(mount, &outer, &options, plugins).map(Into::into),
    };
    result.map_err(|error| {
        let text = relative(&error.to_string());
        Error::Kustomize {
            places: place::in_message(mount, &text),
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

/// What is done to each object after kustomize.
struct Work<'a> {
    mount: &'a Mount<'a>,
    variables: Option<Variables<'a>>,
    decryption: Option<Decryption<'a>>,
    warnings: Vec<Warning>,
    /// How many objects there are of each identity.
    identities: BTreeMap<Identity, usize>,
}

/// Kind, name and namespace of an object.
type Identity = (String, String, String, String);

impl Work<'_> {
    fn all(&mut self, output: &Output) -> Result<(String, Vec<Value>), Error> {
        let mut objects = Vec::with_capacity(output.objects.len());
        for built in &output.objects {
            let object = self.json(built)?;
            *self.identities.entry(identity(&object)).or_default() += 1;
            objects.push(object);
        }
        let mut yaml = String::new();
        for (built, object) in output.objects.iter().zip(&mut objects) {
            let changed = self.one(built, object)?;
            if !yaml.is_empty() {
                yaml.push_str("---\n");
            }
            match changed {
                true => yaml.push_str(&emit::sigs(object)),
                false => yaml.push_str(&self.yaml(built)?),
            }
        }
        Ok((yaml, objects))
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
            true => emit::sigs(object),
            false => self.yaml(built)?,
        };
        let substituted = variables.apply(&yaml).map_err(|fault| {
            let original = &built.original_id;
            let name = fault.variable.as_ref();
            let place = name.and_then(|name| {
                let text = format!("${{{name}");
                place::of_text(self.mount, &original.gvk, &original.name, &text)
            });
            Error::PostBuild {
                object: object_name(built),
                text: fault.text,
                place: place.or_else(|| self.place_of(built)),
                variable: fault.variable,
            }
        })?;
        let before = identity(object);
        let after = identity(&substituted);
        *object = substituted;
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
        let decrypted =
            decryption
                .object(self.mount, object)
                .map_err(|text| Error::Decryption {
                    object: object_name(built),
                    place: self.place_of(built),
                    text,
                })?;
        let Some((plain, integrity)) = decrypted else {
            return Ok(false);
        };
        *object = plain;
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

    fn json(&self, built: &BuiltObject) -> Result<Value, Error> {
        built
            .node
            .marshal_json()
            .map_err(|error| self.unprintable(&error.to_string()))
    }

    fn yaml(&self, built: &BuiltObject) -> Result<String, Error> {
        built
            .to_yaml()
            .map_err(|error| self.unprintable(&error.to_string()))
    }

    fn unprintable(&self, text: &str) -> Error {
        let text = relative(text);
        Error::Kustomize {
            places: place::in_message(self.mount, &text),
            text,
            cause: "InvalidResource",
        }
    }

    fn place_of(&self, built: &BuiltObject) -> Option<Place> {
        let original = &built.original_id;
        let places = place::of_objects(self.mount, &original.gvk, &original.name);
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

fn still_encrypted(mount: &Mount<'_>, object: &Value) -> Error {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let meta = &object["metadata"];
    let name = text(&meta["name"]);
    let shown = match text(&meta["namespace"]) {
        none if none.is_empty() => format!("Secret/{name}"),
        namespace => format!("Secret/{namespace}/{name}"),
    };
    let places = place::of_objects(mount, &Gvk::new("v1", "Secret"), &name);
    Error::StillEncrypted {
        object: shown,
        place: places.into_iter().next(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
