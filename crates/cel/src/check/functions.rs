//! The functions that rules of the API server may call, by their overloads.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::types::Type;

/// One form of a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub(super) id: &'static str,
    pub(super) method: bool,
    /// The receiver, if there is one, is the first.
    pub(super) args: Vec<Type>,
    pub(super) result: Type,
    /// The names of the types to be found.
    pub(super) params: Vec<String>,
}

/// Lines of `name|overload|g or m|arguments|result`.
const TABLE: &str = include_str!("functions.txt");

/// The overloads of a function, in the order in which they are tried.
pub(super) fn overloads(name: &str) -> Option<&'static [Overload]> {
    static KNOWN: OnceLock<BTreeMap<&'static str, Vec<Overload>>> = OnceLock::new();
    let known = KNOWN.get_or_init(|| {
        let mut functions: BTreeMap<&'static str, Vec<Overload>> = BTreeMap::new();
        for line in TABLE.lines() {
            if let Some((name, overload)) = read(line) {
                functions.entry(name).or_default().push(overload);
            }
        }
        functions
    });
    known.get(name).map(Vec::as_slice)
}

/// From the right: operators have bars in their names.
fn read(line: &'static str) -> Option<(&'static str, Overload)> {
    let mut parts = line.rsplitn(5, '|');
    let result = Type::parse(parts.next()?);
    let args: Vec<Type> = parts
        .next()?
        .split(';')
        .filter(|text| !text.is_empty())
        .map(Type::parse)
        .collect();
    let method = parts.next()? == "m";
    let id = parts.next()?;
    let name = parts.next()?;
    let mut params = Vec::new();
    args.iter()
        .chain([&result])
        .for_each(|ty| collect_params(ty, &mut params));
    let overload = Overload {
        id,
        method,
        args,
        result,
        params,
    };
    Some((name, overload))
}

fn collect_params(ty: &Type, params: &mut Vec<String>) {
    match ty {
        Type::Param(name) if params.iter().any(|known| **known == **name) => {}
        Type::Param(name) => params.push(name.to_string()),
        Type::List(item) => collect_params(item, params),
        Type::Map(key, value) => {
            collect_params(key, params);
            collect_params(value, params);
        }
        Type::Type(Some(inner)) => collect_params(inner, params),
        Type::Opaque(_, inner) => inner.iter().for_each(|ty| collect_params(ty, params)),
        _ => {}
    }
}
