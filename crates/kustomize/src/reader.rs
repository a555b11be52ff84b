//! Reading files, each text only once per cache.

use std::cell::RefCell;
use std::rc::Rc;

use everflow_yaml::Node;

use crate::cache::{Cache, Digest};
use crate::decode::Mode;
use crate::error::{Error, Result};
use crate::kustomization::{FILE_NAMES, Kustomization};
use crate::loader::Loader;
use crate::target::missing_kustomization;
use crate::yaml_io;

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

    /// The objects of a file.
    pub fn objects(&self, content: &[u8], path: &str) -> Result<Vec<Node>> {
        if content.len() > MAX_YAML {
            return Err(Error::Limit(format!(
                "file '{path}' has {} bytes, more than the {MAX_YAML} that a manifest may have",
                content.len()
            )));
        }
        let Some(cache) = self.cache else {
            return yaml_io::read_objects(content);
        };
        let digest = Digest::of(content);
        if let Some(objects) = cache.objects(&digest) {
            return Ok(objects.to_vec());
        }
        let objects = yaml_io::read_objects(content)?;
        cache.store_objects(digest, content.len(), &objects);
        Ok(objects)
    }

    /// The kustomization of a directory, and the name of its file.
    pub fn kustomization(
        &self,
        loader: &Loader<'_>,
        mode: Mode,
    ) -> Result<(Rc<Kustomization>, &'static str)> {
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
        let kustomization = yaml_io::sigs_json(&content)
            .and_then(|json| Kustomization::from_json(&json, mode))
            .map_err(|error| match &error {
                Error::Configuration(text) if text == "kustomization.yaml is empty" => error,
                _ => error.within("invalid Kustomization"),
            })?;
        self.warnings
            .borrow_mut()
            .extend(kustomization.warnings.iter().cloned());
        Ok((Rc::new(kustomization), name))
    }
}
