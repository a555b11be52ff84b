//! What an execution has used so far, held against its limits and its budget.

use std::cell::Cell;
use std::rc::Rc;

use everflow_limits::{Budget, Exceeded};

use crate::error::{FuncError, TOO_DEEP};
use crate::exec::Limits;
use crate::list::List;
use crate::map::Map;
use crate::stack::StackMeter;
use crate::text::GoStr;
use crate::types::GoType;
use crate::value::Value;

/// Memory is taken from the budget, and given back, in pieces of at least this size.
const PIECE: usize = 64 << 10;
/// The budget is asked whether to go on once in so many steps.
const STEPS_BETWEEN_CHECKS: u64 = 64;
/// Arguments up to this size are not charged while a function runs.
const SMALL_ARGUMENTS: usize = PIECE;

/// Going through so many bytes takes about as long as a step.
pub const BYTES_OF_A_STEP: usize = 256;

/// Bytes of a value in a list.
pub const ITEM_BYTES: usize = size_of::<Value>();
/// Bytes of an entry of a map, with the room that its tree leaves free.
pub const ENTRY_BYTES: usize = LEAF_BYTES / 6;
/// Bytes of the least tree of a map that is not empty.
const LEAF_BYTES: usize = 11 * size_of::<(GoStr, Value)>() + 16;
/// Bytes of an item or entry of a JSON tree.
pub const JSON_BYTES: usize = size_of::<(everflow_json::Text, everflow_json::Value)>();
/// Bytes of a list or map beside what it holds.
pub const CONTAINER_BYTES: usize = 96;
/// Bytes of an object such as a time or a version.
const OBJECT_BYTES: usize = 256;
/// Text up to this length stands in its value.
pub(crate) const SHORT_TEXT: usize = 23;

/// What may be used by all executions that share it, such as those of one chart, and what they use.
///
/// Memory is an estimate of what is held: what a statement makes is given back at its end, what it
/// gives to a variable when the variable ends, and what may be reachable from elsewhere (it was assigned
/// to an older variable, or put into a map) when the meter is dropped.
#[derive(Debug)]
pub struct Meter<'b> {
    limits: Limits,
    budget: &'b Budget,
    steps: Cell<u64>,
    output: Cell<u64>,
    text: Cell<u64>,
    depth: Cell<usize>,
    stack: StackMeter,
    /// Bytes of values.
    values: Cell<usize>,
    /// The bytes of values that are not given back any more.
    floor: Cell<usize>,
    /// The bytes of values that are charged for the arguments of calls under way.
    lent: Cell<usize>,
    /// Bytes of what is not a value: output, parsed templates.
    buffers: Cell<usize>,
    /// Bytes taken from the budget.
    taken: Cell<usize>,
}

impl<'b> Meter<'b> {
    /// Nothing used yet. The stack is measured from here on.
    pub fn new(limits: &Limits, budget: &'b Budget) -> Self {
        Meter {
            limits: limits.clone(),
            budget,
            steps: Cell::new(0),
            output: Cell::new(0),
            text: Cell::new(0),
            depth: Cell::new(0),
            stack: StackMeter::start(limits.stack_bytes),
            values: Cell::new(0),
            floor: Cell::new(0),
            lent: Cell::new(0),
            buffers: Cell::new(0),
            taken: Cell::new(0),
        }
    }

