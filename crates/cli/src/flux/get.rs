//! `everflow get`

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::time::Duration;

use clap::ValueEnum;
use everflow_json::{Value, json};
use everflow_runtime::client::{At, Selection, WatchEvent, WatchFrom};

use super::connection::{Connection, Session};
use super::events::age;
use super::kinds::{self, Chosen, Family, KINDS, Kind};
use super::row::{self, Shape};
use super::table;
use super::{in_runtime, say};
use crate::exit::Failure;
use crate::output::{DataFormat, print_data, print_text};

/// How long one watch lasts before it is opened anew.
const WATCH_SPAN: Duration = Duration::from_secs(300);

/// `everflow get`
#[derive(clap::Args, Debug)]
#[command(after_help = kinds::HELP)]
pub struct Args {
    /// The kind (all, sources git, kustomizations, …), and the names of objects
    #[arg(value_name = "KIND [NAME]...")]
    words: Vec<String>,
    /// Of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only those with these labels
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "")]
    label_selector: String,
    /// Only those with a condition, such as ready=false
    #[arg(long, value_name = "CONDITION=STATUS")]
    status_selector: Option<String>,
    /// Print no header
    #[arg(long)]
    no_header: bool,
    /// Show the source of each object
    #[arg(long)]
    show_source: bool,
    /// Keep running and print changes
    #[arg(short, long)]
    watch: bool,
    /// How to print: json, yaml, wide or name
    #[arg(short, long, value_name = "FORMAT", hide_possible_values = true)]
    output: Option<Format>,
    #[command(flatten)]
    connection: Connection,
}

/// How objects are printed.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json,
    Yaml,
    /// The table with sources and ages.
    Wide,
    /// `kind.group/name` on lines of their own.
    Name,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let status = args.status_selector.as_deref().map(StatusSelector::parse);
    let status = status.transpose()?;
    match kinds::choose("get", &args.words)? {
        (Chosen::All(_), _) if args.watch => Err(Failure::Work(
            "expected a single resource type, but found all".to_owned(),
        )),
        (Chosen::All(family), _) => in_runtime(all(args, family, status.as_ref())),
        (Chosen::One(kind), names) => match args.watch {
            true => in_runtime(watch(args, kind, names, status.as_ref())),
            false => in_runtime(one(args, kind, names, status.as_ref())),
        },
    }
}

impl Args {
    fn namespace(&self) -> Option<&str> {
        (!self.all_namespaces).then_some(self.connection.namespace.as_str())
    }

    fn shape(&self, with_kind: bool) -> Shape {
        Shape {
            with_namespace: self.all_namespaces,
            with_kind,
            with_source: self.show_source || self.output == Some(Format::Wide),
        }
    }

    /// Of several names the server cannot select.
    fn selection(&self, names: &[String]) -> Selection {
        Selection {
            labels: self.label_selector.clone(),
            fields: match names {
                [name] => format!("metadata.name={name}"),
                _ => String::new(),
            },
            metadata_only: false,
        }
    }
}

async fn list(
    session: &Session,
    args: &Args,
    kind: &Kind,
    names: &[String],
) -> Result<(Vec<Value>, u64), everflow_runtime::Error> {
    let selection = args.selection(names);
    let list = session
        .client
        .list_all(&kind.resource, args.namespace(), &selection)
        .await?;
    let (mut items, revision) = (list.items, list.revision);
    items.retain(|object| is_named(names, object));
    items.sort_by_key(|object| {
        let meta = &object["metadata"];
        let text = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
        (text("namespace"), text("name"))
    });
    Ok((items, revision))
}

fn is_named(names: &[String], object: &Value) -> bool {
    names.is_empty()
        || names
            .iter()
            .any(|name| object["metadata"]["name"] == name.as_str())
}

async fn one(
    args: &Args,
    kind: &Kind,
    names: &[String],
    status: Option<&StatusSelector>,
) -> Result<(), Failure> {
    let session = args.connection.open()?;
    let (items, _) = list(&session, args, kind, names)
        .await
        .map_err(|error| Failure::Work(session.told(kind, &error)))?;
    let missing = |name: &&String| {
        !items
            .iter()
            .any(|object| is_named(std::slice::from_ref(*name), object))
    };
    let missing: Vec<&String> = names.iter().filter(missing).collect();
    if items.is_empty() && missing.len() < 2 {
        let name = missing.first().map(|name| name.as_str());
        return Err(Failure::Work(none_found(args, kind, name)));
    }
    let outcome = match missing.is_empty() {
        true => Ok(()),
        false => Err(Failure::Reported),
    };
    for name in missing {
        say::failure(&none_found(args, kind, Some(name)));
    }
    let items: Vec<Value> = items
        .into_iter()
        .filter(|object| status.is_none_or(|status| status.fits(kind, object)))
        .collect();
    match args.output {
        Some(Format::Json) => print_data(&as_list(items, names.len() == 1), DataFormat::Json)?,
        Some(Format::Yaml) => print_data(&as_list(items, names.len() == 1), DataFormat::Yaml)?,
        Some(Format::Name) => print_names(kind, &items)?,
        Some(Format::Wide) | None => print_text(&rendered(args, &session, kind, &items, false))?,
    }
    outcome
}

