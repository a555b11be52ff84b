//! Reading files, each text only once per cache.

use std::cell::RefCell;
use std::rc::Rc;

use everflow_limits::Held;
use everflow_yaml::{Node, cost};

use crate::cache::{Cache, Digest};
use crate::decode::Mode;
use crate::error::{Error, Result, Within};
use crate::kustomization::{FILE_NAMES, Kustomization};
use crate::loader::Loader;
use crate::meter::Meter;
use crate::target::missing_kustomization;
use crate::yaml_io;

/// What a kustomization may take as settings, in times of its tree: a list of empty maps can stand for
/// many settings each.
const SETTINGS: usize = 6;

/// The largest file that is read as YAML.
const MAX_YAML: usize = 64 << 20;

/// Reads kustomizations and objects.
pub struct Reader<'a> {
    cache: Option<&'a Cache>,
    warnings: RefCell<Vec<String>>,
}

impl<'a> Reader<'a> {
    /// A reader that shares parsed files through a cache.
    pub fn new(cache: Option<&'a Cache>) -> Self {
        Reader {
            cache,
            warnings: RefCell::default(),
        }
    }

    /// What the real tool would have printed to standard error.
    pub fn take_warnings(&self) -> Vec<String> {
        self.warnings.take()
    }

    /// The objects of a file, which are charged and counted.
    pub fn objects(&self, content: &[u8], path: &str, meter: &Meter<'_>) -> Result<Vec<Node>> {
        let objects = self.read_objects(content, path, meter)?;
        meter.add_objects(objects.len())?;
        Ok(objects)
    }

    fn read_objects(&self, content: &[u8], path: &str, meter: &Meter<'_>) -> Result<Vec<Node>> {
        let budget = meter.budget;
        if content.len() > MAX_YAML {
            return Err(Error::Limit(format!(
                "file '{path}' has {} bytes, more than the {MAX_YAML} that a manifest may have",
                content.len()
            )));
        }
        let Some(cache) = self.cache else {
            return yaml_io::read_objects(content, budget);
        };
        let digest = Digest::of(content);
        if let Some((objects, bytes)) = cache.objects(&digest) {
            budget.charge(bytes)?;
            return Ok(objects.to_vec());
        }
        let objects = yaml_io::read_objects(content, budget)?;
        let bytes = objects.iter().map(cost::of_tree).sum();
        cache.store_objects(digest, bytes, &objects);
        Ok(objects)
    }

    /// The kustomization of a directory, the name of its file, and what is charged for it.
    pub fn kustomization<'l>(
        &self,
        loader: &Loader<'l>,
        mode: Mode,
    ) -> Result<(Rc<Kustomization>, &'static str, Held<'l>)> {
        let mut found = None;
        for name in FILE_NAMES {
            match loader.load(name) {
                Ok(_) if found.is_some() => {
                    return Err(Error::Configuration(format!(
                        "Found multiple kustomization files under: {}\n",
                        loader.root()
                    )));
                }
                Ok(content) => found = Some((content, name)),
                Err(error) if error.exceeded().is_some() => return Err(error),
                Err(_) => {}
            }
        }
        let Some((content, name)) = found else {
            return Err(missing_kustomization(loader.root()));
        };
        if content.len() > MAX_YAML {
            return Err(Error::Limit(format!(
                "file '{}/{name}' has more than {MAX_YAML} bytes",
                loader.root()
            )));
        }
        let budget = loader.meter().budget;
        let file = || format!("{}/{name}", loader.root());
        let held = budget.hold(SETTINGS * cost::of_reading(&content));
        let held = held.map_err(Error::from).in_file(file)?;
        let read = yaml_io::sigs_json(&content, budget);
        let kustomization = read
            .and_then(|(json, _held)| Kustomization::from_json(&json, mode))
            .in_file(file)
            .map_err(|error| match &error {
                Error::Configuration(text) if text == "kustomization.yaml is empty" => error,
                _ => error.within("invalid Kustomization"),
            })?;
        self.warnings
            .borrow_mut()
            .extend(kustomization.warnings.iter().cloned());
        Ok((Rc::new(kustomization), name, held))
    }
}