    /// What memory is taken from, and what says when to stop.
    pub fn budget(&self) -> &'b Budget {
        self.budget
    }

    /// Fails when the work should end.
    pub fn check(&self) -> Result<(), Exceeded> {
        self.budget.check()
    }

    /// Counts steps of work, such as values visited, and asks whether to go on.
    pub fn steps(&self, count: u64) -> Result<(), FuncError> {
        let before = self.steps.get();
        let steps = before.saturating_add(count);
        self.steps.set(steps);
        if steps > self.limits.steps {
            let limit = self.limits.steps;
            return Err(format!("exceeded the limit of {limit} execution steps").into());
        }
        if before / STEPS_BETWEEN_CHECKS != steps / STEPS_BETWEEN_CHECKS {
            self.budget.check()?;
        }
        Ok(())
    }

    /// Charges bytes of values that are about to be made.
    pub fn charge(&self, bytes: usize) -> Result<(), Exceeded> {
        let values = self.values.get().saturating_add(bytes);
        self.take(values.saturating_add(self.buffers.get()))?;
        self.values.set(values);
        Ok(())
    }

    /// Gives back bytes that were charged and are freed again.
    pub fn release(&self, bytes: usize) {
        self.release_to(self.values.get().saturating_sub(bytes));
    }

    /// Charges bytes that are freed when the answer is dropped: copies and texts on the way to a
    /// result.
    pub fn hold(&self, bytes: usize) -> Result<Held<'_>, Exceeded> {
        self.charge(bytes)?;
        Ok(Held { meter: self, bytes })
    }

    /// Holds nothing yet.
    pub fn nothing(&self) -> Held<'_> {
        Held {
            meter: self,
            bytes: 0,
        }
    }

    /// The bytes of values at the moment, for [`Meter::release_to`].
    pub fn mark(&self) -> usize {
        self.values.get()
    }

    /// Gives back what was charged since the mark, other than what has been [kept](Meter::keep).
    pub fn release_to(&self, mark: usize) {
        let values = mark.max(self.floor.get());
        if values < self.values.get() {
            self.values.set(values);
            self.give_back();
        }
    }

    /// Tells that whatever has been made may be reachable from now on by ways that nobody follows: a
    /// value was put into a map.
    pub fn keep(&self) {
        let values = self.values.get().saturating_sub(self.lent.get());
        self.floor.set(values.max(self.floor.get()));
    }

    /// Charges bytes that are neither a value nor part of one. They stay charged until they are
    /// [given back](Meter::drop_buffer).
    pub fn add_buffer(&self, bytes: usize) -> Result<(), Exceeded> {
        let buffers = self.buffers.get().saturating_add(bytes);
        self.take(buffers.saturating_add(self.values.get()))?;
        self.buffers.set(buffers);
        Ok(())
    }

    /// Gives back the bytes of a buffer that is freed.
    pub fn drop_buffer(&self, bytes: usize) {
        self.buffers.set(self.buffers.get().saturating_sub(bytes));
        self.give_back();
    }

    /// Sees to it that so many bytes are taken from the budget.
    #[inline]
    fn take(&self, wanted: usize) -> Result<(), Exceeded> {
        match wanted <= self.taken.get() {
            true => Ok(()),
            false => self.take_more(wanted - self.taken.get()),
        }
    }

    #[cold]
    fn take_more(&self, missing: usize) -> Result<(), Exceeded> {
        let ample = missing.max(PIECE);
        let bytes = match self.budget.charge(ample) {
            Ok(()) => ample,
            Err(Exceeded::Stopped) => return Err(Exceeded::Stopped),
            // Near the limit every byte counts.
            Err(_) => {
                self.budget.charge(missing)?;
                missing
            }
        };
        self.taken.set(self.taken.get() + bytes);
        Ok(())
    }

    #[inline]
    fn give_back(&self) {
        let used = self.values.get() + self.buffers.get();
        let spare = self.taken.get() - used;
        if spare > 4 * PIECE {
            let bytes = spare - PIECE;
            self.budget.release(bytes);
            self.taken.set(self.taken.get() - bytes);
        }
    }

    /// Counts output.
    pub(crate) fn write(&self, bytes: usize) -> Result<(), FuncError> {
        self.output.set(self.output.get() + bytes as u64);
        if self.output.get() > self.limits.output_bytes {
            let limit = self.limits.output_bytes;
            return Err(format!("exceeded the limit of {limit} bytes of output").into());
        }
        Ok(())
    }

    /// Charges what a function that makes text, lists or maps is given, since it makes about as much.
    /// Functions that make more charge the rest themselves.
    pub(crate) fn before_call<'v>(
        &self,
        result: GoType,
        args: impl IntoIterator<Item = &'v Value>,
    ) -> Result<Call, FuncError> {
        let mut given = 0;
        for arg in args {
            match arg {
                Value::String(text) if text.as_str().is_some() => given += text.len(),
                // Replacement characters take more.
                Value::String(bytes) => given += 3 * bytes.len(),
                Value::List(list) => given += self.items(list)?.len() * ITEM_BYTES,
                _ => {}
            }
        }
        let makes = !matches!(result, GoType::Bool | GoType::Int | GoType::Int64);
        let mark = self.mark();
        if given <= SMALL_ARGUMENTS {
            return Ok(Call { mark, given: 0 });
        }
        self.steps((given / BYTES_OF_A_STEP) as u64)?;
        // A buffer, and the text that is made of it.
        let given = if makes { 2 * given } else { 0 };
        self.check()?;
        self.charge(given)?;
        self.lent.set(self.lent.get() + given);
        Ok(Call { mark, given })
    }

    /// Charges what a function has made, unless it did so itself.
    pub(crate) fn after_call(&self, call: &Call, result: &Value) -> Result<(), FuncError> {
        self.lent.set(self.lent.get().saturating_sub(call.given));
        self.release(call.given);
        let made = call.mark.saturating_add(made_bytes(result));
        if made > self.mark() {
            self.charge(made - self.mark())?;
        }
        if let Value::String(text) = result {
            self.text.set(self.text.get() + text.len() as u64);
            if self.text.get() > self.limits.text_bytes {
                let limit = self.limits.text_bytes;
                let message =
                    format!("exceeded the limit of {limit} bytes of text made by functions");
                return Err(message.into());
            }
        }
        Ok(())
    }

    /// The items of a list. Those of a byte slice become values only now, and are charged.
    pub fn items<'l>(&self, list: &'l List) -> Result<&'l [Value], Exceeded> {
        let unmade = list.unmade_items();
        if unmade > 0 {
            self.add_buffer(unmade * ITEM_BYTES)?;
        }
        Ok(list.items())
    }

    /// Goes one template deeper. False at the bound.
    pub(crate) fn enter(&self) -> bool {
        self.depth.set(self.depth.get() + 1);
        self.depth.get() <= self.limits.depth && !self.stack.is_exhausted()
    }

    pub(crate) fn leave(&self) {
        self.depth.set(self.depth.get() - 1);
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth.get()
    }

    pub(crate) fn stack_is_exhausted(&self) -> bool {
        self.stack.is_exhausted()
    }

    pub(crate) fn depth_message(&self) -> String {
        format!("{TOO_DEEP} ({})", self.depth.get())
    }
}

