//! What a cluster has that judges new objects by more than the rules of Kubernetes itself.

use std::collections::BTreeMap;

use everflow_json::Value;
use everflow_runtime::client::Resource;

use super::Reason;

/// What judges new objects in a cluster beyond the rules of the built-in kinds.
#[derive(Debug, Clone, Default)]
pub struct ClusterRules {
    /// What holds for all objects, with what it is called.
    all: Option<(Reason, String)>,
    /// Webhooks and policies.
    judges: Vec<Judge>,
    /// Quotas and ranges by namespace.
    bounds: BTreeMap<String, (Reason, String)>,
}

/// A webhook or a policy.
#[derive(Debug, Clone)]
struct Judge {
    reason: Reason,
    /// Its kind and name.
    shown: String,
    /// What it is called for; everything where it does not say.
    rules: Option<Vec<CallRule>>,
}

/// For which requests a webhook or a policy is called.
#[derive(Debug, Clone)]
struct CallRule {
    groups: Vec<String>,
    resources: Vec<String>,
    operations: Vec<String>,
}

/// Deployments and others were in this group once. What asks for them there is called for today's, too.
const FORMER_GROUP: &str = "extensions";

impl CallRule {
    fn read(rule: &Value) -> Self {
        let texts = |field: &str| {
            let all = rule[field].as_array().into_iter().flatten();
            all.filter_map(|text| text.as_str().map(str::to_owned))
                .collect()
        };
        CallRule {
            groups: texts("apiGroups"),
            resources: texts("resources"),
            operations: texts("operations"),
        }
    }

    /// Versions, scopes and selectors are not looked at: asking the server once too often does no harm.
    fn is_called_for_new(&self, resource: &Resource) -> bool {
        let has = |all: &[String], wanted: &[&str]| {
            all.iter()
                .any(|one| one == "*" || wanted.contains(&one.as_str()))
        };
        has(&self.operations, &["CREATE"])
            && has(&self.resources, &["*/*", &resource.plural])
            && has(&self.groups, &[&resource.group, FORMER_GROUP])
    }
}

impl ClusterRules {
    /// Nothing could be learnt of the cluster.
    pub(super) fn unknown(why: String) -> Self {
        ClusterRules {
            all: Some((Reason::Unknown, why)),
            ..ClusterRules::default()
        }
    }

    /// The version that the server says it has, against the newest one that is known here (`1.36.1`).
    pub(super) fn note_version(&mut self, answer: &Value, known: &str) {
        let number = |text: &str| {
            let digits = text.trim_start_matches('v');
            let end = digits.find(|c: char| !c.is_ascii_digit());
            digits[..end.unwrap_or(digits.len())].parse::<u32>().ok()
        };
        let part = |field: &str| number(answer[field].as_str()?);
        let mut parts = known.split('.').map(number);
        let (major, minor) = (parts.next().flatten(), parts.next().flatten());
        let served = (part("major"), part("minor"));
        let shown = answer["gitVersion"].as_str().unwrap_or("none");
        if served.0.is_none() || served.1.is_none() {
            self.all = Some((Reason::Unknown, format!("it says version {shown}")));
        } else if served > (major, minor) {
            self.all = Some((Reason::NewerKubernetes, shown.to_owned()));
        }
    }

