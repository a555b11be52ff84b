//! The build of an attempt: its variables, its keys, and what kustomize makes of the tree.

use std::sync::Arc;

use everflow_api::reason::Reason;
use everflow_build::{Built, Warning};
use everflow_env::run_blocking;
use everflow_runtime::events::Severity;

use super::artifact::Tree;
use super::attempt::Attempt;
use super::inputs;
use super::stop::{Failure, Stop};

impl Attempt<'_> {
    /// What was built. An error within is one of the build itself, which counts only once the
    /// cluster is known to be reachable.
    pub(super) async fn build(&mut self, tree: Arc<Tree>) -> Result<Result<Built, Stop>, Stop> {
        let placeholders = self.options().kustomize.placeholders;
        let client = &self.context.client;
        let variables = inputs::variables_there(&self.object, client, placeholders).await;
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
        let kustomization = self.object.clone();
        let (strict, cache) = (
            self.options().gates.strict_post_build_substitutions,
            self.controller.cache.clone(),
        );
        let without_remote = self.options().kustomize.without_remote;
        let built = run_blocking(&*self.context.env.blocking, move || {
            let mut request = everflow_build::Request::new(&kustomization, &tree.files);
            request.strict = strict;
            request.without_remote = without_remote;
            request.fitted = placeholders;
            request.cache = Some(&cache);
            let keys = keys.unwrap_or_default();
            request.keys = &keys;
            match &variables {
                Ok((variables, lacking)) => {
                    request.variables = variables;
                    request.placeholders = *lacking;
                    if *lacking {
                        request.strict = true;
                    }
                }
                Err(unread) => request.no_variables = Some(&unread.message),
            }
            if without_keys {
                request.keep_encrypted = true;
                request.masked = true;
            }
            everflow_build::build(&request)
        });
        let built = match built.await {
            Some(built) => built,
            None => {
                return Err(Stop::failed(
                    Reason::BuildFailed,
                    "the build broke: a mistake in this program",
                ));
            }
        };
        if let Err(everflow_build::Error::PathNotFound { .. }) = &built {
            let message = built
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default();
            return Err(Stop::failed(Reason::ArtifactFailed, message));
        }
        self.draft.status.last_attempted_revision = Some(self.draft.revision.clone());
        self.progress("Building manifests");
        let failed = |message| Failure::new(Reason::BuildFailed, message).passing(transient);
        if let Some(unread) = keys_failed {
            return Ok(Err(failed(unread.message).into()));
        }
        Ok(built.map_err(|error| failed(error.to_string()).into()))
    }

    /// What should be known of a build, when it is new.
    pub(super) fn tell_warnings(&mut self, warnings: &[Warning]) {
        for warning in warnings {
            let severity = match warning.grave {
                true => Severity::Error,
                false => Severity::Info,
            };
            self.draft.tell(severity, warning.text.clone());
        }
    }
}
