//! `images`: names, tags and digests of container images.

use everflow_limits::Budget;
use everflow_yaml::{Node, Value, cost};

use super::SpecSet;
use crate::error::Result;
use crate::fieldspec::{Create, FieldSpec};
use crate::kustomization::Image;
use crate::node_ops::{self, raw_text, wrong_kind};
use crate::options::Release;
use crate::pattern::{self, Expression};
use crate::resmap::ResMap;

/// A change to all uses of an image.
pub struct ImageChange {
    image: Image,
    specs: SpecSet,
}

impl ImageChange {
    /// For the fields of the specs, and for containers anywhere.
    pub fn new(image: &Image, specs: &[FieldSpec]) -> Self {
        ImageChange {
            image: image.clone(),
            specs: SpecSet::new(specs),
        }
    }

    pub(super) fn apply(
        &self,
        resources: &mut ResMap,
        release: Release,
        budget: &Budget,
    ) -> Result<()> {
        let Some(matcher) = Matcher::new(&self.image.name, release) else {
            return Ok(());
        };
        let update = |node: &mut Node| self.update(node, &matcher, budget);
        for resource in resources.contents_mut() {
            budget.check()?;
            if resource.is_empty() || resource.gvk().kind == "CustomResourceDefinition" {
                continue;
            }
            update_containers(&mut resource.node, &update)?;
            let id = resource.id().clone();
            self.specs.walk(
                &mut resource.node,
                &id,
                Create::Nothing,
                budget,
                |_| true,
                update,
            )?;
        }
        Ok(())
    }

    fn update(&self, node: &mut Node, matcher: &Matcher, budget: &Budget) -> Result<()> {
        budget.check()?;
        node_ops::require_scalar(node)?;
        let text = raw_text(node);
        if !matcher.matches(text) {
            return Ok(());
        }
        let new = change(text, &self.image);
        budget.charge(cost::of_scalar(&new))?;
        budget.release(cost::of_scalar(text));
        node_ops::overwrite_untagged(node, new)
    }
}

/// Visits `containers` and `initContainers` wherever they are.
fn update_containers(node: &mut Node, update: &dyn Fn(&mut Node) -> Result<()>) -> Result<()> {
    match &mut node.value {
        Value::Mapping(mapping) => {
            for entry in &mut mapping.entries {
                if matches!(entry.value.value, Value::Scalar(_)) {
                    continue;
                }
                update_containers(&mut entry.value, update)?;
                if matches!(raw_text(&entry.key), "containers" | "initContainers")
                    && let Some(items) = entry.value.as_sequence_mut()
                {
                    for item in items {
                        update_image_of(item, update)?;
                    }
                }
            }
            Ok(())
        }
        Value::Sequence(items) => items
            .iter_mut()
            .filter(|item| !matches!(item.value, Value::Scalar(_)))
            .try_for_each(|item| update_containers(item, update)),
        _ => Ok(()),
    }
}

fn update_image_of(item: &mut Node, update: &dyn Fn(&mut Node) -> Result<()>) -> Result<()> {
    if let Some(mapping) = item.as_mapping_mut() {
        return mapping.get_mut("image").map_or(Ok(()), update);
    }
    if item.is_null() {
        return Ok(());
    }
    Err(wrong_kind("MappingNode", item))
}

/// Finds uses of an image whose name is an expression.
enum Matcher {
    Literal(String, Release),
    Expression(Expression),
}

impl Matcher {
    fn new(name: &str, release: Release) -> Option<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | ':' | '@');
        if name.chars().all(plain) {
            return Some(Matcher::Literal(name.to_owned(), release));
        }
        let digest = match release {
            Release::V5_8 => "sha256",
            Release::Next => "[a-zA-Z0-9]+([.+_-][a-zA-Z0-9]+)*",
        };
        let expression = format!("^{name}(:[a-zA-Z0-9_.{{}}-]*)?(@{digest}:[a-zA-Z0-9_.{{}}-]*)?$");
        pattern::compile(&expression).ok().map(Matcher::Expression)
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Matcher::Expression(expression) => expression.is_match(text),
            Matcher::Literal(name, release) => text
                .strip_prefix(name.as_str())
                .is_some_and(|rest| is_tag_and_digest(rest, *release)),
        }
    }
}

