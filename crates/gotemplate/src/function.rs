//! Functions that templates can call: registration, arguments and the context of a call.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::error::{Error, FuncError};
use crate::exec::execute;
use crate::list::List;
use crate::map::Map;
use crate::meter::Meter;
use crate::templates::Templates;
use crate::text::GoStr;
use crate::types::GoType;
use crate::value::Value;

/// What a function returns.
pub type FuncResult = Result<Value, FuncError>;

/// The Go signature of a function. The engine checks every call against it as Go's reflection
/// does, so the code of a function may rely on the number and types of its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Signature {
    /// Parameter types. The last one of a variadic function is the type of one element
    /// (`args ...interface {}` is [`GoType::Any`]).
    pub params: &'static [GoType],
    /// Whether the last parameter takes any number of arguments.
    pub variadic: bool,
    /// The (first) result type.
    pub result: GoType,
}

impl Signature {
    /// A signature with a fixed number of parameters.
    pub const fn new(params: &'static [GoType], result: GoType) -> Self {
        Signature {
            params,
            variadic: false,
            result,
        }
    }

    /// A signature whose last parameter repeats.
    pub const fn variadic(params: &'static [GoType], result: GoType) -> Self {
        Signature {
            params,
            variadic: true,
            result,
        }
    }
}

impl fmt::Display for Signature {
    /// The type of such a function in Go, with an error as second result.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("func(")?;
        for (index, param) in self.params.iter().enumerate() {
            let last = index + 1 == self.params.len();
            let comma = if index > 0 { ", " } else { "" };
            let dots = if last && self.variadic { "..." } else { "" };
            write!(f, "{comma}{dots}{param}")?;
        }
        write!(f, ") ({}, error)", self.result)
    }
}

/// The code of a function. Panics of the Go original (index out of range, division by zero) are
/// errors with the text of the panic, since Go's templates turn panics into such errors.
pub type Code = dyn Fn(&mut Context<'_>, Args<'_>) -> FuncResult + Send + Sync;

/// A function with its signature.
#[derive(Clone)]
pub struct Function {
    /// What it takes and returns.
    pub signature: Signature,
    /// What it does.
    pub code: Arc<Code>,
}

impl Function {
    /// A function from its parts.
    pub fn new<F>(signature: Signature, code: F) -> Self
    where
        F: Fn(&mut Context<'_>, Args<'_>) -> FuncResult + Send + Sync + 'static,
    {
        Function {
            signature,
            code: Arc::new(code),
        }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function")
            .field("signature", &self.signature)
            .finish_non_exhaustive()
    }
}

/// A table of functions by name, to be completed before templates are parsed. Names given here
/// hide Go's builtins of the same name.
#[derive(Clone, Debug, Default)]
pub struct Functions {
    by_name: HashMap<&'static str, usize>,
    table: Vec<(&'static str, Function)>,
}

impl Functions {
    /// An empty table.
    pub fn new() -> Self {
        Functions::default()
    }

    /// Adds or replaces a function.
    pub fn add<F>(&mut self, name: &'static str, signature: Signature, code: F)
    where
        F: Fn(&mut Context<'_>, Args<'_>) -> FuncResult + Send + Sync + 'static,
    {
        self.insert(name, Function::new(signature, code));
    }

    /// Adds or replaces a function.
    pub fn insert(&mut self, name: &'static str, function: Function) {
        match self.by_name.get(name) {
            Some(&index) => self.table[index].1 = function,
            None => {
                self.by_name.insert(name, self.table.len());
                self.table.push((name, function));
            }
        }
    }

    /// The function of that name.
    pub fn get(&self, name: &str) -> Option<&Function> {
        self.by_name.get(name).map(|&index| &self.table[index].1)
    }

    /// The place of a function in the table.
    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The function at a place of the table.
    pub(crate) fn at(&self, index: usize) -> Option<&Function> {
        self.table.get(index).map(|(_, function)| function)
    }

    /// The names in the order of their first registration.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.table.iter().map(|(name, _)| *name)
    }
}

/// The arguments of a call, variadic ones included, already checked against the signature.
///
/// The typed getters fail with a message only when the signature and the code disagree.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a>(&'a [Value]);

impl<'a> Args<'a> {
    /// Arguments from values.
    pub fn new(values: &'a [Value]) -> Self {
        Args(values)
    }

