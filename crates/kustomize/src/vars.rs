//! `vars`: values of fields that are put in place of `$(NAME)`.

use std::collections::BTreeMap;
use std::fmt;

use everflow_limits::Budget;
use everflow_yaml::{Node, Position, Scalar, ScalarKind, Style, Value, cost};

use crate::config::TransformerConfig;
use crate::decode::Fields;
use crate::error::{Error, Result, Within};
use crate::fieldspec::{Create, Steps};
use crate::node_ops;
use crate::path::{convert_list_index, lookup, split_field_path};
use crate::resid::{Gvk, ResId};
use crate::resmap::ResMap;
use crate::selector::read_gvk;

const DEFAULT_FIELD: &str = "metadata.name";

/// One entry of `vars`.
#[derive(Clone, Debug, Default)]
pub struct Var {
    pub name: String,
    pub target: ResId,
    pub field_path: String,
    /// As written, for messages.
    raw_gvk: Gvk,
    raw_field: String,
}

impl Var {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let mut var = Var {
            name: fields.text("name")?,
            ..Var::default()
        };
        fields.object("objref", |mut reference| {
            let api_version = reference.text("apiVersion")?;
            let mut gvk = read_gvk(&mut reference)?;
            var.raw_gvk = gvk.clone();
            match api_version.split('/').collect::<Vec<_>>()[..] {
                [group, version] => {
                    gvk.group = group.into();
                    gvk.version = version.into();
                }
                [version] if !version.is_empty() => gvk.version = version.into(),
                _ => {}
            }
            var.target = ResId {
                gvk,
                name: reference.text("name")?.into(),
                namespace: reference.text("namespace")?.into(),
                cluster_scoped: false,
            };
            reference.finish()
        })?;
        fields.object("fieldref", |mut reference| {
            var.raw_field = reference.path("fieldPath", '.')?;
            reference.finish()
        })?;
        var.field_path = if var.raw_field.is_empty() {
            DEFAULT_FIELD.to_owned()
        } else {
            var.raw_field.clone()
        };
        Ok(var)
    }

    /// How Go prints the var before its defaults are filled in.
    fn raw(&self) -> String {
        format!("{{{} {} {{{}}}}}", self.name, self.raw_gvk, self.raw_field)
    }
}

impl fmt::Display for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{{{} {} {{{}}}}}",
            self.name, self.target.gvk, self.field_path
        )
    }
}

/// The vars of a kustomization and of all it includes, by name.
#[derive(Clone, Debug, Default)]
pub struct VarSet(BTreeMap<String, Var>);

impl VarSet {
    /// Adds the vars of a kustomization, and notes on the objects which vars they feed.
    pub fn merge_with_objects(
        &mut self,
        vars: &[Var],
        resources: &mut ResMap,
        budget: &Budget,
    ) -> Result<()> {
        self.note_sources(vars, resources, budget)
            .and_then(|()| vars.iter().try_for_each(|var| self.insert(var.clone())))
            .within(|| {
                let names: Vec<String> = vars.iter().map(Var::raw).collect();
                format!("merging vars [{}]", names.join(" "))
            })
    }

    fn note_sources(&self, vars: &[Var], resources: &mut ResMap, budget: &Budget) -> Result<()> {
        for var in vars {
            budget.charge(2 * size_of::<Var>() + var.field_path.len())?;
            let matched = if var.target.namespace.is_empty() {
                resources.find_in_any_namespace(&var.target)
            } else {
                resources.find_by_any_id(&var.target)
            };
            match matched[..] {
                [] => {}
                [one] => resources
                    .get_mut(one)
                    .ref_vars
                    .push(var.name.as_str().into()),
                _ => {
                    return Err(Error::Variable(format!(
                        "found {} resId matches for var {{{} {} {{{}}}}} (unable to disambiguate)",
                        matched.len(),
                        var.name,
                        var.target.gvk,
                        var.raw_field
                    )));
                }
            }
        }
        Ok(())
    }

    /// Adds the vars of an included kustomization.
    pub fn merge(&mut self, other: VarSet) -> Result<()> {
        other.0.into_values().try_for_each(|var| self.insert(var))
    }

