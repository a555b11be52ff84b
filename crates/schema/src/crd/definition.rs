//! The definition around the schemas: names, versions, scope, subresources, columns, conversion.

use everflow_json::{Map, Value, json};

use super::approval;
use super::field_path;
use super::node;
use super::schema;
use crate::names::{dns_1035_label_problems, dns_1123_subdomain_problems, kind_problem};
use crate::schema::Schema;
use crate::structural::{BadValue, FieldError, FieldErrorKind};

/// What checking a definition has found.
#[derive(Debug, Default)]
pub struct Checked {
    /// All errors but those of rules in CEL.
    pub errors: Vec<FieldError>,
    /// The schemas whose rules in CEL are worth compiling, with the path of the schema.
    pub rule_schemas: Vec<(String, Schema)>,
}

/// Fills in what a definition may leave out: singular name, list kind, conversion.
pub fn set_definition_defaults(definition: &mut Value) {
    let Some(spec) = definition.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let missing = |names: &Map, key: &str| {
            names
                .get(key)
                .and_then(Value::as_str)
                .is_none_or(str::is_empty)
        };
        if !kind.is_empty() && missing(names, "singular") {
            names.insert("singular".into(), json!(kind.to_lowercase()));
        }
        if !kind.is_empty() && missing(names, "listKind") {
            names.insert("listKind".into(), json!(format!("{kind}List")));
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".into(), json!({"strategy": "None"}));
    }
}

/// Checks a new definition whose defaults are filled in. Of its metadata only the name is checked.
pub fn check_definition(definition: &Value) -> Checked {
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    let (plural, group) = (
        node::text(&spec["names"], "plural"),
        node::text(spec, "group"),
    );
    let mut checked = check_content(definition, None);
    if name != format!("{plural}.{group}") {
        let problem = "must be spec.names.plural+\".\"+spec.group";
        checked.errors.insert(
            0,
            FieldError::invalid("metadata.name", json!(name), problem),
        );
    }
    checked
}

/// Everything but the name, which cannot change.
fn check_content(definition: &Value, old: Option<&Value>) -> Checked {
    let mut checked = Checked::default();
    let spec = definition.get("spec").unwrap_or(&Value::Null);
    check_spec(spec, &mut checked);
    check_names(
        &definition["status"]["acceptedNames"],
        "status.acceptedNames",
        &mut checked.errors,
    );
    let stored = stored_versions(definition, spec);
    check_stored_versions(&stored, spec, &mut checked.errors);
    checked.errors.extend(approval::check(definition, old));
    if node::is_true(spec, "preserveUnknownFields") {
        checked.errors.push(FieldError::invalid(
            "spec.preserveUnknownFields",
            json!(true),
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    checked
}

/// Checks a changed definition; some names cannot change.
pub fn check_definition_update(definition: &Value, old: &Value) -> Checked {
    let mut checked = check_content(definition, Some(old));
    let established = node::list(&old["status"], "conditions")
        .iter()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    let mut fixed = vec!["/group", "/names/plural"];
    if established {
        fixed.splice(0..0, ["/scope", "/names/kind"]);
    }
    for pointer in fixed {
        let value = definition["spec"].pointer(pointer).unwrap_or(&Value::Null);
        if Some(value) != old["spec"].pointer(pointer) {
            let field = format!("spec{}", pointer.replace('/', "."));
            checked.errors.push(FieldError::invalid(
                field,
                value.clone(),
                "field is immutable",
            ));
        }
    }
    checked
}

fn check_spec(spec: &Value, checked: &mut Checked) {
    let versions = node::list(spec, "versions");
    let group = node::text(spec, "group");
    let problems = dns_1123_subdomain_problems(group).join(",");
    let errors = &mut checked.errors;
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid("spec.group", json!(group), problems));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(
            "spec.group",
            json!(group),
            "should be a domain with at least one dot",
        ));
    }
    one_of(
        "spec.scope",
        node::text(spec, "scope"),
        &["Cluster", "Namespaced"],
        errors,
    );
    for (at, version) in versions.iter().enumerate() {
        if node::present(&version["schema"], "openAPIV3Schema").is_none() {
            errors.push(FieldError::required(
                format!("spec.versions[{at}].schema.openAPIV3Schema"),
                "",
            ));
        }
    }
    let shared = Shared::of(versions);
    for (at, version) in versions.iter().enumerate() {
        check_version(version, &format!("spec.versions[{at}]"), &shared, checked);
    }
    let errors = &mut checked.errors;
    let names: Vec<&str> = versions
        .iter()
        .map(|version| node::text(version, "name"))
        .collect();
    if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
        errors.push(shared.versions_error(versions, "must contain unique version names"));
    }
    if versions
        .iter()
        .filter(|version| node::is_true(version, "storage"))
        .count()
        != 1
    {
        let problem = "must have exactly one version marked as storage version";
        errors.push(shared.versions_error(versions, problem));
    }
    if let Some(first) = names.first().filter(|first| !first.is_empty()) {
        let problems = dns_1035_label_problems(first).join(",");
        if !problems.is_empty() {
            errors.push(FieldError::invalid("spec.version", json!(first), problems));
        }
    }
    for key in ["plural", "singular", "kind", "listKind"] {
        if node::text(&spec["names"], key).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{key}"), ""));
        }
    }
    check_names(&spec["names"], "spec.names", errors);
    if let Some(first) = versions.first() {
        let has_status = versions
            .iter()
            .any(|version| version["subresources"].get("status").is_some());
        check_shared(first, "spec", &shared, has_status, checked);
    }
    check_conversion(&spec["conversion"], &mut checked.errors);
}

