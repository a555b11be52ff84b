//! `everflow events`

use std::collections::BTreeSet;
use std::time::Duration;

use everflow_json::Value;
use everflow_runtime::client::{At, Resource, Selection, WatchEvent, WatchFrom};
use everflow_time::Timestamp;

use super::connection::{Connection, Session};
use super::kinds::{self, KINDS, Kind};
use super::{in_runtime, say, table};
use crate::exit::Failure;
use crate::output::print_text;

const EVENTS: Resource = Resource::namespaced("", "v1", "events", "Event");
const TYPES: [&str; 2] = ["Normal", "Warning"];
const WATCH_SPAN: Duration = Duration::from_secs(300);

/// `everflow events`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only events of one object and its sources
    #[arg(long = "for", value_name = "KIND/NAME")]
    target: Option<String>,
    /// Only these: Normal, Warning
    #[arg(long, value_name = "TYPE", value_delimiter = ',')]
    types: Vec<String>,
    /// Keep running and print new ones
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    for given in &args.types {
        if !TYPES.iter().any(|known| known.eq_ignore_ascii_case(given)) {
            return Err(Failure::Work(format!(
                "type '{given}' not supported. Supported types are {}",
                TYPES.join(", ")
            )));
        }
    }
    let target = args.target.as_deref().map(parse_target).transpose()?;
    in_runtime(async {
        let session = args.connection.open()?;
        let view = View::new(&session, args, target).await?;
        match args.watch {
            true => view.follow().await,
            false => view.print().await,
        }
    })
}

fn parse_target(text: &str) -> Result<(&'static Kind, String), Failure> {
    let unknown = |kind: &str| Failure::Work(format!("'{kind}' is not a recognized Flux kind"));
    let (kind, name) = match text.split_once('/') {
        Some((kind, name)) if !name.contains('/') => (kind, name),
        _ => return Err(unknown(text)),
    };
    let found = kinds::named(kind).ok_or_else(|| unknown(kind))?;
    Ok((found, name.to_owned()))
}

/// Kind, namespace and name.
type Subject = (String, String, String);

struct View<'a> {
    session: &'a Session,
    args: &'a Args,
    /// Only events of these.
    subjects: Option<BTreeSet<Subject>>,
    with_namespace: bool,
}

impl<'a> View<'a> {
    async fn new(
        session: &'a Session,
        args: &'a Args,
        target: Option<(&'static Kind, String)>,
    ) -> Result<Self, Failure> {
        let mut view = View {
            session,
            args,
            subjects: None,
            with_namespace: args.all_namespaces,
        };
        if let Some((kind, name)) = target {
            view.find_subjects(kind, &name).await?;
        }
        Ok(view)
    }

    /// The object and the sources it refers to.
    async fn find_subjects(&mut self, kind: &Kind, name: &str) -> Result<(), Failure> {
        let namespace = &self.args.connection.namespace;
        let mut subjects = BTreeSet::new();
        subjects.insert((kind.name().to_owned(), namespace.clone(), name.to_owned()));
        let at = At::new(namespace, name);
        match self.session.client.get(&kind.resource, at).await {
            Ok(object) => subjects.extend(references(kind, &object)),
            // A source may be gone and still have events.
            Err(everflow_runtime::Error::NotFound(_)) if kind.is_source() => {}
            Err(error) => return Err(Failure::Work(error.to_string())),
        }
        self.with_namespace |= subjects.iter().any(|(_, other, _)| other != namespace);
        self.subjects = Some(subjects);
        Ok(())
    }

    fn namespace(&self) -> Option<&str> {
        let is_here = !self.args.all_namespaces && !self.with_namespace;
        is_here.then_some(self.args.connection.namespace.as_str())
    }

    fn fits(&self, event: &Value) -> bool {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let involved = &event["involvedObject"];
        let api_version = text(&involved["apiVersion"]);
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let is_known = KINDS
            .iter()
            .any(|kind| kind.resource.group == group && involved["kind"] == kind.name());
        let kind = text(&event["type"]);
        let types = &self.args.types;
        let is_asked_for = types.is_empty()
            || types
                .iter()
                .any(|wanted| wanted.eq_ignore_ascii_case(&kind));
        let subject = (
            text(&involved["kind"]),
            text(&involved["namespace"]),
            text(&involved["name"]),
        );
        let subjects = self.subjects.as_ref();
        is_known && is_asked_for && subjects.is_none_or(|subjects| subjects.contains(&subject))
    }

    fn header(&self) -> Vec<&'static str> {
        let mut header = vec!["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];
        if self.with_namespace {
            header.insert(0, "NAMESPACE");
        }
        header
    }

    fn cells(&self, event: &Value) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let involved = &event["involvedObject"];
        let mut cells = vec![
            self.last_seen(event),
            text(&event["type"]),
            text(&event["reason"]),
            format!("{}/{}", text(&involved["kind"]), text(&involved["name"])),
            text(&event["message"]),
        ];
        if self.with_namespace {
            cells.insert(0, text(&event["metadata"]["namespace"]));
        }
        cells
    }

