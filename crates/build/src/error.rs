//! Why a build fails.

use everflow_limits::Exceeded;
use thiserror::Error;

use crate::mount::relative;
use crate::place::Place;

/// Why a build fails. Texts begin as Flux's do; paths in them are relative to the source, and the
/// place of the fault follows where it is known.
#[derive(Debug, Error)]
pub enum Error {
    /// `spec.path` names nothing.
    #[error(
        "kustomization path not found: stat {path}: no such file or directory \
         (spec.path must name a directory of the source)"
    )]
    PathNotFound {
        /// The path in the source.
        path: String,
    },
    /// `spec.path` names a file.
    #[error(
        "open {path}/kustomization.yaml: not a directory \
         (spec.path must name a directory of the source, not a file)"
    )]
    NotADirectory {
        /// The path in the source.
        path: String,
    },
    /// The source cannot be read.
    #[error("{0}")]
    Read(String),
    /// A file in a directory without a kustomization file holds something else than objects.
    #[error(
        "failed to decode Kubernetes YAML from {}: {cause}{}; {MAKE_READABLE}",
        place.path, OfLine(place)
    )]
    Decode {
        /// The file.
        place: Place,
        /// What is wrong with it.
        #[source]
        cause: everflow_kustomize::Error,
    },
    /// The kustomization file cannot be read.
    #[error("{text}: {cause} (in {place}); correct the kustomization file")]
    KustomizationFile {
        /// The file.
        place: Place,
        /// Go's words for what failed.
        text: &'static str,
        /// What is wrong with it.
        #[source]
        cause: everflow_kustomize::Error,
    },
    /// A component that is not in the source.
    #[error(
        "component path '{0}' must be local and relative \
         (spec.components takes directories relative to spec.path)"
    )]
    Component(String),
    /// A file that a generator or a patch names cannot be decrypted.
    #[error("error decrypting sources: {cause} (in {place}){}", decryption_remedy(&cause.to_string()))]
    Source {
        /// The file.
        place: Place,
        /// What is wrong.
        #[source]
        cause: everflow_sops::Error,
    },
    /// A file is too large to be decrypted.
    #[error(
        "error decrypting sources: cannot decrypt file with size ({size} bytes) exceeding limit \
         ({limit}) (in {place})"
    )]
    SourceTooLarge {
        /// The file.
        place: Place,
        /// How large it is.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// An object cannot be decrypted.
    #[error(
        "decryption failed for '{object}': {text}{}{}",
        InPlaces(place.as_slice()), decryption_remedy(text)
    )]
    Decryption {
        /// Which object.
        object: String,
        /// What is wrong.
        text: String,
        /// Where it is.
        place: Option<Place>,
    },
    /// kustomize fails.
    #[error("kustomize build failed: {text}{}{}", InPlaces(places), remedy(text))]
    Kustomize {
        /// What it says, with paths relative to the source.
        text: String,
        /// The stable word for the cause.
        cause: &'static str,
        /// Where the objects or files it speaks of are.
        places: Vec<Place>,
    },
    /// The build would cost more than it may.
    #[error("{step}: {}{cause}", Of(place))]
    Exceeded {
        /// What was being done, in Flux's words for its failure.
        step: &'static str,
        /// The file, field or object, as far as known.
        place: String,
        /// What there is too much of.
        #[source]
        cause: Exceeded,
    },
    /// An object lacks what every object must have.
    #[error(
        "failed to decode Kubernetes apiVersion, kind and name from: {text}{}",
        InPlaces(place.as_slice())
    )]
    Identity {
        /// The object as JSON.
        text: String,
        /// Where it is.
        place: Option<Place>,
    },
    /// Variables cannot be put into an object.
    #[error(
        "post build failed for '{object}': {text}{}{}",
        InPlaces(place.as_slice()), variable_remedy(variable.as_deref())
    )]
    PostBuild {
        /// Which object.
        object: String,
        /// What is wrong.
        text: String,
        /// The variable that has no value, when that is what is wrong.
        variable: Option<String>,
        /// Where the object is.
        place: Option<Place>,
    },
    /// Objects that are one and the same after variables were put in.
    #[error(
        "in Replace: id matched 2 resources: {object} is there twice after substitution{}",
        InPlaces(place.as_slice())
    )]
    Duplicate {
        /// Which object.
        object: String,
        /// Where it is.
        place: Option<Place>,
    },
    /// A Secret that would be applied with its values still encrypted.
    #[error(
        "{object} is SOPS encrypted, configuring decryption is required for this secret to be \
         reconciled (set spec.decryption){}",
        InPlaces(place.as_slice())
    )]
    StillEncrypted {
        /// Kind, namespace and name of the Secret.
        object: String,
        /// Where it is.
        place: Option<Place>,
    },
}

