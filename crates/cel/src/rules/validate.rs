//! Objects checked by compiled rules.

use std::collections::BTreeMap;
use std::rc::Rc;

use everflow_json::Value as Json;
use everflow_schema::structural::{BadValue, Before, FieldError, FieldErrorKind};
use everflow_schema::{CelRule, Schema, Shape, TypeId, TypeTable};

use super::compile::{Compiled, compile};
use super::decl::declared;
use super::value::value;
use crate::check::{DeclShape, DeclType};
use crate::work::Work;
use crate::{EvalError, Program, Value, Variables};

/// The most that checking one object may cost.
const BUDGET: u64 = 10_000_000;
/// The longest message that an expression may make.
const LONGEST_MESSAGE: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// All rules of a schema, compiled.
#[derive(Debug, Default)]
pub struct Rules {
    sites: BTreeMap<TypeId, Site>,
}

/// A node with rules, or on the way to one.
#[derive(Debug, Default)]
struct Site {
    rules: Vec<(CelRule, Compiled)>,
    is_root: bool,
}

/// What checking an object has found.
#[derive(Debug, Default)]
pub struct Findings {
    /// What is wrong with it.
    pub errors: Vec<FieldError>,
    /// What is wrong, but was so before.
    pub warnings: Vec<String>,
    /// What checking cost.
    pub cost: u64,
}

impl Rules {
    /// Compiles the rules of a schema. Rules that do not compile are errors of every object.
    pub fn compile(schema: &Schema) -> Self {
        let mut rules = Rules::default();
        let has = has_rules(&schema.types, schema.root);
        if has {
            let decl = declared(&schema.types, schema.root, true);
            rules.add(&schema.types, schema.root, decl, true);
        }
        rules
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    fn add(
        &mut self,
        types: &TypeTable,
        id: TypeId,
        decl: Option<std::sync::Arc<DeclType>>,
        is_root: bool,
    ) {
        let (Some(node), true) = (types.get(id), has_rules(types, id)) else {
            return;
        };
        let is_root = is_root || node.embedded_resource;
        let decl = decl.or_else(|| declared(types, id, is_root));
        let mut site = Site {
            rules: Vec::new(),
            is_root,
        };
        if let (Some(validation), Some(decl)) = (&node.validation, &decl)
            && !validation.rules.is_empty()
        {
            let compiled = compile(types, node, &validation.rules, decl);
            site.rules = validation.rules.iter().cloned().zip(compiled).collect();
        }
        self.sites.insert(id, site);
        let shape = decl.as_ref().map(|decl| &decl.shape);
        match &node.shape {
            Shape::Object(object) => {
                for field in &object.fields {
                    let below = match shape {
                        Some(DeclShape::Object(fields)) => crate::escape(&field.name)
                            .and_then(|name| fields.get(&name))
                            .cloned(),
                        _ => None,
                    };
                    self.add(types, field.type_id, below, false);
                }
                if let Some(additional) = object.additional {
                    let below = match shape {
                        Some(DeclShape::Map(value)) => Some(value.clone()),
                        _ => None,
                    };
                    self.add(types, additional, below, false);
                }
            }
            Shape::List(list) => {
                let below = match shape {
                    Some(DeclShape::List(item)) => Some(item.clone()),
                    _ => None,
                };
                self.add(types, list.item, below, false);
            }
            _ => {}
        }
    }

    /// Checks an object; `old` is the one before the change.
    pub fn validate(&self, schema: &Schema, object: &Json, old: Option<&Json>) -> Findings {
        let mut run = Run {
            rules: self,
            types: &schema.types,
            budget: BUDGET,
            work: Work::default(),
            findings: Findings::default(),
        };
        if !self.is_empty() {
            let before = old.map(|old| Before {
                old,
                type_id: schema.root,
            });
            let ratchet = Ratchet {
                current: before.map(|before| (before, object)),
                parent: None,
            };
            let _ = run.node(schema.root, "", object, old, ratchet);
        }
        run.findings.cost = BUDGET - run.budget;
        run.findings
    }
}

/// Whether there are rules at a node or below it.
fn has_rules(types: &TypeTable, id: TypeId) -> bool {
    let Some(node) = types.get(id) else {
        return false;
    };
    let own = node
        .validation
        .as_ref()
        .is_some_and(|validation| !validation.rules.is_empty());
    own || match &node.shape {
        Shape::Object(object) => object
            .fields
            .iter()
            .map(|field| field.type_id)
            .chain(object.additional)
            .any(|below| has_rules(types, below)),
        Shape::List(list) => has_rules(types, list.item),
        _ => false,
    }
}

/// What a value was before, and the nearest value above it for which that is known.
#[derive(Clone, Copy)]
struct Ratchet<'v> {
    current: Option<(Before<'v>, &'v Json)>,
    parent: Option<(Before<'v>, &'v Json)>,
}

