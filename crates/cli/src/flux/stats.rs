//! `everflow stats`

use everflow_json::Value;
use everflow_runtime::client::Selection;

use super::connection::Connection;
use super::row::condition;
use super::{in_runtime, kinds, table};
use crate::exit::Failure;
use crate::output::print_text;

/// In the order in which they are shown.
const SHOWN: [&str; 13] = [
    "GitRepository",
    "OCIRepository",
    "HelmRepository",
    "HelmChart",
    "Bucket",
    "Kustomization",
    "HelmRelease",
    "Alert",
    "Provider",
    "Receiver",
    "ImageUpdateAutomation",
    "ImagePolicy",
    "ImageRepository",
];

/// `everflow stats`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    let namespace = (!args.all_namespaces).then_some(args.connection.namespace.as_str());
    in_runtime(async {
        let session = args.connection.open()?;
        let mut rows = Vec::new();
        for name in SHOWN {
            let kind = kinds::required(name)?;
            let listed = session
                .client
                .list_all(&kind.resource, namespace, &Selection::default())
                .await;
            let items = match listed {
                Ok(list) => list.items,
                // A cluster need not have all kinds.
                Err(everflow_runtime::Error::NotFound(_)) => Vec::new(),
                Err(error) => return Err(Failure::Work(session.told(kind, &error))),
            };
            rows.push(row(name, &items));
        }
        let header = ["RECONCILERS", "RUNNING", "FAILING", "SUSPENDED", "STORAGE"];
        print_text(&table::render(Some(&header), &rows))
    })
}

fn row(name: &str, items: &[Value]) -> Vec<String> {
    let count = |fits: fn(&Value) -> bool| items.iter().filter(|object| fits(object)).count();
    let suspended = count(|object| object["spec"]["suspend"] == true);
    let failing =
        count(|object| condition(object, "Ready").is_some_and(|ready| ready["status"] == "False"));
    let size: i64 = items
        .iter()
        .filter_map(|object| object["status"]["artifact"]["size"].as_i64())
        .sum();
    vec![
        name.to_owned(),
        (items.len() - suspended).to_string(),
        failing.to_string(),
        suspended.to_string(),
        shown(size),
    ]
}

/// A size in the largest unit that fits.
fn shown(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes == 0 {
        return "-".to_owned();
    }
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut divisor, mut unit) = (1024_i64, 0);
    while bytes / divisor >= 1024 && unit + 1 < UNITS.len() {
        divisor *= 1024;
        unit += 1;
    }
    // Sizes that matter here fit exactly.
    #[allow(clippy::cast_precision_loss)]
    let amount = bytes as f64 / divisor as f64;
    format!("{amount:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_largest_unit() {
        assert_eq!(shown(0), "-");
        assert_eq!(shown(734), "734 B");
        assert_eq!(shown(1050), "1.0 KiB");
        assert_eq!(shown(3 << 20), "3.0 MiB");
    }
}