    fn insert(&mut self, var: Var) -> Result<()> {
        if self.0.contains_key(&var.name) {
            return Err(Error::Variable(format!(
                "var '{}' already encountered",
                var.name
            )));
        }
        self.0.insert(var.name.clone(), var);
        Ok(())
    }

    /// Puts the values in place wherever a var may stand.
    pub fn resolve(
        &self,
        resources: &mut ResMap,
        config: &TransformerConfig,
        budget: &Budget,
    ) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let values = self.values(resources)?;
        let specs: Vec<(&Gvk, &str, Steps)> = config
            .var_reference
            .iter()
            .map(|spec| (&spec.gvk, spec.path(), spec.steps()))
            .collect();
        for index in 0..resources.len() {
            let resource = resources.get_mut(index);
            let gvk = resource.gvk().clone();
            let mut changed = false;
            for (wanted, path, steps) in &specs {
                budget.check()?;
                if !gvk.is_selected_by(wanted) {
                    continue;
                }
                steps
                    .walk(&mut resource.node, Create::Nothing, budget, &mut |node| {
                        replace_in(node, &values, &mut changed, budget)
                    })
                    .within(|| format!("considering field '{path}' of object {}", resource.id()))?;
            }
            if changed {
                resource.after_change();
                resources.refresh(index);
            }
        }
        Ok(())
    }

    fn values(&self, resources: &ResMap) -> Result<BTreeMap<&str, VarValue>> {
        let mut sources: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, resource) in resources.iter().enumerate() {
            for name in &resource.ref_vars {
                sources.entry(name).or_insert(index);
            }
        }
        let mut values = BTreeMap::new();
        for (name, var) in &self.0 {
            let Some(index) = sources.get(name.as_str()) else {
                return Err(Error::Variable(format!(
                    "var '{var}' cannot be mapped to a field in the set of known resources"
                )));
            };
            let path = convert_list_index(split_field_path(&var.field_path, '.'));
            let node = lookup(&resources.get(*index).node, &path)
                .ok()
                .flatten()
                .ok_or_else(|| {
                    Error::Variable(format!(
                        "field specified in var '{var}' not found in corresponding resource"
                    ))
                })?;
            values.insert(name.as_str(), VarValue::of(node));
        }
        Ok(values)
    }
}

/// What stands for a var.
#[derive(Clone, Debug)]
enum VarValue {
    Scalar(ScalarKind, String),
    /// A map or list, which cannot be put into text: the var stays as it is.
    Unusable,
}

impl VarValue {
    fn of(node: &Node) -> Self {
        match &node.value {
            Value::Scalar(scalar) => match scalar.kind {
                ScalarKind::Int(number) => VarValue::Scalar(scalar.kind, number.to_string()),
                ScalarKind::Float(number) => VarValue::Scalar(scalar.kind, format_fixed(number)),
                ScalarKind::Bool(flag) => VarValue::Scalar(scalar.kind, flag.to_string()),
                _ => VarValue::Scalar(ScalarKind::String, scalar.text.to_string()),
            },
            _ => VarValue::Unusable,
        }
    }
}

/// Go's `strconv.FormatFloat(number, 'f', -1, 64)`.
fn format_fixed(number: f64) -> String {
    format!("{number}")
}

fn replace_in(
    node: &mut Node,
    values: &BTreeMap<&str, VarValue>,
    changed: &mut bool,
    budget: &Budget,
) -> Result<()> {
    match &mut node.value {
        Value::Scalar(_) => {
            if node_ops::is_text_or_untagged(node) {
                replace_scalar(node, values, changed, budget)?;
            }
            Ok(())
        }
        Value::Mapping(mapping) => {
            for entry in &mut mapping.entries {
                if !node_ops::is_text_or_untagged(&entry.key) {
                    return Err(Error::Field(format!(
                        "invalid map key: value='{}', tag='{}'",
                        node_ops::raw_text(&entry.key),
                        tag_of(&entry.key)
                    )));
                }
                if node_ops::is_text_or_untagged(&entry.value) {
                    replace_scalar(&mut entry.value, values, changed, budget)?;
                }
            }
            Ok(())
        }
        Value::Sequence(items) => items.iter_mut().try_for_each(|item| {
            if !node_ops::is_text_or_untagged(item) {
                return Err(Error::Field(
                    "invalid value type expect a string".to_owned(),
                ));
            }
            replace_scalar(item, values, changed, budget)
        }),
        Value::Alias(_) => Ok(()),
    }
}

