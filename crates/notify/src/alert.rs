//! Which Alerts an event matches.

use std::collections::BTreeMap;

use everflow_api::notification::{Alert, EventSeverity, EventSource};
use everflow_api::{Object, Reason};
use everflow_schema::structural::{Pattern, Patterns};

use crate::Event;

/// What is known of the labels of the object that an event is about.
#[derive(Debug, Clone, Copy)]
pub enum Labels<'l> {
    /// They could not be read: the object is gone, its kind is not known, the server does not answer.
    Unavailable,
    /// The labels.
    Known(&'l BTreeMap<String, String>),
}

/// A warning that belongs on an Alert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The reason of the Event.
    pub reason: Reason,
    /// Its message.
    pub message: String,
}

/// An Alert, prepared for many events.
#[derive(Debug, Clone)]
pub struct Matcher {
    is_suspended: bool,
    only_errors: bool,
    sources: Vec<Source>,
    included: Vec<Rule>,
    excluded: Vec<Rule>,
}

#[derive(Debug, Clone)]
struct Source {
    kind: &'static str,
    namespace: String,
    /// None for all.
    name: Option<String>,
    labels: Option<Selector>,
}

#[derive(Debug, Clone)]
enum Selector {
    Labels(BTreeMap<String, String>),
    /// With `KIND/NAMESPACE/NAME` of the source.
    Invalid(String),
}

#[derive(Debug, Clone)]
enum Rule {
    Pattern(Pattern),
    Invalid(String),
}

/// What the compiled patterns of one Alert may take, in bytes.
const PATTERNS: usize = 4 << 20;
/// Whether an event matches, and what is wrong with the Alert.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Match {
    /// Whether the event is to be sent.
    pub is_match: bool,
    /// Warnings for the Alert.
    pub warnings: Vec<Warning>,
}

impl Matcher {
    /// Prepares an Alert.
    pub fn new(alert: &Object<Alert>) -> Self {
        let spec = &alert.spec;
        let own = alert.metadata.namespace();
        let mut patterns = Patterns::within(PATTERNS);
        let mut rules = |list: &[String]| {
            list.iter()
                .map(|text| Rule::new(text, &mut patterns))
                .collect()
        };
        Matcher {
            is_suspended: spec.suspend,
            only_errors: spec.event_severity == Some(EventSeverity::Error),
            sources: spec
                .event_sources
                .iter()
                .map(|source| Source::new(source, own))
                .collect(),
            included: rules(&spec.inclusion_list),
            excluded: rules(&spec.exclusion_list),
        }
    }

    /// The kinds and namespaces of the objects that it may match; none while it is suspended.
    pub fn places(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let sources = self.sources.iter().filter(|_| !self.is_suspended);
        sources.map(|source| (source.kind, source.namespace.as_str()))
    }

    /// Whether it depends on the labels of the object whether the event matches.
    pub fn needs_labels(&self, event: &Event) -> bool {
        let first = self.candidates(event).next();
        first.is_some_and(|source| source.labels.is_some())
    }

    /// Decides about an event after [`Event::clean`]. `labels` are asked for only when [`Matcher::needs_labels`].
    pub fn matches(&self, event: &Event, labels: Labels<'_>) -> Match {
        let mut warnings = Vec::new();
        let is_match = self.matches_sources(event, labels, &mut warnings)
            && self.includes(&event.message, &mut warnings)
            && !self.excludes(&event.message, &mut warnings);
        Match { is_match, warnings }
    }

    /// The sources that say of the event all but its labels.
    fn candidates<'m>(&'m self, event: &'m Event) -> impl Iterator<Item = &'m Source> {
        let is_heeded = !self.is_suspended && (!self.only_errors || event.is_error());
        self.sources
            .iter()
            .filter(move |source| is_heeded && source.names(event))
    }

    fn matches_sources(
        &self,
        event: &Event,
        labels: Labels<'_>,
        warnings: &mut Vec<Warning>,
    ) -> bool {
        for source in self.candidates(event) {
            let Some(selector) = &source.labels else {
                return true;
            };
            let Labels::Known(labels) = labels else {
                warnings.push(Warning {
                    reason: Reason::SourceFetchFailed,
                    message: format!("error getting source object {}", event.involved.path()),
                });
                continue;
            };
            match selector {
                Selector::Labels(wanted) if selects(wanted, labels) => return true,
                Selector::Labels(_) => {}
                Selector::Invalid(source) => warnings.push(Warning {
                    reason: Reason::InvalidConfig,
                    message: format!("error using matchLabels from event source {source}"),
                }),
            }
        }
        false
    }

