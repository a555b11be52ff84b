//! `replacements`: copying a field of one object into fields of others.

use std::fmt;

use everflow_json::Value as Json;
use everflow_limits::{Budget, Exceeded, Held};
use everflow_yaml::{Limits, Node, Value, cost};

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

/// How deep a map or list that is copied may make an object.
const MAX_DEPTH: usize = Limits::DEFAULT.nesting;

/// How much of a path messages show that may be long.
const SHOWN: usize = 200;

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
                    field_path: source.path("fieldPath", '.')?,
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
            field_paths: fields.paths("fieldPaths", '.')?,
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
pub fn apply(
    resources: &mut ResMap,
    replacements: &[Replacement],
    release: Release,
    budget: &Budget,
) -> Result<()> {
    for replacement in replacements {
        budget.check()?;
        let nothing = replacement.source.is_none() && replacement.source_value.is_none();
        let Some(targets) = replacement.targets.as_ref().filter(|_| !nothing) else {
            return Err(Error::Replacement(
                "replacements must specify a source and at least one target".to_owned(),
            ));
        };
        let mut value = source_value(resources, replacement, budget)?;
        for target in targets {
            apply_to_target(resources, &mut value, target, release)?;
        }
    }
    Ok(())
}

/// What is copied.
struct SourceValue<'b> {
    node: Node,
    /// The object and field it still is a part of: what changes there changes here.
    living: Option<(usize, String)>,
    held: Held<'b>,
    budget: &'b Budget,
}

impl<'b> SourceValue<'b> {
    fn fixed(node: Node, budget: &'b Budget) -> Result<Self> {
        Ok(SourceValue {
            node,
            living: None,
            held: budget.hold(0)?,
            budget,
        })
    }

    /// Takes over what changed in the source.
    fn follow(&mut self, resources: &ResMap) -> Result<()> {
        let Some((index, field_path)) = &self.living else {
            return Ok(());
        };
        match read_field(resources.get(*index), field_path, self.budget) {
            Ok(Some((node, held))) => {
                self.node = node;
                self.held = held;
                Ok(())
            }
            Err(error) if error.exceeded().is_some() => Err(error),
            Ok(None) | Err(_) => Ok(()),
        }
    }
}

/// A copy of a field, unless there is nothing in it, and what is charged for it.
fn read_field<'b>(
    resource: &Resource,
    field_path: &str,
    budget: &'b Budget,
) -> Result<Option<(Node, Held<'b>)>> {
    let with_annotations;
    let node = if field_path.starts_with("metadata") && !field_path.starts_with("metadata.name") {
        with_annotations = resource.with_build_annotations();
        &with_annotations
    } else {
        &resource.node
    };
    let found = lookup(node, &split_field_path(field_path, '.'))?;
    let Some(node) = found.filter(|node| !is_null_or_empty(node)) else {
        return Ok(None);
    };
    let held = budget.hold(cost::of_tree(node))?;
    let mut copy = node.clone();
    node_ops::clear_share_marks(&mut copy);
    Ok(Some((copy, held)))
}

