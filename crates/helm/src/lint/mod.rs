//! `helm lint`: rules that charts should keep.

mod chart_file;
mod names;
mod objects;
mod templates;

use std::fmt;

use everflow_gotemplate::{Limits, Meter};
use everflow_json::Map;
use everflow_limits::Budget;
use everflow_sprig::cost;

use crate::chart::{ChartFile, LoadError, load_files, load_values};
use crate::objects::{Capabilities, KubeVersion};
use crate::render::Sources;
use crate::template::{check_schema, values_map};
use crate::values::{Warnings, coalesce_tables};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A recommendation.
    Info,
    /// It breaks a convention, and will most likely work.
    Warning,
    /// It will most likely not work.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Info => "INFO",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
        })
    }
}

/// One finding. `Display` is the line that helm prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// How bad it is.
    pub severity: Severity,
    /// The file or directory it is about.
    pub path: String,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}: {}", self.severity, self.path, self.text)
    }
}

/// A chart that is to be examined.
#[derive(Debug, Clone)]
pub struct LintInput<'a> {
    /// The chart's files, named relative to its directory.
    pub files: &'a [ChartFile],
    /// `Chart.yaml`, `values.yaml` and `values.schema.json`, even if `.helmignore` leaves them out.
    pub main_files: &'a [ChartFile],
    /// The absolute path of its directory; findings about dependencies name it.
    pub directory: &'a str,
    /// Whether there is a directory `templates/`, be it empty.
    pub has_templates: bool,
    /// The user's values.
    pub values: &'a Map,
    /// The namespace that templates see.
    pub namespace: &'a str,
    /// The Kubernetes version that templates see and that decides what is deprecated.
    pub kube_version: Option<&'a KubeVersion>,
    /// Leave `values.schema.json` alone.
    pub skip_schema_validation: bool,
    /// What the templates may use up beside memory.
    pub limits: &'a Limits,
    /// The memory and time that there is for all of it.
    pub budget: &'a Budget,
}

/// The findings so far.
#[derive(Debug, Default)]
struct Findings(Vec<Message>);

impl Findings {
    /// Notes what a rule says; tells whether it had nothing to say.
    fn rule(&mut self, severity: Severity, path: &str, outcome: Result<(), String>) -> bool {
        match outcome {
            Ok(()) => true,
            Err(text) => {
                self.0.push(Message {
                    severity,
                    path: path.to_owned(),
                    text,
                });
                false
            }
        }
    }
}

/// Examines a chart. What templates log goes to the warnings.
pub fn lint(input: &LintInput<'_>, sources: &mut Sources, warnings: &mut Warnings) -> Vec<Message> {
    let mut findings = Findings::default();
    let loaded = load_files(input.files.to_vec(), warnings);
    let meter = Meter::new(input.limits, input.budget);
    chart_file::check(&mut findings, file(input, "Chart.yaml"));
    check_values(&mut findings, input, warnings, &meter);
    templates::check(&mut findings, input, &loaded, sources, warnings, &meter);
    check_dependencies(&mut findings, input, &loaded);
    templates::check_definitions(&mut findings, input, &loaded, &meter);
    findings.0
}

fn file<'f>(input: &LintInput<'f>, name: &str) -> Option<&'f ChartFile> {
    input.main_files.iter().find(|file| file.name == name)
}

fn capabilities(input: &LintInput<'_>) -> Capabilities {
    let mut capabilities = Capabilities::default();
    if let Some(version) = input.kube_version {
        capabilities.kube_version = version.clone();
    }
    capabilities
}

fn check_values(
    findings: &mut Findings,
    input: &LintInput<'_>,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) {
    const FILE: &str = "values.yaml";
    let Some(values) = file(input, FILE) else {
        findings.rule(Severity::Info, FILE, Err("file does not exist".to_owned()));
        return;
    };
    let mark = meter.mark();
    let outcome = values_rule(input, &values.data, warnings, meter);
    meter.release_to(mark);
    findings.rule(Severity::Error, FILE, outcome);
}

fn values_rule(
    input: &LintInput<'_>,
    values: &[u8],
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) -> Result<(), String> {
    let _held = meter.hold(cost::of_yaml(values)).map_err(told)?;
    let defaults =
        load_values(values).map_err(|reason| format!("unable to parse YAML: {reason}"))?;
    let all = values_map(input.values, meter).map_err(told)?;
    let defaults = values_map(&defaults, meter).map_err(told)?;
    coalesce_tables(&all, &defaults, warnings, meter).map_err(told)?;
    match file(input, "values.schema.json") {
        Some(schema) if !schema.data.is_empty() && !input.skip_schema_validation => {
            let report = check_schema("the chart", &schema.data, &all, meter).map_err(told)?;
            report.map_or(Ok(()), Err)
        }
        _ => Ok(()),
    }
}

