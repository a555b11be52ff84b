//! Sets of templates that know each other by name.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Error;
use crate::exec::execute;
use crate::function::Functions;
use crate::meter::Meter;
use crate::parse::ast::Tree;
use crate::parse::{Delimiters, Parse, parse};
use crate::text::GoStr;
use crate::value::Value;

/// What a missing map key evaluates to (`missingkey=…`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// No value, printed as `<no value>`; Go's default.
    #[default]
    Invalid,
    /// The zero value of the map's element type; what helm uses.
    Zero,
    /// An error; helm's strict mode.
    Error,
}

type Trees = HashMap<GoStr, Arc<Tree>>;

/// A set of parsed templates with the functions they call.
///
/// Sets are `Send` and `Sync`: parse once, execute anywhere. A clone shares everything that was
/// parsed before the last [`Templates::seal`], so `tpl` can parse into a clone of a large set at
/// little cost.
#[derive(Clone, Debug)]
pub struct Templates {
    name: Arc<str>,
    functions: Arc<Functions>,
    sealed: Arc<Trees>,
    own: Trees,
    parsed_bytes: usize,
    missing_key: MissingKey,
    delimiters: Delimiters,
}

impl Templates {
    /// An empty set. The name shows only in the error for templates that do not exist.
    pub fn new(name: &str, functions: Arc<Functions>) -> Self {
        Templates {
            name: name.into(),
            functions,
            sealed: Arc::default(),
            own: HashMap::new(),
            parsed_bytes: 0,
            missing_key: MissingKey::default(),
            delimiters: Delimiters::default(),
        }
    }

    /// Sets what missing map keys evaluate to.
    pub fn set_missing_key(&mut self, mode: MissingKey) {
        self.missing_key = mode;
    }

    /// Sets the marks around actions of texts parsed from now on; empty means `{{` and `}}`.
    pub fn set_delimiters(&mut self, left: &str, right: &str) {
        let pick = |given: &str, default: &str| match given {
            "" => default.to_owned(),
            given => given.to_owned(),
        };
        self.delimiters = Delimiters {
            left: pick(left, "{{"),
            right: pick(right, "}}"),
        };
    }

    /// Parses a text as the template `name`, together with the templates it defines. They replace
    /// templates of the same name, except that a blank one replaces nothing.
    ///
    /// The meter is charged for what is parsed as for a buffer of [`Templates::parsed_bytes`].
    pub fn parse(
        &mut self,
        name: &str,
        text: impl AsRef<[u8]>,
        meter: &Meter<'_>,
    ) -> Result<(), Error> {
        self.parse_shared(name, &Arc::from(text.as_ref()), meter)
    }

    /// As [`Templates::parse`], for a text that need not be copied to be kept.
    pub fn parse_shared(
        &mut self,
        name: &str,
        text: &Arc<[u8]>,
        meter: &Meter<'_>,
    ) -> Result<(), Error> {
        for (name, tree) in self.trees_of(name, text, meter)? {
            if self.tree(name.as_bytes()).is_some() && tree.is_blank() {
                continue;
            }
            self.own.insert(name, tree);
        }
        Ok(())
    }

    /// As [`Templates::parse`], but the text's own template replaces one of the same name even if
    /// it is blank: what Go does for a template made by `New`.
    pub fn parse_new(
        &mut self,
        name: &str,
        text: impl AsRef<[u8]>,
        meter: &Meter<'_>,
    ) -> Result<(), Error> {
        let text = Arc::from(text.as_ref());
        for (defined, tree) in self.trees_of(name, &text, meter)? {
            let is_own = defined.as_bytes() == name.as_bytes();
            if !is_own && self.tree(defined.as_bytes()).is_some() && tree.is_blank() {
                continue;
            }
            self.own.insert(defined, tree);
        }
        Ok(())
    }

    fn trees_of(
        &mut self,
        name: &str,
        text: &Arc<[u8]>,
        meter: &Meter<'_>,
    ) -> Result<Trees, Error> {
        let Parse { trees, bytes } = parse(name, text, &self.delimiters, &self.functions, meter)?;
        self.parsed_bytes += bytes;
        Ok(trees)
    }

    /// About the bytes of all that was parsed into this set, and into those that it was cloned from,
    /// without the texts.
    pub fn parsed_bytes(&self) -> usize {
        self.parsed_bytes
    }

    /// Makes clones cheap: what is there now is shared by all of them.
    pub fn seal(&mut self) {
        if self.own.is_empty() {
            return;
        }
        let mut all = (*self.sealed).clone();
        all.extend(std::mem::take(&mut self.own));
        self.sealed = Arc::new(all);
    }

    /// The name of the set.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The functions of the set.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Whether there is a template of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.tree(name.as_bytes()).is_some()
    }

    /// The names of all templates, sorted.
    pub fn names(&self) -> Vec<GoStr> {
        let mut names: Vec<GoStr> = self.sealed.keys().chain(self.own.keys()).cloned().collect();
        names.sort();
        names.dedup();
        names
    }

    /// Executes a template with `data` as dot and returns what it wrote. The meter goes on to count
    /// the capacity of that as a buffer.
    ///
    /// `state` belongs to the caller; functions reach it by [`crate::Context::state`].
    pub fn execute(
        &self,
        name: &str,
        data: &Value,
        state: &mut dyn Any,
        meter: &Meter<'_>,
    ) -> Result<Vec<u8>, Error> {
        execute(self, name, data, state, meter)
    }

    pub(crate) fn tree(&self, name: &[u8]) -> Option<&Tree> {
        let own = self.own.get(name);
        own.or_else(|| self.sealed.get(name)).map(AsRef::as_ref)
    }

    pub(crate) fn missing_key_mode(&self) -> MissingKey {
        self.missing_key
    }
}
