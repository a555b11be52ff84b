//! `everflow tree`

use std::collections::BTreeSet;
use std::pin::Pin;

use everflow_api::inventory::ObjectId;
use everflow_json::{Value, json};
use everflow_runtime::Error;
use everflow_runtime::client::At;

use super::connection::{Connection, Session};
use super::in_runtime;
use super::kinds::{self, Kind};
use crate::exit::Failure;
use crate::output::{DataFormat, print_data, print_text};

/// `everflow tree`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The kind (kustomization, artifact generator), and the name of the object
    #[arg(value_name = "KIND NAME")]
    words: Vec<String>,
    /// Only objects of Flux
    #[arg(long)]
    compact: bool,
    /// Print the tree as data instead
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<DataFormat>,
    #[command(flatten)]
    connection: Connection,
}

/// An object and what it manages.
struct Branch {
    id: ObjectId,
    below: Vec<Branch>,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (kind, names) = kinds::choose_one("tree", &args.words)?;
    if !matches!(kind.name(), "Kustomization" | "ArtifactGenerator") {
        return Err(Failure::help("tree"));
    }
    let Some(name) = names.first() else {
        return Err(Failure::Work(format!("{} name is required", kind.noun)));
    };
    in_runtime(async {
        let session = args.connection.open()?;
        let at = At::new(&args.connection.namespace, name);
        let object = session.client.get(&kind.resource, at).await;
        let object = object.map_err(|error| Failure::Work(session.told(kind, &error)))?;
        let mut walk = Walk {
            session: &session,
            compact: args.compact,
            seen: BTreeSet::new(),
        };
        let id = ObjectId::of(&object);
        let below = walk.below(object).await?;
        let root = Branch { id, below };
        match args.output {
            Some(DataFormat::Json) => {
                let mut text = String::new();
                as_json(&root, 0, &mut text);
                print_text(&format!("{text}\n"))
            }
            Some(format) => print_data(&as_data(&root), format),
            None => print_text(&format!("{}\n", drawn(&root))),
        }
    })
}

struct Walk<'a> {
    session: &'a Session,
    compact: bool,
    /// What was looked into: objects that manage one another must not go on for ever.
    seen: BTreeSet<String>,
}

type Found<'f> = Pin<Box<dyn Future<Output = Result<Vec<Branch>, Failure>> + 'f>>;

impl Walk<'_> {
    /// What an object manages, by its inventory.
    fn below(&mut self, object: Value) -> Found<'_> {
        Box::pin(async move {
            let mut branches = Vec::new();
            let entries = object["status"]["inventory"]["entries"].as_array();
            for entry in entries.into_iter().flatten() {
                let id = entry["id"].as_str().unwrap_or_default();
                let Ok(id) = id.parse::<ObjectId>() else {
                    continue;
                };
                let kind = kinds::named(&id.kind).filter(|kind| kind.resource.group == id.group);
                if self.compact && kind.is_none() {
                    continue;
                }
                let below = match kind.filter(|kind| has_inventory(kind)) {
                    Some(kind) => self.look_into(kind, &id).await?,
                    None => Vec::new(),
                };
                branches.push(Branch { id, below });
            }
            branches.extend(artifacts(&object).map(|id| Branch {
                id,
                below: Vec::new(),
            }));
            Ok(branches)
        })
    }

    async fn look_into(&mut self, kind: &Kind, id: &ObjectId) -> Result<Vec<Branch>, Failure> {
        if !self.seen.insert(id.subject()) {
            return Ok(Vec::new());
        }
        let at = At::new(&id.namespace, &id.name);
        match self.session.client.get(&kind.resource, at).await {
            Ok(object) => self.below(object).await,
            Err(Error::NotFound(_)) => Ok(Vec::new()),
            Err(error) => Err(Failure::Work(error.to_string())),
        }
    }
}

/// What an ArtifactGenerator has made.
fn artifacts(object: &Value) -> impl Iterator<Item = ObjectId> {
    let entries = object["status"]["inventory"].as_array();
    entries.into_iter().flatten().map(|entry| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        ObjectId {
            namespace: text("namespace"),
            name: text("name"),
            group: "source.toolkit.fluxcd.io".to_owned(),
            kind: "ExternalArtifact".to_owned(),
        }
    })
}

fn has_inventory(kind: &Kind) -> bool {
    matches!(kind.name(), "Kustomization" | "HelmRelease")
}

fn label(id: &ObjectId) -> String {
    match id.namespace.is_empty() {
        true => format!("{}/{}", id.kind, id.name),
        false => format!("{}/{}/{}", id.kind, id.namespace, id.name),
    }
}

fn drawn(root: &Branch) -> String {
    let mut out = format!("{}\n", label(&root.id));
    draw(&root.below, "", &mut out);
    out
}

fn draw(branches: &[Branch], before: &str, out: &mut String) {
    for (index, branch) in branches.iter().enumerate() {
        let is_last = index + 1 == branches.len();
        let (turn, next) = if is_last {
            ("└── ", "    ")
        } else {
            ("├── ", "│   ")
        };
        out.push_str(&format!("{before}{turn}{}\n", label(&branch.id)));
        draw(&branch.below, &format!("{before}{next}"), out);
    }
}

/// The tree in the order of fields that flux has.
fn as_json(branch: &Branch, indent: usize, out: &mut String) {
    let pad = "  ".repeat(indent);
    let text = |text: &str| Value::String(text.into()).to_string();
    let id = &branch.id;
    out.push_str(&format!("{{\n{pad}  \"resource\": {{\n"));
    out.push_str(&format!(
        "{pad}    \"Namespace\": {},\n",
        text(&id.namespace)
    ));
    out.push_str(&format!("{pad}    \"Name\": {},\n", text(&id.name)));
    out.push_str(&format!("{pad}    \"GroupKind\": {{\n"));
    out.push_str(&format!("{pad}      \"Group\": {},\n", text(&id.group)));
    out.push_str(&format!("{pad}      \"Kind\": {}\n", text(&id.kind)));
    out.push_str(&format!("{pad}    }}\n{pad}  }}"));
    for (index, below) in branch.below.iter().enumerate() {
        let before = if index == 0 {
            ",\n  PAD\"resources\": [\n"
        } else {
            ",\n"
        };
        out.push_str(&before.replace("PAD", &pad));
        out.push_str(&format!("{pad}    "));
        as_json(below, indent + 2, out);
    }
    if !branch.below.is_empty() {
        out.push_str(&format!("\n{pad}  ]"));
    }
    out.push_str(&format!("\n{pad}}}"));
}

fn as_data(branch: &Branch) -> Value {
    let mut data = json!({
        "resource": {
            "Namespace": branch.id.namespace,
            "Name": branch.id.name,
            "GroupKind": {"Group": branch.id.group, "Kind": branch.id.kind},
        },
    });
    if !branch.below.is_empty() {
        data["resources"] = branch.below.iter().map(as_data).collect();
    }
    data
}
