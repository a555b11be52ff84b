//! Rules about templates, what they render, and `crds/`.

use everflow_gotemplate::{Map, Meter, Value};
use everflow_json::Value as Json;
use everflow_sprig::cost;
use everflow_yaml::documents::yaml_or_json_decoder;

use super::objects::Head;
use super::{Findings, LintInput, Severity, capabilities, told};
use crate::chart::{Chart, LoadError};
use crate::dependencies::process_dependencies;
use crate::render::{RenderInput, Sources, render};
use crate::template::{TemplateError, check_schemas, values_map};
use crate::values::{ValuesError, Warnings, coalesce_values};

const DIRECTORY: &str = "templates/";
const DEFINITIONS: &str = "crds/";

pub(super) fn check(
    findings: &mut Findings,
    input: &LintInput<'_>,
    loaded: &Result<Chart, LoadError>,
    sources: &mut Sources,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) {
    if !input.has_templates {
        let text = "directory does not exist".to_owned();
        findings.rule(Severity::Warning, DIRECTORY, Err(text));
        return;
    }
    let mut chart = match loaded {
        Ok(chart) => chart.clone(),
        Err(error) => {
            findings.rule(Severity::Error, DIRECTORY, Err(error.to_string()));
            return;
        }
    };
    let values = match merged_values(input, &mut chart, warnings, meter) {
        Ok(values) => values,
        Err(error @ ValuesError::Exceeded(_)) => {
            findings.rule(Severity::Error, DIRECTORY, Err(error.to_string()));
            return;
        }
        // Helm does not report the others.
        Err(_) => return,
    };
    match rendered(input, &chart, &values, sources, warnings, meter) {
        Err(text) => {
            findings.rule(Severity::Error, DIRECTORY, Err(text));
        }
        Ok(files) => {
            for template in &chart.templates {
                if !check_template(findings, input, &chart, &template.name, &files, meter) {
                    return;
                }
            }
        }
    }
}

fn merged_values(
    input: &LintInput<'_>,
    chart: &mut Chart,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) -> Result<Map, ValuesError> {
    let user_values = values_map(input.values, meter)?;
    process_dependencies(chart, &user_values, warnings, meter)?;
    coalesce_values(chart, &user_values, warnings, meter)
}

fn rendered(
    input: &LintInput<'_>,
    chart: &Chart,
    values: &Map,
    sources: &mut Sources,
    warnings: &mut Warnings,
    meter: &Meter<'_>,
) -> Result<Vec<(String, Vec<u8>)>, String> {
    if !input.skip_schema_validation {
        let report = check_schemas(chart, values, meter).map_err(told)?;
        if !report.is_empty() {
            return Err(TemplateError::Schema(report).to_string());
        }
    }
    let release = Value::map([
        ("Name", Value::string("test-release")),
        ("Namespace", Value::string(input.namespace)),
        ("IsUpgrade", Value::Bool(false)),
        ("IsInstall", Value::Bool(false)),
        ("Revision", Value::Int(0)),
        ("Service", Value::string("Helm")),
    ]);
    let render_input = RenderInput {
        chart,
        values,
        release,
        capabilities: capabilities(input).to_template_value(),
        strict: false,
        lint: true,
        meter,
    };
    render(&render_input, sources, warnings).map_err(|error| error.to_string())
}