    fn includes(&self, message: &str, warnings: &mut Vec<Warning>) -> bool {
        self.included.is_empty() || any(&self.included, "inclusion", message, warnings)
    }

    fn excludes(&self, message: &str, warnings: &mut Vec<Warning>) -> bool {
        any(&self.excluded, "exclusion", message, warnings)
    }
}

fn any(rules: &[Rule], list: &str, message: &str, warnings: &mut Vec<Warning>) -> bool {
    rules.iter().any(|rule| match rule {
        Rule::Pattern(pattern) => pattern.is_match(message),
        Rule::Invalid(text) => {
            warnings.push(Warning {
                reason: Reason::InvalidConfig,
                message: format!("failed to compile {list} regex: {text}"),
            });
            false
        }
    })
}

/// Whether labels are among others.
pub fn selects(wanted: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    wanted
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value))
}

impl Rule {
    fn new(text: &str, patterns: &mut Patterns) -> Self {
        match patterns.compile(text) {
            Ok(pattern) => Rule::Pattern(pattern),
            Err(error) if error.is_for_want_of_room() => Rule::Invalid(format!("{text} ({error})")),
            Err(_) => Rule::Invalid(text.to_owned()),
        }
    }
}

impl Source {
    fn new(source: &EventSource, own: &str) -> Self {
        let namespace = source.namespace.as_deref().filter(|name| !name.is_empty());
        let namespace = namespace.unwrap_or(own).to_owned();
        // No labels and none to match are not the same: the second asks for the object.
        let is_given = !source.match_labels.is_empty() || source.extra.contains_key("matchLabels");
        let labels = is_given.then(|| match are_valid(&source.match_labels) {
            true => Selector::Labels(source.match_labels.clone()),
            false => Selector::Invalid(format!("{}/{namespace}/{}", source.kind, source.name)),
        });
        Source {
            kind: source.kind.as_str(),
            name: (source.name != "*").then(|| source.name.clone()),
            namespace,
            labels,
        }
    }

    fn names(&self, event: &Event) -> bool {
        let object = &event.involved;
        object.kind == self.kind
            && object.namespace == self.namespace
            && self.name.as_ref().is_none_or(|name| *name == object.name)
    }
}

fn are_valid(labels: &BTreeMap<String, String>) -> bool {
    labels.iter().all(|(key, value)| {
        let (prefix, name) = match key.split_once('/') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, key.as_str()),
        };
        let is_prefix = |prefix: &str| {
            !prefix.is_empty()
                && prefix.len() <= 253
                && prefix.split('.').all(|part| {
                    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
                    is_word(part, plain, b"-")
                })
        };
        prefix.is_none_or(is_prefix) && is_name(name) && (value.is_empty() || is_name(value))
    })
}

