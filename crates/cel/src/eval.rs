//! Expressions into values.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::ast::{Comprehension, ComprehensionKind, Expr, ExprKind, Literal};
use crate::error::EvalError;
use crate::functions;
use crate::value::{Key, List, Value};
use crate::work::Work;

/// Names and what they stand for.
#[derive(Debug, Default, Clone)]
pub struct Variables {
    values: BTreeMap<String, Value>,
}

impl Variables {
    /// None.
    pub fn new() -> Self {
        Variables::default()
    }

    /// With one more.
    pub fn with(mut self, name: impl Into<String>, value: Value) -> Self {
        self.values.insert(name.into(), value);
        self
    }
}

/// Names in sight, the innermost first.
pub(crate) struct Scope<'a> {
    parent: Option<&'a Scope<'a>>,
    name: &'a str,
    value: Value,
    globals: &'a Variables,
    steps: &'a Cell<u64>,
    work: &'a Work,
}

type Outcome = Result<Value, EvalError>;

/// Evaluates with a limit to the cost; tells what it was.
pub(crate) fn evaluate(
    expr: &Expr,
    variables: &Variables,
    limit: u64,
    work: &Work,
) -> (Outcome, u64) {
    let steps = Cell::new(limit);
    let scope = Scope {
        parent: None,
        name: "",
        value: Value::Null,
        globals: variables,
        steps: &steps,
        work,
    };
    let outcome = scope.eval(expr);
    let used = match &outcome {
        Err(EvalError::TooExpensive) => limit.saturating_add(1),
        _ => limit - steps.get(),
    };
    (outcome, used)
}

impl<'a> Scope<'a> {
    fn inner<'b>(&'b self, name: &'b str, value: Value) -> Scope<'b>
    where
        'a: 'b,
    {
        Scope {
            parent: Some(self),
            name,
            value,
            globals: self.globals,
            steps: self.steps,
            work: self.work,
        }
    }

    fn lookup(&self, name: &str) -> Option<Value> {
        if !name.starts_with('.') {
            let mut scope = Some(self);
            while let Some(current) = scope {
                if current.parent.is_some() && current.name == name {
                    return Some(current.value.clone());
                }
                scope = current.parent;
            }
        }
        self.globals
            .values
            .get(name.trim_start_matches('.'))
            .cloned()
    }

    fn charge(&self, cost: u64) -> Result<(), EvalError> {
        match self.steps.get().checked_sub(cost) {
            Some(left) => {
                self.steps.set(left);
                Ok(())
            }
            None => Err(EvalError::TooExpensive),
        }
    }

