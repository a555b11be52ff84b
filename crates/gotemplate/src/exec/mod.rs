//! Executes parsed templates.

mod builtin;
mod call;
mod compare;
mod escape;
mod eval;
mod index;
mod limits;
mod operand;
mod walk;

use std::any::Any;

use crate::error::{Error, FuncError};
use crate::meter::Meter;
use crate::parse::ast::Tree;
use crate::parse::render::Place;
use crate::templates::Templates;
use crate::value::Value;
pub use limits::{Limits, on_large_stack};
use operand::Operand;

/// What an output buffer begins with.
const FIRST_ROOM: usize = 256;

/// Errors are boxed on the way up, to keep results small.
type Fallible<T> = Result<T, Box<Error>>;

/// The execution of one template, with those it calls by `{{template}}`.
struct Exec<'t, 'r> {
    templates: &'t Templates,
    tree: &'t Tree,
    out: Vec<u8>,
    /// For the text of a value that is not text, reused.
    printed: Vec<u8>,
    /// Variables of all nested templates; the current one sees those from `frame` on.
    variables: Vec<(u32, Operand)>,
    frame: usize,
    /// The part being evaluated, for error texts.
    place: Place<'t>,
    state: &'r mut dyn Any,
    meter: &'r Meter<'r>,
}

/// Runs a template and returns what it wrote; the meter counts its capacity as a buffer.
pub(crate) fn execute(
    templates: &Templates,
    name: &str,
    data: &Value,
    state: &mut dyn Any,
    meter: &Meter<'_>,
) -> Result<Vec<u8>, Error> {
    let Some(tree) = templates.tree(name.as_bytes()) else {
        return Err(Error::NoTemplate {
            name: name.to_owned(),
            set: templates.name().to_owned(),
        });
    };
    let dot = Operand::of_value(data.clone());
    let mut exec = Exec {
        templates,
        tree,
        out: Vec::new(),
        printed: Vec::new(),
        variables: vec![(0, dot.clone())],
        frame: 0,
        place: Place::Body(&tree.root, 0),
        state,
        meter,
    };
    match exec.walk_body(&dot, &tree.root) {
        Ok(_) => Ok(exec.out),
        Err(error) => Err(*error),
    }
}

impl<'t> Exec<'t, '_> {
    fn at(&mut self, place: Place<'t>) {
        self.place = place;
    }

    fn fail<T>(&self, message: impl Into<String>) -> Fallible<T> {
        Err(self.error(message.into(), None))
    }

    fn error(&self, message: String, source: Option<FuncError>) -> Box<Error> {
        Box::new(Error::Exec {
            name: self.tree.name.to_str_lossy().into_owned(),
            location: self.tree.location(self.place.position()),
            context: self.place.text(self.tree),
            message,
            source: source.map(Box::new),
        })
    }

    /// Counts one step of work.
    fn step(&mut self) -> Fallible<()> {
        match self.meter.steps(1) {
            Ok(()) => Ok(()),
            Err(error) => self.used_up(error),
        }
    }

    /// Fails where a limit is reached.
    #[cold]
    fn used_up<T>(&self, error: impl Into<FuncError>) -> Fallible<T> {
        Err(self.error(String::new(), Some(error.into())))
    }

    /// Checks the native stack before going deeper.
    fn check_stack(&self) -> Fallible<()> {
        match self.meter.stack_is_exhausted() {
            false => Ok(()),
            true => self.fail(self.meter.depth_message()),
        }
    }

    /// Appends to the output.
    fn write(&mut self, text: &[u8]) -> Fallible<()> {
        let room = self.out.capacity();
        let missing = (self.out.len() + text.len()).saturating_sub(room);
        if missing > 0 {
            // The buffer at least doubles, and while it grows there are two.
            let larger = (room + missing.max(room)).max(FIRST_ROOM);
            if let Err(exceeded) = self.meter.add_buffer(larger) {
                return self.used_up(exceeded);
            }
            self.out.reserve_exact(larger - self.out.len());
            self.meter.drop_buffer(room);
        }
        self.out.extend_from_slice(text);
        match self.meter.write(text.len()) {
            Ok(()) => Ok(()),
            Err(error) => self.used_up(error),
        }
    }
}
