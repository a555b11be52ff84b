use everflow_gotemplate::GoType::{Bool, String as Str};
use everflow_gotemplate::{FuncError, FuncResult, GoStr, GoType, Map, Value};

use super::Registry;
use crate::path;
use crate::support::{fail, nil_dereference};
use crate::url::Url;

pub(super) fn register(r: &mut Registry<'_>) {
    for (name, os_name, code) in [
        ("base", "osBase", path::base as fn(&[u8]) -> Vec<u8>),
        ("dir", "osDir", path::dir),
        ("clean", "osClean", path::clean),
        ("ext", "osExt", path::extension),
    ] {
        for name in [name, os_name] {
            let signature = everflow_gotemplate::Signature::new(&[Str], Str);
            r.functions.add(name, signature, move |_, args| {
                Ok(Value::string(code(args.text(0)?.as_bytes())))
            });
        }
    }
    for name in ["isAbs", "osIsAbs"] {
        r.add(name, &[Str], Bool, |a| {
            Ok(Value::Bool(a.text(0)?.as_bytes().starts_with(b"/")))
        });
    }
    r.add("urlParse", &[Str], GoType::ANY_MAP, |a| {
        parse(a.text(0)?.as_bytes())
    });
    r.metered("urlJoin", &[GoType::ANY_MAP], Str, |m, a| {
        let map = a.map(0)?;
        let texts: usize = map
            .read()
            .values()
            .filter_map(Value::as_text)
            .map(GoStr::len)
            .sum();
        // A byte may become three, and parts are copied on the way.
        let _held = m.hold(texts.saturating_mul(6))?;
        join(map)
    });
}

fn parse(text: &[u8]) -> FuncResult {
    let url = Url::parse(text)
        .map_err(|error| FuncError::new(format!("unable to parse url: {error}")))?;
    let parts = [
        ("scheme", url.scheme.as_slice()),
        ("host", &url.host),
        ("hostname", url.hostname()),
        ("path", &url.path),
        ("query", &url.query),
        ("opaque", &url.opaque),
        ("fragment", &url.fragment),
        ("userinfo", &url.user_info()),
    ];
    Ok(Value::map(
        parts.map(|(key, part)| (key, Value::string(part))),
    ))
}

fn join(parts: &Map) -> FuncResult {
    let part = |key: &str| -> Result<Vec<u8>, FuncError> {
        match parts.get(key) {
            None => Ok(Vec::new()),
            Some(Value::String(text)) => Ok(text.as_bytes().to_vec()),
            Some(Value::Nil) => Err(nil_dereference()),
            Some(other) => fail(format!(
                "unable to parse {key} key, must be of type string, but {} found",
                other.kind()
            )),
        }
    };
    let mut url = Url::default();
    url.scheme = part("scheme")?;
    url.host = part("host")?;
    url.path = part("path")?;
    url.query = part("query")?;
    url.opaque = part("opaque")?;
    url.fragment = part("fragment")?;
    let user = part("userinfo")?;
    if !user.is_empty() {
        url.set_user_info(&user).map_err(|error| {
            FuncError::new(format!("unable to parse userinfo in dict: {error}"))
        })?;
    }
    Ok(Value::String(GoStr::from_vec(url.text())))
}
