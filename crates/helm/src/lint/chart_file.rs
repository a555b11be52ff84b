//! Rules about `Chart.yaml`.

use everflow_json::Value;
use everflow_semver::{Constraint, Version};
use everflow_yaml::sigs::typed::{StructTarget, Target, unmarshal_strict};
use everflow_yaml::sigs::yaml_to_json;

use super::{Findings, Severity};
use crate::chart::{ChartFile, Metadata};

const FILE: &str = "Chart.yaml";

pub(super) fn check(findings: &mut Findings, file: Option<&ChartFile>) {
    let data: &[u8] = file.map_or(&[], |file| &file.data);
    let mut metadata = Metadata::default();
    let parsed = yaml_to_json(data)
        .map_err(|error| format!("error converting YAML to JSON: {error}"))
        .and_then(|yaml| metadata.absorb(&yaml).map(|()| yaml));
    let yaml = match parsed {
        Ok(yaml) => yaml,
        Err(error) => {
            let text = format!("unable to parse YAML\n\t{error}");
            findings.rule(Severity::Error, FILE, Err(text));
            return;
        }
    };
    let strict = unmarshal_strict(data, &metadata_target())
        .map(drop)
        .map_err(|error| format!("failed to strictly parse chart metadata file\n\t{error}"));
    findings.rule(Severity::Warning, FILE, strict);
    let rules = [
        (Severity::Error, name(&metadata)),
        (Severity::Error, api_version(&metadata)),
        (Severity::Error, is_text(&yaml, "version")),
        (Severity::Error, version(&metadata)),
        (Severity::Error, is_text(&yaml, "appVersion")),
        (Severity::Error, maintainers(&metadata)),
        (Severity::Error, sources(&metadata)),
        (Severity::Info, icon_is_there(&metadata)),
        (Severity::Error, icon_address(&metadata)),
        (Severity::Error, kind(&metadata)),
        (Severity::Error, dependencies(&metadata)),
        (Severity::Warning, strict_version(&metadata)),
    ];
    for (severity, outcome) in rules {
        findings.rule(severity, FILE, outcome);
    }
}

/// The fields that `Chart.yaml` may have.
fn metadata_target() -> Target {
    let fields = |name: &str, fields: Vec<(&str, Target)>| {
        Target::Struct(StructTarget {
            name: name.to_owned(),
            fields: fields
                .into_iter()
                .map(|(name, target)| (name.to_owned(), target))
                .collect(),
        })
    };
    let list = |item: Target| Target::Slice(Box::new(item));
    let text = || Target::String;
    let maintainer = fields(
        "Maintainer",
        vec![("name", text()), ("email", text()), ("url", text())],
    );
    let dependency = fields(
        "Dependency",
        vec![
            ("name", text()),
            ("version", text()),
            ("repository", text()),
            ("condition", text()),
            ("tags", list(text())),
            ("enabled", Target::Bool),
            ("import-values", list(Target::Any)),
            ("alias", text()),
        ],
    );
    fields(
        "Metadata",
        vec![
            ("name", text()),
            ("home", text()),
            ("sources", list(text())),
            ("version", text()),
            ("description", text()),
            ("keywords", list(text())),
            ("maintainers", list(maintainer)),
            ("icon", text()),
            ("apiVersion", text()),
            ("condition", text()),
            ("tags", text()),
            ("appVersion", text()),
            ("deprecated", Target::Bool),
            ("annotations", Target::Map(Box::new(Target::String))),
            ("kubeVersion", text()),
            ("dependencies", list(dependency)),
            ("type", text()),
        ],
    )
}

fn name(metadata: &Metadata) -> Result<(), String> {
    match metadata.name.as_str() {
        "" => Err("name is required".to_owned()),
        name if name.contains('/') => Err(format!("chart name {name:?} is invalid")),
        _ => Ok(()),
    }
}

fn api_version(metadata: &Metadata) -> Result<(), String> {
    const CHOICE: &str = "The value must be either \"v1\" or \"v2\"";
    match metadata.api_version.as_str() {
        "" => Err(format!("apiVersion is required. {CHOICE}")),
        "v1" | "v2" => Ok(()),
        other => Err(format!("apiVersion '{other}' is not valid. {CHOICE}")),
    }
}

fn is_text(yaml: &Value, key: &str) -> Result<(), String> {
    let go_type = match yaml.get(key) {
        None | Some(Value::String(_)) => return Ok(()),
        Some(Value::Null) => "<nil>",
        Some(Value::Bool(_)) => "bool",
        Some(Value::Number(_)) => "float64",
        Some(Value::Array(_)) => "[]interface {}",
        Some(Value::Object(_)) => "map[string]interface {}",
    };
    Err(format!(
        "{key} should be of type string but it's of type {go_type}"
    ))
}

