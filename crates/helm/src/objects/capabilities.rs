//! `.Capabilities`: what the cluster can do, or is said to.

use std::any::Any;

use everflow_gotemplate::{
    Args, Context, FuncResult, GoStr, GoType, List, Method, NamedType, Object, Signature, Value,
};

/// API versions that helm assumes where there is no cluster to ask.
const DEFAULT_API_VERSIONS: [&str; 57] = [
    "v1",
    "admissionregistration.k8s.io/v1",
    "admissionregistration.k8s.io/v1alpha1",
    "admissionregistration.k8s.io/v1beta1",
    "internal.apiserver.k8s.io/v1alpha1",
    "apps/v1",
    "apps/v1beta1",
    "apps/v1beta2",
    "authentication.k8s.io/v1",
    "authentication.k8s.io/v1alpha1",
    "authentication.k8s.io/v1beta1",
    "authorization.k8s.io/v1",
    "authorization.k8s.io/v1beta1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "batch/v1beta1",
    "certificates.k8s.io/v1",
    "certificates.k8s.io/v1beta1",
    "certificates.k8s.io/v1alpha1",
    "coordination.k8s.io/v1alpha2",
    "coordination.k8s.io/v1beta1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "discovery.k8s.io/v1beta1",
    "events.k8s.io/v1",
    "events.k8s.io/v1beta1",
    "extensions/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
    "lifecycle.k8s.io/v1alpha1",
    "networking.k8s.io/v1",
    "networking.k8s.io/v1beta1",
    "node.k8s.io/v1",
    "node.k8s.io/v1alpha1",
    "node.k8s.io/v1beta1",
    "policy/v1",
    "policy/v1beta1",
    "rbac.authorization.k8s.io/v1",
    "rbac.authorization.k8s.io/v1beta1",
    "rbac.authorization.k8s.io/v1alpha1",
    "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2",
    "resource.k8s.io/v1beta1",
    "resource.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1alpha3",
    "scheduling.k8s.io/v1beta1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1beta1",
    "storage.k8s.io/v1",
    "storage.k8s.io/v1alpha1",
    "storagemigration.k8s.io/v1",
    "storagemigration.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1beta1",
    "apiextensions.k8s.io/v1",
];

/// The helm release whose behaviour this engine has; templates can ask for it.
const HELM_VERSION: &str = "v4.3";
const KUBE_CLIENT_VERSION: &str = "v1.37";
const GO_VERSION: &str = "go1.26.8";

/// A Kubernetes version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeVersion {
    /// As given, with `v` before it.
    pub version: String,
    /// Without what a vendor hangs behind it; constraints are held against this.
    pub normalized: String,
    /// Major.
    pub major: String,
    /// Minor.
    pub minor: String,
}

/// A Kubernetes version that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not parse {0:?} as version")]
pub struct KubeVersionError(pub String);

impl KubeVersion {
    /// Reads `1.33`, `v1.33.4` or `v1.33.4-gke.100`.
    pub fn parse(text: &str) -> Result<Self, KubeVersionError> {
        let error = || KubeVersionError(text.to_owned());
        let plain = text.trim().strip_prefix('v').unwrap_or(text.trim());
        let numbers: &str = plain
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .map_or(plain, |end| &plain[..end]);
        let parts: Vec<u64> = numbers
            .trim_end_matches('.')
            .split('.')
            .map(|part| match part.len() > 1 && part.starts_with('0') {
                true => Err(error()),
                false => part.parse().map_err(|_| error()),
            })
            .collect::<Result<_, _>>()?;
        if parts.len() < 2 {
            return Err(error());
        }
        let dotted: Vec<String> = parts.iter().map(u64::to_string).collect();
        Ok(KubeVersion {
            version: match text.starts_with('v') {
                true => text.to_owned(),
                false => format!("v{text}"),
            },
            normalized: format!("v{}", dotted.join(".")),
            major: dotted[0].clone(),
            minor: dotted[1].clone(),
        })
    }
}

/// What a render assumes of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The Kubernetes version.
    pub kube_version: KubeVersion,
    /// `v1`, `apps/v1`, `apps/v1/Deployment` and so on.
    pub api_versions: Vec<String>,
}

impl Default for Capabilities {
    fn default() -> Self {
        let part = |text: &str| text.to_owned();
        Capabilities {
            kube_version: KubeVersion {
                version: part("v1.37.0"),
                normalized: part("v1.37.0"),
                major: part("1"),
                minor: part("37"),
            },
            api_versions: DEFAULT_API_VERSIONS.iter().map(|v| part(v)).collect(),
        }
    }
}

