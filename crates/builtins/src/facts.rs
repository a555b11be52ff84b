//! The table of facts by group and plural name.

use super::validation::{
    admission, autoscaling, batch, claims, config, endpoints, events, limits, network, node, pod,
    policy, rbac, service as services, status, storage, warnings, workloads,
};
use super::{Generation, KindRules, Selectable, names, prepare, service};
use crate::prepare::read_text;
use everflow_json::Value;

macro_rules! facts {
    ($($group:literal { $($plural:literal => $rules:expr),* $(,)? })*) => {
        /// The rules of a kind that has an entry.
        pub(super) fn lookup(group: &str, plural: &str) -> Option<&'static KindRules> {
            match (group, plural) {
                $($(($group, $plural) => { static RULES: KindRules = $rules; Some(&RULES) })*)*
                _ => None,
            }
        }
    };
}

const BASE: KindRules = KindRules::BASE;
const SPEC: KindRules = KindRules {
    generation: Generation::Spec,
    has_status: true,
    ..BASE
};
const STATUS: KindRules = KindRules {
    has_status: true,
    ..BASE
};
const OBJECT: KindRules = KindRules {
    delete_answers_object: true,
    ..BASE
};

fn flag(object: &Value, pointer: &str) -> String {
    object
        .pointer(pointer)
        .and_then(Value::as_bool)
        .unwrap_or_default()
        .to_string()
}

fn number(object: &Value, pointer: &str) -> String {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
        .to_string()
}

const POD_FIELDS: Selectable = &[
    ("spec.nodeName", |o| read_text(o, "/spec/nodeName")),
    ("spec.restartPolicy", |o| {
        read_text(o, "/spec/restartPolicy")
    }),
    ("spec.schedulerName", |o| {
        read_text(o, "/spec/schedulerName")
    }),
    ("spec.serviceAccountName", |o| {
        read_text(o, "/spec/serviceAccountName")
    }),
    ("spec.hostNetwork", |o| flag(o, "/spec/hostNetwork")),
    ("status.phase", |o| read_text(o, "/status/phase")),
    ("status.podIP", |o| read_text(o, "/status/podIP")),
    ("status.podIPs", |o| read_text(o, "/status/podIP")),
    ("status.nominatedNodeName", |o| {
        read_text(o, "/status/nominatedNodeName")
    }),
];

const EVENT_FIELDS: Selectable = &[
    ("involvedObject.kind", |o| {
        read_text(o, "/involvedObject/kind")
    }),
    ("involvedObject.namespace", |o| {
        read_text(o, "/involvedObject/namespace")
    }),
    ("involvedObject.name", |o| {
        read_text(o, "/involvedObject/name")
    }),
    ("involvedObject.uid", |o| {
        read_text(o, "/involvedObject/uid")
    }),
    ("involvedObject.apiVersion", |o| {
        read_text(o, "/involvedObject/apiVersion")
    }),
    ("involvedObject.resourceVersion", |o| {
        read_text(o, "/involvedObject/resourceVersion")
    }),
    ("involvedObject.fieldPath", |o| {
        read_text(o, "/involvedObject/fieldPath")
    }),
    ("reason", |o| read_text(o, "/reason")),
    ("reportingComponent", |o| {
        read_text(o, "/reportingComponent")
    }),
    ("source", |o| {
        Some(read_text(o, "/source/component"))
            .filter(|text| !text.is_empty())
            .unwrap_or_else(|| read_text(o, "/reportingComponent"))
    }),
    ("type", |o| read_text(o, "/type")),
];

/// Read from the stored form, which is that of the core group.
const EVENTS_V1_FIELDS: Selectable = &[
    ("regarding.kind", |o| read_text(o, "/involvedObject/kind")),
    ("regarding.namespace", |o| {
        read_text(o, "/involvedObject/namespace")
    }),
    ("regarding.name", |o| read_text(o, "/involvedObject/name")),
    ("regarding.uid", |o| read_text(o, "/involvedObject/uid")),
    ("regarding.apiVersion", |o| {
        read_text(o, "/involvedObject/apiVersion")
    }),
    ("regarding.resourceVersion", |o| {
        read_text(o, "/involvedObject/resourceVersion")
    }),
    ("regarding.fieldPath", |o| {
        read_text(o, "/involvedObject/fieldPath")
    }),
    ("reason", |o| read_text(o, "/reason")),
    ("reportingController", |o| {
        read_text(o, "/reportingComponent")
    }),
    ("type", |o| read_text(o, "/type")),
];