/// What all versions have in common stands, for the server, beside the versions.
struct Shared {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl Shared {
    fn of(versions: &[Value]) -> Self {
        let same = |key: &str| {
            let first = versions.first().and_then(|version| version.get(key));
            versions.iter().all(|version| version.get(key) == first)
        };
        Self {
            schema: same("schema"),
            subresources: same("subresources"),
            columns: same("additionalPrinterColumns"),
            selectable: same("selectableFields"),
        }
    }

    /// The error about all versions, which shows the server's own form of them.
    fn versions_error(&self, versions: &[Value], problem: &str) -> FieldError {
        let shown: Vec<String> = versions
            .iter()
            .map(|version| self.internal_version(version))
            .collect();
        FieldError {
            kind: FieldErrorKind::Invalid,
            field: "spec.versions".to_owned(),
            bad_value: BadValue::Text(format!("[{}]", shown.join(","))),
            detail: problem.to_owned(),
        }
    }

    /// JSON text in the order of the fields in Go.
    fn internal_version(&self, version: &Value) -> String {
        let value = |key: &str, shared: bool| {
            if shared {
                Value::Null
            } else {
                version.get(key).cloned().unwrap_or(Value::Null)
            }
        };
        let fields = [
            ("Name", json!(node::text(version, "name"))),
            ("Served", json!(node::is_true(version, "served"))),
            ("Storage", json!(node::is_true(version, "storage"))),
            ("Deprecated", json!(node::is_true(version, "deprecated"))),
            ("DeprecationWarning", value("deprecationWarning", false)),
            ("Schema", value("schema", self.schema)),
            ("Subresources", value("subresources", self.subresources)),
            (
                "AdditionalPrinterColumns",
                value("additionalPrinterColumns", self.columns),
            ),
            (
                "SelectableFields",
                value("selectableFields", self.selectable),
            ),
        ];
        let parts: Vec<String> = fields
            .iter()
            .map(|(key, value)| format!("\"{key}\":{value}"))
            .collect();
        format!("{{{}}}", parts.join(","))
    }
}

fn check_version(version: &Value, path: &str, shared: &Shared, checked: &mut Checked) {
    let name = node::text(version, "name");
    let problems = dns_1035_label_problems(name).join(",");
    if !problems.is_empty() {
        checked.errors.push(FieldError::invalid(
            format!("{path}.name"),
            json!(name),
            problems,
        ));
    }
    check_deprecation(version, path, &mut checked.errors);
    if !shared.schema {
        let has_status = version["subresources"].get("status").is_some();
        check_schema(
            version,
            &format!("{path}.schema.openAPIV3Schema"),
            has_status,
            checked,
        );
    }
    if !shared.subresources {
        check_subresources(version, path, &mut checked.errors);
    }
    if !shared.columns {
        check_columns(version, path, &mut checked.errors);
    }
    if !shared.selectable {
        check_selectable(version, path, &mut checked.errors);
    }
}

fn check_shared(
    version: &Value,
    path: &str,
    shared: &Shared,
    has_status: bool,
    checked: &mut Checked,
) {
    if shared.schema {
        check_schema(
            version,
            &format!("{path}.validation.openAPIV3Schema"),
            has_status,
            checked,
        );
    }
    if shared.subresources {
        check_subresources(version, path, &mut checked.errors);
    }
    if shared.columns {
        check_columns(version, path, &mut checked.errors);
    }
    if shared.selectable {
        check_selectable(version, path, &mut checked.errors);
    }
}

fn check_schema(version: &Value, path: &str, has_status: bool, checked: &mut Checked) {
    let Some(open_api) = node::present(&version["schema"], "openAPIV3Schema") else {
        return;
    };
    let (errors, compiles) = schema::check(open_api, path, has_status);
    let was_valid = errors.is_empty();
    checked.errors.extend(errors);
    match Schema::from_structural(open_api) {
        Ok(parsed) if compiles => checked.rule_schemas.push((path.to_owned(), parsed)),
        Ok(_) => {}
        Err(error) if was_valid => {
            checked
                .errors
                .push(FieldError::invalid(path, json!(""), error.to_string()));
        }
        Err(_) => {}
    }
}

fn check_deprecation(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let problem = if !node::is_true(version, "deprecated") {
        "can only be set for deprecated versions"
    } else if warning.len() > 256 {
        "must be <= 256 characters long"
    } else if warning.is_empty() {
        "must not be an empty string"
    } else {
        return;
    };
    errors.push(FieldError::invalid(
        format!("{path}.deprecationWarning"),
        json!(warning),
        problem,
    ));
}

fn check_names(names: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut label = |field: String, text: &str| {
        let problems = dns_1035_label_problems(text).join(",");
        if !problems.is_empty() {
            errors.push(FieldError::invalid(field, json!(text), problems));
        }
    };
    for key in ["plural", "singular"] {
        if !node::text(names, key).is_empty() {
            label(format!("{path}.{key}"), node::text(names, key));
        }
    }
    for key in ["kind", "listKind"] {
        let kind = node::text(names, key);
        if let Some(problem) = kind_problem(kind).filter(|_| !kind.is_empty()) {
            errors.push(FieldError::invalid(
                format!("{path}.{key}"),
                json!(kind),
                problem,
            ));
        }
    }
    list_of_labels(names, "shortNames", path, errors);
    let kind = node::text(names, "kind");
    if !kind.is_empty() && kind == node::text(names, "listKind") {
        let problem = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(
            format!("{path}.listKind"),
            json!(kind),
            problem,
        ));
    }
    list_of_labels(names, "categories", path, errors);
}

