//! `everflow version`.

use std::collections::BTreeMap;

use everflow_json::{Map, Value, json};
use everflow_runtime::client::{Resource, Selection};

use crate::exit::Failure;
use crate::flux::connection::Connection;
use crate::flux::in_runtime;
use crate::output::{self, DataFormat};

/// Arguments of `everflow version`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Only the version of this program, not those of the controllers in the cluster
    #[arg(long)]
    client: bool,
    /// Print as data instead of text: json or yaml
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// The Flux release whose kinds and behaviour this build follows.
const FLUX_COMPATIBILITY: &str = "v2.9.5";
/// The Kubernetes release whose kinds this build carries.
const KUBERNETES: &str = "1.36";
/// What the Deployments of an installation are labelled with.
const PART_OF_FLUX: &str = "app.kubernetes.io/part-of=flux";

/// Prints the versions of this program and of the controllers.
pub fn run(args: &Args) -> Result<(), Failure> {
    let format = match args.output.as_deref() {
        None => None,
        Some("json") => Some(DataFormat::Json),
        Some("yaml") => Some(DataFormat::Yaml),
        Some(other) => {
            return Err(Failure::Work(format!(
                "--output must be json or yaml, not {other}"
            )));
        }
    };
    // Without a cluster the program still has a version.
    if args.client || !args.connection.is_configured() {
        return print(format, &BTreeMap::new());
    }
    in_runtime(async { print(format, &controllers(&args.connection).await?) })
}

fn print(
    format: Option<DataFormat>,
    controllers: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    match format {
        None => {
            let flux = FLUX_COMPATIBILITY.trim_start_matches('v');
            let mut text = format!("everflow v{version} (Flux {flux}, Kubernetes {KUBERNETES})\n");
            for (name, tag) in controllers {
                text.push_str(&format!("{name}: {tag}\n"));
            }
            output::print_text(&text)
        }
        Some(format) => {
            let mut data = Map::new();
            for (name, tag) in controllers {
                data.insert(name.as_str().into(), json!(tag));
            }
            data.insert("everflow".into(), json!(format!("v{version}")));
            data.insert("flux".into(), json!(FLUX_COMPATIBILITY));
            data.insert("kubernetes".into(), json!(KUBERNETES));
            output::print_data(&Value::Object(data), format)
        }
    }
}

/// The images of the controllers that run, by name.
async fn controllers(connection: &Connection) -> Result<BTreeMap<String, String>, Failure> {
    let session = connection.open()?;
    let deployments = Resource::namespaced("apps", "v1", "deployments", "Deployment");
    let namespace = &connection.namespace;
    let list = session
        .client
        .list_all(
            &deployments,
            Some(namespace),
            &Selection::labelled(PART_OF_FLUX),
        )
        .await
        .map_err(|error| Failure::Work(session.told_of(&error)))?;
    if list.items.is_empty() {
        return Err(Failure::Work(format!(
            "no deployments found in {namespace} namespace"
        )));
    }
    let mut found = BTreeMap::new();
    for deployment in &list.items {
        let containers = &deployment["spec"]["template"]["spec"]["containers"];
        for container in containers.as_array().into_iter().flatten() {
            let image = container["image"].as_str().unwrap_or_default();
            let (name, tag) = parts(image);
            found.insert(name.to_owned(), tag.to_owned());
        }
    }
    Ok(found)
}

/// The last part of the name of an image, and its tag or digest.
fn parts(image: &str) -> (&str, &str) {
    let (image, digest) = image.split_once('@').unwrap_or((image, ""));
    let last = image.rsplit('/').next().unwrap_or(image);
    match last.split_once(':') {
        Some((name, tag)) => (name, tag),
        None if digest.is_empty() => (last, "latest"),
        None => (last, digest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_taken_apart() {
        assert_eq!(
            parts("h:5000/fluxcd/source-controller:v1.7.0"),
            ("source-controller", "v1.7.0")
        );
        assert_eq!(parts("everflow@sha256:ab"), ("everflow", "sha256:ab"));
        assert_eq!(parts("everflow"), ("everflow", "latest"));
    }
}
