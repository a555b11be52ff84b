//! The build of an attempt: its variables, its keys, and what kustomize makes of the tree.

use std::collections::BTreeMap;
use std::sync::Arc;

use everflow_api::common::ConfigKind;
use everflow_api::kustomization::Kustomization;
use everflow_api::object::Object;
use everflow_api::reason::Reason;
use everflow_build::{Built, Keys, Place, Warning};
use everflow_env::run_budgeted;
use everflow_json::Value;
use everflow_kustomize::{Cache, Limits};
use everflow_limits::{Budget, Exceeded};
use everflow_runtime::client::Concealed;
use everflow_runtime::events::Severity;

use super::attempt::Attempt;
use super::inputs::{self, Unread};
use super::results::{Key, Results};
use crate::Fingerprint;
use crate::artifact::Tree;
use crate::stop::{Failure, RetryPolicy, Stop};

/// How much room the results of builds may take. It is for what is small and asked for often; a thousand
/// Kustomizations cost half a kilobyte each, and what has no room is built anew, which costs little.
const KEPT: usize = 512 << 10;

/// Trees of JSON take several times the room of their text.
const ROOM: usize = 4;

/// What is kept of builds.
#[derive(Debug)]
pub(super) struct Builds {
    /// What they came to.
    results: Results<Result<Built, Unbuilt>>,
    /// Where objects stand that were refused; failures are tried again often. A few are enough.
    places: Results<Vec<Option<Place>>>,
}

impl Default for Builds {
    fn default() -> Self {
        Builds {
            results: Results::new(KEPT),
            places: Results::new(KEPT / 8),
        }
    }
}

/// Why something cannot be built.
#[derive(Debug, Clone)]
struct Unbuilt {
    /// Whether the source has no such path.
    no_such_path: bool,
    /// What there was too much of.
    exceeded: Option<Exceeded>,
    /// In words.
    message: String,
}

/// What a build depends on beside the files and the Kustomization.
struct With {
    limits: Limits,
    strict: bool,
    without_remote: bool,
    fitted: bool,
    without_keys: bool,
    keys: Keys,
    /// The variables of `substituteFrom`, and whether a holder of them is not there.
    variables: Result<(BTreeMap<String, String>, bool), Unread>,
}

impl With {
    /// By which key the result may be kept. What secrets went into is not kept.
    fn key(&self, of: &Object<Kustomization>, spec: &Value, tree: &Tree) -> Option<Fingerprint> {
        let holders = of.spec.post_build.iter();
        let mut holders = holders.flat_map(|post| &post.substitute_from);
        if of.spec.decryption.is_some() || holders.any(|it| it.kind == ConfigKind::Secret) {
            return None;
        }
        let mut key = Key::default()
            .and(&of.metadata.name)
            .and(of.metadata.namespace())
            .and(&tree.digest)
            .and_value(spec);
        let flags = [
            self.strict,
            self.without_remote,
            self.fitted,
            self.without_keys,
        ];
        for flag in flags {
            key = key.and(if flag { "1" } else { "0" });
        }
        let key = match &self.variables {
            Ok((variables, lacking)) => {
                let key = key.and(if *lacking { "lacking" } else { "all" });
                let each = variables.iter();
                each.fold(key, |key, (name, value)| key.and(name).and(value))
            }
            Err(unread) => key.and("unread").and(&unread.message),
        };
        Some(key.done())
    }

    fn build(
        &self,
        of: &Object<Kustomization>,
        tree: &Tree,
        cache: &Cache,
        budget: &Budget,
    ) -> Result<Built, Unbuilt> {
        let mut request = everflow_build::Request::new(of, &tree.files, budget);
        request.limits = self.limits;
        request.strict = self.strict;
        request.without_remote = self.without_remote;
        request.fitted = self.fitted;
        request.cache = Some(cache);
        request.keys = &self.keys;
        match &self.variables {
            Ok((variables, lacking)) => {
                request.variables = variables;
                request.placeholders = *lacking;
                if *lacking {
                    request.strict = true;
                }
            }
            Err(unread) => request.no_variables = Some(&unread.message),
        }
        if self.without_keys {
            request.keep_encrypted = true;
            request.masked = true;
        }
        everflow_build::build(&request).map_err(|error| Unbuilt {
            no_such_path: matches!(error, everflow_build::Error::PathNotFound { .. }),
            exceeded: error.exceeded().cloned(),
            message: error.to_string(),
        })
    }
}

/// Whether a result is that of every such build. One that ran out of time or memory of others is not.
fn is_final(built: &Result<Built, Unbuilt>) -> bool {
    let exceeded = built.as_ref().err().and_then(|it| it.exceeded.as_ref());
    exceeded.is_none_or(|exceeded| !exceeded.is_transient())
}

/// What has to happen before a build that failed can succeed.
fn next(unbuilt: &Unbuilt, inputs_may_come: bool) -> RetryPolicy {
    match &unbuilt.exceeded {
        Some(exceeded) if exceeded.is_transient() => RetryPolicy::Return,
        // Trying it again costs all that it may cost.
        Some(_) => RetryPolicy::Change,
        None if inputs_may_come => RetryPolicy::Return,
        None => RetryPolicy::Retry,
    }
}

/// How much room a result takes.
fn size(built: &Result<Built, Unbuilt>) -> usize {
    match built {
        Ok(built) => built.size * ROOM,
        Err(unbuilt) => unbuilt.message.len(),
    }
}

