//! Types of all parts of an expression, and what is wrong with them.

use super::assign::{Bindings, most_general};
use super::functions::{Overload, overloads};
use super::lower::{Fold, Id, Kind, Tree};
use super::types::Type;
use crate::ast::Literal;
use crate::error::Issue;

/// What checking has found out.
pub(super) struct Outcome {
    /// The types of all nodes.
    pub(super) types: Vec<Type>,
    /// The overloads that calls may be.
    pub(super) overloads: Vec<Vec<&'static str>>,
    /// The names of calls; those with a dot have lost their target.
    pub(super) namespaced: Vec<Option<String>>,
    /// The variables that are used.
    pub(super) variables: Vec<String>,
    pub(super) issues: Vec<Issue>,
}

/// Checks an expression with these variables.
pub(super) fn check(tree: &Tree, variables: &[(String, Type)]) -> Outcome {
    let count = tree.nodes.len();
    let mut checker = Checker {
        tree,
        scope: variables.to_vec(),
        globals: variables.len(),
        bindings: Bindings::default(),
        fresh: 0,
        outcome: Outcome {
            types: vec![Type::Error; count],
            overloads: vec![Vec::new(); count],
            namespaced: vec![None; count],
            variables: Vec::new(),
            issues: Vec::new(),
        },
    };
    checker.check(tree.root);
    let Checker {
        bindings,
        mut outcome,
        ..
    } = checker;
    for ty in &mut outcome.types {
        *ty = bindings.resolve(ty, true);
    }
    outcome
}

struct Checker<'t> {
    tree: &'t Tree,
    /// Variables in sight, the innermost last.
    scope: Vec<(String, Type)>,
    globals: usize,
    bindings: Bindings,
    fresh: usize,
    outcome: Outcome,
}

