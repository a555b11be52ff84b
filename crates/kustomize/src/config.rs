//! Transformer configuration: the built-in field specs, and what `configurations` adds.

use std::sync::OnceLock;

use everflow_json::Value;
use everflow_limits::Budget;

use crate::Release;
use crate::decode::{Fields, STRICT_PLUGIN};
use crate::error::{Result, Within};
use crate::fieldspec::{self, FieldSpec, gvk_from_words, merge_spec, merge_specs};
use crate::resid::Gvk;
use crate::selector::read_gvk;

/// The fields each transformer changes.
#[derive(Clone, Debug, Default)]
pub struct TransformerConfig {
    pub name_prefix: Vec<FieldSpec>,
    pub name_suffix: Vec<FieldSpec>,
    pub namespace: Vec<FieldSpec>,
    pub common_labels: Vec<FieldSpec>,
    pub labels: Vec<FieldSpec>,
    pub template_labels: Vec<FieldSpec>,
    pub volume_claim_template_labels: Vec<FieldSpec>,
    pub common_annotations: Vec<FieldSpec>,
    pub name_reference: Vec<NameReference>,
    pub var_reference: Vec<FieldSpec>,
    pub images: Vec<FieldSpec>,
    pub replicas: Vec<FieldSpec>,
}

/// The fields that hold the name of an object of some kind.
#[derive(Clone, Debug, Default)]
pub struct NameReference {
    /// The kind that is referred to.
    pub target: Gvk,
    /// The fields that refer to it.
    pub referrers: Vec<FieldSpec>,
}

const VOLUME_CLAIMS: &str = "spec/volumeClaimTemplates[]/metadata/labels";

impl TransformerConfig {
    /// The built-in configuration.
    pub fn builtin(release: Release) -> &'static TransformerConfig {
        static V5_8: OnceLock<TransformerConfig> = OnceLock::new();
        static NEXT: OnceLock<TransformerConfig> = OnceLock::new();
        match release {
            Release::V5_8 => V5_8.get_or_init(builtin_config),
            Release::Next => NEXT.get_or_init(|| {
                let mut config = builtin_config();
                let is_claim = |spec: &FieldSpec| spec.path() == VOLUME_CLAIMS;
                config.volume_claim_template_labels = config
                    .template_labels
                    .iter()
                    .filter(|spec| is_claim(spec))
                    .cloned()
                    .collect();
                config.template_labels.retain(|spec| !is_claim(spec));
                config
            }),
        }
    }

    /// Reads a configuration file that has been turned into JSON.
    pub fn from_json(value: &Value) -> Result<Self> {
        let mut fields = Fields::new(value, "TransformerConfig", STRICT_PLUGIN)?;
        let mut config = TransformerConfig::default();
        for (name, specs) in config.lists_mut() {
            *specs = fields.objects(name, FieldSpec::read)?;
        }
        config.name_reference = fields.objects("nameReference", |fields| {
            Ok(NameReference {
                target: read_gvk(fields)?,
                referrers: fields.objects("fieldSpecs", FieldSpec::read)?,
            })
        })?;
        fields.finish()?;
        config.sort();
        Ok(config)
    }

    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        let references = self.name_reference.iter();
        let references = references.map(|it| size_of_val(it) + fieldspec::bytes(&it.referrers));
        let lists = self.lists().into_iter().map(fieldspec::bytes);
        lists.chain(references).sum()
    }

    /// Adds another configuration, which is charged.
    pub fn merge(&mut self, other: &TransformerConfig, budget: &Budget) -> Result<()> {
        budget.charge(other.bytes())?;
        let mut other_copy = other.clone();
        for ((_, specs), (name, more)) in self.lists_mut().into_iter().zip(other_copy.lists_mut()) {
            merge_specs(specs, more, budget).within(|| {
                let (first, rest) = name.split_at(1);
                format!("failed to merge {}{rest} fieldSpec", first.to_uppercase())
            })?;
        }
        for reference in &other.name_reference {
            self.add_name_reference(reference, budget)?;
        }
        self.sort();
        Ok(())
    }

    /// Adds fields that refer to one kind.
    pub fn add_name_reference(&mut self, reference: &NameReference, budget: &Budget) -> Result<()> {
        budget.check()?;
        let mut found = false;
        for known in &mut self.name_reference {
            if known.target == reference.target {
                found = true;
                for spec in &reference.referrers {
                    budget.check()?;
                    merge_spec(&mut known.referrers, spec)
                        .within(|| "failed to merge NameReference fieldSpec".to_owned())?;
                }
            }
        }
        if !found {
            self.name_reference.push(reference.clone());
        }
        Ok(())
    }

    fn sort(&mut self) {
        for (_, specs) in self.lists_mut() {
            specs.sort_by_cached_key(|spec| spec.gvk.sort_key());
        }
        self.name_reference
            .sort_by_cached_key(|reference| reference.target.sort_key());
    }

    fn lists(&self) -> [&[FieldSpec]; 11] {
        [
            &self.name_prefix,
            &self.name_suffix,
            &self.namespace,
            &self.common_annotations,
            &self.common_labels,
            &self.labels,
            &self.template_labels,
            &self.volume_claim_template_labels,
            &self.var_reference,
            &self.images,
            &self.replicas,
        ]
    }

    fn lists_mut(&mut self) -> [(&'static str, &mut Vec<FieldSpec>); 11] {
        [
            ("namePrefix", &mut self.name_prefix),
            ("nameSuffix", &mut self.name_suffix),
            ("namespace", &mut self.namespace),
            ("commonAnnotations", &mut self.common_annotations),
            ("commonLabels", &mut self.common_labels),
            ("labels", &mut self.labels),
            ("templateLabels", &mut self.template_labels),
            (
                "volumeClaimTemplateLabels",
                &mut self.volume_claim_template_labels,
            ),
            ("varReference", &mut self.var_reference),
            ("images", &mut self.images),
            ("replicas", &mut self.replicas),
        ]
    }
}

