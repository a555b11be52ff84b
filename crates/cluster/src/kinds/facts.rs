//! The table of facts by group and plural name.

use super::{Generation, KindRules, Selectable, names, prepare, service, validate};
use crate::kinds::prepare::read_text;
use serde_json::Value;

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
        "configmaps" => KindRules { validate: validate::config_map, validate_update: validate::config_map_update, ..BASE },
        "secrets" => KindRules { validate: validate::secret, validate_update: validate::secret_update, default: prepare::secret_default, prepare_create: prepare::secret_merge, prepare_update: prepare::secret_update, selectable: &[("type", |o| read_text(o, "/type"))], ..BASE },
        "endpoints" => KindRules { create_on_update: true,  ..BASE },
        "events" => KindRules { create_on_update: true, selectable: EVENT_FIELDS, ..BASE },
        "limitranges" => KindRules { create_on_update: true, ..BASE },
        "namespaces" => KindRules { has_status: true, delete_answers_object: true, name: names::dns_label, prepare_create: prepare::namespace_create, prepare_update: prepare::namespace_update, selectable: &[("status.phase", |o| read_text(o, "/status/phase"))], ..BASE },
        "nodes" => KindRules { selectable: &[("spec.unschedulable", |o| flag(o, "/spec/unschedulable"))], ..STATUS },
        "persistentvolumeclaims" => KindRules { has_status: true, prepare_create: prepare::claim_create, ..OBJECT },
        "persistentvolumes" => KindRules { has_status: true, prepare_create: prepare::volume_create, ..OBJECT },
        "pods" => KindRules { validate: validate::pod, validate_update: validate::pod_update, has_status: true, generation: Generation::Spec, prepare_create: prepare::pod_create, selectable: POD_FIELDS, ..OBJECT },
        "podtemplates" => KindRules { generation: Generation::AllButStatus, ..OBJECT },
        "replicationcontrollers" => KindRules { orphan_by_default: true, selectable: &[("status.replicas", |o| number(o, "/status/replicas"))], ..SPEC },
        "resourcequotas" => KindRules { has_status: true, ..OBJECT },
        "serviceaccounts" => OBJECT,
        "services" => KindRules {
            warnings: validate::service_warnings, create_on_update: true,
            has_status: true,
            generation: Generation::Kept,
            name: names::dns1035_label,
            prepare_create: service::create,
            prepare_update: service::update,
            selectable: &[("spec.clusterIP", |o| read_text(o, "/spec/clusterIP")), ("spec.type", |o| read_text(o, "/spec/type"))],
            ..OBJECT
        },
    }
    "apps" {
        "deployments" => KindRules { warnings: validate::template_warnings, validate: validate::workload, validate_update: validate::workload_update, generation: Generation::SpecAndAnnotations, prepare_status: super::keep_labels_too, ..SPEC },
        "daemonsets" => KindRules { warnings: validate::template_warnings, validate: validate::workload, validate_update: validate::workload_update, default: prepare::daemon_set_default, prepare_create: prepare::daemon_set_create, prepare_update: prepare::daemon_set_update, ..SPEC },
        "replicasets" => KindRules { warnings: validate::template_warnings, validate: validate::workload, validate_update: validate::workload_update, ..SPEC },
        "statefulsets" => KindRules { warnings: validate::template_warnings, validate: validate::workload, ..SPEC },
        "controllerrevisions" => KindRules { validate_update: validate::revision_update, ..BASE },
    }
    "autoscaling" {
        "horizontalpodautoscalers" => KindRules { validate: validate::autoscaler, validate_update: validate::autoscaler_update, ..STATUS },
    }
    "batch" {
        "jobs" => KindRules { orphan_by_default: true, prepare_create: prepare::job_create, selectable: &[("status.successful", |o| number(o, "/status/succeeded"))], ..SPEC },
        "cronjobs" => SPEC,
    }
    "networking.k8s.io" {
        "ingresses" => KindRules { warnings: validate::ingress_warnings, ..SPEC },
        "networkpolicies" => KindRules { generation: Generation::Spec, ..BASE },
        "ingressclasses" => KindRules { generation: Generation::Spec, ..BASE },
        "ipaddresses" => BASE,
        "servicecidrs" => STATUS,
    }
    "policy" {
        "poddisruptionbudgets" => KindRules { unconditional_update: false, ..SPEC },
    }
    "rbac.authorization.k8s.io" {
        "roles" => KindRules { validate: validate::role, validate_update: validate::role_update, create_on_update: true, name: names::path_segment, ..BASE },
        "clusterroles" => KindRules { validate: validate::role, validate_update: validate::role_update, create_on_update: true, name: names::path_segment, ..BASE },
        "rolebindings" => KindRules { validate: validate::binding, validate_update: validate::binding_update, create_on_update: true, name: names::path_segment, ..BASE },
        "clusterrolebindings" => KindRules { validate: validate::binding, validate_update: validate::binding_update, create_on_update: true, name: names::path_segment, ..BASE },
    }
    "coordination.k8s.io" {
        "leases" => KindRules { create_on_update: true, unconditional_update: false, ..BASE },
    }
    "discovery.k8s.io" {
        "endpointslices" => KindRules { generation: Generation::AllButStatus, ..BASE },
    }
    "events.k8s.io" {
        "events" => KindRules { create_on_update: true, selectable: EVENTS_V1_FIELDS, ..BASE },
    }
    "storage.k8s.io" {
        "storageclasses" => KindRules { validate_update: validate::storage_class_update, ..OBJECT },
        "csidrivers" => KindRules { unconditional_update: false, generation: Generation::SpecAfterCreate, ..OBJECT },
        "csinodes" => KindRules { unconditional_update: false, ..OBJECT },
        "volumeattachments" => KindRules { has_status: true, ..OBJECT },
        "csistoragecapacities" => BASE,
        "volumeattributesclasses" => OBJECT,
    }
    "scheduling.k8s.io" {
        "priorityclasses" => KindRules { generation: Generation::Fixed, ..BASE },
    }
    "node.k8s.io" {
        "runtimeclasses" => KindRules { create_on_update: true, unconditional_update: false, ..BASE },
    }
    "certificates.k8s.io" {
        "certificatesigningrequests" => KindRules { prepare_create: prepare::signing_request_create, prepare_update: prepare::signing_request_update, selectable: &[("spec.signerName", |o| read_text(o, "/spec/signerName"))], ..STATUS },
    }
    "admissionregistration.k8s.io" {
        "mutatingwebhookconfigurations" => KindRules { unconditional_update: false, generation: Generation::AllButStatus, ..BASE },
        "validatingwebhookconfigurations" => KindRules { unconditional_update: false, generation: Generation::AllButStatus, ..BASE },
        "validatingadmissionpolicies" => KindRules { unconditional_update: false, ..SPEC },
        "validatingadmissionpolicybindings" => KindRules { unconditional_update: false, generation: Generation::Spec, ..BASE },
        "mutatingadmissionpolicies" => KindRules { unconditional_update: false, generation: Generation::Spec, ..BASE },
        "mutatingadmissionpolicybindings" => KindRules { unconditional_update: false, generation: Generation::Spec, ..BASE },
    }
    "apiextensions.k8s.io" {
        "customresourcedefinitions" => KindRules {
            unconditional_update: false,
            name: crate::crd::any_name,
            default: everflow_schema::crd::set_definition_defaults,
            validate: crate::crd::validate_definition,
            validate_update: crate::crd::validate_definition_update,
            prepare_create: crate::crd::prepare_definition,
            prepare_update: crate::crd::prepare_definition_update,
            ..SPEC
        },
    }
    "flowcontrol.apiserver.k8s.io" {
        "flowschemas" => SPEC,
        "prioritylevelconfigurations" => SPEC,
    }
}