    fn eval(&self, expr: &Expr) -> Outcome {
        match &expr.kind {
            ExprKind::Literal(literal) => Ok(constant(literal)),
            ExprKind::Ident(name) => {
                let value = self.ident(name)?;
                // Names of types are constants.
                self.charge(u64::from(!matches!(value, Value::Type(_))))?;
                Ok(value)
            }
            ExprKind::Select {
                operand,
                field,
                optional,
            } => self.select(expr, operand, field, *optional),
            ExprKind::Has { operand, field } => self.has(operand, field),
            ExprKind::Call {
                function,
                target,
                args,
            } => self.call(function, target.as_deref(), args),
            ExprKind::List(items) => self.list(items),
            ExprKind::Map(entries) => self.map(entries),
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension),
            ExprKind::Bind { name, value, body } => {
                let value = self.eval(value)?;
                self.inner(name, value).eval(body)
            }
        }
    }

    fn ident(&self, name: &str) -> Outcome {
        if let Some(value) = self.lookup(name) {
            return Ok(value);
        }
        const TYPES: [&str; 10] = [
            "bool",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "list",
            "map",
            "null_type",
            "type",
        ];
        match TYPES.contains(&name) {
            true => Ok(Value::Type(name.into())),
            false => Err(EvalError::NoSuchVariable(name.to_owned())),
        }
    }

    fn select(&self, whole: &Expr, operand: &Expr, field: &str, optional: bool) -> Outcome {
        // A dotted name may be that of a type.
        if let Some(path) = dotted(whole)
            && self.lookup(path.split('.').next().unwrap_or("")).is_none()
        {
            if matches!(
                path.as_str(),
                "google.protobuf.Timestamp" | "google.protobuf.Duration"
            ) {
                return Ok(Value::Type(path.into()));
            }
            if let Some(value) = self.lookup(&path) {
                return Ok(value);
            }
        }
        let operand = self.eval(operand)?;
        self.charge(1)?;
        if optional {
            return Ok(match optional_field(&operand, field)? {
                Some(found) => Value::Optional(Some(Rc::new(found))),
                None => Value::Optional(None),
            });
        }
        match &operand {
            Value::Optional(inner) => Ok(Value::Optional(match inner {
                Some(inner) => optional_field(inner, field)?.map(Rc::new),
                None => None,
            })),
            other => field_of(other, field)?.ok_or_else(|| EvalError::NoSuchKey(field.to_owned())),
        }
    }

    fn has(&self, operand: &Expr, field: &str) -> Outcome {
        let operand = self.eval(operand)?;
        let found = match &operand {
            Value::Optional(Some(inner)) => field_of(inner, field)?,
            Value::Optional(None) => None,
            other => field_of(other, field)?,
        };
        Ok(Value::Bool(found.is_some()))
    }

    fn call(&self, function: &str, target: Option<&Expr>, args: &[Expr]) -> Outcome {
        match (function, args) {
            ("_&&_", [left, right]) => return self.logic(left, right, false),
            ("_||_", [left, right]) => return self.logic(left, right, true),
            // What is in an empty list is known beforehand.
            ("@in", [_, list]) if matches!(&list.kind, ExprKind::List(items) if items.is_empty()) =>
            {
                return Ok(Value::Bool(false));
            }
            ("_?_:_", [condition, yes, no]) => {
                return match self.eval(condition)? {
                    Value::Bool(true) => self.eval(yes),
                    Value::Bool(false) => self.eval(no),
                    _ => Err(EvalError::NoSuchOverload),
                };
            }
            _ => {}
        }
        let values: Vec<Value> = match target {
            None => self.all(args)?,
            Some(target) => match self.namespace(target) {
                // `optional.of(x)`, `math.greatest(…)`: the dot is part of the name.
                Some(namespace) => {
                    let name = format!("{namespace}.{function}");
                    return functions::call(&name, &self.all(args)?, false, self.steps, self.work);
                }
                None if matches!((function, args), ("or" | "orValue", [_])) => {
                    return self.or_else(target, function, args);
                }
                None => self.method(self.eval(target), args)?,
            },
        };
        functions::call(function, &values, target.is_some(), self.steps, self.work)
    }

    fn namespace(&self, target: &Expr) -> Option<String> {
        let path = dotted(target)?;
        let root = path.split('.').next().unwrap_or("");
        (functions::NAMESPACES.contains(&path.as_str()) && self.lookup(root).is_none())
            .then_some(path)
    }

    /// The arguments of a method, its receiver first.
    fn method(&self, receiver: Outcome, args: &[Expr]) -> Result<Vec<Value>, EvalError> {
        std::iter::once(receiver)
            .chain(args.iter().map(|arg| self.eval(arg)))
            .collect()
    }

    /// `or` and `orValue`: what is given instead is evaluated only where it is needed.
    fn or_else(&self, target: &Expr, function: &str, args: &[Expr]) -> Outcome {
        let receiver = self.eval(target);
        match (&receiver, args) {
            (Ok(Value::Optional(Some(inner))), _) => Ok(match function {
                "or" => Value::Optional(Some(inner.clone())),
                _ => (**inner).clone(),
            }),
            (Ok(Value::Optional(None)), [other]) => self.eval(other),
            _ => {
                let values = self.method(receiver, args)?;
                functions::call(function, &values, true, self.steps, self.work)
            }
        }
    }

    fn all(&self, args: &[Expr]) -> Result<Vec<Value>, EvalError> {
        args.iter().map(|arg| self.eval(arg)).collect()
    }

    /// `&&` and `||`: one side that decides makes up for an error on the other.
    fn logic(&self, left: &Expr, right: &Expr, decisive: bool) -> Outcome {
        let left = self.eval(left);
        if let Ok(Value::Bool(flag)) = left
            && flag == decisive
        {
            return left;
        }
        let right = self.eval(right);
        match (left, right) {
            (_, Ok(Value::Bool(flag))) if flag == decisive => Ok(Value::Bool(flag)),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(Value::Bool(_)), Ok(Value::Bool(flag))) => Ok(Value::Bool(flag)),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    fn list(&self, items: &[(Expr, bool)]) -> Outcome {
        // Lists of constants are made beforehand.
        let is_constant = |(item, _): &(Expr, bool)| matches!(item.kind, ExprKind::Literal(_));
        if !items.iter().all(is_constant) {
            self.charge(10)?;
        }
        let mut values = Vec::with_capacity(items.len());
        for (item, optional) in items {
            match (self.eval(item)?, optional) {
                (Value::Optional(inner), true) => {
                    values.extend(inner.map(|inner| (*inner).clone()));
                }
                (value, _) => values.push(value),
            }
        }
        self.work.admit(Value::list(values))
    }

    fn map(&self, entries: &[(Expr, Expr, bool)]) -> Outcome {
        self.charge(if entries.is_empty() { 0 } else { 30 })?;
        let mut map = BTreeMap::new();
        for (key, value, optional) in entries {
            let key = self.key(key)?;
            match (self.eval(value)?, optional) {
                (Value::Optional(Some(inner)), true) => {
                    map.insert(key, (*inner).clone());
                }
                (Value::Optional(None), true) => {}
                (value, _) => {
                    map.insert(key, value);
                }
            }
        }
        self.work.admit(Value::Map(Rc::new(map)))
    }

    fn key(&self, expr: &Expr) -> Result<Key, EvalError> {
        let value = self.eval(expr)?;
        value
            .to_key()
            .ok_or_else(|| EvalError::other("unsupported key type"))
    }

    fn comprehension(&self, comprehension: &Comprehension) -> Outcome {
        let range = self.eval(&comprehension.range)?;
        let count = match &range {
            Value::List(list) => list.items.len(),
            Value::Map(map) => map.len(),
            _ => 0,
        };
        let _held = self.work.hold(count)?;
        let items: Vec<(Value, Value)> = match &range {
            Value::List(list) => list
                .items
                .iter()
                .enumerate()
                .map(|(index, item)| (Value::Int(index as i64), item.clone()))
                .collect(),
            Value::Map(map) => map
                .iter()
                .map(|(key, value)| (key.to_value(), value.clone()))
                .collect(),
            other => {
                let name = go_type(other);
                return Err(EvalError::other(match comprehension.second {
                    Some(_) => format!("unsupported comprehension range type: {name}"),
                    None => format!("got '{name}', expected iterable type"),
                }));
            }
        };
        let is_map = matches!(range, Value::Map(_));
        match comprehension.kind {
            ComprehensionKind::All => self.quantify(comprehension, &items, is_map, false),
            ComprehensionKind::Exists => self.quantify(comprehension, &items, is_map, true),
            ComprehensionKind::ExistsOne => {
                let mut count = 0;
                let mut error = None;
                for item in &items {
                    match self.truth(comprehension, item, is_map) {
                        Err(EvalError::TooExpensive) => return Err(EvalError::TooExpensive),
                        // All items are looked at; of several errors the last one counts.
                        Err(last) => error = Some(last),
                        Ok(is_true) => {
                            self.charge(if is_true { 2 } else { 0 })?;
                            count += u32::from(is_true);
                        }
                    }
                }
                self.charge(2)?;
                match error {
                    Some(error) => Err(error),
                    None => Ok(Value::Bool(count == 1)),
                }
            }
            ComprehensionKind::Filter => self.filter(comprehension, items, is_map),
            ComprehensionKind::Map => self.transform_list(comprehension, &items, is_map),
            ComprehensionKind::TransformMap | ComprehensionKind::TransformMapEntry => {
                self.transform_map(comprehension, &items, is_map)
            }
        }
    }

    /// Evaluates an expression for one item.
    fn for_item(
        &self,
        comprehension: &Comprehension,
        (key, value): &(Value, Value),
        is_map: bool,
        expr: &Expr,
    ) -> Outcome {
        match &comprehension.second {
            Some(second) => {
                let outer = self.inner(&comprehension.first, key.clone());
                let inner = outer.inner(second, value.clone());
                inner.eval(expr)
            }
            // With one name lists give their items and maps their keys.
            None => {
                let item = if is_map { key } else { value };
                self.inner(&comprehension.first, item.clone()).eval(expr)
            }
        }
    }

    fn truth(
        &self,
        comprehension: &Comprehension,
        item: &(Value, Value),
        is_map: bool,
    ) -> Result<bool, EvalError> {
        match self.for_item(comprehension, item, is_map, &comprehension.body)? {
            Value::Bool(flag) => Ok(flag),
            _ => Err(EvalError::NoSuchOverload),
        }
    }

    /// `all` and `exists`: an item that decides makes up for errors on others.
    fn quantify(
        &self,
        comprehension: &Comprehension,
        items: &[(Value, Value)],
        is_map: bool,
        decisive: bool,
    ) -> Outcome {
        let mut error = None;
        self.charge(1)?;
        // The condition of the loop; `exists` negates in it.
        let condition = if decisive { 3 } else { 2 };
        for (at, item) in items.iter().enumerate() {
            self.charge(condition + 1)?;
            match self.truth(comprehension, item, is_map) {
                Ok(flag) if flag == decisive => {
                    let is_last = at + 1 == items.len();
                    self.charge(if is_last { 0 } else { condition })?;
                    return Ok(Value::Bool(decisive));
                }
                Ok(_) => {}
                Err(EvalError::TooExpensive) => return Err(EvalError::TooExpensive),
                Err(first) => error = error.or(Some(first)),
            }
        }
        match error {
            Some(error) => Err(error),
            None => Ok(Value::Bool(!decisive)),
        }
    }

    fn filter(
        &self,
        comprehension: &Comprehension,
        items: Vec<(Value, Value)>,
        is_map: bool,
    ) -> Outcome {
        self.charge(1)?;
        let mut kept = Vec::new();
        let mut error = None;
        for item in items {
            let keeps = match self.truth(comprehension, &item, is_map) {
                Ok(keeps) => keeps,
                Err(EvalError::TooExpensive) => return Err(EvalError::TooExpensive),
                Err(last) => {
                    error = Some(last);
                    false
                }
            };
            self.charge(if keeps { 13 } else { 0 })?;
            if keeps {
                kept.push(if is_map { item.0 } else { item.1 });
            }
        }
        match error {
            Some(error) => Err(error),
            None => Ok(Value::list(kept)),
        }
    }

    fn passes(
        &self,
        comprehension: &Comprehension,
        item: &(Value, Value),
        is_map: bool,
    ) -> Result<bool, EvalError> {
        match &comprehension.filter {
            None => Ok(true),
            Some(filter) => match self.for_item(comprehension, item, is_map, filter)? {
                Value::Bool(flag) => Ok(flag),
                _ => Err(EvalError::NoSuchOverload),
            },
        }
    }

    fn transform_list(
        &self,
        comprehension: &Comprehension,
        items: &[(Value, Value)],
        is_map: bool,
    ) -> Outcome {
        let mut results = Vec::new();
        self.charge(1)?;
        for item in items {
            let passes = self.passes(comprehension, item, is_map)?;
            self.charge(if passes { 12 } else { 0 })?;
            if passes {
                results.push(self.for_item(comprehension, item, is_map, &comprehension.body)?);
            }
        }
        self.work.admit(Value::list(results))
    }

    fn transform_map(
        &self,
        comprehension: &Comprehension,
        items: &[(Value, Value)],
        is_map: bool,
    ) -> Outcome {
        self.charge(1)?;
        let mut results = BTreeMap::new();
        for item in items {
            self.charge(3)?;
            if !self.passes(comprehension, item, is_map)? {
                continue;
            }
            let result = self.for_item(comprehension, item, is_map, &comprehension.body)?;
            if comprehension.kind == ComprehensionKind::TransformMap {
                let key = item.0.to_key().ok_or(EvalError::NoSuchOverload)?;
                results.insert(key, result);
                continue;
            }
            let Value::Map(entries) = result else {
                return Err(EvalError::NoSuchOverload);
            };
            for (key, value) in entries.iter() {
                if results.insert(key.clone(), value.clone()).is_some() {
                    return Err(EvalError::other("insert failed: key already exists"));
                }
            }
        }
        self.work.admit(Value::Map(Rc::new(results)))
    }
}

