//! Choosing objects by type, name, namespace, labels and annotations.

use std::fmt;

use crate::decode::Fields;
use crate::error::Result;
use crate::labels::LabelSelector;
use crate::pattern::Pattern;
use crate::resid::{Gvk, ResId};

/// What a patch or replacement target says; the parts of the id are regular expressions.
#[derive(Clone, Debug, Default)]
pub struct Selector {
    pub id: ResId,
    pub annotation_selector: String,
    pub label_selector: String,
}

impl Selector {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Selector {
            id: read_id(fields)?,
            annotation_selector: fields.text("annotationSelector")?,
            label_selector: fields.text("labelSelector")?,
        })
    }

    /// True when no part of the id is given.
    pub fn has_empty_id(&self) -> bool {
        self.id == ResId::default()
    }

    /// Compiles all parts once.
    pub fn compile(&self) -> Result<SelectorPattern> {
        Ok(SelectorPattern {
            group: Pattern::anchored(&self.id.gvk.group)?,
            version: Pattern::anchored(&self.id.gvk.version)?,
            kind: Pattern::anchored(&self.id.gvk.kind)?,
            name: Pattern::anchored(&self.id.name)?,
            namespace: Pattern::anchored(&self.id.namespace)?,
        })
    }

    /// Compiles the label selector.
    pub fn labels(&self) -> Result<LabelSelector> {
        LabelSelector::parse(&self.label_selector)
    }

    /// Compiles the annotation selector.
    pub fn annotations(&self) -> Result<LabelSelector> {
        LabelSelector::parse(&self.annotation_selector)
    }
}

/// Reads `group`, `version`, `kind`, `name` and `namespace`.
pub(crate) fn read_id(fields: &mut Fields<'_>) -> Result<ResId> {
    Ok(ResId {
        gvk: read_gvk(fields)?,
        name: fields.text("name")?.into(),
        namespace: fields.text("namespace")?.into(),
        cluster_scoped: false,
    })
}

/// Reads `group`, `version` and `kind`.
pub(crate) fn read_gvk(fields: &mut Fields<'_>) -> Result<Gvk> {
    Ok(Gvk {
        group: fields.text("group")?.into(),
        version: fields.text("version")?.into(),
        kind: fields.text("kind")?.into(),
    })
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:a={}:l={}",
            self.id, self.annotation_selector, self.label_selector
        )
    }
}

/// A compiled selector.
#[derive(Clone, Debug)]
pub struct SelectorPattern {
    pub group: Pattern,
    pub version: Pattern,
    pub kind: Pattern,
    pub name: Pattern,
    pub namespace: Pattern,
}

impl SelectorPattern {
    /// True when the type fits.
    pub fn fits_gvk(&self, gvk: &Gvk) -> bool {
        self.kind.matches(&gvk.kind)
            && self.group.matches(&gvk.group)
            && self.version.matches(&gvk.version)
    }

    /// True when the whole id fits, with its namespace as written.
    pub fn fits_id(&self, id: &ResId) -> bool {
        self.fits_gvk(&id.gvk)
            && self.name.matches(&id.name)
            && self.namespace.matches(&id.namespace)
    }
}
