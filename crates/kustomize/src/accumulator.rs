//! What gathers while kustomizations include one another: objects, configuration and vars.

use std::rc::Rc;

use crate::config::TransformerConfig;
use crate::error::{Result, Within};
use crate::loader::Loader;
use crate::meter::Meter;
use crate::options::{Options, Plugins};
use crate::paths::join;
use crate::reader::Reader;
use crate::resmap::ResMap;
use crate::schema::Schemas;
use crate::vars::VarSet;
use crate::yaml_io;

/// What all kustomizations of a build share.
pub struct Context<'a> {
    pub options: &'a Options,
    pub plugins: Plugins<'a>,
    pub schemas: Rc<Schemas>,
    pub reader: Reader<'a>,
    pub meter: &'a Meter<'a>,
}

/// Objects, and the rules they bring along.
pub struct Accumulator {
    pub resources: ResMap,
    pub config: Config,
    pub vars: VarSet,
}

/// Transformer configuration that is copied only when it is more than the built-in one.
#[derive(Clone)]
pub enum Config {
    /// Nothing yet.
    Empty,
    /// The built-in one.
    Builtin,
    /// With additions.
    Custom(Rc<TransformerConfig>),
}

impl Config {
    /// All of it.
    pub fn get<'a>(&'a self, context: &Context<'_>) -> &'a TransformerConfig {
        static EMPTY: std::sync::OnceLock<TransformerConfig> = std::sync::OnceLock::new();
        match self {
            Config::Empty => EMPTY.get_or_init(TransformerConfig::default),
            Config::Builtin => TransformerConfig::builtin(context.options.release),
            Config::Custom(custom) => custom,
        }
    }

    /// Adds another configuration.
    pub fn merge(&mut self, other: &Config, context: &Context<'_>) -> Result<()> {
        match (&*self, other) {
            (_, Config::Empty) | (Config::Builtin, Config::Builtin) => {}
            (Config::Empty, Config::Builtin) => *self = Config::Builtin,
            _ => {
                let budget = context.meter.budget;
                budget.charge(self.get(context).bytes())?;
                let mut merged = self.get(context).clone();
                merged.merge(other.get(context), budget)?;
                *self = Config::Custom(Rc::new(merged));
            }
        }
        Ok(())
    }

    /// The built-in configuration and what files add to it.
    pub fn with_files(
        paths: &[String],
        loader: &Loader<'_>,
        context: &Context<'_>,
    ) -> Result<Config> {
        if paths.is_empty() {
            return Ok(Config::Builtin);
        }
        let budget = context.meter.budget;
        let mut added = TransformerConfig::default();
        for path in paths {
            let content = loader.load(path)?;
            let mut read = || {
                let (json, _held) = yaml_io::sigs_json(&content, budget)?;
                added.merge(&TransformerConfig::from_json(&json)?, budget)
            };
            read().in_file(|| join(loader.root(), path))?;
        }
        let builtin = TransformerConfig::builtin(context.options.release);
        budget.charge(builtin.bytes())?;
        let mut config = builtin.clone();
        config.merge(&added, budget)?;
        Ok(Config::Custom(Rc::new(config)))
    }
}

impl Accumulator {
    /// Nothing yet.
    pub fn new(context: &Context<'_>) -> Self {
        Accumulator {
            resources: ResMap::new(Rc::clone(&context.schemas)),
            config: Config::Empty,
            vars: VarSet::default(),
        }
    }

    /// Takes over what an included kustomization has gathered.
    pub fn merge(&mut self, other: Accumulator, context: &Context<'_>) -> Result<()> {
        let has_gaps = self.resources.has_gaps() || other.resources.has_gaps();
        if self.resources.is_empty() {
            self.resources = other.resources;
            self.resources.check_unique()?;
        } else {
            self.resources
                .append_all(other.resources.into_resources())?;
        }
        if has_gaps {
            self.resources.note_gap();
        }
        self.config.merge(&other.config, context)?;
        self.vars.merge(other.vars)
    }
}
