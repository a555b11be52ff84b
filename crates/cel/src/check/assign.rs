//! Which types fit which, and what types to be found turn out to be.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::types::Type;

/// What types to be found stand for.
#[derive(Debug, Clone, Default)]
pub(super) struct Bindings {
    known: BTreeMap<Arc<str>, Type>,
}

impl Bindings {
    pub(super) fn bind(&mut self, name: impl Into<Arc<str>>, ty: Type) {
        self.known.insert(name.into(), ty);
    }

    fn find(&self, ty: &Type) -> Option<&Type> {
        match ty {
            Type::Param(name) => self.known.get(name),
            _ => None,
        }
    }

    /// Whether values of the first type can be used as the second; remembers what that implies.
    pub(super) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        self.assign_all(std::slice::from_ref(from), std::slice::from_ref(to))
    }

    /// As [`Bindings::assign`] for several; nothing is remembered unless all fit.
    pub(super) fn assign_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        let mut attempt = self.clone();
        let fits = attempt.fit_all(from, to);
        if fits {
            *self = attempt;
        }
        fits
    }

    fn fit_all(&mut self, from: &[Type], to: &[Type]) -> bool {
        from.len() == to.len() && from.iter().zip(to).all(|(from, to)| self.fit(from, to))
    }

    fn fit(&mut self, from: &Type, to: &Type) -> bool {
        if let Type::Param(_) = to {
            let (valid, is_bound) = self.substitutes(from, to);
            if valid {
                return true;
            }
            if is_bound {
                return false;
            }
        }
        if let Type::Param(_) = from {
            return self.substitutes(to, from).0;
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => matches!(
                other,
                Type::Null | Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp
            ),
            (Type::Type(_), other) => matches!(other, Type::Type(_)),
            (Type::List(from), Type::List(to)) => self.fit(from, to),
            (Type::Map(from_key, from_value), Type::Map(to_key, to_value)) => {
                self.fit(from_key, to_key) && self.fit(from_value, to_value)
            }
            (Type::Opaque(from_name, from), Type::Opaque(to_name, to)) => {
                from_name == to_name && self.fit_all(from, to)
            }
            (from, to) => from == to,
        }
    }

    /// Whether the type may stand for the one to be found, and whether that was bound before.
    fn substitutes(&mut self, ty: &Type, param: &Type) -> (bool, bool) {
        if ty == param {
            return (true, true);
        }
        if let Some(bound) = self.find(param).cloned() {
            if *ty == bound {
                return (true, true);
            }
            if !self.fit(ty, &bound) {
                return (false, true);
            }
            let general = most_general(ty, &bound);
            if self.is_free_of(param, &general) {
                self.set(param, general);
            }
            return (true, true);
        }
        if self.is_free_of(param, ty) {
            self.set(param, ty.clone());
            return (true, false);
        }
        (false, false)
    }

    fn set(&mut self, param: &Type, ty: Type) {
        if let Type::Param(name) = param {
            self.known.insert(name.clone(), ty);
        }
    }

    /// Whether the type to be found does not occur inside the other.
    fn is_free_of(&self, param: &Type, within: &Type) -> bool {
        if param == within {
            return false;
        }
        match within {
            Type::Param(_) => self
                .find(within)
                .is_none_or(|bound| self.is_free_of(param, bound)),
            Type::List(item) => self.is_free_of(param, item),
            Type::Map(key, value) => self.is_free_of(param, key) && self.is_free_of(param, value),
            Type::Type(Some(inner)) => self.is_free_of(param, inner),
            Type::Opaque(_, params) => params.iter().all(|inner| self.is_free_of(param, inner)),
            _ => true,
        }
    }

    /// The type with everything found filled in; what is not found may become `dyn`.
    pub(super) fn resolve(&self, ty: &Type, rest_is_dyn: bool) -> Type {
        if let Some(bound) = self.find(ty) {
            return self.resolve(bound, rest_is_dyn);
        }
        match ty {
            Type::Param(_) if rest_is_dyn => Type::Dyn,
            Type::List(item) => Type::list(self.resolve(item, rest_is_dyn)),
            Type::Map(key, value) => Type::map(
                self.resolve(key, rest_is_dyn),
                self.resolve(value, rest_is_dyn),
            ),
            Type::Type(Some(inner)) => Type::Type(Some(Arc::new(self.resolve(inner, rest_is_dyn)))),
            Type::Opaque(name, params) => Type::Opaque(
                name.clone(),
                params
                    .iter()
                    .map(|inner| self.resolve(inner, rest_is_dyn))
                    .collect(),
            ),
            other => other.clone(),
        }
    }
}

/// Of two types that fit, the one that says less.
pub(super) fn most_general(left: &Type, right: &Type) -> Type {
    match says_no_more(left, right) {
        true => left.clone(),
        false => right.clone(),
    }
}

fn says_no_more(left: &Type, right: &Type) -> bool {
    match (left, right) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Opaque(left, left_params), Type::Opaque(right, right_params)) => {
            left == right
                && left_params.len() == right_params.len()
                && left_params
                    .iter()
                    .zip(right_params)
                    .all(|(left, right)| says_no_more(left, right))
        }
        (Type::List(left), Type::List(right)) => says_no_more(left, right),
        (Type::Map(left_key, left_value), Type::Map(right_key, right_value)) => {
            says_no_more(left_key, right_key) && says_no_more(left_value, right_value)
        }
        (Type::Type(_), Type::Type(_)) => true,
        (left, right) => left == right,
    }
}
