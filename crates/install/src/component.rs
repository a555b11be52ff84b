//! Flux's controllers, and what of them this program does.

use crate::error::Error;

/// A controller of Flux that this program stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// source-controller
    Source,
    /// kustomize-controller
    Kustomize,
    /// helm-controller
    Helm,
    /// notification-controller
    Notification,
}

/// Flux's controllers that have no counterpart here yet.
const UNKNOWN_HERE: [&str; 3] = [
    "image-reflector-controller",
    "image-automation-controller",
    "source-watcher",
];

impl Component {
    /// All of them, in Flux's order.
    pub const ALL: [Component; 4] = [
        Component::Source,
        Component::Kustomize,
        Component::Helm,
        Component::Notification,
    ];

    /// What Flux calls it.
    pub fn name(self) -> &'static str {
        match self {
            Component::Source => "source-controller",
            Component::Kustomize => "kustomize-controller",
            Component::Helm => "helm-controller",
            Component::Notification => "notification-controller",
        }
    }

    /// The kinds whose controllers do its work.
    pub fn kinds(self) -> &'static [&'static str] {
        match self {
            Component::Source => &[
                "GitRepository",
                "OCIRepository",
                "HelmRepository",
                "HelmChart",
                "Bucket",
            ],
            Component::Kustomize => &["Kustomization"],
            Component::Helm => &["HelmRelease"],
            Component::Notification => &["Receiver"],
        }
    }

    /// Reads Flux's name of a controller.
    ///
    /// # Errors
    /// A controller that this program does not stand for, or no controller at all.
    pub fn parse(name: &str) -> Result<Component, Error> {
        if let Some(found) = Component::ALL.iter().find(|one| one.name() == name) {
            return Ok(*found);
        }
        let known: Vec<&str> = Component::ALL.iter().map(|one| one.name()).collect();
        let known = known.join(", ");
        let why = match is_of_flux(name) {
            true => format!("leave it away; there are {known}"),
            false => format!("Flux has no such controller; there are {known}"),
        };
        Err(Error::Component {
            name: name.to_owned(),
            why,
        })
    }

    /// Reads a list of such names; each counts once, empty ones do not.
    ///
    /// # Errors
    /// The first name that [`Component::parse`] refuses.
    pub fn parse_all<'n>(
        names: impl IntoIterator<Item = &'n String>,
    ) -> Result<Vec<Component>, Error> {
        let mut components = Vec::new();
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let component = Component::parse(name)?;
            if !components.contains(&component) {
                components.push(component);
            }
        }
        Ok(components)
    }
}

/// Whether Flux has a controller of this name that has no counterpart here.
pub(crate) fn is_of_flux(name: &str) -> bool {
    UNKNOWN_HERE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_without_counterpart_is_refused_by_name() {
        let error = Component::parse("source-watcher").unwrap_err();
        assert_eq!(error.reason(), "ComponentNotSupported");
        assert!(error.to_string().contains("leave it away"), "{error}");
        let error = Component::parse("sauce-controller").unwrap_err();
        assert!(error.to_string().contains("no such controller"), "{error}");
    }
}