/// The name of cel-go's own type behind a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Timestamp(_) => "types.Timestamp",
        Value::Duration(_) => "types.Duration",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        other => other.type_name(),
    }
}

/// Evaluates conversions of constants: one that fails makes the whole expression useless.
pub(crate) fn fold_constants(expr: &Expr) -> Result<(), EvalError> {
    expr.children().try_for_each(fold_constants)?;
    if !matches!(expr.kind, ExprKind::Literal(_)) && is_constant(expr) {
        evaluate(expr, &Variables::new(), u64::MAX, &Work::default()).0?;
    }
    Ok(())
}

fn is_constant(expr: &Expr) -> bool {
    const CONVERSIONS: [&str; 8] = [
        "bool",
        "bytes",
        "double",
        "duration",
        "int",
        "string",
        "timestamp",
        "uint",
    ];
    match &expr.kind {
        ExprKind::Literal(_) => true,
        ExprKind::Call {
            function,
            target: None,
            args,
        } => match args.as_slice() {
            [arg] => CONVERSIONS.contains(&function.as_str()) && is_constant(arg),
            _ => false,
        },
        _ => false,
    }
}

fn constant(literal: &Literal) -> Value {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(flag) => Value::Bool(*flag),
        Literal::Int(int) => Value::Int(*int),
        Literal::Uint(uint) => Value::Uint(*uint),
        Literal::Double(double) => Value::Double(*double),
        Literal::String(text) => Value::string(text),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
    }
}

