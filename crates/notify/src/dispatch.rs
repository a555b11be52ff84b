//! From an event that matches an Alert to a delivery, or the reason why there is none.

use everflow_api::notification::{Alert, Provider, ProviderType};
use everflow_api::{Object, Reason};

use crate::alert::Warning;
use crate::git::status;
use crate::provider::{AlertName, Delivery, DeliveryContext, Outgoing, Secrets, Settings, is_git};
use crate::{Combined, Error, Event};

/// What the administrator allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Alerts may not tell of objects in other namespaces.
    pub no_cross_namespace_refs: bool,
    /// Providers may name ServiceAccounts.
    pub object_level_workload_identity: bool,
}

/// Why an event that matches is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// The Provider is suspended.
    Suspended,
    /// The event only tells that the status of a commit should be set, and the service keeps none.
    OnlyCommitStatus,
    /// The service keeps the status of commits, and the event is not about one.
    NoCommit,
    /// The service comments on pull requests, and the event names none.
    NoChangeRequest,
}

/// What becomes of an event that matches an Alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dispatch {
    /// It is not sent.
    Skip(Skip),
    /// It is sent like this.
    Send(Box<Notification>),
}

/// An event with what an Alert adds to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The event, and keys that clash.
    pub combined: Combined,
    alert: AlertName,
}

/// Decides what becomes of an event after [`Event::clean`] and [`Event::drop_token`]. `provider` is the Alert's, or why
/// it could not be read.
///
/// # Errors
/// When it may not be sent, or there is no Provider.
pub fn dispatch(
    event: &Event,
    alert: &Object<Alert>,
    provider: Result<&Object<Provider>, &str>,
    options: &Options,
) -> Result<Dispatch, Error> {
    let namespace = alert.metadata.namespace();
    if options.no_cross_namespace_refs && event.involved.namespace != namespace {
        return Err(Error::CrossNamespace {
            alert: format!("{namespace}/{}", alert.metadata.name),
            object: event.involved.path(),
        });
    }
    let provider = provider.map_err(|why| Error::Provider(why.to_owned()))?;
    if let Some(skip) = skip(event, provider) {
        return Ok(Dispatch::Skip(skip));
    }
    let names_account = provider
        .spec
        .service_account_name
        .as_deref()
        .unwrap_or_default();
    if !names_account.is_empty() && !options.object_level_workload_identity {
        return Err(Error::IdentityGateClosed);
    }
    Ok(Dispatch::Send(Box::new(Notification {
        combined: event.combined(&alert.spec),
        alert: AlertName::of(alert),
    })))
}

fn skip(event: &Event, provider: &Object<Provider>) -> Option<Skip> {
    use ProviderType::{
        Generic, GenericHmac, GitHubPullRequestComment, GitLabMergeRequestComment,
        GiteaPullRequestComment,
    };
    let kind = provider.spec.provider_type;
    if provider.spec.suspend {
        return Some(Skip::Suspended);
    }
    let is_update = event.is_commit_status_update();
    if is_update && !is_git(kind) && !matches!(kind, Generic | GenericHmac) {
        return Some(Skip::OnlyCommitStatus);
    }
    // Controllers do not mark what went wrong as an update, but it belongs on the commit.
    if is_git(kind) && !event.names_commit() && !is_update && !event.is_error() {
        return Some(Skip::NoCommit);
    }
    let comments = matches!(
        kind,
        GitHubPullRequestComment | GitLabMergeRequestComment | GiteaPullRequestComment
    );
    (comments && !event.names_change_request()).then_some(Skip::NoChangeRequest)
}

impl Notification {
    /// The warning for the Alert about keys that several have set, with who did as annotations.
    pub fn warning(&self) -> Option<Warning> {
        (!self.combined.conflicts.is_empty()).then(|| Warning {
            reason: Reason::MetadataAppendFailed,
            message: Combined::CONFLICT.to_owned(),
        })
    }

    /// The delivery to the Provider.
    ///
    /// # Errors
    /// When the Provider, a Secret or the expression for the name of the commit status cannot be used.
    pub fn delivery(
        &self,
        alert: &Object<Alert>,
        provider: &Object<Provider>,
        secrets: &Secrets,
        context: &DeliveryContext,
    ) -> Result<Delivery, Error> {
        let event = &self.combined.event;
        let commit_status = match is_git(provider.spec.provider_type) {
            true => status::name(event, alert, provider)?,
            false => String::new(),
        };
        let settings = Settings::new(provider, secrets)?;
        let outgoing = Outgoing {
            event,
            alert: &self.alert,
            commit_status: &commit_status,
            context,
        };
        Delivery::new(&settings, &outgoing)
    }
}
