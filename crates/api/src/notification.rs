//! Alerts, providers and receivers: `notification.toolkit.fluxcd.io`.

use std::collections::BTreeMap;

use everflow_time::Duration;

use crate::common::{DURATION, INT64, LocalObjectReference, NoStatus, SHORT_DURATION};
use crate::condition::{Condition, reconciled};
use crate::crd::{AGE, MESSAGE, NOTIFICATIONS, READY};

kind! {
    /// Which events to send where.
    Alert in crate::names::group::NOTIFICATION {
        version: "v1beta3",
        plural: "alerts",
        singular: "alert",
        short_names: [],
        categories: NOTIFICATIONS,
        columns: [AGE],
        spec: AlertSpec,
        status: NoStatus, None, false,
    }
}

kind! {
    /// A service that takes notifications.
    Provider in crate::names::group::NOTIFICATION {
        version: "v1beta3",
        plural: "providers",
        singular: "provider",
        short_names: [],
        categories: NOTIFICATIONS,
        columns: [AGE],
        spec: ProviderSpec,
        status: NoStatus, None, false,
    }
}

kind! {
    /// A webhook that asks for attempts.
    Receiver in crate::names::group::NOTIFICATION {
        version: "v1",
        plural: "receivers",
        singular: "receiver",
        short_names: [],
        categories: NOTIFICATIONS,
        columns: [AGE, READY, MESSAGE],
        spec: ReceiverSpec,
        status: ReceiverStatus, Some(ReceiverStatus::RECORD), true,
    }
}

choice! {
    /// Which events count.
    pub enum EventSeverity {
        /// All.
        Info = "info",
        /// Errors.
        Error = "error",
    }
}

choice! {
    /// Kinds that events tell of and that webhooks wake.
    pub enum EventKind {
        /// A bucket.
        Bucket = "Bucket",
        /// A Git repository.
        GitRepository = "GitRepository",
        /// A Kustomization.
        Kustomization = "Kustomization",
        /// A Helm release.
        HelmRelease = "HelmRelease",
        /// A Helm chart.
        HelmChart = "HelmChart",
        /// A Helm repository.
        HelmRepository = "HelmRepository",
        /// The tags of an image.
        ImageRepository = "ImageRepository",
        /// The choice of a tag.
        ImagePolicy = "ImagePolicy",
        /// Commits with new tags.
        ImageUpdateAutomation = "ImageUpdateAutomation",
        /// An artifact in a registry.
        OciRepository = "OCIRepository",
        /// A maker of artifacts.
        ArtifactGenerator = "ArtifactGenerator",
        /// An artifact of another controller.
        ExternalArtifact = "ExternalArtifact",
    }
}

choice! {
    /// Services that take notifications.
    pub enum ProviderType {
        /// Slack.
        Slack = "slack",
        /// Discord.
        Discord = "discord",
        /// Microsoft Teams.
        MsTeams = "msteams",
        /// Rocket.Chat.
        Rocket = "rocket",
        /// Any webhook.
        Generic = "generic",
        /// Any webhook, with a signature.
        GenericHmac = "generic-hmac",
        /// Commit status on GitHub.
        GitHub = "github",
        /// Commit status on GitLab.
        GitLab = "gitlab",
        /// Commit status on Gitea.
        Gitea = "gitea",
        /// Comments on pull requests on Gitea.
        GiteaPullRequestComment = "giteapullrequestcomment",
        /// Commit status on Bitbucket Server.
        BitbucketServer = "bitbucketserver",
        /// Commit status on Bitbucket.
        Bitbucket = "bitbucket",
        /// Commit status on Azure DevOps.
        AzureDevOps = "azuredevops",
        /// Google Chat.
        GoogleChat = "googlechat",
        /// Google Pub/Sub.
        GooglePubSub = "googlepubsub",
        /// Webex.
        Webex = "webex",
        /// Sentry.
        Sentry = "sentry",
        /// Azure Event Hub.
        AzureEventHub = "azureeventhub",
        /// Telegram.
        Telegram = "telegram",
        /// Lark.
        Lark = "lark",
        /// Matrix.
        Matrix = "matrix",
        /// Opsgenie.
        Opsgenie = "opsgenie",
        /// Alertmanager.
        Alertmanager = "alertmanager",
        /// Grafana.
        Grafana = "grafana",
        /// Repository dispatch on GitHub.
        GitHubDispatch = "githubdispatch",
        /// Comments on pull requests on GitHub.
        GitHubPullRequestComment = "githubpullrequestcomment",
        /// Comments on merge requests on GitLab.
        GitLabMergeRequestComment = "gitlabmergerequestcomment",
        /// PagerDuty.
        PagerDuty = "pagerduty",
        /// Datadog.
        Datadog = "datadog",
        /// NATS.
        Nats = "nats",
        /// Zulip.
        Zulip = "zulip",
        /// OpenTelemetry.
        Otel = "otel",
        /// Zoom.
        Zoom = "zoom",
        /// incident.io.
        IncidentIo = "incident.io",
    }
}