fn version(metadata: &Metadata) -> Result<(), String> {
    let text = &metadata.version;
    if text.is_empty() {
        return Err("version is required".to_owned());
    }
    let version =
        Version::parse(text).map_err(|_| format!("version '{text}' is not a valid SemVer"))?;
    let positive = Constraint::parse(">0.0.0-0").map_err(|error| error.to_string())?;
    match positive.validate(&version) {
        Ok(()) => Ok(()),
        Err(reasons) => match reasons.first() {
            Some(reason) => Err(format!("version {reason}")),
            None => Ok(()),
        },
    }
}

fn strict_version(metadata: &Metadata) -> Result<(), String> {
    let text = &metadata.version;
    Version::parse_strict(text)
        .map(drop)
        .map_err(|_| format!("version '{text}' is not a valid SemVerV2"))
}

fn maintainers(metadata: &Metadata) -> Result<(), String> {
    for maintainer in &metadata.maintainers {
        let Some(maintainer) = maintainer else {
            return Err("a maintainer entry is empty".to_owned());
        };
        let (name, email, url) = (&maintainer.name, &maintainer.email, &maintainer.url);
        if name.is_empty() {
            return Err("each maintainer requires a name".to_owned());
        }
        if !email.is_empty() && !is_email(email) {
            return Err(format!("invalid email '{email}' for maintainer '{name}'"));
        }
        if !url.is_empty() && !is_url(url) {
            return Err(format!("invalid url '{url}' for maintainer '{name}'"));
        }
    }
    Ok(())
}

fn sources(metadata: &Metadata) -> Result<(), String> {
    match metadata
        .sources
        .iter()
        .find(|source| !is_request_url(source))
    {
        Some(source) => Err(format!("invalid source URL '{source}'")),
        None => Ok(()),
    }
}

fn icon_is_there(metadata: &Metadata) -> Result<(), String> {
    match metadata.icon.is_empty() {
        true => Err("icon is recommended".to_owned()),
        false => Ok(()),
    }
}

fn icon_address(metadata: &Metadata) -> Result<(), String> {
    let icon = &metadata.icon;
    match icon.is_empty() || is_request_url(icon) {
        true => Ok(()),
        false => Err(format!("invalid icon URL '{icon}'")),
    }
}

fn kind(metadata: &Metadata) -> Result<(), String> {
    match metadata.kind.is_empty() || metadata.api_version == "v2" {
        true => Ok(()),
        false => Err(format!(
            "chart type is not valid in apiVersion '{}'. It is valid in apiVersion 'v2'",
            metadata.api_version
        )),
    }
}

fn dependencies(metadata: &Metadata) -> Result<(), String> {
    match metadata.dependencies.is_empty() || metadata.api_version == "v2" {
        true => Ok(()),
        false => Err(format!(
            "dependencies are not valid in the Chart file with apiVersion '{}'. They are valid in \
             apiVersion 'v2'",
            metadata.api_version
        )),
    }
}

/// An address with something before and a domain with a dot behind the at sign.
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else {
        return false;
    };
    let is_local = !local.is_empty()
        && !local.starts_with('.')
        && !local.ends_with('.')
        && !local.contains("..")
        && local
            .chars()
            .all(|c| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c));
    is_local && is_domain(domain) && domain.contains('.')
}

fn is_domain(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .chars()
                .all(|c| c.is_alphanumeric() || "-_".contains(c))
    };
    text.split('.').all(label)
}

/// What a browser would take for an address; the scheme may be missing.
fn is_url(text: &str) -> bool {
    let short = text.len() < 3 || text.len() > 2083 || text.starts_with('.');
    if short || text.contains(char::is_whitespace) {
        return false;
    }
    let rest = match text.split_once("://") {
        Some((scheme, rest)) => {
            if ![
                "http", "https", "ftp", "tcp", "udp", "ws", "wss", "irc", "rtmp",
            ]
            .contains(&scheme.to_ascii_lowercase().as_str())
            {
                return false;
            }
            rest
        }
        None => text,
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) => (host, port),
        None => (host, "80"),
    };
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    is_port && is_domain(host) && (host.contains('.') || host == "localhost")
}

/// An absolute address with a scheme.
fn is_request_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let has_control = text.bytes().any(|byte| byte < 0x20 || byte == 0x7f);
    let authority = rest
        .strip_prefix("//")
        .map_or("", |rest| rest.split(['/', '?', '#']).next().unwrap_or(""));
    is_scheme && !has_control && !authority.contains([' ', '<', '>', '"'])
}
