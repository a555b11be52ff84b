//! Values of flags as Go's flag packages read them, and the rules that flux's own types add.

use everflow_time::Duration;

/// A duration that may be negative, as `--interval` takes it.
pub fn go_duration(text: &str) -> Result<Duration, String> {
    Duration::parse(text).map_err(|error| error.to_string())
}

/// A truth value in any of Go's spellings.
pub fn go_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!(
            "strconv.ParseBool: parsing {text:?}: invalid syntax"
        )),
    }
}

/// A word out of a list; the text says what the word is for.
fn one_of(text: &str, what: &str, allowed: &[&str], separator: &str) -> Result<String, String> {
    match allowed.contains(&text) {
        true => Ok(text.to_owned()),
        false => {
            let list = allowed.join(separator);
            Err(format!(
                "{what} '{text}' is not supported, must be one of: {list}"
            ))
        }
    }
}

pub fn git_provider(text: &str) -> Result<String, String> {
    let allowed = ["generic", "github", "aws", "azure"];
    one_of(text, "source Git provider", &allowed, "|")
}

pub fn bucket_provider(text: &str) -> Result<String, String> {
    let allowed = ["generic", "aws", "azure", "gcp"];
    one_of(text, "source bucket provider", &allowed, ", ")
}

pub fn oci_provider(text: &str) -> Result<String, String> {
    let allowed = ["generic", "aws", "azure", "gcp"];
    one_of(text, "source OCI provider", &allowed, ", ")
}

pub fn verify_provider(text: &str) -> Result<String, String> {
    let allowed = ["cosign", "notation"];
    one_of(text, "source OCI verify provider", &allowed, ", ")
}

pub fn receiver_type(text: &str) -> Result<String, String> {
    let allowed = [
        "generic",
        "generic-hmac",
        "github",
        "gitlab",
        "bitbucket",
        "harbor",
        "dockerhub",
        "quay",
        "gcr",
        "nexus",
        "acr",
        "cdevents",
    ];
    one_of(text, "receiver type", &allowed, ", ")
}

pub fn decryption_provider(text: &str) -> Result<String, String> {
    match text {
        "sops" => Ok(text.to_owned()),
        _ => Err(format!(
            "unsupported decryption provider '{text}', must be one of: sops"
        )),
    }
}

pub fn crds_policy(text: &str) -> Result<String, String> {
    match text {
        "Skip" | "Create" | "CreateReplace" => Ok(text.to_owned()),
        _ => Err(format!(
            "unsupported upgrade CRDs policy '{text}', must be one of: Skip, Create, CreateReplace"
        )),
    }
}

/// `rsa`, `ecdsa` or `ed25519`.
pub fn key_algorithm(text: &str) -> Result<String, String> {
    match text {
        "rsa" | "ecdsa" | "ed25519" => Ok(text.to_owned()),
        _ => Err(format!(
            "unsupported public key algorithm '{text}', must be one of: rsa, ecdsa, ed25519"
        )),
    }
}

pub fn ecdsa_curve(text: &str) -> Result<String, String> {
    match text {
        "p256" | "p384" | "p521" => Ok(text.to_owned()),
        _ => Err(format!(
            "unsupported curve '{text}', must be one of: p256, p384, p521"
        )),
    }
}

pub fn rsa_bits(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(bits) if bits >= 1024 && bits % 8 == 0 && bits <= 16_384 => Ok(bits),
        Ok(_) => Err("RSA key bit size must be a multiple of 8 and at least 1024".to_owned()),
        Err(_) => Err(format!(
            "strconv.ParseInt: parsing {text:?}: invalid syntax"
        )),
    }
}

/// A path that stays below the place it is relative to: `./a/b`.
pub fn safe_relative_path(text: &str) -> Result<String, String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    Ok(format!("./{}", parts.join("/")))
}

/// An object that another refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// Empty when none was given.
    pub kind: String,
    pub name: String,
    /// Empty when none was given.
    pub namespace: String,
}

impl Reference {
    /// `kind/name`; without exactly one slash the whole is the name.
    pub fn without_namespace(text: &str) -> Self {
        let parts: Vec<&str> = text.split('/').collect();
        let (kind, name) = match parts[..] {
            [kind, name] => (kind, name),
            _ => ("", text),
        };
        Reference {
            kind: kind.to_owned(),
            name: name.to_owned(),
            namespace: String::new(),
        }
    }

    /// `kind/name.namespace`.
    pub fn parse(text: &str) -> Self {
        let mut reference = Reference::without_namespace(text);
        let whole = reference.name.clone();
        if let Some((name, namespace)) = whole.rsplit_once('.') {
            reference.name = name.to_owned();
            reference.namespace = namespace.to_owned();
        }
        reference
    }

    /// The kind as the list has it, whatever the case it was given in.
    fn with_kind_of(mut self, allowed: &[&str]) -> Result<Self, String> {
        match allowed
            .iter()
            .find(|kind| kind.eq_ignore_ascii_case(&self.kind))
        {
            Some(kind) => {
                self.kind = (*kind).to_owned();
                Ok(self)
            }
            None => Err(format!(
                "source kind '{}' is not supported, must be one of: {}",
                self.kind,
                allowed.join(", ")
            )),
        }
    }
}

/// The source of a Kustomization.
pub fn kustomization_source(text: &str) -> Result<Reference, String> {
    if text.trim().is_empty() {
        return Err("no Kustomization source given, please specify the source name".to_owned());
    }
    let mut reference = Reference::parse(text);
    if reference.kind.is_empty() {
        reference.kind = "GitRepository".to_owned();
    }
    let reference = reference.with_kind_of(&["OCIRepository", "GitRepository", "Bucket"])?;
    match reference.name.is_empty() {
        true => Err(format!(
            "no name given for source of kind '{}'",
            reference.kind
        )),
        false => Ok(reference),
    }
}

/// The source of a Helm chart.
pub fn chart_source(text: &str) -> Result<Reference, String> {
    if text.trim().is_empty() {
        return Err("no helm chart source given, please specify the source name".to_owned());
    }
    let reference = Reference::parse(text);
    if reference.kind.is_empty() || reference.name.is_empty() {
        return Err(format!(
            "invalid helm chart source '{text}', must be in format <kind>/<name>"
        ));
    }
    reference.with_kind_of(&["HelmRepository", "GitRepository", "Bucket"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_their_root() {
        for (given, path) in [
            ("", "./"),
            (".", "./"),
            ("/abs", "./abs"),
            ("a/../../b", "./b"),
            ("./a//b/", "./a/b"),
        ] {
            assert_eq!(safe_relative_path(given).unwrap(), path);
        }
    }

    #[test]
    fn references_are_taken_apart_at_the_last_dot() {
        let reference = kustomization_source("ocirepository/x.y.z").unwrap();
        assert_eq!(reference.kind, "OCIRepository");
        assert_eq!(reference.name, "x.y");
        assert_eq!(reference.namespace, "z");
        assert_eq!(kustomization_source("/x").unwrap().kind, "GitRepository");
        assert!(kustomization_source("Bucket/").is_err());
        assert!(chart_source("charts").is_err());
    }

    #[test]
    fn booleans_are_spelled_as_in_go() {
        assert_eq!(go_bool("T"), Ok(true));
        assert!(go_bool("yes").unwrap_err().contains("ParseBool"));
    }
}
