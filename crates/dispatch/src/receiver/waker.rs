//! Asks for attempts of objects. Calls for one object that come in a burst share requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everflow_api::names::annotation::REQUESTED_AT;
use everflow_env::Env;
use everflow_json::json;
use everflow_runtime::client::{At, Client, Patch, Resource, WriteOptions};
use tokio::sync::oneshot;

use crate::report::CONTROLLER;

/// After an object was asked for, further calls for it wait this long and then ask once for all of them.
const GAP: Duration = Duration::from_millis(500);

/// An object.
pub(super) type Object = (Resource, String, String);

/// Why an object could not be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AnnotateError {
    /// The API server is away: the caller may try again.
    Away(String),
    /// There is no such object, or it may not be changed.
    Refused(String),
}

type Answer = oneshot::Sender<Result<(), AnnotateError>>;

/// Asks for attempts. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Waker {
    env: Env,
    client: Client,
    /// Who waits for the next request about an object that was asked for lately.
    waiting: Arc<Mutex<BTreeMap<Object, Vec<Answer>>>>,
}

impl Waker {
    pub(super) fn new(env: &Env, client: &Client) -> Self {
        Waker {
            env: env.clone(),
            client: client.clone(),
            waiting: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Object, Vec<Answer>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for an attempt of an object, by a request that is sent after this call.
    pub(super) async fn wake(&self, object: Object) -> Result<(), AnnotateError> {
        let (answer, heard) = oneshot::channel();
        let is_first = {
            let mut waiting = self.lock();
            let is_first = !waiting.contains_key(&object);
            waiting.entry(object.clone()).or_default().push(answer);
            is_first
        };
        if is_first {
            // The request is sent even when the caller goes away.
            tokio::spawn(self.clone().ask_for(object));
        }
        let stopped = || Err(AnnotateError::Away("the program stops".to_owned()));
        heard.await.unwrap_or_else(|_| stopped())
    }

    /// Asks for an object as long as somebody waits for it.
    async fn ask_for(self, object: Object) {
        loop {
            let answers = {
                let mut waiting = self.lock();
                let answers = waiting
                    .get_mut(&object)
                    .map(std::mem::take)
                    .unwrap_or_default();
                if answers.is_empty() {
                    waiting.remove(&object);
                    return;
                }
                answers
            };
            let asked = self.annotate(&object).await;
            for answer in answers {
                // A caller that is gone need not know.
                let _ = answer.send(asked.clone());
            }
            self.env.clock.sleep(GAP).await;
        }
    }

    async fn annotate(&self, (resource, namespace, name): &Object) -> Result<(), AnnotateError> {
        let now = self.env.clock.now().rfc3339_micro();
        let patch = Patch::Merge(json!({"metadata": {"annotations": {REQUESTED_AT: now}}}));
        let options = WriteOptions::by(CONTROLLER).without_managed_fields();
        let at = At::new(namespace, name);
        match self.client.patch(resource, at, &patch, &options).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_transient() => Err(AnnotateError::Away(error.to_string())),
            Err(error) => Err(AnnotateError::Refused(error.to_string())),
        }
    }
}