impl Attempt<'_> {
    /// What was built. An error within is one of the build itself, which counts only once the
    /// cluster is known to be reachable.
    pub(super) async fn build(&mut self, tree: Arc<Tree>) -> Result<Result<Built, Stop>, Stop> {
        let placeholders = self.options().kustomize.placeholders;
        let client = &self.context.client;
        let mut concealed = Concealed::default();
        let variables =
            inputs::variables_there(&self.object, client, placeholders, &mut concealed).await;
        self.concealed = Arc::new(concealed);
        let keys = inputs::keys(&self.object, client, self.options()).await;
        let without_keys = placeholders
            && self.object.spec.decryption.is_some()
            && keys.as_ref().map_or(true, everflow_build::Keys::is_empty);
        let keys = match without_keys {
            true => Ok(everflow_build::Keys::new()),
            false => keys,
        };
        let keys_failed = keys.as_ref().err().cloned();
        let unread = [variables.as_ref().err(), keys_failed.as_ref()];
        let transient = unread.iter().flatten().any(|unread| unread.transient);
        let with = With {
            limits: self.options().kustomize.build_limits,
            strict: self.options().gates.strict_post_build_substitutions,
            without_remote: self.options().kustomize.without_remote,
            fitted: placeholders,
            without_keys,
            keys: keys.unwrap_or_default(),
            variables,
        };
        let key = with.key(&self.object, &self.given["spec"], &tree);
        let built = match key
            .as_ref()
            .and_then(|key| self.controller.builds.results.get(key))
        {
            Some(known) => known,
            None => self.build_anew(with, tree, key).await?,
        };
        let built = Arc::unwrap_or_clone(built);
        if let Err(unbuilt) = &built
            && unbuilt.no_such_path
        {
            let message = unbuilt.message.clone();
            return Err(Stop::failed(Reason::ArtifactFailed, message));
        }
        self.draft.status.last_attempted_revision = Some(self.draft.revision.clone());
        self.progress("Building manifests");
        let failed = |message| Failure::new(Reason::BuildFailed, message);
        if let Some(unread) = keys_failed {
            return Ok(Err(failed(unread.message).passing(transient).into()));
        }
        Ok(built.map_err(|unbuilt| {
            let then = next(&unbuilt, transient);
            failed(unbuilt.message).then(then).into()
        }))
    }

    async fn build_anew(
        &self,
        with: With,
        tree: Arc<Tree>,
        key: Option<Fingerprint>,
    ) -> Result<Arc<Result<Built, Unbuilt>>, Stop> {
        let (kustomization, cache) = (self.object.clone(), self.controller.cache.clone());
        let builds = self.controller.builds.clone();
        let built = run_budgeted(&*self.context.env.blocking, move |budget| {
            let built = Arc::new(with.build(&kustomization, &tree, &cache, budget));
            if let Some(key) = key.filter(|_| is_final(&built)) {
                builds.results.keep(key, size(&built), built.clone());
            }
            built
        });
        let broke = "the build broke: a mistake in this program";
        let built = built.await;
        built.ok_or_else(|| Stop::failed(Reason::BuildFailed, broke))
    }

    /// Where objects of the build stand in the source: `apiVersion`, kind and name of each.
    pub(super) async fn places(
        &self,
        wanted: Vec<(String, String, String)>,
        tree: Arc<Tree>,
    ) -> Arc<Vec<Option<Place>>> {
        let spec = &self.given["spec"];
        let key = Key::default().and(&tree.digest).and_value(spec);
        let key = wanted.iter().fold(key, |key, (api_version, kind, name)| {
            key.and(api_version).and(kind).and(name)
        });
        let key = key.done();
        let builds = self.controller.builds.clone();
        if let Some(known) = builds.places.get(&key) {
            return known;
        }
        let kustomization = self.object.clone();
        let limits = self.options().kustomize.build_limits;
        let places = run_budgeted(&*self.context.env.blocking, move |budget| {
            let mut request = everflow_build::Request::new(&kustomization, &tree.files, budget);
            request.limits = limits;
            let places = Arc::new(everflow_build::places(&request, &wanted));
            let paths = places.iter().flatten().map(|place| place.path.len());
            let size = paths.sum::<usize>() + places.len() * size_of::<Option<Place>>();
            if budget.check().is_ok() {
                builds.places.keep(key, size, places.clone());
            }
            places
        });
        places.await.unwrap_or_default()
    }

    /// What should be known of a build, when it is new.
    pub(super) fn record_warnings(&mut self, warnings: &[Warning]) {
        for warning in warnings {
            let severity = match warning.grave {
                true => Severity::Error,
                false => Severity::Info,
            };
            self.draft.record_event(severity, warning.text.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_failure_is_retried_soon_and_not_cached() {
        let result = |exceeded: Option<Exceeded>| {
            let unbuilt = Unbuilt {
                no_such_path: false,
                exceeded,
                message: String::new(),
            };
            (next(&unbuilt, false), is_final(&Err(unbuilt)))
        };
        assert_eq!(
            result(Some(Exceeded::Stopped)),
            (RetryPolicy::Return, false)
        );
        let crowded = Exceeded::Crowded { limit: 1 };
        assert_eq!(result(Some(crowded)), (RetryPolicy::Return, false));
        let memory = Exceeded::Memory { limit: 1 };
        assert_eq!(result(Some(memory)), (RetryPolicy::Change, true));
        assert_eq!(result(None), (RetryPolicy::Retry, true));
    }
}
