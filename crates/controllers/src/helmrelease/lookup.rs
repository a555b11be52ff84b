//! `lookup` in templates, against the live cluster.
//!
//! Templates run where no request can be waited for. What they look up and nobody has asked the server about yet
//! is noted, and seems to be missing; then the server is asked, and the chart is rendered once more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use everflow_helm::render::Lookup;
use everflow_json::{Value, json};
use everflow_runtime::Error as ClientError;
use everflow_runtime::client::{At, Client, Selection};

use super::attempt::Halt;

/// What is looked up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Question {
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
}

/// What the server has answered so far.
pub(super) type Answers = Arc<BTreeMap<Question, Result<Value, String>>>;

/// Answers from what is known, and notes what is not.
#[derive(Debug, Clone, Default)]
pub(super) struct Recorded {
    pub(super) answers: Answers,
    open: Arc<Mutex<BTreeSet<Question>>>,
}

impl Recorded {
    pub(super) fn new(answers: Answers) -> Self {
        Recorded {
            answers,
            open: Arc::default(),
        }
    }

    /// What was looked up and is not known.
    pub(super) fn open(&self) -> BTreeSet<Question> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut open)
    }
}

impl Lookup for Recorded {
    fn lookup(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Value, String> {
        let question = Question {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        if let Some(answer) = self.answers.get(&question) {
            return answer.clone();
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.insert(question);
        Ok(json!({}))
    }
}

/// Asks the server, in the name of whom it is to be done.
pub(super) async fn answer(
    client: &Client,
    question: &Question,
) -> Result<Result<Value, String>, Halt> {
    let Question {
        api_version,
        kind,
        namespace,
        name,
    } = question;
    let resource = match client.resource(api_version, kind).await {
        Ok(resource) => resource,
        Err(error @ ClientError::NoKind { .. }) => {
            let why = format!(
                "unable to get apiresource from unstructured: {api_version}, Kind={kind}: {error}"
            );
            return Ok(Err(why));
        }
        Err(error) => return Err(Halt::unanswered(error)),
    };
    let namespace = match resource.namespaced {
        true => namespace.as_str(),
        false => "",
    };
    let found = match name.as_str() {
        "" => {
            let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
            let all = Selection::default();
            let listed = client.list_all(&resource, namespace, &all).await;
            listed.map(|list| {
                json!({
                    "apiVersion": api_version, "kind": format!("{kind}List"),
                    "metadata": {"resourceVersion": list.revision.to_string()}, "items": list.items,
                })
            })
        }
        name => client.get(&resource, At::new(namespace, name)).await,
    };
    match found {
        Ok(found) => Ok(Ok(found)),
        Err(ClientError::NotFound(_)) => Ok(Ok(json!({}))),
        Err(error) if error.is_transient() => Err(Halt::unanswered(error)),
        Err(error @ ClientError::Fenced { .. }) => Err(Halt::unanswered(error)),
        Err(error) => Ok(Err(error.to_string())),
    }
}