fn list_of_labels(names: &Value, key: &str, path: &str, errors: &mut Vec<FieldError>) {
    for (at, name) in node::list(names, key).iter().enumerate() {
        let problems = dns_1035_label_problems(name.as_str().unwrap_or_default()).join(",");
        if !problems.is_empty() {
            errors.push(FieldError::invalid(
                format!("{path}.{key}[{at}]"),
                name.clone(),
                problems,
            ));
        }
    }
}

fn check_subresources(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(scale) = version["subresources"]
        .get("scale")
        .filter(|scale| scale.is_object())
    else {
        return;
    };
    let rules: [(&str, &[&str], &str); 3] = [
        (
            "specReplicasPath",
            &[".spec."],
            "should be a json path under .spec",
        ),
        (
            "statusReplicasPath",
            &[".status."],
            "should be a json path under .status",
        ),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
        ),
    ];
    for (key, prefixes, problem) in rules {
        let field = format!("{path}.subresources.scale.{key}");
        let text = node::text(scale, key);
        if text.is_empty() {
            if key != "labelSelectorPath" {
                errors.push(FieldError::required(field, ""));
            }
        } else if !text.starts_with('.') {
            let problem = "must be a simple json path starting with .";
            errors.push(FieldError::invalid(field, json!(text), problem));
        } else if !prefixes.iter().any(|prefix| text.starts_with(prefix)) {
            errors.push(FieldError::invalid(field, json!(text), problem));
        }
    }
}

fn check_columns(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    for (at, column) in node::list(version, "additionalPrinterColumns")
        .iter()
        .enumerate()
    {
        let field = |name: &str| format!("{path}.additionalPrinterColumns[{at}].{name}");
        if node::text(column, "name").is_empty() {
            errors.push(FieldError::required(field("name"), ""));
        }
        let must = |known: &[&str]| format!("must be one of {}", known.join(","));
        match node::text(column, "type") {
            "" => errors.push(FieldError::required(field("type"), must(&TYPES))),
            kind if TYPES.contains(&kind) => {}
            kind => errors.push(FieldError::invalid(
                field("type"),
                json!(kind),
                must(&TYPES),
            )),
        }
        let format = node::text(column, "format");
        if !format.is_empty() && !FORMATS.contains(&format) {
            errors.push(FieldError::invalid(
                field("format"),
                json!(format),
                must(&FORMATS),
            ));
        }
        match node::text(column, "jsonPath") {
            "" => errors.push(FieldError::required(field("JSONPath"), "")),
            text if text.starts_with('.') => {}
            text => {
                let problem = "must be a simple json path starting with .";
                errors.push(FieldError::invalid(field("JSONPath"), json!(text), problem));
            }
        }
    }
}

