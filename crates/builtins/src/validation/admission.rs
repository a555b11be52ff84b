//! Webhook configurations and admission policies.

use everflow_json::Value;

use super::super::at::At;
use super::super::{Context, meta, names};
use crate::field::Errors;

const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

/// Checks a configuration of webhooks.
pub fn webhooks(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let mut seen: Vec<&str> = Vec::new();
    for hook in root.child("webhooks").items() {
        webhook(&hook, errors);
        review_versions(&hook.child("admissionReviewVersions"), errors);
        let name = hook.child("name");
        if !name.is_empty() {
            if seen.contains(&name.text()) {
                name.duplicate_text(errors);
            }
            seen.push(name.text());
        }
    }
}

/// Checks a changed configuration of webhooks.
pub fn webhooks_update(context: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    meta::validate(new, false, false, names::dns_subdomain, errors);
    webhooks(context, new, errors);
}

fn webhook(at: &At<'_, '_>, errors: &mut Errors) {
    let name = at.child("name");
    if name.needs_text(errors) {
        let problems = names::dns_subdomain(name.text());
        if !problems.is_empty() {
            name.invalid(errors, problems.join(","));
        } else if name.text().split('.').count() < 3 {
            name.invalid(
                errors,
                "should be a domain with at least three segments separated by dots",
            );
        }
    }
    at.child("rules")
        .items()
        .for_each(|rule| rule_with_operations(&rule, errors));
    at.child("failurePolicy")
        .one_of(errors, &["Fail", "Ignore"]);
    at.child("matchPolicy")
        .one_of(errors, &["Equivalent", "Exact"]);
    let effects = at.child("sideEffects");
    if !effects.is_set() {
        effects.required(errors, "must specify one of None, NoneOnDryRun");
    }
    effects.one_of(errors, &["None", "NoneOnDryRun"]);
    let timeout = at.child("timeoutSeconds");
    if timeout
        .int()
        .is_some_and(|seconds| !(1..=30).contains(&seconds))
    {
        timeout.invalid(errors, "the timeout value must be between 1 and 30 seconds");
    }
    at.child("namespaceSelector").label_selector(errors);
    at.child("objectSelector").label_selector(errors);
    at.child("reinvocationPolicy")
        .one_of(errors, &["IfNeeded", "Never"]);
    client(&at.child("clientConfig"), errors);
    match_conditions(&at.child("matchConditions"), errors);
}