fn is_name(text: &str) -> bool {
    text.len() <= 63 && is_word(text, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

/// Whether a text begins and ends with plain characters and has only these others between.
fn is_word(text: &str, plain: impl Fn(u8) -> bool, between: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
        return false;
    };
    plain(*first)
        && plain(*last)
        && bytes
            .iter()
            .all(|byte| plain(*byte) || between.contains(byte))
}

#[cfg(test)]
mod tests {
    use everflow_json::json;

    use super::*;
    use crate::event::ObjectReference;

    fn matcher(spec: everflow_json::Value) -> Matcher {
        let alert = json!({"metadata": {"name": "a", "namespace": "ns"}, "spec": spec});
        Matcher::new(&Object::read(&alert).unwrap())
    }

    #[test]
    fn patterns_of_an_alert_have_a_bound_together() {
        let large: Vec<String> = (0..300).map(|n| format!("(a{{1,90}}){{1,9}}{n}")).collect();
        let small: Vec<String> = (0..60).map(|n| format!(".*not found {n}.*")).collect();
        let sources = json!([{"kind": "GitRepository", "name": "*"}]);
        let invalid = |list: &[String]| {
            let matcher = matcher(
                json!({"providerRef": {"name": "p"}, "eventSources": sources, "inclusionList": list}),
            );
            let rules = matcher.included.iter();
            let invalid = rules.filter_map(|rule| match rule {
                Rule::Invalid(why) => Some(why.clone()),
                Rule::Pattern(_) => None,
            });
            invalid.collect::<Vec<_>>()
        };
        assert_eq!(invalid(&small), [""; 0]);
        let refused = invalid(&large);
        assert!(refused.len() > 100, "{}", refused.len());
        assert!(
            refused[0].contains("may take 4 MiB together"),
            "{}",
            refused[0]
        );
    }

    fn event(name: &str, severity: &str, message: &str) -> Event {
        Event {
            involved: ObjectReference {
                kind: "Kustomization".to_owned(),
                namespace: "ns".to_owned(),
                name: name.to_owned(),
                ..ObjectReference::default()
            },
            severity: severity.to_owned(),
            message: message.to_owned(),
            ..Event::default()
        }
    }

    fn is_match(matcher: &Matcher, event: &Event) -> bool {
        matcher.matches(event, Labels::Unavailable).is_match
    }

    #[test]
    fn name_namespace_and_severity_must_fit() {
        let matcher = matcher(json!({
            "providerRef": {"name": "p"}, "eventSeverity": "error",
            "eventSources": [{"kind": "Kustomization", "name": "x"}, {"kind": "Kustomization", "name": "*", "namespace": "b"}],
        }));
        assert!(is_match(&matcher, &event("x", "error", "m")));
        assert!(!is_match(&matcher, &event("x", "info", "m")));
        assert!(!is_match(&matcher, &event("y", "error", "m")));
        let mut other = event("y", "error", "m");
        other.involved.namespace = "b".to_owned();
        assert!(is_match(&matcher, &other));
    }

    #[test]
    fn an_info_alert_takes_every_severity() {
        let matcher = matcher(json!({
            "providerRef": {"name": "p"}, "eventSources": [{"kind": "Kustomization", "name": "*"}],
        }));
        for severity in ["info", "error", "trace", "", "unknown"] {
            assert!(is_match(&matcher, &event("x", severity, "m")), "{severity}");
        }
    }

    #[test]
    fn exclusions_win_and_invalid_expressions_are_reported() {
        let matcher = matcher(json!({
            "providerRef": {"name": "p"}, "eventSources": [{"kind": "Kustomization", "name": "*"}],
            "inclusionList": ["(", "^fail", "^ok$"], "exclusionList": ["(?!x)", "timeout$"],
        }));
        let found = matcher.matches(&event("x", "info", "fail\nhere"), Labels::Unavailable);
        assert!(found.is_match);
        let messages: Vec<&str> = found
            .warnings
            .iter()
            .map(|one| one.message.as_str())
            .collect();
        assert_eq!(
            messages,
            [
                "failed to compile inclusion regex: (",
                "failed to compile exclusion regex: (?!x)"
            ]
        );
        assert!(!is_match(&matcher, &event("x", "info", "fail: timeout")));
        assert!(!is_match(&matcher, &event("x", "info", "ok\n")));
    }

    #[test]
    fn labels_are_asked_for_only_when_they_decide() {
        let matcher = matcher(json!({
            "providerRef": {"name": "p"},
            "eventSources": [{"kind": "Kustomization", "name": "x"},
                             {"kind": "Kustomization", "name": "*", "matchLabels": {"team": "a"}}],
        }));
        assert!(!matcher.needs_labels(&event("x", "info", "m")));
        assert!(matcher.needs_labels(&event("y", "info", "m")));
        let labels = BTreeMap::from([("team".to_owned(), "a".to_owned())]);
        assert!(
            matcher
                .matches(&event("y", "info", "m"), Labels::Known(&labels))
                .is_match
        );
        let unknown = matcher.matches(&event("y", "info", "m"), Labels::Unavailable);
        assert_eq!(unknown.warnings[0].reason, Reason::SourceFetchFailed);
    }

    #[test]
    fn label_selectors_follow_the_rules_for_labels() {
        let valid = |key: &str, value: &str| {
            are_valid(&BTreeMap::from([(key.to_owned(), value.to_owned())]))
        };
        assert!(valid("a.b/c-d_e", "") && valid("A", "v.1"));
        assert!(
            !valid("a", "not valid!")
                && !valid("", "x")
                && !valid("A.b/c", "x")
                && !valid("a/b/c", "x")
        );
    }
}