/// Checks one template; false when the rest is not to be looked at.
fn check_template(
    findings: &mut Findings,
    input: &LintInput<'_>,
    chart: &Chart,
    name: &str,
    files: &[(String, Vec<u8>)],
    meter: &Meter<'_>,
) -> bool {
    let base = name.rsplit('/').next().unwrap_or(name);
    let extension = base.rfind('.').map_or("", |dot| &base[dot..]);
    let allowed = match [".yaml", ".yml", ".tpl", ".txt"].contains(&extension) {
        true => Ok(()),
        false => Err(format!(
            "file extension '{extension}' not valid. Valid extensions are .yaml, .yml, .tpl, or .txt"
        )),
    };
    findings.rule(Severity::Error, name, allowed);
    if ![".yaml", ".yml"].contains(&extension.to_lowercase().as_str()) {
        return true;
    }
    let path = format!("{}/{name}", chart.name());
    let Some((_, content)) = files.iter().find(|(file, _)| *file == path) else {
        return true;
    };
    let text = String::from_utf8_lossy(content);
    if text.trim().is_empty() {
        return true;
    }
    findings.rule(Severity::Warning, name, indent_rule(&text));
    let _held = match meter.hold(cost::of_yaml(content)) {
        Ok(held) => held,
        Err(exceeded) => return findings.rule(Severity::Error, name, Err(told(exceeded))),
    };
    let version = capabilities(input).kube_version;
    for document in yaml_or_json_decoder(content) {
        let object = document
            .and_then(|document| document.into_object())
            .map_err(|error| error.to_string());
        let read = object.and_then(|object| match object {
            Some(object) => Head::read(&object).map(|head| Some((head, object))),
            None => Ok(None),
        });
        match read {
            Err(error) => {
                let text = format!("unable to parse YAML: {error}");
                return findings.rule(Severity::Error, name, Err(text));
            }
            Ok(None) => {}
            Ok(Some((head, object))) => {
                findings.rule(Severity::Warning, name, head.name_rule());
                findings.rule(Severity::Warning, name, head.deprecation_rule(&version));
                findings.rule(Severity::Error, name, head.selector_rule(&text));
                findings.rule(Severity::Error, name, head.list_rule(&object));
            }
        }
    }
    true
}

/// The first line with something on it must begin at the margin.
fn indent_rule(text: &str) -> Result<(), String> {
    match text.lines().find(|line| !line.trim().is_empty()) {
        Some(line) if line.starts_with([' ', '\t']) => Err(format!(
            "document starts with an illegal indent: {}, which may cause parsing problems",
            everflow_gotemplate::gofmt::quote(line.as_bytes())
        )),
        _ => Ok(()),
    }
}

/// What stands under `crds/`.
pub(super) fn check_definitions(
    findings: &mut Findings,
    input: &LintInput<'_>,
    loaded: &Result<Chart, LoadError>,
    meter: &Meter<'_>,
) {
    if !input
        .files
        .iter()
        .any(|file| file.name.starts_with(DEFINITIONS))
    {
        return;
    }
    let chart = match loaded {
        Ok(chart) => chart,
        Err(error) => {
            findings.rule(Severity::Error, DEFINITIONS, Err(error.to_string()));
            return;
        }
    };
    for (_, file) in chart.crds() {
        let name = file.name.as_str();
        let _held = match meter.hold(cost::of_yaml(&file.data)) {
            Ok(held) => held,
            Err(exceeded) => {
                findings.rule(Severity::Error, name, Err(told(exceeded)));
                return;
            }
        };
        for document in yaml_or_json_decoder(&file.data) {
            let head = document
                .and_then(|document| document.into_object())
                .map_err(|error| error.to_string())
                .and_then(|object: Option<Json>| {
                    object.map(|object| Head::read(&object)).transpose()
                });
            match head {
                Err(error) => {
                    let text = format!("unable to parse YAML: {error}");
                    findings.rule(Severity::Error, name, Err(text));
                    return;
                }
                Ok(None) => {}
                Ok(Some(head)) => {
                    let version = match head.api_version.starts_with("apiextensions.k8s.io") {
                        true => Ok(()),
                        false => Err("apiVersion is not in 'apiextensions.k8s.io'".to_owned()),
                    };
                    findings.rule(Severity::Error, name, version);
                    let kind = match head.kind == "CustomResourceDefinition" {
                        true => Ok(()),
                        false => Err("object kind is not 'CustomResourceDefinition'".to_owned()),
                    };
                    findings.rule(Severity::Error, name, kind);
                }
            }
        }
    }
}