fn check_selectable(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const MOST: i64 = 8;
    let fields = node::list(version, "selectableFields");
    let mut seen: Vec<&str> = Vec::new();
    for (at, selectable) in fields.iter().enumerate() {
        let field = format!("{path}.selectableFields[{at}].jsonPath");
        let text = node::text(selectable, "jsonPath");
        if text.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let found = match field_path::follow(&version["schema"]["openAPIV3Schema"], text, false) {
            Ok(found) => found,
            Err(problem) => {
                let problem = format!("is an invalid path: {problem}");
                errors.push(FieldError::invalid(field, json!(text), problem));
                continue;
            }
        };
        if text.starts_with(".metadata") {
            let problem = "must not point to fields in metadata";
            errors.push(FieldError::invalid(&*field, json!(text), problem));
        }
        if !["string", "boolean", "integer"].contains(&node::text(found, "type")) {
            let problem = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                           with formats are allowed.";
            errors.push(FieldError::invalid(&*field, json!(text), problem));
        }
        if seen.contains(&text) {
            errors.push(FieldError::duplicate(field, json!(text)));
        } else {
            seen.push(text);
        }
    }
    if seen.len() > MOST as usize {
        errors.push(FieldError::too_many(
            format!("{path}.selectableFields"),
            seen.len(),
            MOST,
        ));
    }
}

fn check_conversion(conversion: &Value, errors: &mut Vec<FieldError>) {
    if conversion.is_null() {
        return;
    }
    let strategy = node::text(conversion, "strategy");
    one_of(
        "spec.conversion.strategy",
        strategy,
        &["None", "Webhook"],
        errors,
    );
    let config = node::present(&conversion["webhook"], "clientConfig");
    let versions = node::list(&conversion["webhook"], "conversionReviewVersions");
    let (config_field, versions_field) = (
        "spec.conversion.webhookClientConfig",
        "spec.conversion.conversionReviewVersions",
    );
    if strategy != "Webhook" {
        let problem = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.push(FieldError::forbidden(config_field, problem));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(versions_field, problem));
        }
        return;
    }
    match config {
        None => errors.push(FieldError::required(
            config_field,
            "required when strategy is set to Webhook",
        )),
        Some(config)
            if node::present(config, "url").is_some()
                == node::present(config, "service").is_some() =>
        {
            errors.push(FieldError::required(
                config_field,
                "exactly one of url or service is required",
            ));
        }
        Some(_) => {}
    }
    if versions.is_empty() {
        errors.push(FieldError::required(versions_field, ""));
    } else if !versions
        .iter()
        .any(|version| version == "v1" || version == "v1beta1")
    {
        let problem = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(
            versions_field,
            json!(versions),
            problem,
        ));
    }
}

/// What the status says, or for a new definition what it will say.
fn stored_versions(definition: &Value, spec: &Value) -> Vec<String> {
    let recorded = node::list(&definition["status"], "storedVersions");
    if !recorded.is_empty() {
        return recorded
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
    }
    let first = node::list(spec, "versions")
        .iter()
        .find(|version| node::is_true(version, "storage"));
    first
        .map(|version| node::text(version, "name").to_owned())
        .into_iter()
        .collect()
}

fn check_stored_versions(stored: &[String], spec: &Value, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "status.storedVersions";
    if stored.is_empty() {
        errors.push(FieldError::invalid(
            FIELD,
            Value::Null,
            "must have at least one stored version",
        ));
        return;
    }
    let versions = node::list(spec, "versions");
    for version in versions
        .iter()
        .filter(|version| node::is_true(version, "storage"))
    {
        let name = node::text(version, "name");
        if !stored.iter().any(|stored| stored == name) {
            let problem = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(FIELD, json!(stored), problem));
        }
    }
    for (at, name) in stored.iter().enumerate() {
        if !versions
            .iter()
            .any(|version| node::text(version, "name") == name)
        {
            let problem = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                 {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(
                format!("{FIELD}[{at}]"),
                json!(name),
                problem,
            ));
        }
    }
}

fn one_of(field: &str, value: &str, allowed: &[&str], errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !allowed.contains(&value) {
        errors.push(FieldError::not_supported(field, json!(value), allowed));
    }
}