/// `a.b.c` as text, where the expression is nothing else.
fn dotted(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.clone()),
        ExprKind::Select {
            operand,
            field,
            optional: false,
        } => Some(format!("{}.{field}", dotted(operand)?)),
        _ => None,
    }
}

/// The field of an object, if it has it.
pub(crate) fn field_of(operand: &Value, field: &str) -> Result<Option<Value>, EvalError> {
    match operand {
        Value::Map(map) => Ok(map
            .get(&Key::String(field.into()))
            .or_else(|| {
                // Keywords are escaped as names of fields, but may be written as they are.
                let keyword = crate::escape::RESERVED.contains(&field);
                keyword
                    .then(|| map.get(&Key::String(format!("__{field}__").into())))
                    .flatten()
            })
            .cloned()),
        _ => Err(EvalError::NoSuchOverload),
    }
}

fn optional_field(operand: &Value, field: &str) -> Result<Option<Value>, EvalError> {
    match operand {
        Value::Optional(Some(inner)) => optional_field(inner, field),
        Value::Optional(None) => Ok(None),
        other => field_of(other, field),
    }
}

/// A list of a kind.
pub(crate) fn list_like(items: Vec<Value>, like: &List) -> Value {
    Value::List(Rc::new(List {
        items,
        kind: like.kind.clone(),
    }))
}