impl Checker<'_> {
    fn report(&mut self, id: Id, message: String) {
        self.outcome.issues.push(Issue {
            offset: self.tree.nodes[id].offset,
            message,
        });
    }

    fn ty(&self, id: Id) -> Type {
        self.outcome.types[id].clone()
    }

    fn set(&mut self, id: Id, ty: Type) {
        self.outcome.types[id] = ty;
    }

    fn fresh(&mut self) -> Type {
        let fresh = Type::Param(format!("_var{}", self.fresh).into());
        self.fresh += 1;
        fresh
    }

    fn undeclared(&mut self, id: Id, name: &str) {
        self.report(
            id,
            format!("undeclared reference to '{name}' (in container '')"),
        );
        self.set(id, Type::Error);
    }

    fn mismatch(&mut self, id: Id, expected: &Type, actual: &Type) {
        self.report(
            id,
            format!("expected type '{expected}' but found '{actual}'"),
        );
    }

    fn check(&mut self, id: Id) {
        match self.tree.kind(id) {
            Kind::Literal(literal) => self.set(id, literal_type(literal)),
            Kind::Ident(name) => match self.lookup(name) {
                Some(ty) => self.set(id, ty),
                None => self.undeclared(id, name),
            },
            Kind::Select {
                operand,
                field,
                test,
            } => self.select(id, *operand, field, *test),
            Kind::Call {
                function,
                target,
                args,
            } => self.call(id, function, *target, args),
            Kind::List(items) => self.list(id, items),
            Kind::Map(entries) => self.map(id, entries),
            Kind::Fold(fold) => self.fold(id, fold),
        }
    }

    fn lookup(&mut self, name: &str) -> Option<Type> {
        let (name, from) = match name.strip_prefix('.') {
            Some(global) => (global, self.globals),
            None => (name, self.scope.len()),
        };
        let known = self.scope[..from]
            .iter()
            .rposition(|(known, _)| known == name);
        if let Some(at) = known {
            if at < self.globals && !self.outcome.variables.iter().any(|used| used == name) {
                self.outcome.variables.push(name.to_owned());
            }
            return Some(self.scope[at].1.clone());
        }
        let inner = match name {
            "bool" | "bytes" | "double" | "int" | "string" | "uint" | "type" | "duration"
            | "timestamp" => Type::parse(name),
            "null_type" => Type::Null,
            "google.protobuf.Duration" => Type::Duration,
            "google.protobuf.Timestamp" => Type::Timestamp,
            "list" => Type::list(self.fresh()),
            "map" => Type::map(self.fresh(), self.fresh()),
            "optional_type" => Type::optional(self.fresh()),
            _ => return None,
        };
        Some(Type::Type(Some(inner.into())))
    }

    fn select(&mut self, id: Id, operand: Id, field: &str, test: bool) {
        if !test
            && let Some(name) = self.tree.dotted(id)
            && let Some(ty) = self.lookup(&name)
        {
            self.set(id, ty);
            return;
        }
        let ty = self.field(id, operand, field, false);
        let ty = if test { Type::Bool } else { ty };
        self.set(id, self.bindings.resolve(&ty, false));
    }

    fn field(&mut self, id: Id, operand: Id, field: &str, optional: bool) -> Type {
        self.check(operand);
        let whole = self.bindings.resolve(&self.ty(operand), false);
        let unwrapped = whole.unwrap_optional();
        let (target, is_optional) = (unwrapped.unwrap_or(&whole), unwrapped.is_some());
        let result = match target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(object) if object.decl.is_none() => {
                self.report(id, format!("unexpected failed resolution of '{target}'"));
                Type::Error
            }
            Type::Object(object) => match object.field(field) {
                Some(ty) => ty,
                None => {
                    self.report(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Param(_) => {
                self.bindings.assign(&Type::Dyn, target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.report(
                        id,
                        format!("type '{other}' does not support field selection"),
                    );
                }
                Type::Dyn
            }
        };
        match is_optional || optional {
            true => Type::optional(result),
            false => result,
        }
    }

    fn call(&mut self, id: Id, function: &str, target: Option<Id>, args: &[Id]) {
        if function == "_?._"
            && let [operand, field] = args
            && let Kind::Literal(Literal::String(field)) = self.tree.kind(*field)
        {
            let ty = self.field(id, *operand, field, true);
            self.set(id, self.bindings.resolve(&ty, false));
            self.outcome.overloads[id].push("select_optional_field");
            return;
        }
        args.iter().for_each(|arg| self.check(*arg));
        let Some(target) = target else {
            let name = function.trim_start_matches('.');
            return match overloads(name) {
                Some(forms) => self.resolve(id, name, forms, None, args),
                None => self.undeclared(id, function),
            };
        };
        if let Some(prefix) = self.tree.dotted(target) {
            let name = format!("{}.{function}", prefix.trim_start_matches('.'));
            if let Some(forms) = overloads(&name) {
                self.resolve(id, &name, forms, None, args);
                self.outcome.namespaced[id] = Some(name);
                return;
            }
        }
        self.check(target);
        match overloads(function) {
            Some(forms) => self.resolve(id, function, forms, Some(target), args),
            None => self.undeclared(id, function),
        }
    }

    fn resolve(
        &mut self,
        id: Id,
        name: &str,
        forms: &'static [Overload],
        target: Option<Id>,
        args: &[Id],
    ) {
        if matches!(name, "_&&_" | "_||_") {
            return self.logic(id, forms, args);
        }
        let actual: Vec<Type> = target.iter().chain(args).map(|arg| self.ty(*arg)).collect();
        let mut result: Option<Type> = None;
        for form in forms.iter().filter(|form| form.method == target.is_some()) {
            let mut fresh = Bindings::default();
            for param in &form.params {
                let found = self.fresh();
                fresh.bind(param.as_str(), found);
            }
            let wanted: Vec<Type> = form
                .args
                .iter()
                .map(|arg| fresh.resolve(arg, false))
                .collect();
            if !self.bindings.assign_all(&actual, &wanted) {
                continue;
            }
            self.outcome.overloads[id].push(form.id);
            let ty = fresh.resolve(&form.result, false);
            let ty = self.bindings.resolve(&ty, false);
            result = Some(match result {
                None => ty,
                Some(Type::Dyn) => Type::Dyn,
                Some(known) if known == ty => known,
                Some(_) => Type::Dyn,
            });
        }
        let ty = match result {
            Some(ty) => ty,
            None => {
                self.no_overload(id, name, &actual, target.is_some());
                Type::Error
            }
        };
        self.set(id, ty);
    }

    fn no_overload(&mut self, id: Id, name: &str, actual: &[Type], method: bool) {
        let shown: Vec<String> = actual
            .iter()
            .map(|ty| self.bindings.resolve(ty, true).to_string())
            .collect();
        let signature = match shown.split_first() {
            Some((receiver, rest)) if method => format!("{receiver}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.report(
            id,
            format!("found no matching overload for '{name}' applied to '{signature}'"),
        );
    }

    fn logic(&mut self, id: Id, forms: &'static [Overload], args: &[Id]) {
        let mut is_wrong = false;
        for arg in args {
            let ty = self.ty(*arg);
            if !self.bindings.assign(&ty, &Type::Bool) {
                self.mismatch(*arg, &Type::Bool, &ty);
                is_wrong = true;
            }
        }
        self.outcome.overloads[id].extend(forms.first().map(|form| form.id));
        self.set(id, if is_wrong { Type::Error } else { Type::Bool });
    }

    /// The type of an item that may stand behind `?`.
    fn item(&mut self, id: Id, optional: bool) -> Type {
        self.check(id);
        let ty = self.ty(id);
        if !optional {
            return ty;
        }
        match ty.unwrap_optional() {
            Some(inner) => inner.clone(),
            None => {
                if ty != Type::Dyn {
                    self.mismatch(id, &Type::optional(ty.clone()), &ty);
                }
                ty
            }
        }
    }

    /// The type of a collection with one more item; mixed ones are refused later.
    fn join(&mut self, before: Option<Type>, ty: Type) -> Type {
        match before {
            None => ty,
            Some(before) if self.bindings.assign(&before, &ty) => most_general(&before, &ty),
            Some(_) => Type::Dyn,
        }
    }

    fn list(&mut self, id: Id, items: &[(Id, bool)]) {
        let mut joined = None;
        for (item, optional) in items {
            let ty = self.item(*item, *optional);
            joined = Some(self.join(joined, ty));
        }
        let item = joined.unwrap_or_else(|| self.fresh());
        self.set(id, Type::list(item));
    }

    fn map(&mut self, id: Id, entries: &[(Id, Id, bool)]) {
        let mut keys = None;
        let mut values = None;
        for (key, value, optional) in entries {
            self.check(*key);
            let ty = self.ty(*key);
            keys = Some(self.join(keys, ty));
            let ty = self.item(*value, *optional);
            values = Some(self.join(values, ty));
        }
        let key = keys.unwrap_or_else(|| self.fresh());
        let value = values.unwrap_or_else(|| self.fresh());
        self.set(id, Type::map(key, value));
    }

    fn fold(&mut self, id: Id, fold: &Fold) {
        self.check(fold.range);
        self.check(fold.start);
        let range = self.bindings.resolve(&self.ty(fold.range), false);
        let collected = self.ty(fold.start);
        let depth = self.scope.len();
        self.scope
            .push((fold.accumulator.clone(), collected.clone()));
        let (first, second) = match &range {
            Type::List(item) if fold.second.is_some() => (Type::Int, (**item).clone()),
            Type::List(item) => ((**item).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.bindings.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let problem = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range, problem);
                (Type::Error, Type::Error)
            }
        };
        self.scope.push((fold.first.clone(), first));
        if let Some(name) = &fold.second {
            self.scope.push((name.clone(), second));
        }
        self.check(fold.condition);
        self.expect(fold.condition, &Type::Bool);
        self.check(fold.step);
        self.expect(fold.step, &collected);
        self.scope.truncate(depth + 1);
        self.check(fold.result);
        self.scope.truncate(depth);
        let ty = self.bindings.resolve(&self.ty(fold.result), false);
        self.set(id, ty);
    }

    fn expect(&mut self, id: Id, wanted: &Type) {
        let actual = self.ty(id);
        if !self.bindings.assign(wanted, &actual) {
            self.mismatch(id, wanted, &actual);
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