fn tag_of(node: &Node) -> &'static str {
    match &node.value {
        Value::Scalar(scalar) => match scalar.kind {
            ScalarKind::Null => "!!null",
            ScalarKind::Bool(_) => "!!bool",
            ScalarKind::Int(_) | ScalarKind::Uint(_) => "!!int",
            ScalarKind::Float(_) => "!!float",
            ScalarKind::Timestamp => "!!timestamp",
            ScalarKind::Binary => "!!binary",
            ScalarKind::Merge => "!!merge",
            ScalarKind::String => "!!str",
        },
        Value::Mapping(_) => "!!map",
        Value::Sequence(_) => "!!seq",
        Value::Alias(_) => "",
    }
}

fn replace_scalar(
    node: &mut Node,
    values: &BTreeMap<&str, VarValue>,
    changed: &mut bool,
    budget: &Budget,
) -> Result<()> {
    budget.check()?;
    // Whatever is looked at for vars loses its style, and with it what that does when printed.
    node.style = Style::Plain;
    if !node_ops::is_text(node) {
        *changed = true;
    }
    if let Value::Scalar(scalar) = &mut node.value {
        scalar.kind = ScalarKind::String;
    }
    node.position = Position::default();
    let text = node_ops::raw_text(node);
    if !text.contains('$') {
        return Ok(());
    }
    let old = cost::of_scalar(text);
    let (kind, text) = expand(text, values, budget)?;
    budget.charge(cost::of_scalar(&text))?;
    budget.release(old);
    node.value = Value::Scalar(Scalar {
        text: text.into(),
        kind,
    });
    *changed = true;
    Ok(())
}

/// Puts values into a text: `$(NAME)` is a var, `$$` a dollar sign. A text that is nothing but a var
/// takes over the value's type.
fn expand(
    input: &str,
    values: &BTreeMap<&str, VarValue>,
    budget: &Budget,
) -> Result<(ScalarKind, String)> {
    // Only values can make it longer.
    let mut held = budget.hold(input.len())?;
    let mut out = String::with_capacity(input.len());
    let mut rest = input;
    while let Some(dollar) = rest.find('$') {
        let after = &rest[dollar + 1..];
        let Some(next) = after.chars().next() else {
            break;
        };
        out.push_str(&rest[..dollar]);
        match next {
            '$' => {
                out.push('$');
                rest = &after[1..];
            }
            '(' => match after.find(')') {
                Some(end) => {
                    let name = &after[1..end];
                    let value = values.get(name);
                    if let Some(VarValue::Scalar(kind, text)) = value {
                        if end + 2 == input.len() {
                            return Ok((*kind, text.clone()));
                        }
                        held.grow(text.len())?;
                        out.push_str(text);
                    } else {
                        out.push_str("$(");
                        out.push_str(name);
                        out.push(')');
                    }
                    rest = &after[end + 1..];
                }
                None => {
                    out.push_str("$(");
                    rest = &after[1..];
                }
            },
            other => {
                out.push('$');
                out.push(other);
                rest = &after[other.len_utf8()..];
            }
        }
    }
    out.push_str(rest);
    Ok((ScalarKind::String, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> BTreeMap<&'static str, VarValue> {
        BTreeMap::from([
            (
                "HOST",
                VarValue::Scalar(ScalarKind::String, "db".to_owned()),
            ),
            (
                "PORT",
                VarValue::Scalar(ScalarKind::Int(5432), "5432".to_owned()),
            ),
            ("MAP", VarValue::Unusable),
        ])
    }

    #[test]
    fn vars_are_put_into_text() {
        let expand = |text: &str| expand(text, &values(), &Budget::unlimited()).unwrap();
        assert_eq!(
            expand("$(HOST):$(PORT)"),
            (ScalarKind::String, "db:5432".to_owned())
        );
        assert_eq!(
            expand("$(PORT)"),
            (ScalarKind::Int(5432), "5432".to_owned())
        );
        assert_eq!(expand("$$(HOST)").1, "$(HOST)");
        assert_eq!(expand("$(NONE) $(MAP) $x $").1, "$(NONE) $(MAP) $x $");
        assert_eq!(expand("$(HOST").1, "$(HOST");
    }
}
