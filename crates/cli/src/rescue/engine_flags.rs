//! What the engine in the cluster is allowed: a rescue delivers nothing that the engine would refuse.

use everflow_controllers::Options;
use everflow_json::Value;
use everflow_runtime::client::{Client, Resource, Selection};

use super::Args;
use crate::exit::Failure;
use crate::flux::say;

const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");

/// Flags of the engine that say what is delivered in whose name.
#[derive(clap::Args, Debug)]
pub(super) struct EngineFlags {
    /// The service account of objects that name none, as the engine has it
    #[arg(long, value_name = "NAME")]
    default_service_account: Option<String>,
    /// Refuse references to other namespaces, as the engine does
    #[arg(long)]
    no_cross_namespace_refs: bool,
    /// Features to switch, as NAME=true,OTHER=false, as the engine has them
    #[arg(long, value_name = "GATES", default_value = "")]
    feature_gates: String,
}

/// What the arguments of the engine's Deployments say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    accounts: Vec<String>,
    no_cross_namespace_refs: bool,
}

/// The options of the engine.
pub(super) async fn options(client: &Client, args: &Args) -> Result<Options, Failure> {
    let all = Selection::default();
    let namespace = Some(args.engine_namespace.as_str());
    let seen = match client.list_all(&DEPLOYMENTS, namespace, &all).await {
        Ok(list) => seen(&list.items),
        Err(error) => {
            say::warning(&format!(
                "the flags of the engine cannot be seen ({error}): what is not given here is as by default"
            ));
            Seen::default()
        }
    };
    let mut options = Options::default();
    let gates = options.gates.parse(&args.flags.feature_gates);
    gates.map_err(|error| Failure::Usage(format!("--feature-gates: {error}")))?;
    let runtime = &mut options.runtime;
    runtime.no_cross_namespace_refs =
        args.flags.no_cross_namespace_refs || seen.no_cross_namespace_refs;
    runtime.default_service_account = match (
        &args.flags.default_service_account,
        seen.accounts.as_slice(),
    ) {
        (Some(given), _) => given.clone(),
        (None, []) => String::new(),
        (None, [one]) => one.clone(),
        (None, several) => {
            return Err(Failure::Work(format!(
                "the engine's Deployments have different default service accounts ({}): say which with \
                 --default-service-account",
                several.join(", ")
            )));
        }
    };
    if runtime.no_cross_namespace_refs {
        say::plain("  references to other namespaces are refused");
    }
    if !runtime.default_service_account.is_empty() {
        let name = &runtime.default_service_account;
        say::plain(&format!(
            "  the service account of objects that name none is {name}"
        ));
    }
    Ok(options)
}

/// Looks through the arguments of the containers of our engine, or of Flux's controllers.
fn seen(deployments: &[Value]) -> Seen {
    let mut seen = Seen::default();
    for deployment in deployments {
        let containers = deployment["spec"]["template"]["spec"]["containers"].as_array();
        for container in containers.into_iter().flatten() {
            let words = ["command", "args"]
                .iter()
                .flat_map(|field| container[*field].as_array())
                .flatten();
            let words: Vec<&str> = words.filter_map(Value::as_str).collect();
            look(&words, &mut seen);
        }
    }
    seen.accounts.sort();
    seen.accounts.dedup();
    seen
}

fn look(words: &[&str], seen: &mut Seen) {
    for (at, word) in words.iter().enumerate() {
        let (flag, value) = match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (*word, None),
        };
        match flag {
            "--default-service-account" => {
                let name = value
                    .or_else(|| words.get(at + 1).copied())
                    .unwrap_or_default();
                if !name.is_empty() {
                    seen.accounts.push(name.to_owned());
                }
            }
            "--no-cross-namespace-refs" => seen.no_cross_namespace_refs |= value != Some("false"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;

    fn deployment(words: &[&str]) -> Value {
        let words: Vec<Value> = words.iter().map(|word| (*word).into()).collect();
        json!({"spec": {"template": {"spec": {"containers": [{"args": words}]}}}})
    }

    #[test]
    fn flags_are_read_from_deployments_in_each_spelling() {
        let list = [
            deployment(&[
                "run",
                "--default-service-account=tenant",
                "--no-cross-namespace-refs",
            ]),
            deployment(&[
                "--default-service-account",
                "tenant",
                "--no-cross-namespace-refs=true",
            ]),
            deployment(&["--log-level=info"]),
            json!({}),
        ];
        let expected = Seen {
            accounts: vec!["tenant".to_owned()],
            no_cross_namespace_refs: true,
        };
        assert_eq!(seen(&list), expected);
        let other = [deployment(&[
            "--no-cross-namespace-refs=false",
            "--default-service-account=",
        ])];
        assert_eq!(seen(&other), Seen::default());
    }
}