/// Bytes that are charged for as long as this lives.
#[derive(Debug)]
pub struct Held<'m> {
    meter: &'m Meter<'m>,
    bytes: usize,
}

impl Held<'_> {
    /// Charges for more.
    pub fn add(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.meter.charge(bytes)?;
        self.bytes += bytes;
        Ok(())
    }

    /// Charges for a buffer that has come to hold `length` bytes, in pieces. While a buffer grows to
    /// twice its size, the old one is there, too.
    #[inline]
    pub fn grow_to(&mut self, length: usize) -> Result<(), Exceeded> {
        let wanted = length.saturating_mul(3);
        match wanted <= self.bytes.saturating_add(PIECE) {
            true => Ok(()),
            false => self.add(wanted - self.bytes),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.meter.release(self.bytes);
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        self.budget.release(self.taken.get());
    }
}

/// What was charged at the start of a call.
pub(crate) struct Call {
    mark: usize,
    given: usize,
}

/// The bytes of a map with so many entries beside its value.
pub fn map_bytes(len: usize) -> usize {
    CONTAINER_BYTES + if len > 0 { LEAF_BYTES } else { 0 } + len * ENTRY_BYTES
}

/// The bytes that one more entry adds to a map.
pub fn entry_bytes(map: &Map) -> usize {
    ENTRY_BYTES + if map.is_empty() { LEAF_BYTES } else { 0 }
}

/// The bytes of a text beside its value.
pub fn text_bytes(len: usize) -> usize {
    match len <= SHORT_TEXT {
        true => 0,
        false => len + 16,
    }
}

/// What a function made that returns this value; nothing where others hold the value, too. Only the
/// value itself counts, not what it holds.
fn made_bytes(result: &Value) -> usize {
    match result {
        Value::String(text) => text_bytes(text.len()),
        Value::List(list) if !list.is_shared() => CONTAINER_BYTES + list.len() * ITEM_BYTES,
        Value::Map(map) if !map.is_shared() => map_bytes(map.len()),
        Value::Object(object) if Rc::strong_count(object) == 1 => OBJECT_BYTES,
        _ => 0,
    }
}