choice! {
    /// Who calls a webhook.
    pub enum ReceiverType {
        /// Anyone.
        Generic = "generic",
        /// Anyone, with a signature.
        GenericHmac = "generic-hmac",
        /// Anyone, with a token of a known issuer.
        GenericOidc = "generic-oidc",
        /// GitHub.
        GitHub = "github",
        /// GitLab.
        GitLab = "gitlab",
        /// Bitbucket Server.
        Bitbucket = "bitbucket",
        /// Harbor.
        Harbor = "harbor",
        /// Docker Hub.
        DockerHub = "dockerhub",
        /// Quay.
        Quay = "quay",
        /// Google Container Registry.
        Gcr = "gcr",
        /// Nexus.
        Nexus = "nexus",
        /// Azure Container Registry.
        Acr = "acr",
        /// CDEvents.
        CdEvents = "cdevents",
    }
}

record! {
    /// Objects, by name or by labels.
    pub struct EventSource {
        /// The API version of the objects.
        api_version "apiVersion": Option<String>,
        /// The kind of the objects.
        kind "kind": EventKind,
        /// The name of the object, or * for all.
        name "name": String [MinLength(1), MaxLength(253)],
        /// The namespace of the objects; the same when none is given.
        namespace "namespace": Option<String> [MinLength(1), MaxLength(253)],
        /// Labels the objects have.
        match_labels "matchLabels": BTreeMap<String, String>,
    }
}