fn source_value<'b>(
    resources: &ResMap,
    replacement: &Replacement,
    budget: &'b Budget,
) -> Result<SourceValue<'b>> {
    let source = match (&replacement.source_value, &replacement.source) {
        (Some(_), Some(_)) => {
            return Err(Error::Replacement(
                "value and resource selectors are mutually exclusive".to_owned(),
            ));
        }
        (Some(text), None) => return SourceValue::fixed(untagged(text.as_str()), budget),
        (None, source) => source.as_ref(),
    };
    let Some(source) = source else {
        return SourceValue::fixed(Node::default(), budget);
    };
    let index = select_source(resources, source)?;
    let field_path = if source.field_path.is_empty() {
        DEFAULT_FIELD
    } else {
        &source.field_path
    };
    let (value, held) = read_field(resources.get(index), field_path, budget)
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
        held,
        budget,
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
    value: &mut SourceValue<'_>,
    target: &Target,
    release: Release,
) -> Result<()> {
    let budget = value.budget;
    let compiled = compile(target)?;
    for index in resources.candidates_by_any_id(&compiled.select) {
        budget.check()?;
        let resource = resources.get(index);
        if !compiled.fits(resource) {
            continue;
        }
        let is_source = matches!(&value.living, Some((source, _)) if *source == index);
        for path in &compiled.paths {
            let node = &mut resources.get_mut(index).node;
            let copied = copy_value(node, &value.node, path, &compiled, release, budget);
            copied.in_field(|| {
                let path: String = path.0.chars().take(SHOWN).collect();
                format!("replacement of {path} in {}", resources.get(index).id())
            })?;
            if is_source {
                value.follow(resources)?;
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
    budget: &Budget,
) -> Result<()> {
    let options = compiled.target.options.as_ref();
    let create = options
        .is_some_and(|options| options.create)
        .then(|| Shape::of(value));
    match set_inside_text(node, value, parts, create, options, release, budget) {
        Err(error) if error.exceeded().is_none() => {}
        done => return done,
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
    let setting = Setting {
        options,
        value,
        above: parts.len(),
        budget,
    };
    let visited = visit_matches(node, parts, create, budget, &mut |field| {
        match setting.set(field) {
            Err(error) if error.exceeded().is_some() => return Err(error),
            Err(error) => drop(set_error.get_or_insert(error)),
            Ok(()) => {}
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

/// A value on its way into fields.
struct Setting<'s> {
    options: Option<&'s FieldOptions>,
    value: &'s Node,
    /// How many levels are above the fields.
    above: usize,
    budget: &'s Budget,
}

impl Setting<'_> {
    /// Sets the value, which is charged in the place of the old one.
    fn set(&self, field: &mut Node) -> Result<()> {
        let old = cost::of_tree(field);
        match self.joined(field)? {
            Some((value, _held)) => self.put(field, &value)?,
            None => self.put(field, self.value)?,
        }
        self.budget.release(old);
        Ok(())
    }

    /// The text of a field with the value as one of its parts, if the value is only one of them.
    fn joined(&self, field: &Node) -> Result<Option<(Node, Held<'_>)>> {
        let options = self.options.filter(|options| !options.delimiter.is_empty());
        let Some(options) = options else {
            return Ok(None);
        };
        if Shape::of(field) != Shape::Scalar {
            return Err(Error::Replacement(
                "delimiter option can only be used with scalar nodes".to_owned(),
            ));
        }
        let text = node_ops::text(self.value);
        let old = raw_text(field);
        let count = 2 + old.matches(options.delimiter.as_str()).count();
        let bytes = count * size_of::<&str>() + 2 * (old.len() + text.len());
        let held = self.budget.hold(bytes + options.delimiter.len())?;
        let mut parts: Vec<&str> = old.split(options.delimiter.as_str()).collect();
        match usize::try_from(options.index) {
            Err(_) => parts.insert(0, text),
            Ok(index) if index >= parts.len() => parts.push(text),
            Ok(index) => parts[index] = text,
        }
        let mut value = self.value.clone();
        node_ops::retext(&mut value, &parts.join(&options.delimiter));
        Ok(Some((value, held)))
    }

    fn put(&self, field: &mut Node, value: &Node) -> Result<()> {
        if let Value::Scalar(_) = &field.value {
            self.budget.charge(cost::of_scalar(raw_text(value)))?;
            node_ops::retext(field, raw_text(value));
            return Ok(());
        }
        if self.above + depth(value) > MAX_DEPTH {
            return Err(Error::from(Exceeded::Depth {
                what: "what replacements make",
                limit: MAX_DEPTH as u64,
            }));
        }
        self.budget.charge(cost::of_tree(value))?;
        let mark = node_ops::share_mark(field);
        *field = value.clone();
        node_ops::set_share_mark(field, mark);
        Ok(())
    }
}

/// How many levels of maps and lists a tree has.
fn depth(node: &Node) -> usize {
    let deepest = match &node.value {
        Value::Sequence(items) => items.iter().map(depth).max(),
        Value::Mapping(mapping) => mapping.entries.iter().map(|it| depth(&it.value)).max(),
        Value::Scalar(_) | Value::Alias(_) => return 0,
    };
    1 + deepest.unwrap_or_default()
}

/// Sets a value inside YAML or JSON that a text field holds.
fn set_inside_text(
    node: &mut Node,
    value: &Node,
    parts: &[String],
    create: Option<Shape>,
    options: Option<&FieldOptions>,
    release: Release,
    budget: &Budget,
) -> Result<()> {
    let no_text = || Error::Replacement("no structured data found in path".to_owned());
    let Some((length, mut inner, _held)) = text_on_the_way(node, parts, budget)? else {
        return Err(no_text());
    };
    let setting = Setting {
        options: match release {
            Release::V5_8 => None,
            Release::Next => options,
        },
        value,
        above: parts.len() - length,
        budget,
    };
    let visited = visit_matches(&mut inner, &parts[length..], create, budget, &mut |field| {
        setting.set(field)
    })?;
    if visited == 0 {
        return Err(Error::Replacement(
            "unable to find field in structured data".to_owned(),
        ));
    }
    let Some(field) = lookup_mut(node, &parts[..length])? else {
        return Err(no_text());
    };
    let (text, held) = print_inner(&inner, raw_text(field), budget)?;
    let old = raw_text(field).len();
    held.keep(text.len())?;
    node_ops::retext(field, &text);
    budget.release(old);
    Ok(())
}

/// What the first text on a path holds that can be read, where the path ends in it, and what is charged
/// for it.
fn text_on_the_way<'b>(
    node: &Node,
    parts: &[String],
    budget: &'b Budget,
) -> Result<Option<(usize, Node, Held<'b>)>> {
    for length in 1..parts.len() {
        let found = lookup(node, &parts[..length]).ok().flatten();
        let Some(found) = found.filter(|node| Shape::of(node) == Shape::Scalar) else {
            continue;
        };
        match yaml_io::parse_inner(raw_text(found), budget) {
            Ok((inner, held)) => return Ok(Some((length, inner, held))),
            Err(error) if error.exceeded().is_some() => return Err(error),
            Err(_) => {}
        }
    }
    Ok(None)
}

fn print_inner<'b>(inner: &Node, original: &str, budget: &'b Budget) -> Result<(String, Held<'b>)> {
    let trimmed = original.trim();
    if trimmed.is_empty() {
        return Err(Error::Replacement(
            "no structured data in empty text".to_owned(),
        ));
    }
    let mut held = budget.hold(2 * cost::of_printing(inner))?;
    if !trimmed.starts_with(['{', '[']) {
        return Ok((yaml_io::print_node(inner).trim().to_owned(), held));
    }
    held.grow(cost::of_tree(inner))?;
    let json: Json = yaml_io::to_json(inner)?;
    let text = if original.contains('\n') && original.contains("  ") {
        everflow_yaml::gojson::pretty(&json, "  ")
    } else {
        everflow_yaml::gojson::to_string(&json)
    };
    Ok((text, held))
}
