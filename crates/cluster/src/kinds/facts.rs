//! The table of facts by group and plural name.

use super::{Generation, KindRules, names};

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

facts! {
    "" {
        "configmaps" => BASE,
        "secrets" => BASE,
        "endpoints" => BASE,
        "events" => KindRules { create_on_update: true, ..BASE },
        "limitranges" => BASE,
        "namespaces" => KindRules { has_status: true, delete_answers_object: true, name: names::dns_label, ..BASE },
        "nodes" => STATUS,
        "persistentvolumeclaims" => KindRules { has_status: true, ..OBJECT },
        "persistentvolumes" => KindRules { has_status: true, ..OBJECT },
        "pods" => KindRules { has_status: true, generation: Generation::Spec, ..OBJECT },
        "podtemplates" => KindRules { generation: Generation::AllButStatus, ..OBJECT },
        "replicationcontrollers" => KindRules { orphan_by_default: true, ..SPEC },
        "resourcequotas" => KindRules { has_status: true, ..OBJECT },
        "serviceaccounts" => OBJECT,
        "services" => KindRules { create_on_update: true, has_status: true, generation: Generation::Kept, name: names::dns1035_label, ..OBJECT },
    }
    "apps" {
        "deployments" => KindRules { generation: Generation::SpecAndAnnotations, ..SPEC },
        "daemonsets" => SPEC,
        "replicasets" => SPEC,
        "statefulsets" => SPEC,
        "controllerrevisions" => BASE,
    }
    "autoscaling" {
        "horizontalpodautoscalers" => STATUS,
    }
    "batch" {
        "jobs" => KindRules { orphan_by_default: true, ..SPEC },
        "cronjobs" => SPEC,
    }
    "networking.k8s.io" {
        "ingresses" => SPEC,
        "networkpolicies" => KindRules { generation: Generation::Spec, ..BASE },
        "ingressclasses" => KindRules { generation: Generation::Spec, ..BASE },
        "ipaddresses" => BASE,
        "servicecidrs" => STATUS,
    }
    "policy" {
        "poddisruptionbudgets" => KindRules { unconditional_update: false, ..SPEC },
    }
    "rbac.authorization.k8s.io" {
        "roles" => KindRules { create_on_update: true, name: names::path_segment, ..BASE },
        "clusterroles" => KindRules { create_on_update: true, name: names::path_segment, ..BASE },
        "rolebindings" => KindRules { create_on_update: true, name: names::path_segment, ..BASE },
        "clusterrolebindings" => KindRules { create_on_update: true, name: names::path_segment, ..BASE },
    }
    "coordination.k8s.io" {
        "leases" => KindRules { create_on_update: true, unconditional_update: false, ..BASE },
    }
    "discovery.k8s.io" {
        "endpointslices" => KindRules { generation: Generation::AllButStatus, ..BASE },
    }
    "events.k8s.io" {
        "events" => KindRules { create_on_update: true, ..BASE },
    }
    "storage.k8s.io" {
        "storageclasses" => OBJECT,
        "csidrivers" => KindRules { generation: Generation::Spec, ..OBJECT },
        "csinodes" => OBJECT,
        "volumeattachments" => KindRules { has_status: true, ..OBJECT },
        "csistoragecapacities" => BASE,
        "volumeattributesclasses" => OBJECT,
    }
    "scheduling.k8s.io" {
        "priorityclasses" => BASE,
    }
    "node.k8s.io" {
        "runtimeclasses" => BASE,
    }
    "certificates.k8s.io" {
        "certificatesigningrequests" => STATUS,
    }
    "admissionregistration.k8s.io" {
        "mutatingwebhookconfigurations" => KindRules { generation: Generation::AllButStatus, ..BASE },
        "validatingwebhookconfigurations" => KindRules { generation: Generation::AllButStatus, ..BASE },
        "validatingadmissionpolicies" => SPEC,
        "validatingadmissionpolicybindings" => KindRules { generation: Generation::Spec, ..BASE },
        "mutatingadmissionpolicies" => KindRules { generation: Generation::Spec, ..BASE },
        "mutatingadmissionpolicybindings" => KindRules { generation: Generation::Spec, ..BASE },
    }
    "apiextensions.k8s.io" {
        "customresourcedefinitions" => KindRules { unconditional_update: false, ..SPEC },
    }
    "flowcontrol.apiserver.k8s.io" {
        "flowschemas" => SPEC,
        "prioritylevelconfigurations" => SPEC,
    }
}
