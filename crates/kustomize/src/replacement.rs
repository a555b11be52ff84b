//! `replacements`: copying a field of one object into fields of others.

use std::fmt;

use everflow_json::Value as Json;
use everflow_yaml::{Node, Value};

use crate::Release;
use crate::decode::Fields;
use crate::error::{Error, Result, Within};
use crate::node_ops::{self, is_null_or_empty, raw_text, untagged};
use crate::path::{Shape, lookup, lookup_mut, split_field_path, visit_matches};
use crate::resid::ResId;
use crate::resmap::ResMap;
use crate::resource::Resource;
use crate::selector::{Selector, SelectorPattern, read_id};
use crate::yaml_io;

const DEFAULT_FIELD: &str = "metadata.name";

/// One entry of `replacements`: a replacement, or the path of a file with some.
#[derive(Clone, Debug, Default)]
pub struct ReplacementField {
    pub path: String,
    pub replacement: Replacement,
}

/// Where a value comes from and where it goes.
#[derive(Clone, Debug, Default)]
pub struct Replacement {
    pub source: Option<Source>,
    pub source_value: Option<String>,
    pub targets: Option<Vec<Target>>,
}

/// The object and field a value is read from.
#[derive(Clone, Debug, Default)]
pub struct Source {
    pub id: ResId,
    pub field_path: String,
    pub options: Option<FieldOptions>,
}

/// The objects and fields a value is written to.
#[derive(Clone, Debug, Default)]
pub struct Target {
    pub select: Option<Selector>,
    pub reject: Vec<Selector>,
    pub field_paths: Vec<String>,
    pub options: Option<FieldOptions>,
}

/// How part of a value is used.
#[derive(Clone, Debug, Default)]
pub struct FieldOptions {
    pub delimiter: String,
    pub index: i64,
    pub create: bool,
}

impl ReplacementField {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(ReplacementField {
            path: fields.text("path")?,
            replacement: Replacement::read(fields)?,
        })
    }
}

impl Replacement {
    pub(crate) fn read(fields: &mut Fields<'_>) -> Result<Self> {
        let targets = fields.has("targets");
        Ok(Replacement {
            source: fields.object("source", |mut source| {
                let read = Source {
                    id: read_id(&mut source)?,
                    field_path: source.text("fieldPath")?,
                    options: source.object("options", FieldOptions::read)?,
                };
                source.finish()?;
                Ok(read)
            })?,
            source_value: fields.optional_text("sourceValue")?,
            targets: if targets {
                Some(fields.objects("targets", Target::read)?)
            } else {
                None
            },
        })
    }
}

impl Target {
    fn read(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Target {
            select: fields.object("select", |mut select| {
                let selector = Selector::read(&mut select)?;
                select.finish()?;
                Ok(selector)
            })?,
            reject: fields.objects("reject", Selector::read)?,
            field_paths: fields.texts("fieldPaths")?,
            options: fields.object("options", FieldOptions::read)?,
        })
    }
}

impl FieldOptions {
    fn read(mut fields: Fields<'_>) -> Result<Self> {
        let options = FieldOptions {
            delimiter: fields.text("delimiter")?,
            index: fields.integer("index")?,
            create: fields.flag("create")?,
        };
        fields.text("encoding")?;
        fields.finish()?;
        Ok(options)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        if !self.field_path.is_empty() {
            write!(f, ":{}", self.field_path)?;
        }
        match &self.options {
            Some(options) if !options.delimiter.is_empty() || options.create => write!(
                f,
                ":{}({}), create={}",
                options.delimiter, options.index, options.create
            ),
            _ => Ok(()),
        }
    }
}

/// Makes all replacements in order.
pub fn apply(resources: &mut ResMap, replacements: &[Replacement], release: Release) -> Result<()> {
    for replacement in replacements {
        let nothing = replacement.source.is_none() && replacement.source_value.is_none();
        let Some(targets) = replacement.targets.as_ref().filter(|_| !nothing) else {
            return Err(Error::Replacement(
                "replacements must specify a source and at least one target".to_owned(),
            ));
        };
        let mut value = source_value(resources, replacement)?;
        for target in targets {
            apply_to_target(resources, &mut value, target, release)?;
        }
    }
    Ok(())
}

/// What is copied.
struct SourceValue {
    node: Node,
    /// The object and field it still is a part of: what changes there changes here.
    living: Option<(usize, String)>,
}

impl SourceValue {
    fn fixed(node: Node) -> Self {
        SourceValue { node, living: None }
    }

    /// Takes over what changed in the source.
    fn follow(&mut self, resources: &ResMap) {
        if let Some((index, field_path)) = &self.living
            && let Ok(Some(node)) = read_field(resources.get(*index), field_path)
        {
            self.node = node;
        }
    }
}