impl Error {
    /// The reason for the Ready condition, as Flux has it.
    pub fn reason(&self) -> &'static str {
        match self {
            Error::PathNotFound { .. } => "ArtifactFailed",
            _ => "BuildFailed",
        }
    }

    /// What there is too much of, if that is the cause.
    pub fn exceeded(&self) -> Option<&Exceeded> {
        match self {
            Error::Exceeded { cause, .. } => Some(cause),
            _ => None,
        }
    }

    pub(crate) fn of_limit(step: &'static str, place: impl Into<String>, cause: Exceeded) -> Self {
        Error::Exceeded {
            step,
            place: place.into(),
            cause,
        }
    }

    /// The error of kustomize about a limit, in a file unless it names one itself.
    pub(crate) fn of_kustomize(
        step: &'static str,
        path: &str,
        error: &everflow_kustomize::Error,
    ) -> Option<Self> {
        let everflow_kustomize::Error::Exceeded(excess) = error else {
            return None;
        };
        let everflow_kustomize::Excess { file, field, cause } = &**excess;
        let file = match file.is_empty() {
            true => path,
            false => file,
        };
        let place = match (file.is_empty(), field.is_empty()) {
            (_, true) => file.to_owned(),
            (true, false) => field.clone(),
            (false, false) => format!("{file}: {field}"),
        };
        Some(Error::of_limit(step, relative(&place), cause.clone()))
    }

    /// Where the fault is, as far as known.
    pub fn places(&self) -> &[Place] {
        match self {
            Error::Decode { place, .. }
            | Error::KustomizationFile { place, .. }
            | Error::Source { place, .. }
            | Error::SourceTooLarge { place, .. } => std::slice::from_ref(place),
            Error::Kustomize { places, .. } => places,
            Error::Identity { place, .. }
            | Error::Decryption { place, .. }
            | Error::PostBuild { place, .. }
            | Error::Duplicate { place, .. }
            | Error::StillEncrypted { place, .. } => place.as_slice(),
            Error::PathNotFound { .. }
            | Error::NotADirectory { .. }
            | Error::Read(_)
            | Error::Exceeded { .. }
            | Error::Component(_) => &[],
        }
    }
}

/// What to do about a file that holds no objects.
const MAKE_READABLE: &str = "correct the file, or keep it out of the build with a kustomization.yaml beside it or spec.ignore of the source";
/// What to do about a file that cannot be decrypted.
const GIVE_KEY: &str = "put the private key of one of its recipients into the Secret of spec.decryption.secretRef, or encrypt the file for a key that is there";

/// What to do about something that cannot be decrypted.
fn decryption_remedy(text: &str) -> String {
    if text.contains("cannot get sops data key") {
        format!("; {GIVE_KEY}")
    } else if text.contains("failed to load encrypted") {
        "; the file is not as sops writes it: encrypt it anew".to_owned()
    } else {
        String::new()
    }
}

/// What to do about a variable without a value.
fn variable_remedy(name: Option<&str>) -> String {
    let text = |name| {
        format!(
            "; give it a value in spec.postBuild, or a default as in ${{{name}:=default}}; write \
             $${{{name}}} for text that is to stay"
        )
    };
    name.map(text).unwrap_or_default()
}

/// What to do about the mistakes that kustomize finds most.
fn remedy(text: &str) -> &'static str {
    const REMEDIES: [(&str, &str); 7] = [
        ("MalformedYAMLError", "; correct the YAML at that line"),
        (
            "missing metadata.name",
            "; every object needs a metadata.name",
        ),
        (
            "already registered id",
            "; the object is there twice: remove or rename one of the two",
        ),
        (
            "failed to find unique target for patch",
            "; no object of the build is what the patch names: correct its apiVersion, kind, name and namespace, or give it a target",
        ),
        (
            "no such file or directory",
            "; correct the path in the kustomization file, or add what it names to the source",
        ),
        (
            "doesn't exist",
            "; correct the path in the kustomization file, or add what it names to the source",
        ),
        (
            "must specify --enable-helm",
            "; Flux renders no charts of kustomization files: deploy the chart with a HelmRelease",
        ),
    ];
    let fits = |(part, _): &&(&str, &str)| text.contains(part);
    REMEDIES.iter().find(fits).map_or("", |(_, remedy)| remedy)
}

/// What was being done when a limit was reached.
pub(crate) mod step {
    pub const GENERATE: &str = "failed to generate kustomization.yaml";
    pub const BUILD: &str = "kustomize build failed";
    pub const DECRYPT: &str = "decryption failed";
    pub const SUBSTITUTE: &str = "post build failed";
}

/// `apps/kustomization.yaml: `, or nothing.
struct Of<'a>(&'a str);

impl std::fmt::Display for Of<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            "" => Ok(()),
            place => write!(f, "{place}: "),
        }
    }
}

/// ` (in a.yaml:3 and b.yaml:7)`, or nothing.
struct InPlaces<'a>(&'a [Place]);

impl std::fmt::Display for InPlaces<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut before = " (in ";
        for place in self.0 {
            write!(f, "{before}{place}")?;
            before = " and ";
        }
        match self.0 {
            [] => Ok(()),
            _ => f.write_str(")"),
        }
    }
}

/// ` (line 3)`, or nothing.
struct OfLine<'a>(&'a Place);

impl std::fmt::Display for OfLine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.line {
            Some(line) => write!(f, " (line {line} of the file)"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_in_kustomization_files_are_for_helm_releases() {
        let text =
            "trouble configuring builtin HelmChartInflationGenerator: must specify --enable-helm";
        assert!(remedy(text).contains("HelmRelease"));
    }
}