fn is_tag_and_digest(text: &str, release: Release) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '{' | '}' | '-');
    let after_tag = match text.strip_prefix(':') {
        Some(rest) => rest.trim_start_matches(word),
        None => text,
    };
    let Some(digest) = after_tag.strip_prefix('@') else {
        return after_tag.is_empty();
    };
    let Some((algorithm, value)) = digest.split_once(':') else {
        return false;
    };
    let known = match release {
        Release::V5_8 => algorithm == "sha256",
        Release::Next => algorithm
            .split(['.', '+', '_', '-'])
            .all(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric())),
    };
    known && value.chars().all(word)
}

fn change(text: &str, image: &Image) -> String {
    let (name, mut tag, mut digest) = split(text);
    let mut out = if image.new_name.is_empty() {
        name.to_owned()
    } else {
        image.new_name.clone()
    };
    let with_suffix;
    match (image.new_tag.is_empty(), image.digest.is_empty()) {
        (false, false) => (tag, digest) = (&image.new_tag, &image.digest),
        (false, true) => (tag, digest) = (&image.new_tag, ""),
        (true, false) => (tag, digest) = ("", &image.digest),
        (true, true) if !image.tag_suffix.is_empty() => {
            with_suffix = format!("{tag}{}", image.tag_suffix);
            (tag, digest) = (&with_suffix, "");
        }
        (true, true) => {}
    }
    if !tag.is_empty() {
        out.push(':');
        out.push_str(tag);
    }
    if !digest.is_empty() {
        out.push('@');
        out.push_str(digest);
    }
    out
}

/// Splits an image into name, tag and digest; a port of the host is part of the name.
fn split(image: &str) -> (&str, &str, &str) {
    let offset = match image.find('/') {
        Some(slash) if slash > 0 => slash,
        _ => 0,
    };
    let rest = &image[offset..];
    let at = rest.find('@').map(|index| index + offset);
    let colon = rest.find(':').map(|index| index + offset);
    match (colon, at) {
        (None, None) => (image, "", ""),
        (colon, Some(at)) if colon.is_none_or(|colon| at < colon) => {
            (&image[..at], "", &image[at + 1..])
        }
        (Some(colon), Some(at)) => (&image[..colon], &image[colon + 1..at], &image[at + 1..]),
        (Some(colon), None) => (&image[..colon], &image[colon + 1..], ""),
        (None, Some(at)) => (&image[..at], "", &image[at + 1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_split_and_changed() {
        assert_eq!(split("nginx"), ("nginx", "", ""));
        assert_eq!(
            split("host:5000/a/b:1@sha256:x"),
            ("host:5000/a/b", "1", "sha256:x")
        );
        assert_eq!(split("a@sha256:x"), ("a", "", "sha256:x"));
        let image = Image {
            new_name: "mirror/nginx".to_owned(),
            new_tag: "2".to_owned(),
            ..Image::default()
        };
        assert_eq!(change("nginx:1@sha256:x", &image), "mirror/nginx:2");
    }

    #[test]
    fn only_the_whole_name_fits() {
        let fits =
            |name: &str, text: &str| Matcher::new(name, Release::V5_8).unwrap().matches(text);
        assert!(fits("nginx", "nginx"));
        assert!(fits("nginx", "nginx:1.2"));
        assert!(fits("nginx", "nginx:1@sha256:abc"));
        assert!(!fits("nginx", "nginx2"));
        assert!(!fits("nginx", "my/nginx"));
        assert!(fits("my.*", "my/nginx:1"));
        assert!(!fits("nginx", "nginx@sha512:abc"));
    }
}
