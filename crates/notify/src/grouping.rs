//! Objects that flap are reported in groups: the first events at once, those that follow too soon as one.

use std::collections::BTreeMap;

use everflow_api::notification::ProviderType;
use everflow_time::{Duration, Timestamp};

use crate::Event;
use crate::provider::is_git;

/// How much is sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// So many events about one object are sent at once in a window.
    pub at_once: usize,
    /// How long a window is.
    pub window: Duration,
    /// The history of so many objects is kept; the oldest is forgotten.
    pub objects: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            at_once: 3,
            window: Duration::from_seconds(300),
            objects: 10_000,
        }
    }
}

/// Which events belong together: those of one Alert about one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    alert: String,
    object: String,
}

/// What was sent about an object, and what waits.
#[derive(Debug, Clone, Default)]
struct History {
    /// When the events of the window were sent, the oldest first.
    times: Vec<Timestamp>,
    waiting: Option<Waiting>,
}

#[derive(Debug, Clone)]
struct Waiting {
    /// The newest.
    event: Event,
    count: usize,
    due: Timestamp,
}

/// An event of a group, with the others that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouped {
    /// `NAMESPACE/NAME` of the Alert.
    pub alert: String,
    /// The newest event; its message says of the others.
    pub event: Event,
    /// How many events it stands for.
    pub count: usize,
}

/// Whether an event is sent at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Now,
    /// It waits, and is sent with others then.
    At(Timestamp),
}

/// Puts the events of objects that flap into groups.
#[derive(Debug, Clone)]
pub struct Grouper {
    limits: Limits,
    groups: BTreeMap<Group, History>,
}

/// Whether events for a provider may be put into groups: each status of a commit and each change of a comment counts by
/// itself, and so does each event that programs take.
pub fn may_group(kind: ProviderType) -> bool {
    use ProviderType as Kind;
    let for_programs = matches!(
        kind,
        Kind::Generic
            | Kind::GenericHmac
            | Kind::GitHubDispatch
            | Kind::GitHubPullRequestComment
            | Kind::GitLabMergeRequestComment
            | Kind::GiteaPullRequestComment
            | Kind::GooglePubSub
            | Kind::AzureEventHub
            | Kind::Nats
            | Kind::Otel
    );
    !for_programs && !is_git(kind)
}

impl Grouper {
    /// Groups by these limits.
    pub fn new(limits: Limits) -> Self {
        Grouper {
            limits,
            groups: BTreeMap::new(),
        }
    }