fn client(at: &At<'_, '_>, errors: &mut Errors) {
    let (url, service) = (at.child("url"), at.child("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => webhook_url(&url, errors),
        (false, true) => webhook_service(&service, errors),
        _ => at.required(errors, "exactly one of url or service is required"),
    }
}

/// The first percent sign that starts no escape, with what follows it.
fn bad_escape(text: &str) -> Option<&str> {
    let path = text.split('?').next().unwrap_or_default();
    path.match_indices('%')
        .map(|(at, _)| &path[at..])
        .find_map(|rest| {
            let end = rest
                .char_indices()
                .nth(3)
                .map_or(rest.len(), |(end, _)| end);
            let escape = &rest[..end];
            let hex = escape.len() == 3 && escape[1..].bytes().all(|byte| byte.is_ascii_hexdigit());
            (!hex).then_some(escape)
        })
}

fn webhook_url(at: &At<'_, '_>, errors: &mut Errors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let text = at.text();
    if let Some(escape) = bad_escape(text) {
        let quoted = crate::field::go_quote;
        let problem = format!(
            "parse {}: invalid URL escape {}",
            quoted(text),
            quoted(escape)
        );
        at.required(errors, &format!("url must be a valid URL: {problem}{FORM}"));
        return;
    }
    let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (before, query) = before.split_once('?').unwrap_or((before, ""));
    let (scheme, rest) = match before.split_once(':') {
        Some((scheme, rest))
            if scheme
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)) =>
        {
            (scheme.to_lowercase(), rest)
        }
        _ => (String::new(), before),
    };
    let authority = rest
        .strip_prefix("//")
        .map_or("", |rest| rest.split('/').next().unwrap_or_default());
    let (user, host) = authority
        .rsplit_once('@')
        .map_or((None, authority), |(user, host)| (Some(user), host));
    if scheme != "https" {
        at.invalid_as(
            errors,
            scheme,
            format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    if host.is_empty() {
        at.invalid_as(errors, "", format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        at.invalid_as(errors, user, "user information is not permitted in the URL");
    }
    if !fragment.is_empty() {
        at.invalid_as(errors, fragment, "fragments are not permitted in the URL");
    }
    if !query.is_empty() {
        at.invalid_as(
            errors,
            query,
            "query parameters are not permitted in the URL",
        );
    }
}

fn webhook_service(at: &At<'_, '_>, errors: &mut Errors) {
    // The real server mixes up name and namespace when it asks for them.
    at.named(at.child("namespace").value, "name")
        .needs_text(errors);
    at.named(at.child("name").value, "namespace")
        .needs_text(errors);
    let (port, path) = (at.child("port"), at.child("path"));
    if !(1..=65535).contains(&port.number()) {
        port.invalid_as(
            errors,
            port.number(),
            "port is not valid: must be between 1 and 65535, inclusive",
        );
    }
    let text = path.text();
    if matches!(text, "" | "/") {
        return;
    }
    if text == "//" {
        path.invalid(errors, "segment[0] may not be empty");
        return;
    }
    if !text.starts_with('/') {
        path.invalid(errors, "must start with a '/'");
    }
    let mut chars = text.chars();
    chars.next();
    let rest = chars.as_str();
    for (index, step) in rest
        .strip_suffix('/')
        .unwrap_or(rest)
        .split('/')
        .enumerate()
    {
        if step.is_empty() {
            path.invalid(errors, format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in names::dns_subdomain(step) {
            path.invalid(errors, format!("segment[{index}]: {problem}"));
        }
    }
}

fn review_versions(at: &At<'_, '_>, errors: &mut Errors) {
    if at.is_empty() {
        at.required(errors, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen: Vec<&str> = Vec::new();
    for version in at.items() {
        if seen.contains(&version.text()) {
            version.invalid(errors, "duplicate version");
            continue;
        }
        seen.push(version.text());
        version.by(names::dns1035_label, errors);
    }
    if !seen.iter().any(|version| REVIEWS.contains(version)) {
        at.invalid(errors, "must include at least one of v1, v1beta1");
    }
}

fn rule_with_operations(at: &At<'_, '_>, errors: &mut Errors) {
    let operations = at.child("operations");
    if operations.is_empty() {
        operations.required(errors, "");
    }
    if operations.len() > 1 && operations.texts().contains(&"*") {
        operations.invalid(
            errors,
            "if '*' is present, must not specify other operations",
        );
    }
    operations
        .items()
        .for_each(|operation| operation.one_of(errors, &OPERATIONS));
    for (key, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let list = at.child(key);
        if list.is_empty() {
            list.required(errors, "");
        }
        if list.len() > 1 && list.texts().contains(&"*") {
            list.invalid(
                errors,
                format!("if '*' is present, must not specify other {what}"),
            );
        }
        for item in list
            .items()
            .filter(|item| key == "apiVersions" && item.is_empty())
        {
            item.required(errors, "");
        }
    }
    rule_resources(&at.child("resources"), errors);
    at.child("scope")
        .one_of(errors, &["*", "Cluster", "Namespaced"]);
}

fn rule_resources(at: &At<'_, '_>, errors: &mut Errors) {
    if at.is_empty() {
        at.required(errors, "");
    }
    let (mut all_parts, mut all_of_part): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut plain = false;
    for resource in at.items() {
        let text = resource.text();
        if text.is_empty() {
            resource.required(errors, "");
            continue;
        }
        let Some((name, part)) = text.split_once('/') else {
            plain = text != "*";
            continue;
        };
        if all_parts.contains(&name) {
            resource.invalid(
                errors,
                format!("if '{name}/*' is present, must not specify {text}"),
            );
        }
        if all_of_part.contains(&part) {
            resource.invalid(
                errors,
                format!("if '*/{part}' is present, must not specify {text}"),
            );
        }
        if part == "*" {
            all_parts.push(name);
        }
        if name == "*" {
            all_of_part.push(part);
        }
    }
    let texts = at.texts();
    if texts.len() > 1 && texts.contains(&"*/*") {
        at.invalid(
            errors,
            "if '*/*' is present, must not specify other resources",
        );
    }
    if plain && texts.contains(&"*") {
        at.invalid(
            errors,
            "if '*' is present, must not specify other resources without subresources",
        );
    }
}

fn expression(at: &At<'_, '_>, missing: &str, errors: &mut Errors) {
    if at.text().trim().is_empty() {
        at.required(errors, missing);
    } else if let Err(problem) = everflow_cel::Program::compile(at.text()) {
        at.invalid(errors, format!("compilation failed: {problem}"));
    }
}

fn match_conditions(at: &At<'_, '_>, errors: &mut Errors) {
    if at.len() > 64 {
        at.too_many(errors, 64);
    }
    let mut seen: Vec<&str> = Vec::new();
    for condition in at.items() {
        expression(&condition.child("expression"), "", errors);
        let name = condition.child("name");
        name.needed_by(names::qualified_name, errors);
        if !name.is_empty() {
            if seen.contains(&name.text()) {
                name.duplicate_text(errors);
            }
            seen.push(name.text());
        }
    }
}

fn match_resources(at: &At<'_, '_>, errors: &mut Errors) {
    let policy = at.child("matchPolicy");
    if !policy.is_set() {
        policy.required(errors, "");
    }
    policy.one_of(errors, &["Equivalent", "Exact"]);
    for key in ["namespaceSelector", "objectSelector"] {
        let selector = at.child(key);
        if !selector.is_set() {
            selector.required(errors, "");
        }
        selector.label_selector(errors);
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in at.child(list).items() {
            let mut seen: Vec<&str> = Vec::new();
            for name in rule.child("resourceNames").items() {
                name.by(names::path_segment, errors);
                if seen.contains(&name.text()) {
                    name.duplicate_text(errors);
                }
                seen.push(name.text());
            }
            rule_with_operations(&rule, errors);
        }
    }
}

/// Checks a ValidatingAdmissionPolicy.
pub fn policy(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    policy_head(&spec, errors);
    for variable in spec.child("variables").items() {
        if variable.child("name").text().trim().is_empty() {
            variable
                .child("name")
                .required(errors, "name is not specified");
        }
        expression(
            &variable.child("expression"),
            "expression is not specified",
            errors,
        );
    }
    let (validations, annotations) = (spec.child("validations"), spec.child("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        for part in [&validations, &annotations] {
            part.required(
                errors,
                "validations or auditAnnotations must contain at least one item",
            );
        }
        return;
    }
    for validation in validations.items() {
        expression(
            &validation.child("expression"),
            "expression is not specified",
            errors,
        );
        let message = validation.child("message");
        if !message.is_empty() && message.text().trim().is_empty() {
            message.invalid(errors, "must be non-empty if specified");
        } else if message.text().trim().contains(['\n', '\r']) {
            message.invalid(errors, "must not contain line breaks");
        }
        validation
            .child("reason")
            .one_of(errors, &["Forbidden", "Invalid", "RequestEntityTooLarge"]);
    }
}

fn policy_head(spec: &At<'_, '_>, errors: &mut Errors) {
    let failure = spec.child("failurePolicy");
    if !failure.is_set() {
        failure.required(errors, "");
    }
    failure.one_of(errors, &["Fail", "Ignore"]);
    let kind = spec.child("paramKind");
    if kind.is_set() {
        kind.child("apiVersion").needs_text(errors);
        kind.child("kind").needs_text(errors);
    }
    let constraints = spec.child("matchConstraints");
    if constraints.is_set() {
        match_resources(&constraints, errors);
        let rules = constraints.child("resourceRules");
        if rules.is_empty() {
            rules.required(errors, "");
        }
    } else {
        constraints.required(errors, "");
    }
    match_conditions(&spec.child("matchConditions"), errors);
}

/// Checks a changed ValidatingAdmissionPolicy.
pub fn policy_update(context: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    meta::validate(new, false, false, names::dns_subdomain, errors);
    policy(context, new, errors);
}

/// Checks a ValidatingAdmissionPolicyBinding.
pub fn policy_binding(_: &Context<'_>, object: &Value, errors: &mut Errors) {
    let root = At::root(object);
    let spec = root.child("spec");
    spec.child("policyName")
        .needed_by(names::dns_subdomain, errors);
    let reference = spec.child("paramRef");
    if reference.is_set()
        && !reference.child("name").is_empty()
        && reference.child("selector").is_set()
    {
        reference
            .child("name")
            .forbidden(errors, "name and selector are mutually exclusive");
    }
    let resources = spec.child("matchResources");
    if resources.is_set() {
        match_resources(&resources, errors);
    }
    let actions = spec.child("validationActions");
    let mut seen: Vec<&str> = Vec::new();
    for action in actions.items() {
        action.one_of(errors, &["Audit", "Deny", "Warn"]);
        if seen.contains(&action.text()) {
            action.duplicate_text(errors);
        }
        seen.push(action.text());
    }
    if seen.contains(&"Deny") && seen.contains(&"Warn") {
        actions.invalid(errors, "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)");
    }
    if seen.is_empty() {
        actions.required(errors, "at least one validation action is required");
    }
}

/// Checks a changed ValidatingAdmissionPolicyBinding.
pub fn policy_binding_update(context: &Context<'_>, new: &Value, _: &Value, errors: &mut Errors) {
    meta::validate(new, false, false, names::dns_subdomain, errors);
    policy_binding(context, new, errors);
}
