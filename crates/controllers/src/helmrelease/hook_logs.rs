//! The logs of hooks, where the chart asks for them by `helm.sh/hook-output-log-policy`: they are told in the log of this
//! process, as Flux does, and nowhere else, for they may hold secrets.

use std::time::Duration;

use everflow_api::inventory::ObjectId;
use everflow_env::within;
use everflow_json::Value;
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, Client, Resource, Selection};

use super::attempt::Attempt;
use super::rounds::Work;

const PODS: Resource = Resource::namespaced("", "v1", "pods", "Pod");
/// So many pods of a hook are read, so many of their last lines, and for so long.
const MOST: (usize, usize, Duration) = (3, 100, Duration::from_secs(10));
/// So much is told of one line.
const LINE: usize = 2_000;

impl Attempt<'_> {
    /// Prints the logs of a hook's containers. That they cannot be had is said and no failure of the hook.
    pub(super) async fn print_hook_logs(&self, work: &Work, objects: &[Value]) {
        let clock = &*self.context.env.clock;
        let printing = async {
            for object in objects {
                let pods = pods_of(&work.target.client, object).await;
                let printed = match pods {
                    Ok(pods) => self.print_pods(&work.target.client, object, &pods).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = printed {
                    let subject = ObjectId::of(object).subject();
                    let what = format!("the log of hook {subject} cannot be read");
                    self.context.log.error(&what, &error.to_string());
                }
            }
        };
        if within(clock, MOST.2, printing).await.is_err() {
            let why = "the API server took too long";
            self.context
                .log
                .error("the log of a hook cannot be read", why);
        }
    }

    async fn print_pods(
        &self,
        client: &Client,
        hook: &Value,
        pods: &[Value],
    ) -> Result<(), ClientError> {
        let subject = ObjectId::of(hook).subject();
        for pod in pods.iter().take(MOST.0) {
            let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
            let names = containers.filter_map(|container| container["name"].as_str());
            for container in names {
                let path = PODS.object_path(&At::of(pod));
                let target = format!("{path}/log?container={container}&tailLines={}", MOST.1);
                let mut lines = client.lines(&target).await?;
                while let Some(mut line) = lines.next().await? {
                    let mut end = LINE.min(line.len());
                    while !line.is_char_boundary(end) {
                        end -= 1;
                    }
                    line.truncate(end);
                    let pod = pod["metadata"]["name"].as_str().unwrap_or_default();
                    let fields = [
                        ("hook", subject.as_str()),
                        ("pod", pod),
                        ("container", container),
                        ("line", line.as_str()),
                    ];
                    self.context.log.info("log of a hook", &fields);
                }
            }
        }
        Ok(())
    }
}

/// The pods of a hook: itself, or those of its Job.
async fn pods_of(client: &Client, object: &Value) -> Result<Vec<Value>, ClientError> {
    let at = At::of(object);
    if object["kind"] == "Pod" {
        return Ok(vec![client.get(&PODS, at).await?]);
    }
    let selection = Selection::labelled(format!("batch.kubernetes.io/job-name={}", at.name));
    let found = client
        .list_all(&PODS, Some(at.namespace), &selection)
        .await?;
    Ok(found.items)
}