impl Capabilities {
    /// The value that templates see.
    pub fn to_template_value(&self) -> Value {
        Value::object(CapabilitiesObject(self.clone()))
    }
}

struct CapabilitiesObject(Capabilities);

static CAPABILITIES_TYPE: NamedType = NamedType {
    name: "common.Capabilities",
    underlying: GoType::Struct,
    methods: &[],
};

impl Object for CapabilitiesObject {
    fn go_type(&self) -> GoType {
        const TARGET: GoType = GoType::Named(&CAPABILITIES_TYPE);
        GoType::Pointer(&TARGET)
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let versions = self.0.api_versions.iter().map(Value::string).collect();
        vec![
            (
                "KubeVersion",
                Value::object(KubeVersionObject(self.0.kube_version.clone())),
            ),
            (
                "APIVersions",
                Value::List(List::typed(GoType::Named(&VERSION_SET_TYPE), versions)),
            ),
            ("HelmVersion", Value::object(HelmVersionObject)),
        ]
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

static VERSION_SET_TYPE: NamedType = NamedType {
    name: "common.VersionSet",
    underlying: GoType::STRING_SLICE,
    methods: &[Method {
        name: "Has",
        signature: Signature {
            params: &[GoType::String],
            variadic: false,
            result: GoType::Bool,
        },
        call: has_version,
    }],
};

fn has_version(_: &mut Context<'_>, receiver: &Value, args: Args<'_>) -> FuncResult {
    let wanted = args.text(0)?;
    let found = receiver
        .as_list()
        .is_some_and(|versions| versions.items().iter().any(|v| v.as_text() == Some(wanted)));
    Ok(Value::Bool(found))
}

struct KubeVersionObject(KubeVersion);

static KUBE_VERSION_TYPE: NamedType = NamedType {
    name: "common.KubeVersion",
    underlying: GoType::Struct,
    methods: &[
        Method {
            name: "String",
            signature: Signature {
                params: &[],
                variadic: false,
                result: GoType::String,
            },
            call: |_, receiver, _| kube_version_text(receiver, |version| &version.normalized),
        },
        Method {
            name: "GitVersion",
            signature: Signature {
                params: &[],
                variadic: false,
                result: GoType::String,
            },
            call: |_, receiver, _| kube_version_text(receiver, |version| &version.version),
        },
    ],
};

fn kube_version_text(receiver: &Value, text: fn(&KubeVersion) -> &String) -> FuncResult {
    Ok(match receiver.as_object::<KubeVersionObject>() {
        Some(object) => Value::string(text(&object.0)),
        None => Value::string(""),
    })
}

impl Object for KubeVersionObject {
    fn go_type(&self) -> GoType {
        GoType::Named(&KUBE_VERSION_TYPE)
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("Version", Value::string(&self.0.version)),
            ("normalizedVersion", Value::string(&self.0.normalized)),
            ("Major", Value::string(&self.0.major)),
            ("Minor", Value::string(&self.0.minor)),
        ]
    }

    fn text_by_address(&self) -> Option<GoStr> {
        Some(GoStr::new(&self.0.normalized))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct HelmVersionObject;

static HELM_VERSION_TYPE: NamedType = NamedType {
    name: "version.BuildInfo",
    underlying: GoType::Struct,
    methods: &[],
};

impl Object for HelmVersionObject {
    fn go_type(&self) -> GoType {
        GoType::Named(&HELM_VERSION_TYPE)
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("Version", Value::string(HELM_VERSION)),
            ("GitCommit", Value::string("")),
            ("GitTreeState", Value::string("")),
            ("GoVersion", Value::string(GO_VERSION)),
            ("KubeClientVersion", Value::string(KUBE_CLIENT_VERSION)),
        ]
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kube_versions_are_normalised() {
        let version = KubeVersion::parse("1.25.3-gke.100").unwrap();
        assert_eq!(version.version, "v1.25.3-gke.100");
        assert_eq!(version.normalized, "v1.25.3");
        assert_eq!(
            (version.major.as_str(), version.minor.as_str()),
            ("1", "25")
        );
        assert_eq!(
            KubeVersion::parse("abc").unwrap_err().to_string(),
            "could not parse \"abc\" as version"
        );
    }
}