fn print_names(kind: &Kind, items: &[Value]) -> Result<(), Failure> {
    let prefix = format!("{}.{}", kind.name().to_lowercase(), kind.resource.group);
    items.iter().try_for_each(|object| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        print_text(&format!("{prefix}/{name}\n"))
    })
}

fn none_found(args: &Args, kind: &Kind, name: Option<&str>) -> String {
    let place = match args.namespace() {
        Some(namespace) => format!("{namespace:?} namespace"),
        None => "any namespace".to_owned(),
    };
    match name {
        Some(name) => format!("{} object '{name}' not found in {place}", kind.name()),
        None => format!("no {} objects found in {place}", kind.name()),
    }
}

fn as_list(items: Vec<Value>, single: bool) -> Value {
    match (items.as_slice(), single) {
        ([object], true) => object.clone(),
        _ => json!({"apiVersion": "v1", "kind": "List", "items": items}),
    }
}

fn rendered(
    args: &Args,
    session: &Session,
    kind: &Kind,
    items: &[Value],
    with_kind: bool,
) -> String {
    let shape = args.shape(with_kind);
    let with_age = args.output == Some(Format::Wide);
    let cells = |object: &Value| {
        let mut cells = row::cells(kind, object, shape);
        if with_age {
            let age = age(session, &object["metadata"]["creationTimestamp"]);
            cells.insert(cells.len() - 2, age);
        }
        cells
    };
    let rows: Vec<_> = items.iter().map(cells).collect();
    let mut header = row::header(kind, shape);
    if with_age {
        header.insert(header.len() - 2, "AGE");
    }
    table::render((!args.no_header).then_some(&header), &rows)
}

async fn all(
    args: &Args,
    family: Option<Family>,
    status: Option<&StatusSelector>,
) -> Result<(), Failure> {
    let session = args.connection.open()?;
    let mut found = Vec::new();
    let asked = |kind: &&Kind| match family {
        Some(family) => kind.family == family,
        None => kind.family != Family::Artifact,
    };
    for kind in KINDS.iter().filter(asked) {
        // A cluster need not have all kinds.
        let items = match list(&session, args, kind, &[]).await {
            Ok((items, _)) => items,
            Err(everflow_runtime::Error::NotFound(_)) => continue,
            Err(error) => return Err(Failure::Work(error.to_string())),
        };
        let items: Vec<Value> = items
            .into_iter()
            .filter(|object| status.is_none_or(|status| status.fits(kind, object)))
            .collect();
        if items.is_empty() {
            continue;
        }
        match args.output {
            Some(Format::Json | Format::Yaml) => found.extend(items),
            Some(Format::Name) => print_names(kind, &items)?,
            Some(Format::Wide) | None => {
                let table = rendered(args, &session, kind, &items, true);
                print_text(&format!("{table}\n"))?;
            }
        }
    }
    match args.output {
        Some(Format::Json) => print_data(&as_list(found, false), DataFormat::Json),
        Some(Format::Yaml) => print_data(&as_list(found, false), DataFormat::Yaml),
        Some(Format::Wide | Format::Name) | None => Ok(()),
    }
}

async fn watch(
    args: &Args,
    kind: &Kind,
    names: &[String],
    status: Option<&StatusSelector>,
) -> Result<(), Failure> {
    if args.output.is_some_and(|format| format != Format::Wide) {
        return Err(Failure::Work(
            "--watch prints tables: leave -o away, or use -o wide".to_owned(),
        ));
    }
    let session = args.connection.open()?;
    let failed = |error: everflow_runtime::Error| Failure::Work(session.told(kind, &error));
    let selection = args.selection(names);
    let mut screen = Screen::new(args, &session, kind, status);
    let (listed, mut revision) = list(&session, args, kind, names).await.map_err(failed)?;
    screen.begin(listed)?;
    loop {
        let mut stream = session
            .client
            .watch(
                &kind.resource,
                args.namespace(),
                &selection,
                WatchFrom::Revision(revision),
                WATCH_SPAN,
            )
            .await
            .map_err(failed)?;
        while let Some(event) = stream.next().await.map_err(failed)? {
            match event {
                WatchEvent::Set(object) => {
                    revision = everflow_runtime::client::revision(&object);
                    if is_named(names, &object) {
                        screen.set(object)?;
                    }
                }
                WatchEvent::Gone(object) => {
                    revision = everflow_runtime::client::revision(&object);
                    screen.gone(&object)?;
                }
                WatchEvent::Bookmark { revision: told, .. } => revision = told,
                WatchEvent::Unreadable(_) => {}
            }
        }
    }
}