fn builtin_config() -> TransformerConfig {
    let mut config = TransformerConfig::default();
    let mut section = "";
    for line in include_str!("../data/field_specs.txt").lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some(spec) = FieldSpec::from_table_line(line)
            && !line.starts_with('#')
        {
            for (name, specs) in config.lists_mut() {
                if name == section {
                    specs.push(spec.clone());
                }
            }
        }
    }
    for line in include_str!("../data/name_references.txt").lines() {
        if let Some(rest) = line.strip_prefix("target ") {
            let target = gvk_from_words(&mut rest.split_ascii_whitespace()).unwrap_or_default();
            config.name_reference.push(NameReference {
                target,
                referrers: Vec::new(),
            });
        } else if let Some(spec) = FieldSpec::from_table_line(line)
            && line.starts_with(' ')
            && let Some(reference) = config.name_reference.last_mut()
        {
            reference.referrers.push(spec);
        }
    }
    config.sort();
    // Merging drops what is there twice.
    let mut merged = TransformerConfig::default();
    match merged.merge(&config, &Budget::unlimited()) {
        Ok(()) => merged,
        Err(_) => config,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_complete() {
        let config = TransformerConfig::builtin(Release::V5_8);
        assert_eq!(config.name_prefix.len(), 1);
        assert_eq!(config.replicas.len(), 4);
        assert_eq!(config.images.len(), 6);
        assert_eq!(config.name_reference.len(), 16);
        let referrers: usize = config
            .name_reference
            .iter()
            .map(|r| r.referrers.len())
            .sum();
        assert_eq!(referrers, 167);
        assert!(config.var_reference.len() > 50);
        let next = TransformerConfig::builtin(Release::Next);
        assert_eq!(next.volume_claim_template_labels.len(), 1);
        assert_eq!(next.template_labels.len() + 1, config.template_labels.len());
    }
}