fn told(error: impl fmt::Display) -> String {
    error.to_string()
}

fn check_dependencies(
    findings: &mut Findings,
    input: &LintInput<'_>,
    loaded: &Result<crate::chart::Chart, LoadError>,
) {
    let chart = match loaded {
        Ok(chart) => chart,
        Err(error) => {
            let text = format!("unable to load chart\n\t{error}");
            findings.rule(Severity::Error, "", Err(text));
            return;
        }
    };
    let declared: Vec<_> = chart.metadata.dependencies.iter().flatten().collect();
    let undeclared = chart
        .dependencies
        .iter()
        .map(|inner| inner.name())
        .filter(|name| !declared.iter().any(|dependency| dependency.name == *name))
        .collect();
    let mut seen: Vec<&str> = Vec::new();
    let mut shadowing = Vec::new();
    for dependency in &declared {
        let key = match dependency.alias.is_empty() {
            true => &dependency.name,
            false => &dependency.alias,
        };
        match seen.contains(&key.as_str()) {
            true => shadowing.push(key.as_str()),
            false => seen.push(key),
        }
    }
    let missing = declared
        .iter()
        .map(|dependency| dependency.name.as_str())
        .filter(|name| !chart.dependencies.iter().any(|inner| inner.name() == *name))
        .collect();
    let rules: [(Severity, &str, Vec<&str>); 3] = [
        (
            Severity::Error,
            "chart metadata is missing these dependencies",
            undeclared,
        ),
        (
            Severity::Error,
            "multiple dependencies with name or alias",
            shadowing,
        ),
        (
            Severity::Warning,
            "chart directory is missing these dependencies",
            missing,
        ),
    ];
    for (severity, problem, names) in rules {
        let outcome = match names.is_empty() {
            true => Ok(()),
            false => Err(format!("{problem}: {}", names.join(","))),
        };
        findings.rule(severity, input.directory, outcome);
    }
}

#[cfg(test)]
mod tests {
    use everflow_sprig::FixedSource;

    use super::*;

    fn report(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<ChartFile> = files
            .iter()
            .map(|(name, text)| ChartFile::new(*name, text.as_bytes().to_vec()))
            .collect();
        let input = LintInput {
            files: &files,
            main_files: &files,
            directory: "/charts/web",
            has_templates: files.iter().any(|file| file.name.starts_with("templates/")),
            values: &Map::new(),
            namespace: "default",
            kube_version: None,
            skip_schema_validation: false,
            limits: &Limits::default(),
            budget: &Budget::unlimited(),
        };
        let mut sources = Sources::new(FixedSource::new(0, 0, 1));
        lint(&input, &mut sources, &mut Warnings::default())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    const CHART: &str =
        "apiVersion: v2\nname: web\nversion: 1.0.0\nicon: https://x.example/i.png\n";

    #[test]
    fn a_good_chart_has_no_findings() {
        let config = "kind: ConfigMap\nmetadata: {name: a}\n";
        assert_eq!(
            report(&[
                ("Chart.yaml", CHART),
                ("values.yaml", "a: 1\n"),
                ("templates/a.yaml", config)
            ]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn lint_findings_match_helm() {
        let deployment =
            "apiVersion: extensions/v1beta1\nkind: Deployment\nmetadata: {name: A_b}\n";
        assert_eq!(
            report(&[
                (
                    "Chart.yaml",
                    "apiVersion: v1\nname: web\nversion: '1.2'\ntype: application\n"
                ),
                ("templates/a.yaml", deployment),
                ("templates/b.json", "{}"),
                ("crds/c.yaml", "kind: Widget\n"),
            ]),
            [
                "[INFO] Chart.yaml: icon is recommended",
                "[ERROR] Chart.yaml: chart type is not valid in apiVersion 'v1'. It is valid in \
                 apiVersion 'v2'",
                "[WARNING] Chart.yaml: version '1.2' is not a valid SemVerV2",
                "[INFO] values.yaml: file does not exist",
                "[WARNING] templates/a.yaml: object name does not conform to Kubernetes naming \
                 requirements: \"A_b\": metadata.name: Invalid value: \"A_b\": a lowercase RFC 1123 \
                 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                 start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                 validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                "[WARNING] templates/a.yaml: extensions/v1beta1 Deployment is deprecated in v1.8+, \
                 unavailable in v1.16+; use apps/v1 Deployment",
                "[ERROR] templates/a.yaml: a Deployment must contain matchLabels or \
                 matchExpressions, and \"A_b\" does not",
                "[ERROR] templates/b.json: file extension '.json' not valid. Valid extensions are \
                 .yaml, .yml, .tpl, or .txt",
                "[ERROR] crds/c.yaml: apiVersion is not in 'apiextensions.k8s.io'",
                "[ERROR] crds/c.yaml: object kind is not 'CustomResourceDefinition'",
            ]
        );
    }
}
