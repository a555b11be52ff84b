//! Nodes that write or steer.

use super::operand::{Form, Operand};
use super::{Exec, Fallible};
use crate::gofmt::{self, Methods};
use crate::meter::ENTRY_BYTES;
use crate::parse::ast::{Action, Body, Branch, Node, TemplateCall, Variable};
use crate::parse::render::Place;
use crate::types::GoType;
use crate::value::Value;

/// A buffer for printed values that is larger than this is not kept.
const MOST_KEPT: usize = 4 << 10;

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

impl<'t> Exec<'t, '_> {
    pub(super) fn walk_body(&mut self, dot: &Operand, body: &'t Body) -> Fallible<Flow> {
        for node in &body.nodes {
            self.step()?;
            let (mark, variables) = (self.meter.mark(), self.variables.len());
            let flow = match node {
                Node::Text(start, end) => {
                    let tree = self.tree;
                    self.write(&tree.source[*start as usize..*end as usize])?;
                    Flow::Next
                }
                Node::Action(action) => self.walk_action(dot, action)?,
                Node::If(branch) => self.walk_if(dot, branch)?,
                Node::With(branch) => self.walk_with(dot, branch)?,
                Node::Range(branch) => self.walk_range(dot, branch)?,
                Node::Template(call) => self.walk_template(dot, call)?,
                Node::Break => Flow::Break,
                Node::Continue => Flow::Continue,
            };
            if self.variables.len() == variables {
                self.meter.release_to(mark);
            }
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn walk_action(&mut self, dot: &Operand, action: &'t Action) -> Fallible<Flow> {
        self.at(Place::Action(action));
        // Declared variables live on until the enclosing end.
        let value = self.eval_pipeline(dot, &action.pipe)?;
        if action.pipe.declared.is_empty() {
            self.at(Place::Action(action));
            self.print(&value, action)?;
        }
        Ok(Flow::Next)
    }

    fn print(&mut self, operand: &Operand, action: &'t Action) -> Fallible<()> {
        match &operand.value {
            _ if operand.is_invalid() => self.write(b"<no value>"),
            Value::String(text) => self.write(text.as_bytes()),
            Value::Func(_) => {
                let text = Place::Action(action).text(self.tree);
                let type_name = operand.value.type_name();
                self.fail(format!("can't print {text} of type {type_name}"))
            }
            value => {
                let methods = match operand.form {
                    Form::Addressable => Methods::ByAddress,
                    _ => Methods::Own,
                };
                let mut text = std::mem::take(&mut self.printed);
                text.clear();
                let printed = gofmt::append_printable(&mut text, value, methods, self.meter);
                if let Err(error) = printed {
                    return self.used_up(error);
                }
                let written = self.write(&text);
                if text.capacity() <= MOST_KEPT {
                    self.printed = text;
                }
                written
            }
        }
    }

    fn walk_if(&mut self, dot: &Operand, branch: &'t Branch) -> Fallible<Flow> {
        self.at(Place::If(branch));
        let mark = self.variables.len();
        let value = self.eval_pipeline(dot, &branch.pipe)?;
        let flow = if value.value.is_true() {
            self.check_stack()?;
            self.walk_body(dot, &branch.body)
        } else {
            self.walk_otherwise(dot, branch)
        };
        self.variables.truncate(mark);
        flow
    }

    fn walk_with(&mut self, dot: &Operand, branch: &'t Branch) -> Fallible<Flow> {
        self.at(Place::With(branch));
        let mark = self.variables.len();
        let value = self.eval_pipeline(dot, &branch.pipe)?;
        let flow = if value.value.is_true() {
            self.check_stack()?;
            self.walk_body(&value, &branch.body)
        } else {
            self.walk_otherwise(dot, branch)
        };
        self.variables.truncate(mark);
        flow
    }

    fn walk_otherwise(&mut self, dot: &Operand, branch: &'t Branch) -> Fallible<Flow> {
        match &branch.otherwise {
            Some(body) => {
                self.check_stack()?;
                self.walk_body(dot, body)
            }
            None => Ok(Flow::Next),
        }
    }

    fn walk_range(&mut self, dot: &Operand, branch: &'t Branch) -> Fallible<Flow> {
        self.at(Place::Range(branch));
        self.check_stack()?;
        let outer = self.variables.len();
        let value = self.eval_pipeline(dot, &branch.pipe)?;
        let entered = self.iterate(&value, branch);
        let flow = match entered {
            Ok(Some(flow)) => Ok(flow),
            // A break in the else part leaves this range too, not the one around it.
            Ok(None) => self.walk_otherwise(dot, branch).map(|flow| match flow {
                Flow::Break => Flow::Next,
                flow => flow,
            }),
            Err(error) => Err(error),
        };
        self.variables.truncate(outer);
        flow
    }

    /// Runs the body for each element. `None` when there was none.
    fn iterate(&mut self, value: &Operand, branch: &'t Branch) -> Fallible<Option<Flow>> {
        let basic = match &value.value {
            Value::Object(object) => object.basic(),
            _ => None,
        };
        match basic.as_ref().unwrap_or(&value.value) {
            Value::Nil => Ok(None),
            Value::List(list) => {
                let element = list.go_type().element().unwrap_or(GoType::Any);
                let items = match self.meter.items(list) {
                    Ok(items) => items,
                    Err(exceeded) => return self.used_up(exceeded),
                };
                let elements = items.iter().enumerate().map(|(index, item)| {
                    let index = i64::try_from(index).unwrap_or(i64::MAX);
                    (
                        Operand::concrete(Value::Int(index)),
                        Operand::in_place(item.clone(), element),
                    )
                });
                self.run_all(elements, branch)
            }
            Value::Map(map) => {
                let element = map.go_type().element().unwrap_or(GoType::Any);
                if let Err(exceeded) = self.meter.charge(map.len() * ENTRY_BYTES) {
                    return self.used_up(exceeded);
                }
                let entries = map.snapshot().into_iter().map(|(key, value)| {
                    (
                        Operand::concrete(Value::String(key)),
                        Operand::of_type(value, element),
                    )
                });
                self.run_all(entries, branch)
            }
            other => match integers(other) {
                Some(_) if branch.pipe.declared.len() > 1 => {
                    let text = self.shown(&value.value)?;
                    self.fail(format!(
                        "can't use {text} to iterate over more than one variable"
                    ))
                }
                Some(numbers) => {
                    let numbers = numbers.map(|n| (Operand::INVALID, Operand::concrete(n)));
                    self.run_all(numbers, branch)
                }
                None => {
                    let text = self.shown(&value.value)?;
                    self.fail(format!("range can't iterate over {text}"))
                }
            },
        }
    }

    /// `%v` of a value, for messages.
    fn shown(&self, value: &Value) -> Fallible<String> {
        let mut out = Vec::new();
        match gofmt::append_printable(&mut out, value, Methods::BehindPointer, self.meter) {
            Ok(()) => Ok(String::from_utf8_lossy(&out).into_owned()),
            Err(error) => self.used_up(error),
        }
    }

    fn run_all(
        &mut self,
        elements: impl Iterator<Item = (Operand, Operand)>,
        branch: &'t Branch,
    ) -> Fallible<Option<Flow>> {
        let mark = self.variables.len();
        let mut entered = None;
        for (index, element) in elements {
            entered = Some(Flow::Next);
            self.step()?;
            self.bind(branch, index, &element)?;
            let values = self.meter.mark();
            let flow = self.walk_body(&element, &branch.body)?;
            self.variables.truncate(mark);
            self.meter.release_to(values);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(entered)
    }

    /// Sets the variables of a range for one round.
    fn bind(&mut self, branch: &'t Branch, index: Operand, element: &Operand) -> Fallible<()> {
        match (branch.pipe.declared.as_slice(), branch.pipe.assigns) {
            ([], _) => {}
            ([only], true) => self.set_variable(only, element.clone())?,
            ([first, second, ..], true) => {
                self.set_variable(first, index)?;
                self.set_variable(second, element.clone())?;
            }
            ([_], false) => self.set_from_top(1, element.clone()),
            ([..], false) => {
                self.set_from_top(1, element.clone());
                self.set_from_top(2, index);
            }
        }
        Ok(())
    }

    fn set_from_top(&mut self, distance: usize, value: Operand) {
        let place = self.variables.len().checked_sub(distance);
        if let Some(slot) = place.and_then(|index| self.variables.get_mut(index)) {
            slot.1 = value;
        }
    }

    /// Overwrites the innermost variable of that name.
    pub(super) fn set_variable(&mut self, variable: &Variable, value: Operand) -> Fallible<()> {
        let visible = self.variables[self.frame..].iter_mut().rev();
        for slot in visible {
            if slot.0 == variable.id {
                if value.value.holds_memory() {
                    self.meter.keep();
                }
                slot.1 = value;
                return Ok(());
            }
        }
        self.fail(format!("undefined variable: {}", variable.name))
    }

    fn walk_template(&mut self, dot: &Operand, call: &'t TemplateCall) -> Fallible<Flow> {
        self.at(Place::Template(call));
        let Some(tree) = self.templates.tree(call.name.as_bytes()) else {
            let name = gofmt::quote(call.name.as_bytes());
            return self.fail(format!("template {name} not defined"));
        };
        if !self.meter.enter() {
            let message = self.meter.depth_message();
            self.meter.leave();
            return self.fail(message);
        }
        let dot = match &call.pipe {
            Some(pipe) => self.eval_pipeline(dot, pipe)?,
            None => Operand::INVALID,
        };
        let (outer_tree, outer_frame, outer_place) = (self.tree, self.frame, self.place);
        let mark = self.variables.len();
        self.tree = tree;
        self.frame = mark;
        self.variables.push((0, dot.clone()));
        self.walk_body(&dot, &tree.root)?;
        self.variables.truncate(mark);
        self.meter.leave();
        self.tree = outer_tree;
        self.frame = outer_frame;
        self.place = outer_place;
        Ok(Flow::Next)
    }
}

/// `0, 1, … n-1` with the type of `n`.
fn integers(value: &Value) -> Option<Box<dyn Iterator<Item = Value>>> {
    macro_rules! count {
        ($($variant:ident),*) => {
            match value {
                $(Value::$variant(n) => Some(Box::new((0..*n).map(Value::$variant))),)*
                _ => None,
            }
        };
    }
    count!(
        Int, Int8, Int16, Int32, Int64, Uint, Uint8, Uint16, Uint32, Uint64
    )
}

impl Operand {
    /// Whether the operand holds a plain value of this form.
    pub(super) fn is_plain(&self) -> bool {
        !matches!(self.form, Form::Missing | Form::Invalid)
    }
}
