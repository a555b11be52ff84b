//! Reading files for those who write kustomizations.

use everflow_json::Value;
use everflow_limits::Budget;
use everflow_yaml::cost;

use crate::decode::LENIENT;
use crate::error::{Error, Result};
use crate::kustomization::Kustomization;
use crate::yaml_io;

/// Checks that a file holds objects only, as a build would read it.
///
/// # Errors
/// In the words of kustomize.
pub fn check_objects(content: &[u8], budget: &Budget) -> Result<()> {
    let objects = yaml_io::read_objects(content, budget)?;
    budget.release(objects.iter().map(cost::of_tree).sum());
    Ok(())
}

/// Reads a kustomization file as JSON. Its fields must have the right types; unknown ones and an
/// empty file pass.
///
/// # Errors
/// In the words of kustomize.
pub fn read_kustomization(content: &[u8], budget: &Budget) -> Result<Value> {
    let (json, _held) = yaml_io::sigs_json(content, budget)?;
    match Kustomization::from_json(&json, LENIENT) {
        Err(Error::Configuration(text)) if text == "kustomization.yaml is empty" => Ok(json),
        Err(error) => Err(error),
        Ok(_) => Ok(json),
    }
}