    /// A configuration of webhooks, a policy, a quota or a range of limits.
    pub(super) fn note(&mut self, kind: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let shown = format!("{kind}/{name}");
        let rules = |list: &Value| {
            let list = list.as_array()?.iter();
            Some(list.map(CallRule::read).collect::<Vec<_>>())
        };
        let called_for = |reason, rules| Judge {
            reason,
            shown: shown.clone(),
            rules,
        };
        let namespace = || {
            let namespace = object["metadata"]["namespace"].as_str();
            namespace.unwrap_or_default().to_owned()
        };
        match kind {
            "ResourceQuota" => {
                self.bounds.insert(namespace(), (Reason::Quota, shown));
            }
            "LimitRange" => {
                let bound = (Reason::LimitRange, shown);
                self.bounds.entry(namespace()).or_insert(bound);
            }
            "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => {
                let rules = rules(&object["spec"]["matchConstraints"]["resourceRules"]);
                self.judges.push(called_for(Reason::Policy, rules));
            }
            _ => {
                for webhook in object["webhooks"].as_array().into_iter().flatten() {
                    let rules = rules(&webhook["rules"]);
                    self.judges.push(called_for(Reason::Webhook, rules));
                }
            }
        }
    }

    /// Why the server could judge a new object otherwise than its built-in rules say, and what it is there.
    pub(super) fn asks_server(
        &self,
        resource: &Resource,
        namespace: &str,
    ) -> Option<(Reason, &str)> {
        if let Some((reason, shown)) = &self.all {
            return Some((*reason, shown));
        }
        let is_called = |judge: &&Judge| {
            let rules = judge.rules.as_ref();
            rules.is_none_or(|rules| rules.iter().any(|rule| rule.is_called_for_new(resource)))
        };
        if let Some(judge) = self.judges.iter().find(is_called) {
            return Some((judge.reason, &judge.shown));
        }
        let (reason, shown) = self.bounds.get(namespace)?;
        Some((*reason, shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_json::json;

    const DEPLOYMENTS: Resource = Resource::namespaced("apps", "v1", "deployments", "Deployment");
    const SERVICES: Resource = Resource::namespaced("", "v1", "services", "Service");

    fn rules(kind: &str, object: Value) -> ClusterRules {
        let mut rules = ClusterRules::default();
        rules.note(kind, &object);
        rules
    }

    fn reason(rules: &ClusterRules, resource: &Resource) -> Option<Reason> {
        let found = rules.asks_server(resource, "apps");
        found.map(|(reason, _)| reason)
    }

    fn rule(group: &str, resource: &str, operation: &str) -> Value {
        json!([{"apiGroups": [group], "apiVersions": ["v1"], "resources": [resource], "operations": [operation]}])
    }

    fn webhook(rules: Value) -> Value {
        json!({"metadata": {"name": "guard"}, "webhooks": [{"name": "a.example.com", "rules": rules}]})
    }

    #[test]
    fn preflight_is_local_when_no_admission_rules_are_installed() {
        assert_eq!(reason(&ClusterRules::default(), &DEPLOYMENTS), None);
    }

    #[test]
    fn a_webhook_for_new_deployments_asks_the_server_for_deployments_only() {
        for kind in [
            "ValidatingWebhookConfiguration",
            "MutatingWebhookConfiguration",
        ] {
            let rules = rules(kind, webhook(rule("apps", "deployments", "CREATE")));
            assert_eq!(reason(&rules, &DEPLOYMENTS), Some(Reason::Webhook));
            assert_eq!(reason(&rules, &SERVICES), None);
            let named = rules.asks_server(&DEPLOYMENTS, "apps").unwrap().1;
            assert_eq!(named, format!("{kind}/guard"));
        }
    }

    #[test]
    fn webhooks_match_wildcards_and_former_groups_and_no_other_operations() {
        let kind = "ValidatingWebhookConfiguration";
        for (group, resource, operation, expected) in [
            ("*", "*", "*", Some(Reason::Webhook)),
            ("*", "*/*", "CREATE", Some(Reason::Webhook)),
            ("extensions", "deployments", "CREATE", Some(Reason::Webhook)),
            ("apps", "deployments", "UPDATE", None),
            ("apps", "deployments/scale", "CREATE", None),
            ("serving.example.com", "deployments", "CREATE", None),
        ] {
            let rules = rules(kind, webhook(rule(group, resource, operation)));
            let found = reason(&rules, &DEPLOYMENTS);
            assert_eq!(found, expected, "{group} {resource} {operation}");
        }
    }

    #[test]
    fn an_admission_policy_asks_the_server_for_what_it_matches() {
        for kind in ["ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"] {
            let constraints = json!({"resourceRules": rule("apps", "*", "CREATE")});
            let policy =
                json!({"metadata": {"name": "p"}, "spec": {"matchConstraints": constraints}});
            let rules = rules(kind, policy);
            assert_eq!(reason(&rules, &DEPLOYMENTS), Some(Reason::Policy));
            assert_eq!(reason(&rules, &SERVICES), None);
        }
    }

    #[test]
    fn a_policy_that_does_not_say_what_it_matches_asks_the_server_for_everything() {
        let rules = rules("ValidatingAdmissionPolicy", json!({"spec": {}}));
        assert_eq!(reason(&rules, &SERVICES), Some(Reason::Policy));
    }

    #[test]
    fn quotas_and_limit_ranges_ask_the_server_in_their_namespace_only() {
        for (kind, expected) in [
            ("ResourceQuota", Reason::Quota),
            ("LimitRange", Reason::LimitRange),
        ] {
            let rules = rules(
                kind,
                json!({"metadata": {"name": "q", "namespace": "apps"}}),
            );
            assert_eq!(reason(&rules, &DEPLOYMENTS), Some(expected));
            assert_eq!(rules.asks_server(&DEPLOYMENTS, "other"), None);
        }
    }

    #[test]
    fn only_a_newer_or_unreadable_version_asks_the_server() {
        for (major, minor, expected) in [
            ("1", "36", None),
            ("1", "35+", None),
            ("1", "37", Some(Reason::NewerKubernetes)),
            ("1", "37+", Some(Reason::NewerKubernetes)),
            ("2", "0", Some(Reason::NewerKubernetes)),
            ("", "", Some(Reason::Unknown)),
        ] {
            let mut rules = ClusterRules::default();
            let answer = json!({"major": major, "minor": minor, "gitVersion": "v"});
            rules.note_version(&answer, "1.36.1");
            assert_eq!(reason(&rules, &SERVICES), expected, "{major}.{minor}");
        }
    }
}
