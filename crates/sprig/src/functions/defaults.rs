use everflow_gotemplate::GoType::{Any, Bool, String as Str};
use everflow_gotemplate::{FuncError, Value, gofmt};

use super::Registry;
use crate::objects::{VERSION_POINTER, VersionObject};
use crate::support::{deep_equal, fail};

pub(super) fn register(r: &mut Registry<'_>) {
    register_choices(r);
    register_reflection(r);
    register_versions(r);
    r.add("fail", &[Str], Str, |a| {
        Err(FuncError::new(a.text(0)?.to_str_lossy()))
    });
    // Names are not looked up: output must not depend on the network.
    r.add("getHostByName", &[Str], Str, |_| Ok(Value::string("")));
}

fn register_choices(r: &mut Registry<'_>) {
    r.variadic("default", &[Any, Any], Any, |a| {
        Ok(if a.get(1).is_true() {
            a.get(1).clone()
        } else {
            a.get(0).clone()
        })
    });
    r.add("empty", &[Any], Bool, |a| {
        Ok(Value::Bool(!a.get(0).is_true()))
    });
    r.variadic("coalesce", &[Any], Any, |a| {
        Ok(a.all()
            .iter()
            .find(|value| value.is_true())
            .cloned()
            .unwrap_or_default())
    });
    r.variadic("all", &[Any], Bool, |a| {
        Ok(Value::Bool(a.all().iter().all(Value::is_true)))
    });
    r.variadic("any", &[Any], Bool, |a| {
        Ok(Value::Bool(a.all().iter().any(Value::is_true)))
    });
    r.add("ternary", &[Any, Any, Bool], Any, |a| {
        Ok(a.get(if a.bool(2)? { 0 } else { 1 }).clone())
    });
}

fn register_reflection(r: &mut Registry<'_>) {
    r.add("typeOf", &[Any], Str, |a| {
        Ok(Value::string(a.get(0).type_name()))
    });
    r.add("typeIs", &[Str, Any], Bool, |a| {
        Ok(Value::Bool(*a.text(0)? == *a.get(1).type_name().as_str()))
    });
    r.add("typeIsLike", &[Str, Any], Bool, |a| {
        let name = a.get(1).type_name();
        let wanted = a.text(0)?;
        Ok(Value::Bool(
            *wanted == *name.as_str() || format!("*{wanted}") == name,
        ))
    });
    r.add("kindOf", &[Any], Str, |a| {
        Ok(Value::string(a.get(0).kind().name()))
    });
    r.add("kindIs", &[Str, Any], Bool, |a| {
        Ok(Value::Bool(*a.text(0)? == *a.get(1).kind().name()))
    });
    r.metered("deepEqual", &[Any, Any], Bool, |m, a| {
        Ok(Value::Bool(deep_equal(a.get(0), a.get(1), m)?))
    });
}

fn register_versions(r: &mut Registry<'_>) {
    r.add("semver", &[Str], VERSION_POINTER, |a| {
        everflow_semver::Version::parse(&a.text(0)?.to_str_lossy())
            .map(|version| {
                Value::object(VersionObject {
                    version,
                    pointer: true,
                })
            })
            .map_err(|error| FuncError::new(error.to_string()))
    });
    r.add("semverCompare", &[Str, Str], Bool, |a| {
        if a.text(0)?.as_str().is_none() {
            let shown = gofmt::quote(a.text(0)?.as_bytes());
            return fail(format!("improper constraint: {shown}"));
        }
        let failed = |error: everflow_semver::Error| FuncError::new(error.to_string());
        let constraint = everflow_semver::Constraint::parse(&a.text(0)?.to_str_lossy());
        let constraint = constraint.map_err(failed)?;
        let version =
            everflow_semver::Version::parse(&a.text(1)?.to_str_lossy()).map_err(failed)?;
        Ok(Value::Bool(constraint.check(&version)))
    });
}