impl<'v> Ratchet<'v> {
    /// Whether what is wrong now was so before.
    fn forgives(&self, types: &TypeTable) -> bool {
        self.current
            .or(self.parent)
            .is_some_and(|(before, now)| before.equals(types, now))
    }

    fn below(self, next: Option<(Before<'v>, &'v Json)>) -> Self {
        match self.current {
            None => self,
            Some(_) => Ratchet {
                current: next,
                parent: self.current,
            },
        }
    }

    fn field(self, types: &TypeTable, name: &str, now: &'v Json) -> Self {
        if self.current.is_some() && self.parent.is_none() && matches!(name, "apiVersion" | "kind")
        {
            return Ratchet {
                current: None,
                parent: None,
            };
        }
        let before = self
            .current
            .and_then(|(before, _)| before.field(types, name));
        self.below(before.map(|before| (before, now)))
    }

    fn item(self, types: &TypeTable, now: &'v Json) -> Self {
        let before = self.current.and_then(|(before, _)| before.item(types, now));
        self.below(before.map(|before| (before, now)))
    }
}

/// The budget is used up.
struct Stop;

struct Run<'r> {
    rules: &'r Rules,
    types: &'r TypeTable,
    budget: u64,
    work: Work,
    findings: Findings,
}

impl Run<'_> {
    fn node<'v>(
        &mut self,
        id: TypeId,
        path: &str,
        data: &'v Json,
        old: Option<&'v Json>,
        ratchet: Ratchet<'v>,
    ) -> Result<(), Stop> {
        let (types, rules) = (self.types, self.rules);
        let (Some(site), Some(node)) = (rules.sites.get(&id), types.get(id)) else {
            return Ok(());
        };
        if data.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.site(site, id, path, data, old, ratchet)?;
        match (&node.shape, data) {
            (Shape::Object(object), Json::Object(map)) => {
                let old = old.and_then(Json::as_object);
                for (name, data) in map {
                    let field = object.field(name);
                    let next = field.map(|field| field.type_id).or(object.additional);
                    // Most fields have no rule below them.
                    let Some(next) = next.filter(|next| rules.sites.contains_key(next)) else {
                        continue;
                    };
                    let path = match field {
                        Some(_) => child(path, name),
                        None => format!("{path}[{name}]"),
                    };
                    let old = old.and_then(|old| old.get(name));
                    let ratchet = ratchet.field(types, name, data);
                    self.node(next, &path, data, old, ratchet)?;
                }
            }
            (Shape::List(list), Json::Array(items)) if rules.sites.contains_key(&list.item) => {
                let before = old.map(|old| Before { old, type_id: id });
                for (at, item) in items.iter().enumerate() {
                    let old = before
                        .and_then(|before| before.item(types, item))
                        .map(|before| before.old);
                    let ratchet = ratchet.item(types, item);
                    self.node(list.item, &format!("{path}[{at}]"), item, old, ratchet)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn site(
        &mut self,
        site: &Site,
        id: TypeId,
        path: &str,
        data: &Json,
        old: Option<&Json>,
        ratchet: Ratchet<'_>,
    ) -> Result<(), Stop> {
        if site.rules.is_empty() {
            return Ok(());
        }
        let node = &self.types[id];
        let kind = node.json_type.map_or("", |kind| kind.as_str());
        if self.budget == 0 {
            self.fail(path, kind, OUT_OF_BUDGET);
            return Err(Stop);
        }
        let uses_old = site.rules.iter().any(|(_, compiled)| compiled.uses_old);
        let own = value(self.types, id, data, site.is_root);
        let before = old
            .filter(|_| uses_old)
            .map(|old| value(self.types, id, old, site.is_root));
        let plain = Variables::new().with("self", own);
        let optional = plain
            .clone()
            .with("oldSelf", Value::Optional(before.clone().map(Rc::new)));
        let plain = match before {
            Some(before) => plain.with("oldSelf", before),
            None => plain,
        };
        for (rule, compiled) in &site.rules {
            let is_optional = rule.optional_old_self == Some(true);
            if compiled.uses_old && old.is_none() && !is_optional {
                continue;
            }
            let variables = if is_optional { &optional } else { &plain };
            self.rule(rule, compiled, kind, path, data, variables, &plain, ratchet)?;
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn rule(
        &mut self,
        rule: &CelRule,
        compiled: &Compiled,
        kind: &str,
        path: &str,
        data: &Json,
        variables: &Variables,
        plain: &Variables,
        ratchet: Ratchet<'_>,
    ) -> Result<(), Stop> {
        if let Some(error) = &compiled.error {
            self.fail(path, kind, &format!("rule compile error: {error}"));
            return Ok(());
        }
        let Some(program) = &compiled.program else {
            return Ok(());
        };
        let (outcome, cost) = program.evaluate_within(variables, &self.work);
        let Some(left) = self.budget.checked_sub(cost) else {
            self.fail(path, kind, OUT_OF_BUDGET);
            return Err(Stop);
        };
        self.budget = left;
        match outcome {
            Ok(Value::Bool(true)) => return Ok(()),
            Ok(_) => {}
            Err(error) => return self.failed(rule, &error, path, kind),
        }
        let forgiven = !compiled.uses_old && ratchet.forgives(self.types);
        let field = match compiled.field_path.as_str() {
            "" => path.to_owned(),
            below => child(path, below),
        };
        let mut detail = None;
        if let Some(program) = &compiled.message {
            match self.message(program, plain) {
                Ok(message) => detail = message,
                Err(problem) => {
                    let error = FieldError::invalid(field, kind.into(), problem);
                    self.add(error, forgiven);
                    return Err(Stop);
                }
            }
        }
        let detail = detail.unwrap_or_else(|| match trimmed(rule.message.as_deref()) {
            Some(message) => message.to_owned(),
            None => format!("failed rule: {}", rule.rule.trim()),
        });
        let shown = match kind {
            "object" | "array" => BadValue::Omitted,
            _ => BadValue::Shown(data.clone()),
        };
        self.add(failure(rule, field, shown, detail), forgiven);
        Ok(())
    }

    fn add(&mut self, mut error: FieldError, forgiven: bool) {
        if error.field.is_empty() {
            error.field = "<nil>".to_owned();
        }
        match forgiven {
            true => self.findings.warnings.push(error.to_string()),
            false => self.findings.errors.push(error),
        }
    }

    fn fail(&mut self, path: &str, kind: &str, detail: &str) {
        self.add(FieldError::invalid(path, kind.into(), detail), false);
    }

    /// A rule that has no answer.
    fn failed(
        &mut self,
        rule: &CelRule,
        error: &EvalError,
        path: &str,
        kind: &str,
    ) -> Result<(), Stop> {
        let name = trimmed(rule.message.as_deref()).unwrap_or(rule.rule.trim());
        match error {
            EvalError::NoSuchOverload | EvalError::NoSuchOverloadFor(_) => self.fail(
                path,
                kind,
                &format!(
                    "'{error}': call arguments did not match a supported operator, function or \
                     macro signature for rule: {name}"
                ),
            ),
            EvalError::TooExpensive => {
                self.fail(
                    path,
                    kind,
                    &format!(
                        "'{error}': no further validation rules will be run due to call cost \
                         exceeds limit for rule: {name}"
                    ),
                );
                return Err(Stop);
            }
            error => self.fail(path, kind, &format!("{error} evaluating rule: {name}")),
        }
        Ok(())
    }

    /// What an expression says about a broken rule; nothing when it has no usable answer.
    fn message(
        &mut self,
        program: &Program,
        variables: &Variables,
    ) -> Result<Option<String>, String> {
        let (outcome, cost) = program.evaluate_within(variables, &self.work);
        let Some(left) = self.budget.checked_sub(cost) else {
            return Err(
                "messageExpression evaluation failed due to running out of cost budget, no \
                 further validation rules will be run"
                    .to_owned(),
            );
        };
        self.budget = left;
        match outcome {
            Err(EvalError::TooExpensive) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for \
                 messageExpression: {:?}",
                program.text()
            )),
            Ok(Value::String(text)) => {
                let text = text.trim();
                let usable =
                    !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n');
                Ok(usable.then(|| text.to_owned()))
            }
            _ => Ok(None),
        }
    }
}

fn trimmed(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty()).map(str::trim)
}

fn child(path: &str, name: &str) -> String {
    match (path, name.starts_with('[')) {
        ("", _) => name.to_owned(),
        (path, true) => format!("{path}{name}"),
        (path, false) => format!("{path}.{name}"),
    }
}

fn failure(rule: &CelRule, field: String, bad_value: BadValue, detail: String) -> FieldError {
    let kind = match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldErrorKind::Forbidden,
        Some("FieldValueRequired") => FieldErrorKind::Required,
        Some("FieldValueDuplicate") => FieldErrorKind::Duplicate,
        _ => FieldErrorKind::Invalid,
    };
    let detail = match kind {
        // The server leaves the message out here.
        FieldErrorKind::Duplicate => String::new(),
        _ => detail,
    };
    FieldError {
        kind,
        field,
        bad_value,
        detail,
    }
}