    fn last_seen(&self, event: &Value) -> String {
        let count = event["count"].as_i64().unwrap_or(1);
        let last = age(self.session, &event["lastTimestamp"]);
        match count {
            0 | 1 => last,
            count => {
                let first = age(self.session, &event["firstTimestamp"]);
                format!("{last} (x{count} over {first})")
            }
        }
    }

    async fn list(&self) -> Result<(Vec<Value>, u64), Failure> {
        let selection = Selection::default();
        let list = self
            .session
            .client
            .list_all(&EVENTS, self.namespace(), &selection)
            .await
            .map_err(|error| Failure::Work(error.to_string()))?;
        let mut events: Vec<Value> = list
            .items
            .into_iter()
            .filter(|event| self.fits(event))
            .collect();
        events.sort_by_key(|event| {
            event["lastTimestamp"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        });
        Ok((events, list.revision))
    }

    async fn print(&self) -> Result<(), Failure> {
        let (events, _) = self.list().await?;
        if events.is_empty() {
            match self.args.all_namespaces {
                true => say::failure("No events found."),
                false => {
                    let namespace = &self.args.connection.namespace;
                    say::failure(&format!("No events found in {namespace} namespace."));
                }
            }
            return Ok(());
        }
        let rows: Vec<_> = events.iter().map(|event| self.cells(event)).collect();
        print_text(&table::render(Some(&self.header()), &rows))
    }

    async fn follow(&self) -> Result<(), Failure> {
        let failed = |error: everflow_runtime::Error| Failure::Work(error.to_string());
        let (events, mut revision) = self.list().await?;
        let header = self.header();
        let mut header = Some(header.as_slice());
        for event in &events {
            print_text(&table::render(header.take(), &[self.cells(event)]))?;
        }
        loop {
            let from = WatchFrom::Revision(revision);
            let selection = Selection::default();
            let mut stream = self
                .session
                .client
                .watch(&EVENTS, self.namespace(), &selection, from, WATCH_SPAN)
                .await
                .map_err(failed)?;
            while let Some(event) = stream.next().await.map_err(failed)? {
                match event {
                    WatchEvent::Set(event) => {
                        revision = everflow_runtime::client::revision(&event);
                        if self.fits(&event) {
                            print_text(&table::render(header.take(), &[self.cells(&event)]))?;
                        }
                    }
                    WatchEvent::Gone(event) => {
                        revision = everflow_runtime::client::revision(&event);
                    }
                    WatchEvent::Bookmark { revision: told, .. } => revision = told,
                    WatchEvent::Unreadable(_) => {}
                }
            }
        }
    }
}

fn references(kind: &Kind, object: &Value) -> Vec<Subject> {
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let spec = &object["spec"];
    let subject = |reference: &Value| {
        let text = |field: &str| reference[field].as_str().map(str::to_owned);
        let namespace = text("namespace").unwrap_or_else(|| own.to_owned());
        Some((text("kind")?, namespace, text("name")?))
    };
    match kind.name() {
        "Kustomization" | "HelmChart" => subject(&spec["sourceRef"]).into_iter().collect(),
        "HelmRelease" => {
            let chart = object["status"]["helmChart"].as_str().and_then(|chart| {
                let (namespace, name) = chart.split_once('/')?;
                Some((
                    "HelmChart".to_owned(),
                    namespace.to_owned(),
                    name.to_owned(),
                ))
            });
            let source = match &spec["chartRef"] {
                Value::Null => subject(&spec["chart"]["spec"]["sourceRef"]),
                reference => subject(reference),
            };
            source.into_iter().chain(chart).collect()
        }
        _ => Vec::new(),
    }
}

/// How long ago a moment was, as kubectl writes it.
pub fn age(session: &Session, moment: &Value) -> String {
    let moment = moment.as_str().and_then(Timestamp::parse);
    let Some(moment) = moment else {
        return "<unknown>".to_owned();
    };
    human(session.clock.now().seconds - moment.seconds)
}

fn human(seconds: i64) -> String {
    let (minute, hour, day) = (60, 3600, 86_400);
    let with_rest = |big: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{small_unit}"),
    };
    match seconds.max(0) {
        s if s < 2 * minute => format!("{s}s"),
        s if s < 10 * minute => with_rest(s / minute, "m", s % minute, "s"),
        s if s < 3 * hour => format!("{}m", s / minute),
        s if s < 8 * hour => with_rest(s / hour, "h", s % hour / minute, "m"),
        s if s < 2 * day => format!("{}h", s / hour),
        s if s < 8 * day => with_rest(s / day, "d", s % day / hour, "h"),
        s => format!("{}d", s / day),
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn ages_are_short() {
        for (seconds, text) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (301, "5m1s"),
            (7200, "120m"),
            (4 * 3600 + 60, "4h1m"),
            (30 * 3600, "30h"),
            (3 * 86_400, "3d"),
            (100 * 86_400, "100d"),
        ] {
            assert_eq!(human(seconds), text);
        }
    }
}