/// A copy of a field, unless there is nothing in it.
fn read_field(resource: &Resource, field_path: &str) -> Result<Option<Node>> {
    let with_annotations;
    let node = if field_path.starts_with("metadata") && !field_path.starts_with("metadata.name") {
        with_annotations = resource.with_build_annotations();
        &with_annotations
    } else {
        &resource.node
    };
    let found = lookup(node, &split_field_path(field_path, '.'))?;
    Ok(found.filter(|node| !is_null_or_empty(node)).map(|node| {
        let mut copy = node.clone();
        node_ops::clear_share_marks(&mut copy);
        copy
    }))
}

fn source_value(resources: &ResMap, replacement: &Replacement) -> Result<SourceValue> {
    let source = match (&replacement.source_value, &replacement.source) {
        (Some(_), Some(_)) => {
            return Err(Error::Replacement(
                "value and resource selectors are mutually exclusive".to_owned(),
            ));
        }
        (Some(text), None) => return Ok(SourceValue::fixed(untagged(text.as_str()))),
        (None, source) => source.as_ref(),
    };
    let Some(source) = source else {
        return Ok(SourceValue::fixed(Node::default()));
    };
    let index = select_source(resources, source)?;
    let field_path = if source.field_path.is_empty() {
        DEFAULT_FIELD
    } else {
        &source.field_path
    };
    let value = read_field(resources.get(index), field_path)
        .within(|| "error looking up replacement source".to_owned())?
        .ok_or_else(|| {
            Error::Replacement(format!(
                "fieldPath `{field_path}` is missing for replacement source {}",
                source.id
            ))
        })?;
    let is_part = source
        .options
        .as_ref()
        .is_some_and(|options| !options.delimiter.is_empty());
    Ok(SourceValue {
        node: refine(source.options.as_ref(), value)?,
        living: (!is_part).then(|| (index, field_path.to_owned())),
    })
}

fn select_source(resources: &ResMap, source: &Source) -> Result<usize> {
    let matched = resources.find_selected_by(&source.id);
    match matched[..] {
        [one] => Ok(one),
        [] => Err(Error::Replacement(format!("nothing selected by {source}"))),
        _ => Err(Error::Replacement(format!(
            "multiple matches for selector {source}"
        ))),
    }
}

fn refine(options: Option<&FieldOptions>, mut value: Node) -> Result<Node> {
    let Some(options) = options.filter(|options| !options.delimiter.is_empty()) else {
        return Ok(value);
    };
    if Shape::of(&value) != Shape::Scalar {
        return Err(Error::Replacement(
            "delimiter option can only be used with scalar nodes".to_owned(),
        ));
    }
    let text = node_ops::text(&value).to_owned();
    let part = usize::try_from(options.index)
        .ok()
        .and_then(|index| text.split(options.delimiter.as_str()).nth(index))
        .ok_or_else(|| {
            Error::Replacement(format!(
                "options.index {} is out of bounds for value {text}",
                options.index
            ))
        })?;
    node_ops::retext(&mut value, part);
    Ok(value)
}

/// A target with everything compiled.
struct CompiledTarget<'a> {
    target: &'a Target,
    select: SelectorPattern,
    labels: crate::labels::LabelSelector,
    annotations: crate::labels::LabelSelector,
    reject: Vec<CompiledReject>,
    paths: Vec<(&'a str, Vec<String>)>,
}

struct CompiledReject {
    id: Option<SelectorPattern>,
    selectors: Option<(crate::labels::LabelSelector, crate::labels::LabelSelector)>,
}

fn compile(target: &Target) -> Result<CompiledTarget<'_>> {
    let Some(select) = &target.select else {
        return Err(Error::Replacement(
            "target must specify resources to select".to_owned(),
        ));
    };
    let creating = |error: Error| error.within("error creating target selector");
    let paths: Vec<&str> = if target.field_paths.is_empty() {
        vec![DEFAULT_FIELD]
    } else {
        target.field_paths.iter().map(String::as_str).collect()
    };
    let reject = target.reject.iter().map(|reject| {
        let selects = !reject.label_selector.is_empty() || !reject.annotation_selector.is_empty();
        Ok(CompiledReject {
            id: if reject.has_empty_id() {
                None
            } else {
                Some(reject.compile().map_err(creating)?)
            },
            selectors: if selects {
                Some((reject.labels()?, reject.annotations()?))
            } else {
                None
            },
        })
    });
    Ok(CompiledTarget {
        select: select.compile().map_err(creating)?,
        labels: select.labels()?,
        annotations: select.annotations()?,
        reject: reject.collect::<Result<_>>()?,
        paths: paths
            .into_iter()
            .map(|path| (path, split_field_path(path, '.')))
            .collect(),
        target,
    })
}

fn apply_to_target(
    resources: &mut ResMap,
    value: &mut SourceValue,
    target: &Target,
    release: Release,
) -> Result<()> {
    let compiled = compile(target)?;
    for index in resources.candidates_by_any_id(&compiled.select) {
        let resource = resources.get(index);
        if !compiled.fits(resource) {
            continue;
        }
        let is_source = matches!(&value.living, Some((source, _)) if *source == index);
        for path in &compiled.paths {
            let node = &mut resources.get_mut(index).node;
            copy_value(node, &value.node, path, &compiled, release)?;
            if is_source {
                value.follow(resources);
            }
        }
        resources.get_mut(index).after_change();
        resources.refresh(index);
    }
    Ok(())
}