    /// Takes an event that an Alert (`NAMESPACE/NAME`) has history.
    pub fn offer(&mut self, alert: &str, event: &Event, now: Timestamp) -> Verdict {
        let group = Group {
            alert: alert.to_owned(),
            object: event.involved.path(),
        };
        let Limits {
            at_once, window, ..
        } = self.limits;
        let history = self.groups.entry(group).or_default();
        history.times.retain(|time| now.since(*time) < window);
        if let Some(waiting) = &mut history.waiting {
            waiting.event = event.clone();
            waiting.count += 1;
            return Verdict::At(waiting.due);
        }
        let first = history
            .times
            .first()
            .copied()
            .filter(|_| history.times.len() >= at_once);
        let Some(first) = first else {
            history.times.push(now);
            self.forget();
            return Verdict::Now;
        };
        let due = first + window.unsigned();
        history.waiting = Some(Waiting {
            event: event.clone(),
            count: 1,
            due,
        });
        Verdict::At(due)
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Timestamp> {
        let waiting = self
            .groups
            .values()
            .filter_map(|history| history.waiting.as_ref());
        waiting.map(|waiting| waiting.due).min()
    }

    /// Gives what is due.
    pub fn due(&mut self, now: Timestamp) -> Vec<Grouped> {
        let window = self.limits.window;
        let mut due = Vec::new();
        for (group, history) in &mut self.groups {
            let Some(waiting) = history.waiting.take_if(|waiting| waiting.due <= now) else {
                continue;
            };
            history.times.retain(|time| now.since(*time) < window);
            history.times.push(now);
            due.push(grouped(&group.alert, waiting, window));
        }
        self.groups.retain(|_, history| {
            history.waiting.is_some() || history.times.iter().any(|time| now.since(*time) < window)
        });
        due
    }

    /// Gives all that waits: the process ends, or another one takes over.
    pub fn drain(&mut self) -> Vec<Grouped> {
        let window = self.limits.window;
        let groups = std::mem::take(&mut self.groups).into_iter();
        let waiting = groups.filter_map(|(group, history)| Some((group, history.waiting?)));
        waiting
            .map(|(group, waiting)| grouped(&group.alert, waiting, window))
            .collect()
    }

    /// Forgets the oldest histories, when there are too many; what waits is kept. Some go at once, since all are looked
    /// at to find them.
    fn forget(&mut self) {
        let bound = self.limits.objects;
        if self.groups.len() <= bound {
            return;
        }
        let surplus = self.groups.len() - bound + bound / 8;
        let idle = self
            .groups
            .iter()
            .filter(|(_, history)| history.waiting.is_none());
        let mut idle: Vec<(Option<Timestamp>, Group)> = idle
            .map(|(group, history)| (history.times.last().copied(), group.clone()))
            .collect();
        idle.sort_unstable();
        for (_, group) in idle.into_iter().take(surplus) {
            self.groups.remove(&group);
        }
    }
}

fn grouped(alert: &str, waiting: Waiting, window: Duration) -> Grouped {
    Grouped {
        alert: alert.to_owned(),
        event: as_group(waiting.event, waiting.count, window),
        count: waiting.count,
    }
}

/// The newest event of a group of so many, which says of the others.
pub fn as_group(mut event: Event, count: usize, window: Duration) -> Event {
    let others = count.saturating_sub(1);
    if others > 0 {
        let these = if others == 1 {
            "1 more event about this object"
        } else {
            &format!("{others} more events about this object")
        };
        event.message = format!(
            "{}\n{these} in the last {}",
            event.message,
            in_words(window)
        );
    }
    event
}

/// A span in whole minutes, where it is one.
fn in_words(span: Duration) -> String {
    let seconds = span.unsigned().as_secs();
    match (seconds / 60, seconds % 60) {
        (1, 0) => "minute".to_owned(),
        (minutes, 0) if minutes > 0 => format!("{minutes} minutes"),
        _ => span.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn event(name: &str, message: &str) -> Event {
        let mut event = Event {
            message: message.to_owned(),
            ..Event::default()
        };
        event.involved.name = name.to_owned();
        event
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_000 + seconds)
    }

    #[test]
    fn events_beyond_the_limit_are_sent_as_one_with_the_newest() {
        let mut grouper = Grouper::new(Limits::default());
        for second in 0..3 {
            assert_eq!(
                grouper.offer("n/a", &event("x", "m"), at(second)),
                Verdict::Now
            );
        }
        for second in 3..7 {
            let told = event("x", &format!("m{second}"));
            assert_eq!(
                grouper.offer("n/a", &told, at(second)),
                Verdict::At(at(300))
            );
        }
        assert_eq!(grouper.next_due(), Some(at(300)));
        assert!(grouper.due(at(299)).is_empty());
        let due = grouper.due(at(300));
        assert_eq!(due.len(), 1);
        assert_eq!(
            due[0].event.message,
            "m6\n3 more events about this object in the last 5 minutes"
        );
        assert_eq!(due[0].count, 4);
        assert_eq!(grouper.next_due(), None);
    }

    #[test]
    fn one_event_that_waited_is_sent_unchanged() {
        let mut grouper = Grouper::new(Limits {
            at_once: 1,
            ..Limits::default()
        });
        assert_eq!(
            grouper.offer("n/a", &event("x", "first"), at(0)),
            Verdict::Now
        );
        grouper.offer("n/a", &event("x", "second"), at(10));
        assert_eq!(grouper.due(at(300))[0].event.message, "second");
        // It counts in the next window.
        assert_eq!(
            grouper.offer("n/a", &event("x", "third"), at(310)),
            Verdict::At(at(600))
        );
        assert_eq!(grouper.drain()[0].event.message, "third");
    }

    #[test]
    fn other_objects_and_other_alerts_have_groups_of_their_own() {
        let mut grouper = Grouper::new(Limits {
            at_once: 1,
            ..Limits::default()
        });
        assert_eq!(grouper.offer("n/a", &event("x", "m"), at(0)), Verdict::Now);
        assert_eq!(grouper.offer("n/a", &event("y", "m"), at(0)), Verdict::Now);
        assert_eq!(grouper.offer("n/b", &event("x", "m"), at(0)), Verdict::Now);
        assert_ne!(grouper.offer("n/a", &event("x", "m"), at(1)), Verdict::Now);
        assert_eq!(
            grouper.offer("n/a", &event("y", "m"), at(300)),
            Verdict::Now
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut grouper = Grouper::new(Limits {
            objects: 5,
            ..Limits::default()
        });
        for index in 0..100 {
            grouper.offer("n/a", &event(&index.to_string(), "m"), at(index));
        }
        assert_eq!(grouper.groups.len(), 5);
    }

    #[test]
    fn many_histories_are_forgotten_together() {
        let mut grouper = Grouper::new(Limits {
            objects: 80,
            ..Limits::default()
        });
        for index in 0..=80 {
            grouper.offer("n/a", &event(&format!("{index:03}"), "m"), at(index));
        }
        assert_eq!(grouper.groups.len(), 70);
        let oldest = grouper.groups.keys().next().unwrap();
        assert!(oldest.object.ends_with("011"), "{oldest:?}");
    }

    #[test]
    fn events_for_programs_are_not_grouped() {
        assert!(may_group(ProviderType::Slack) && may_group(ProviderType::PagerDuty));
        assert!(!may_group(ProviderType::Generic) && !may_group(ProviderType::GitHub));
    }

    proptest! {
        #[test]
        fn each_event_is_sent_at_once_or_counted_in_a_group(steps in prop::collection::vec((0_i64..200, 0_u8..3), 1..60)) {
            let mut grouper = Grouper::new(Limits::default());
            let (mut now, mut offered, mut told) = (0, 0, 0);
            for (pause, object) in steps {
                now += pause;
                told += grouper.due(at(now)).iter().map(|group| group.count).sum::<usize>();
                offered += 1;
                if grouper.offer("n/a", &event(&object.to_string(), "m"), at(now)) == Verdict::Now {
                    told += 1;
                }
            }
            told += grouper.drain().iter().map(|group| group.count).sum::<usize>();
            prop_assert_eq!(offered, told);
        }
    }
}