    /// Number of arguments.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All arguments.
    pub fn all(&self) -> &'a [Value] {
        self.0
    }

    /// The arguments from `index` on: the variadic ones.
    pub fn rest(&self, index: usize) -> &'a [Value] {
        self.0.get(index..).unwrap_or(&[])
    }

    /// One argument; nil when there is none.
    pub fn get(&self, index: usize) -> &'a Value {
        const NIL: &Value = &Value::Nil;
        self.0.get(index).unwrap_or(NIL)
    }

    fn mismatch(&self, index: usize, wanted: &str) -> FuncError {
        let got = self.get(index).type_name();
        FuncError::new(format!("argument {index} should be {wanted}; is {got}"))
    }

    /// A `string` argument.
    pub fn text(&self, index: usize) -> Result<&'a GoStr, FuncError> {
        match self.get(index) {
            Value::String(text) => Ok(text),
            _ => Err(self.mismatch(index, "string")),
        }
    }

    /// A signed integer argument of any width.
    pub fn int(&self, index: usize) -> Result<i64, FuncError> {
        let value = self.get(index).as_int();
        value.ok_or_else(|| self.mismatch(index, "int"))
    }

    /// A floating point argument.
    pub fn float(&self, index: usize) -> Result<f64, FuncError> {
        let value = self.get(index).as_float();
        value.ok_or_else(|| self.mismatch(index, "float64"))
    }

    /// A `bool` argument.
    pub fn bool(&self, index: usize) -> Result<bool, FuncError> {
        match self.get(index) {
            Value::Bool(value) => Ok(*value),
            _ => Err(self.mismatch(index, "bool")),
        }
    }

    /// A map argument; it may be a nil map.
    pub fn map(&self, index: usize) -> Result<&'a Map, FuncError> {
        match self.get(index) {
            Value::Map(map) => Ok(map),
            _ => Err(self.mismatch(index, "map[string]interface {}")),
        }
    }

    /// A slice argument; it may be a nil slice.
    pub fn list(&self, index: usize) -> Result<&'a List, FuncError> {
        match self.get(index) {
            Value::List(list) => Ok(list),
            _ => Err(self.mismatch(index, "[]interface {}")),
        }
    }
}

/// What a function sees besides its arguments.
pub struct Context<'a> {
    state: &'a mut dyn Any,
    templates: &'a Templates,
    meter: &'a Meter<'a>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        templates: &'a Templates,
        state: &'a mut dyn Any,
        meter: &'a Meter<'a>,
    ) -> Self {
        Context {
            state,
            templates,
            meter,
        }
    }

    /// The state that the caller of the execution owns (clock, random source, include counters),
    /// when it has this type.
    pub fn state<T: 'static>(&mut self) -> Option<&mut T> {
        self.state.downcast_mut()
    }

    /// What the execution may use up. The engine charges what functions return; a function charges
    /// what it makes on the way, and what it makes beyond the size of its arguments before it does so.
    pub fn meter(&self) -> &'a Meter<'a> {
        self.meter
    }

    /// The set the executing template belongs to. A clone of it is what `tpl` parses into.
    pub fn templates(&self) -> &'a Templates {
        self.templates
    }

    /// How deep `{{template}}` and [`Context::render`] nest at the moment.
    pub fn depth(&self) -> usize {
        self.meter.depth()
    }

    /// Executes a template of the same set and returns what it wrote, as `include` does. The
    /// limits of the running execution apply to all of it.
    pub fn render(&mut self, name: &str, data: &Value) -> Result<GoStr, Error> {
        self.render_in(self.templates, name, data)
    }

    /// Executes a template of another set, within the limits of the running execution.
    pub fn render_in(
        &mut self,
        templates: &Templates,
        name: &str,
        data: &Value,
    ) -> Result<GoStr, Error> {
        let result = match self.meter.enter() {
            true => execute(templates, name, data, self.state, self.meter),
            false => Err(Error::Depth {
                name: name.to_owned(),
                depth: self.meter.depth(),
            }),
        };
        self.meter.leave();
        // The caller charges the text.
        result.map(|output| {
            self.meter.drop_buffer(output.capacity());
            GoStr::from_vec(output)
        })
    }
}