facts! {
    "" {
        "configmaps" => KindRules { validate: config::config_map, validate_update: config::config_map_update, ..BASE },
        "secrets" => KindRules { warnings: config::secret_warnings, validate: config::secret, validate_update: config::secret_update, default: prepare::secret_default, prepare_create: prepare::secret_merge, prepare_update: prepare::secret_update, selectable: &[("type", |o| read_text(o, "/type"))], ..BASE },
        "endpoints" => KindRules { validate: endpoints::endpoints, validate_update: endpoints::endpoints_update, create_on_update: true, ..BASE },
        "events" => KindRules { checks_metadata: false, validate: events::core, validate_update: events::core_update, create_on_update: true, selectable: EVENT_FIELDS, ..BASE },
        "limitranges" => KindRules { checks_metadata: false, validate: limits::range, validate_update: limits::range_update, create_on_update: true, ..BASE },
        "namespaces" => KindRules { checks_metadata: false, validate: node::namespace, validate_update: node::namespace_update, validate_status: node::namespace_status, has_status: true, delete_answers_object: true, name: names::dns_label, prepare_create: prepare::namespace_create, prepare_update: prepare::namespace_update, selectable: &[("status.phase", |o| read_text(o, "/status/phase"))], ..BASE },
        "nodes" => KindRules { checks_metadata: false, default: prepare::node_default, validate: node::node, validate_update: node::node_update, validate_status: node::node_status, selectable: &[("spec.unschedulable", |o| flag(o, "/spec/unschedulable"))], ..STATUS },
        "persistentvolumeclaims" => KindRules { validate: claims::claim, validate_update: claims::claim_update, has_status: true, prepare_create: prepare::claim_create, ..OBJECT },
        "persistentvolumes" => KindRules { checks_metadata: false, validate: storage::volume, validate_update: storage::volume_update, has_status: true, prepare_create: prepare::volume_create, ..OBJECT },
        "pods" => KindRules { warnings: warnings::pod, validate: pod::create, validate_update: pod::update, validate_status: status::pod, has_status: true, generation: Generation::Spec, prepare_create: prepare::pod_create, prepare_update: prepare::pod_update, selectable: POD_FIELDS, ..OBJECT },
        "podtemplates" => KindRules { warnings: warnings::pod_template, validate: pod::pod_template, validate_update: pod::pod_template_update, generation: Generation::AllButStatus, ..OBJECT },
        "replicationcontrollers" => KindRules { warnings: warnings::workload, validate: workloads::replication_controller, validate_update: workloads::replication_controller_update, validate_status: status::replica_set, name: names::long_name, orphan_by_default: true, selectable: &[("status.replicas", |o| number(o, "/status/replicas"))], ..SPEC },
        "resourcequotas" => KindRules { validate: limits::quota, validate_update: limits::quota_update, validate_status: limits::quota_status, has_status: true, ..OBJECT },
        "serviceaccounts" => KindRules { prepare_create: prepare::service_account_create, prepare_update: prepare::service_account_update, validate_update: config::service_account_update, ..OBJECT },
        "services" => KindRules {
            warnings: warnings::service, validate: services::create, validate_update: services::update, validate_status: services::status_update, create_on_update: true,
            has_status: true,
            generation: Generation::Kept,
            name: names::dns_label,
            prepare_create: service::create,
            prepare_update: service::update,
            selectable: &[("spec.clusterIP", |o| read_text(o, "/spec/clusterIP")), ("spec.type", |o| read_text(o, "/spec/type"))],
            ..OBJECT
        },
    }
    "apps" {
        "deployments" => KindRules { warnings: warnings::deployment, validate: workloads::deployment, validate_update: workloads::deployment_update, validate_status: status::deployment, generation: Generation::SpecAndAnnotations, prepare_status: super::keep_labels_too, ..SPEC },
        "daemonsets" => KindRules { warnings: warnings::daemon_set, validate: workloads::daemon_set, validate_update: workloads::daemon_set_update, validate_status: status::daemon_set, default: prepare::daemon_set_default, prepare_create: prepare::daemon_set_create, prepare_update: prepare::daemon_set_update, ..SPEC },
        "replicasets" => KindRules { warnings: warnings::workload, validate: workloads::replica_set, validate_update: workloads::replica_set_update, validate_status: status::replica_set, ..SPEC },
        "statefulsets" => KindRules { warnings: warnings::stateful_set, validate: workloads::stateful_set, validate_update: workloads::stateful_set_update, validate_status: status::stateful_set, name: names::dns_label, ..SPEC },
        "controllerrevisions" => KindRules { validate: workloads::revision, validate_update: workloads::revision_update, ..BASE },
    }
    "autoscaling" {
        "horizontalpodautoscalers" => KindRules { validate: autoscaling::create, validate_update: autoscaling::update, validate_status: autoscaling::status_update, ..STATUS },
    }
    "batch" {
        "jobs" => KindRules { checks_metadata: false, warnings: warnings::job, validate: batch::job, validate_update: batch::job_update, validate_status: status::job, orphan_by_default: true, prepare_create: prepare::job_create, selectable: &[("status.successful", |o| number(o, "/status/succeeded"))], ..SPEC },
        "cronjobs" => KindRules { warnings: warnings::cron_job, validate: batch::cron_job, validate_update: batch::cron_job_update, ..SPEC },
    }
    "networking.k8s.io" {
        "ingresses" => KindRules { warnings: warnings::ingress, validate: network::ingress, validate_update: network::ingress_update, validate_status: network::ingress_status, ..SPEC },
        "networkpolicies" => KindRules { validate: network::policy, validate_update: network::policy_update, generation: Generation::Spec, ..BASE },
        "ingressclasses" => KindRules { validate: network::class, validate_update: network::class_update, generation: Generation::Spec, ..BASE },
        "ipaddresses" => BASE,
        "servicecidrs" => STATUS,
    }
    "policy" {
        "poddisruptionbudgets" => KindRules { name: names::path_segment, checks_metadata: false, validate: policy::budget, validate_update: policy::budget_update, validate_status: status::budget, unconditional_update: false, ..SPEC },
    }
    "rbac.authorization.k8s.io" {
        "roles" => KindRules { checks_metadata: false, validate: rbac::role, validate_update: rbac::role_update, create_on_update: true, name: names::path_segment, ..BASE },
        "clusterroles" => KindRules { checks_metadata: false, validate: rbac::cluster_role, validate_update: rbac::cluster_role_update, create_on_update: true, name: names::path_segment, ..BASE },
        "rolebindings" => KindRules { checks_metadata: false, validate: rbac::role_binding, validate_update: rbac::role_binding_update, create_on_update: true, name: names::path_segment, ..BASE },
        "clusterrolebindings" => KindRules { checks_metadata: false, validate: rbac::cluster_role_binding, validate_update: rbac::cluster_role_binding_update, create_on_update: true, name: names::path_segment, ..BASE },
    }
    "coordination.k8s.io" {
        "leases" => KindRules { validate: policy::lease, validate_update: policy::lease_update, create_on_update: true, unconditional_update: false, ..BASE },
    }
    "discovery.k8s.io" {
        "endpointslices" => KindRules { checks_metadata: false, validate: endpoints::slice, validate_update: endpoints::slice_update, generation: Generation::AllButStatus, ..BASE },
    }
    "events.k8s.io" {
        "events" => KindRules { checks_metadata: false, validate: events::event, validate_update: events::event_update, create_on_update: true, selectable: EVENTS_V1_FIELDS, ..BASE },
    }
    "storage.k8s.io" {
        "storageclasses" => KindRules { checks_metadata: false, validate: storage::class, validate_update: storage::class_update, ..OBJECT },
        "csidrivers" => KindRules { validate: storage::driver, validate_update: storage::driver_update, unconditional_update: false, generation: Generation::SpecAfterCreate, ..OBJECT },
        "csinodes" => KindRules { unconditional_update: false, ..OBJECT },
        "volumeattachments" => KindRules { has_status: true, ..OBJECT },
        "csistoragecapacities" => BASE,
        "volumeattributesclasses" => OBJECT,
    }
    "scheduling.k8s.io" {
        "priorityclasses" => KindRules { validate: policy::priority, validate_update: policy::priority_update, generation: Generation::Fixed, ..BASE },
    }
    "node.k8s.io" {
        "runtimeclasses" => KindRules { checks_metadata: false, validate: policy::runtime, validate_update: policy::runtime_update, create_on_update: true, unconditional_update: false, ..BASE },
    }
    "certificates.k8s.io" {
        "certificatesigningrequests" => KindRules { prepare_create: prepare::signing_request_create, prepare_update: prepare::signing_request_update, selectable: &[("spec.signerName", |o| read_text(o, "/spec/signerName"))], ..STATUS },
    }
    "admissionregistration.k8s.io" {
        "mutatingwebhookconfigurations" => KindRules { checks_metadata: false, validate: admission::webhooks, validate_update: admission::webhooks_update, unconditional_update: false, generation: Generation::AllButStatus, ..BASE },
        "validatingwebhookconfigurations" => KindRules { checks_metadata: false, validate: admission::webhooks, validate_update: admission::webhooks_update, unconditional_update: false, generation: Generation::AllButStatus, ..BASE },
        "validatingadmissionpolicies" => KindRules { checks_metadata: false, validate: admission::policy, validate_update: admission::policy_update, unconditional_update: false, ..SPEC },
        "validatingadmissionpolicybindings" => KindRules { checks_metadata: false, validate: admission::policy_binding, validate_update: admission::policy_binding_update, unconditional_update: false, generation: Generation::Spec, ..BASE },
        "mutatingadmissionpolicies" => KindRules { unconditional_update: false, generation: Generation::Spec, ..BASE },
        "mutatingadmissionpolicybindings" => KindRules { unconditional_update: false, generation: Generation::Spec, ..BASE },
    }
    "apiregistration.k8s.io" {
        "apiservices" => KindRules { unconditional_update: false, has_status: true, prepare_create: crate::services::prepare, ..BASE },
    }
    "apiextensions.k8s.io" {
        "customresourcedefinitions" => KindRules {
            unconditional_update: false,
            name: crate::definition::any_name,
            default: everflow_schema::crd::set_definition_defaults,
            validate: crate::definition::validate_definition,
            validate_update: crate::definition::validate_definition_update,
            prepare_create: crate::definition::prepare_definition,
            prepare_update: crate::definition::prepare_definition_update,
            ..SPEC
        },
    }
    "flowcontrol.apiserver.k8s.io" {
        "flowschemas" => SPEC,
        "prioritylevelconfigurations" => SPEC,
    }
}