record! {
    /// Which events to send where.
    pub struct AlertSpec {
        /// The provider, in the same namespace.
        provider_ref "providerRef": LocalObjectReference,
        /// Which events count: info by default.
        event_severity "eventSeverity": Option<EventSeverity> [Default(r#""info""#)],
        /// The objects whose events count.
        event_sources "eventSources": Vec<EventSource> [Required],
        /// Expressions of which one must match the message.
        inclusion_list "inclusionList": Vec<String>,
        /// Metadata for the events.
        event_metadata "eventMetadata": BTreeMap<String, String>,
        /// Expressions of which none may match the message.
        exclusion_list "exclusionList": Vec<String>,
        /// A short text for the events; use eventMetadata instead.
        summary "summary": Option<String> [MaxLength(255)],
        /// Whether to leave it alone.
        suspend "suspend": bool,
    }
}

record! {
    /// How to reach a service that takes notifications.
    [Check {
        rule: "self.type == 'github' || self.type == 'gitlab' || self.type == 'gitea' || self.type == 'bitbucketserver' || self.type == 'bitbucket' || self.type == 'azuredevops' || !has(self.commitStatusExpr)",
        message: "spec.commitStatusExpr is only supported for the 'github', 'gitlab', 'gitea', 'bitbucketserver', 'bitbucket', 'azuredevops' provider types",
    }]
    pub struct ProviderSpec {
        /// Which service.
        provider_type "type": ProviderType,
        /// Not heeded any more.
        interval "interval": Option<Duration> [DURATION],
        /// The channel to post to.
        channel "channel": Option<String> [MaxLength(2048)],
        /// The name to post under.
        username "username": Option<String> [MaxLength(2048)],
        /// The address of the service.
        address "address": Option<String> [MaxLength(2048)],
        /// How long sending may take.
        timeout "timeout": Option<Duration> [SHORT_DURATION],
        /// The proxy to go through; use proxySecretRef instead.
        proxy "proxy": Option<String> [Pattern("^(http|https)://.*$"), MaxLength(2048)],
        /// The Secret with the proxy to go through.
        proxy_secret_ref "proxySecretRef": Option<LocalObjectReference>,
        /// The Secret to sign in with.
        secret_ref "secretRef": Option<LocalObjectReference>,
        /// The ServiceAccount to sign in with.
        service_account_name "serviceAccountName": Option<String>,
        /// The Secret with certificates.
        cert_secret_ref "certSecretRef": Option<LocalObjectReference>,
        /// Whether to leave it alone.
        suspend "suspend": bool,
        /// A CEL expression for the name of the commit status.
        commit_status_expr "commitStatusExpr": Option<String>,
    }
}

record! {
    /// Who calls, and what to wake.
    [
        Check {
            rule: "self.type != 'generic-oidc' || (has(self.oidcProviders) && size(self.oidcProviders) > 0)",
            message: "generic-oidc receivers must define at least one oidcProvider",
        },
        Check {
            rule: "self.type == 'generic-oidc' || !has(self.oidcProviders) || size(self.oidcProviders) == 0",
            message: "oidcProviders can only be set when type is generic-oidc",
        },
        Check {
            rule: "self.type != 'generic-oidc' || !has(self.secretRef)",
            message: "secretRef cannot be set when type is generic-oidc",
        },
        Check {
            rule: "self.type == 'generic-oidc' || has(self.secretRef)",
            message: "secretRef is required when type is not generic-oidc",
        },
    ]
    pub struct ReceiverSpec {
        /// Who calls.
        receiver_type "type": ReceiverType,
        /// How often to look at the secret.
        interval "interval": Option<Duration> [DURATION, Default(r#""10m""#)],
        /// The events that count.
        events "events": Vec<String>,
        /// The objects to wake.
        resources "resources": Vec<ReceiverResource> [Required],
        /// A CEL expression for the objects that are woken.
        resource_filter "resourceFilter": Option<String>,
        /// The Secret with the token.
        secret_ref "secretRef": Option<LocalObjectReference>,
        /// The issuers whose tokens are taken, for generic-oidc.
        oidc_providers "oidcProviders": Vec<OIDCProvider> [ListMap(&["issuerURL"])],
        /// Whether to leave it alone.
        suspend "suspend": bool,
    }
}

record! {
    /// Objects to wake, by name or by labels.
    pub struct ReceiverResource {
        /// The API version of the objects.
        api_version "apiVersion": Option<String>,
        /// The kind of the objects.
        kind "kind": EventKind,
        /// The name of the object, or * for all.
        name "name": String [MinLength(1), MaxLength(253)],
        /// The namespace of the objects; the same when none is given.
        namespace "namespace": Option<String> [MinLength(1), MaxLength(253)],
        /// Labels the objects have.
        match_labels "matchLabels": BTreeMap<String, String>,
        /// A CEL expression for the objects that are woken.
        filter "filter": Option<String>,
    }
}

record! {
    /// An issuer whose tokens are taken.
    pub struct OIDCProvider {
        /// The address of the issuer.
        issuer_url "issuerURL": String [Pattern("^https?://")],
        /// The audience of the tokens: notification-controller by default.
        audience "audience": Option<String>,
        /// Variables for the expressions below.
        variables "variables": Vec<OIDCVariable>,
        /// What must hold for a token.
        validations "validations": Vec<OIDCValidation> [Required, MinItems(1)],
    }
}

record! {
    /// A variable in CEL.
    pub struct OIDCVariable {
        /// Its name.
        name "name": String,
        /// Its value, as a CEL expression.
        expression "expression": String,
    }
}

record! {
    /// What must hold for a token.
    pub struct OIDCValidation {
        /// A CEL expression.
        expression "expression": String,
        /// What is said when it does not hold.
        message "message": String,
    }
}

record! {
    /// What is known of the webhook.
    pub struct ReceiverStatus {
        /// The last request for an attempt that was heeded.
        last_handled_reconcile_at "lastHandledReconcileAt": Option<String>,
        /// How it stands.
        conditions "conditions": Vec<Condition>,
        /// The path of the webhook.
        webhook_path "webhookPath": Option<String>,
        /// The generation of the spec that was last heeded.
        observed_generation "observedGeneration": i64 [INT64],
    }
}

reconciled!(ReceiverStatus);