impl CompiledTarget<'_> {
    fn fits(&self, resource: &Resource) -> bool {
        let label = |key: &str| resource.label(key);
        let annotation = |key: &str| resource.annotation(key);
        if !self.annotations.matches(annotation) || !self.labels.matches(label) {
            return false;
        }
        let rejected = self.reject.iter().any(|reject| {
            reject
                .selectors
                .as_ref()
                .is_some_and(|(labels, annotations)| {
                    annotations.matches(annotation) && labels.matches(label)
                })
        });
        if rejected {
            return false;
        }
        let ids = resource.plain_ids();
        let rejected = self.reject.iter().any(|reject| {
            reject
                .id
                .as_ref()
                .is_some_and(|pattern| ids.iter().any(|id| pattern.fits_id(id)))
        });
        !rejected && ids.iter().any(|id| self.select.fits_id(id))
    }
}

fn copy_value(
    node: &mut Node,
    value: &Node,
    (path, parts): &(&str, Vec<String>),
    compiled: &CompiledTarget<'_>,
    release: Release,
) -> Result<()> {
    let options = compiled.target.options.as_ref();
    let create = options
        .is_some_and(|options| options.create)
        .then(|| Shape::of(value));
    if set_inside_text(node, value, parts, create, options, release).is_ok() {
        return Ok(());
    }
    let failed = || {
        let verb = if create.is_some() {
            "find or create"
        } else {
            "find"
        };
        format!("unable to {verb} field {path:?} in replacement target")
    };
    let mut set_error = None;
    let visited = visit_matches(node, parts, create, &mut |field| {
        if let Err(error) = set_value(options, field, value) {
            set_error.get_or_insert(error);
        }
        Ok(())
    })
    .within(failed)?;
    match set_error {
        Some(error) => Err(error),
        None if visited == 0 => Err(Error::Replacement(failed())),
        None => Ok(()),
    }
}

fn set_value(options: Option<&FieldOptions>, field: &mut Node, value: &Node) -> Result<()> {
    let mut value = value.clone();
    if let Some(options) = options.filter(|options| !options.delimiter.is_empty()) {
        if Shape::of(field) != Shape::Scalar {
            return Err(Error::Replacement(
                "delimiter option can only be used with scalar nodes".to_owned(),
            ));
        }
        let text = node_ops::text(&value).to_owned();
        let mut parts: Vec<&str> = raw_text(field).split(options.delimiter.as_str()).collect();
        match usize::try_from(options.index) {
            Err(_) => parts.insert(0, &text),
            Ok(index) if index >= parts.len() => parts.push(&text),
            Ok(index) => parts[index] = &text,
        }
        let joined = parts.join(&options.delimiter);
        node_ops::retext(&mut value, &joined);
    }
    match &field.value {
        Value::Scalar(_) => node_ops::retext(field, raw_text(&value)),
        _ => {
            let mark = node_ops::share_mark(field);
            *field = value;
            node_ops::set_share_mark(field, mark);
        }
    }
    Ok(())
}

/// Sets a value inside YAML or JSON that a text field holds.
fn set_inside_text(
    node: &mut Node,
    value: &Node,
    parts: &[String],
    create: Option<Shape>,
    options: Option<&FieldOptions>,
    release: Release,
) -> Result<()> {
    let no_text = || Error::Replacement("no structured data found in path".to_owned());
    let split = (1..parts.len()).find_map(|length| {
        let found = lookup(node, &parts[..length]).ok().flatten()?;
        if Shape::of(found) != Shape::Scalar {
            return None;
        }
        let inner = yaml_io::parse_inner(raw_text(found)).ok()?;
        Some((length, inner))
    });
    let Some((length, mut inner)) = split else {
        return Err(no_text());
    };
    let options = match release {
        Release::V5_8 => None,
        Release::Next => options,
    };
    let visited = visit_matches(&mut inner, &parts[length..], create, &mut |field| {
        set_value(options, field, value)
    })?;
    if visited == 0 {
        return Err(Error::Replacement(
            "unable to find field in structured data".to_owned(),
        ));
    }
    let Some(field) = lookup_mut(node, &parts[..length])? else {
        return Err(no_text());
    };
    let text = print_inner(&inner, raw_text(field))?;
    node_ops::retext(field, &text);
    Ok(())
}

fn print_inner(inner: &Node, original: &str) -> Result<String> {
    let trimmed = original.trim();
    if trimmed.is_empty() {
        return Err(Error::Replacement(
            "no structured data in empty text".to_owned(),
        ));
    }
    if !trimmed.starts_with(['{', '[']) {
        return Ok(yaml_io::print_node(inner).trim().to_owned());
    }
    let json: Json = yaml_io::to_json(inner)?;
    if original.contains('\n') && original.contains("  ") {
        return Ok(everflow_yaml::gojson::pretty(&json, "  "));
    }
    Ok(everflow_yaml::gojson::to_string(&json))
}
