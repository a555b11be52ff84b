//! `everflow get`

use std::collections::BTreeMap;
use std::time::Duration;

use everflow_json::{Value, json};
use everflow_runtime::client::{Selection, WatchEvent, WatchFrom};

use super::connection::{Connection, Session};
use super::in_runtime;
use super::kinds::{self, Chosen, Family, KINDS, Kind};
use super::row::{self, Shape};
use super::table;
use crate::exit::Failure;
use crate::output::{DataFormat, print_data, print_text};

/// How long one watch lasts before it is opened anew.
const WATCH_SPAN: Duration = Duration::from_secs(300);

/// `everflow get`
#[derive(clap::Args, Debug)]
#[command(after_help = kinds::HELP)]
pub struct Args {
    /// The kind (all, sources git, kustomizations, …), and the name of an object
    #[arg(value_name = "KIND [NAME]")]
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
    /// Keep running, and print what changes
    #[arg(short, long)]
    watch: bool,
    /// Print the objects as data instead
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<DataFormat>,
    #[command(flatten)]
    connection: Connection,
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
        (Chosen::One(kind), names) => {
            let name = names.first().map(String::as_str);
            match args.watch {
                true => in_runtime(watch(args, kind, name, status.as_ref())),
                false => in_runtime(one(args, kind, name, status.as_ref())),
            }
        }
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
            with_source: self.show_source,
        }
    }

    fn selection(&self, name: Option<&str>) -> Selection {
        Selection {
            labels: self.label_selector.clone(),
            fields: name
                .map(|name| format!("metadata.name={name}"))
                .unwrap_or_default(),
            metadata_only: false,
        }
    }
}

async fn list(
    session: &Session,
    args: &Args,
    kind: &Kind,
    name: Option<&str>,
) -> Result<(Vec<Value>, u64), everflow_runtime::Error> {
    let selection = args.selection(name);
    let list = session
        .client
        .list_all(&kind.resource, args.namespace(), &selection)
        .await?;
    let (mut items, revision) = (list.items, list.revision);
    items.sort_by_key(|object| {
        let meta = &object["metadata"];
        let text = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
        (text("namespace"), text("name"))
    });
    Ok((items, revision))
}

async fn one(
    args: &Args,
    kind: &Kind,
    name: Option<&str>,
    status: Option<&StatusSelector>,
) -> Result<(), Failure> {
    let session = args.connection.open()?;
    let (items, _) = list(&session, args, kind, name)
        .await
        .map_err(|error| Failure::Work(session.told(kind, &error)))?;
    if items.is_empty() {
        return Err(Failure::Work(none_found(args, kind, name)));
    }
    let items: Vec<Value> = items
        .into_iter()
        .filter(|object| status.is_none_or(|status| status.fits(kind, object)))
        .collect();
    if let Some(format) = args.output {
        return print_data(&as_list(items, name.is_some()), format);
    }
    print_text(&rendered(args, kind, &items, false))
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

fn rendered(args: &Args, kind: &Kind, items: &[Value], with_kind: bool) -> String {
    let shape = args.shape(with_kind);
    let rows: Vec<_> = items
        .iter()
        .map(|object| row::cells(kind, object, shape))
        .collect();
    let header = row::header(kind, shape);
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
        let items = match list(&session, args, kind, None).await {
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
            Some(_) => found.extend(items),
            None => print_text(&format!("{}\n", rendered(args, kind, &items, true)))?,
        }
    }
    match args.output {
        Some(format) => print_data(&as_list(found, false), format),
        None => Ok(()),
    }
}

async fn watch(
    args: &Args,
    kind: &Kind,
    name: Option<&str>,
    status: Option<&StatusSelector>,
) -> Result<(), Failure> {
    let session = args.connection.open()?;
    let failed = |error: everflow_runtime::Error| Failure::Work(session.told(kind, &error));
    let selection = args.selection(name);
    let shape = args.shape(false);
    let header = row::header(kind, shape);
    let mut header = (!args.no_header).then_some(header.as_slice());
    let mut print = |object: &Value| {
        if status.is_some_and(|status| !status.fits(kind, object)) {
            return Ok(());
        }
        let cells = vec![row::cells(kind, object, shape)];
        print_text(&table::render(header.take(), &cells))
    };
    let (listed, mut revision) = list(&session, args, kind, name).await.map_err(failed)?;
    for object in &listed {
        print(object)?;
    }
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
                    print(&object)?;
                }
                WatchEvent::Gone(object) => {
                    revision = everflow_runtime::client::revision(&object);
                }
                WatchEvent::Bookmark { revision: told, .. } => revision = told,
                WatchEvent::Unreadable(_) => {}
            }
        }
    }
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