/// What a watch shows: on a terminal the whole table again and again, elsewhere a line for each change.
struct Screen<'a> {
    args: &'a Args,
    session: &'a Session,
    kind: &'a Kind,
    status: Option<&'a StatusSelector>,
    redraws: bool,
    /// Whether the header was printed.
    has_header: bool,
    objects: BTreeMap<(String, String), Value>,
}

impl<'a> Screen<'a> {
    fn new(
        args: &'a Args,
        session: &'a Session,
        kind: &'a Kind,
        status: Option<&'a StatusSelector>,
    ) -> Self {
        Screen {
            args,
            session,
            kind,
            status,
            redraws: std::io::stdout().is_terminal(),
            has_header: args.no_header,
            objects: BTreeMap::new(),
        }
    }

    fn begin(&mut self, objects: Vec<Value>) -> Result<(), Failure> {
        if self.redraws {
            for object in objects {
                self.objects.insert(key(&object), object);
            }
            return self.draw();
        }
        objects.iter().try_for_each(|object| self.line(object))
    }

    fn set(&mut self, object: Value) -> Result<(), Failure> {
        if !self.redraws {
            return self.line(&object);
        }
        self.objects.insert(key(&object), object);
        self.draw()
    }

    fn gone(&mut self, object: &Value) -> Result<(), Failure> {
        match self.redraws && self.objects.remove(&key(object)).is_some() {
            true => self.draw(),
            false => Ok(()),
        }
    }

    fn shows(&self, object: &Value) -> bool {
        self.status
            .is_none_or(|status| status.fits(self.kind, object))
    }

    /// One line for one change, after the header where it is the first.
    fn line(&mut self, object: &Value) -> Result<(), Failure> {
        if !self.shows(object) {
            return Ok(());
        }
        let shape = self.args.shape(false);
        let header = row::header(self.kind, shape);
        let header = (!self.has_header).then_some(header.as_slice());
        self.has_header = true;
        let cells = vec![row::cells(self.kind, object, shape)];
        print_text(&table::render(header, &cells))
    }

    /// The whole table on an empty screen.
    fn draw(&self) -> Result<(), Failure> {
        let shown = self.objects.values().filter(|object| self.shows(object));
        let shown: Vec<Value> = shown.cloned().collect();
        let table = rendered(self.args, self.session, self.kind, &shown, false);
        print_text(&format!("\x1b[H\x1b[2J{table}"))
    }
}

fn key(object: &Value) -> (String, String) {
    let at = At::of(object);
    (at.namespace.to_owned(), at.name.to_owned())
}

/// `ready=false` or `ready!=false`.
struct StatusSelector {
    condition: String,
    status: String,
    negated: bool,
}

impl StatusSelector {
    fn parse(text: &str) -> Result<Self, Failure> {
        let (condition, status, negated) = match text.split_once("!=") {
            Some((condition, status)) => (condition, status, true),
            None => match text.split_once('=') {
                Some((condition, status)) => (condition, status, false),
                None => {
                    return Err(Failure::Work(format!(
                        "expected status selector in type=status or type!=status format, but \
                         found: {text}"
                    )));
                }
            },
        };
        Ok(StatusSelector {
            condition: condition.to_owned(),
            status: status.to_owned(),
            negated,
        })
    }

    /// Alerts and providers have no conditions, and are always ready.
    fn fits(&self, kind: &Kind, object: &Value) -> bool {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut statuses = BTreeMap::new();
        if matches!(kind.name(), "Alert" | "Provider") {
            statuses.insert("ready".to_owned(), "True".to_owned());
        }
        let conditions = object["status"]["conditions"].as_array();
        for condition in conditions.into_iter().flatten() {
            let name = text(&condition["type"]).to_lowercase();
            statuses.insert(name, text(&condition["status"]));
        }
        let found = statuses.get(&self.condition.to_lowercase());
        found.is_some_and(|status| status.eq_ignore_ascii_case(&self.status)) != self.negated
    }
}
