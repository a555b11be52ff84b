//! Conditions, and how Flux sets, sorts and sums them up.

use everflow_time::Timestamp;

use crate::common::INT64;
use crate::names::condition::{READY, RECONCILING, STALLED};

/// The longest message that the server takes, in bytes.
const LONGEST_MESSAGE: usize = 32_768;

choice! {
    /// Whether a condition holds.
    pub enum ConditionStatus {
        /// It holds.
        True = "True",
        /// It does not.
        False = "False",
        /// That is not known.
        Unknown = "Unknown",
    }
}

record! {
    /// One aspect of the state of an object.
    pub struct Condition {
        /// Which aspect.
        condition_type "type": String [MaxLength(316), Pattern(TYPE)],
        /// Whether it holds.
        status "status": ConditionStatus,
        /// The generation of the spec it tells of.
        observed_generation "observedGeneration": i64 [INT64, Minimum(0)],
        /// Since when.
        last_transition_time "lastTransitionTime": Timestamp,
        /// Why, as a stable code.
        reason "reason": String [MinLength(1), MaxLength(1024), Pattern(REASON)],
        /// Why, in words.
        message "message": String [MaxLength(32768)],
    }
}

const TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
const REASON: &str = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

impl Condition {
    /// A condition; when and for which generation is filled in by [`set`].
    pub fn new(
        condition_type: impl Into<String>,
        status: ConditionStatus,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self {
            condition_type: condition_type.into(),
            status,
            reason: reason.into(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// Whether it says the same, whenever and for whichever generation.
    pub fn has_same_state(&self, other: &Condition) -> bool {
        (self.status, &self.reason, &self.message) == (other.status, &other.reason, &other.message)
    }

    /// `Stalled`, `Reconciling` and `Ready` come first, then what tells of newer generations, then
    /// by name.
    fn order(&self) -> (usize, i64, &str) {
        let first = [STALLED, RECONCILING, READY];
        match first.iter().position(|name| *name == self.condition_type) {
            Some(place) => (place, 0, ""),
            None => (
                first.len(),
                self.observed_generation.wrapping_neg(),
                &self.condition_type,
            ),
        }
    }
}

/// The condition of a type.
pub fn find<'c>(conditions: &'c [Condition], condition_type: &str) -> Option<&'c Condition> {
    conditions
        .iter()
        .find(|condition| condition.condition_type == condition_type)
}

/// Whether the condition of a type is `True`.
pub fn is_true(conditions: &[Condition], condition_type: &str) -> bool {
    find(conditions, condition_type)
        .is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// Whether the condition of a type is `False`.
pub fn is_false(conditions: &[Condition], condition_type: &str) -> bool {
    find(conditions, condition_type)
        .is_some_and(|condition| condition.status == ConditionStatus::False)
}

/// Sets a condition for a generation. The time changes only with status, reason or message; the
/// message is cut where the server would refuse it; the conditions are sorted.
pub fn set(
    conditions: &mut Vec<Condition>,
    mut condition: Condition,
    generation: i64,
    now: Timestamp,
) {
    condition.observed_generation = generation;
    condition.last_transition_time = now.truncated();
    cut(&mut condition.message);
    let present = conditions
        .iter_mut()
        .find(|present| present.condition_type == condition.condition_type);
    match present {
        Some(present) if present.has_same_state(&condition) => {
            present.observed_generation = generation;
        }
        Some(present) => *present = condition,
        None => conditions.push(condition),
    }
    sort(conditions);
}

/// Sorts conditions as Flux does.
pub fn sort(conditions: &mut [Condition]) {
    conditions.sort_by(|left, right| left.order().cmp(&right.order()));
}

/// Removes the condition of a type.
pub fn remove(conditions: &mut Vec<Condition>, condition_type: &str) {
    conditions.retain(|condition| condition.condition_type != condition_type);
}

/// Sets `Reconciling` and removes `Stalled`.
pub fn mark_reconciling(
    conditions: &mut Vec<Condition>,
    reason: impl Into<String>,
    message: impl Into<String>,
    generation: i64,
    now: Timestamp,
) {
    remove(conditions, STALLED);
    let condition = Condition::new(RECONCILING, ConditionStatus::True, reason, message);
    set(conditions, condition, generation, now);
}

/// Sets `Stalled` and removes `Reconciling`.
pub fn mark_stalled(
    conditions: &mut Vec<Condition>,
    reason: impl Into<String>,
    message: impl Into<String>,
    generation: i64,
    now: Timestamp,
) {
    remove(conditions, RECONCILING);
    let condition = Condition::new(STALLED, ConditionStatus::True, reason, message);
    set(conditions, condition, generation, now);
}

fn cut(message: &mut String) {
    const SUFFIX: &str = "...";
    if message.len() > LONGEST_MESSAGE {
        let mut end = LONGEST_MESSAGE - SUFFIX.len();
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        message.push_str(SUFFIX);
    }
}

/// Which conditions are summed up, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary<'s> {
    /// The types that count; the earlier one gives reason and message.
    pub types: &'s [&'s str],
    /// Those of them that tell of trouble when they are `True`.
    pub negative: &'s [&'s str],
    /// Whether only conditions of the newest generation count.
    pub latest_generation: bool,
}

impl Summary<'_> {
    /// The condition of type `target` that sums up those that count; none when there are none.
    ///
    /// Trouble comes first, then what does not hold, what holds, what is no trouble, what is not
    /// known.
    pub fn of(&self, conditions: &[Condition], target: &str) -> Option<Condition> {
        let latest = conditions
            .iter()
            .filter(|condition| self.counts(condition, target))
            .map(|condition| condition.observed_generation.max(0))
            .max();
        let in_scope = conditions.iter().filter(|condition| {
            self.counts(condition, target)
                && (!self.latest_generation || Some(condition.observed_generation) == latest)
        });
        let top = in_scope
            .clone()
            .map(|condition| self.priority(condition))
            .min()?;
        let first = in_scope
            .filter(|condition| self.priority(condition) == top)
            .min_by_key(|condition| self.place(condition))?;
        let inverted = self.is_negative(&first.condition_type) != self.is_negative(target);
        let status = match (first.status, inverted) {
            (ConditionStatus::True, true) => ConditionStatus::False,
            (ConditionStatus::False, true) => ConditionStatus::True,
            (status, _) => status,
        };
        Some(Condition::new(
            target,
            status,
            &first.reason,
            &first.message,
        ))
    }

    fn counts(&self, condition: &Condition, target: &str) -> bool {
        condition.condition_type != target
            && self.types.contains(&condition.condition_type.as_str())
    }

    fn is_negative(&self, condition_type: &str) -> bool {
        self.negative.contains(&condition_type)
    }

    fn place(&self, condition: &Condition) -> Option<usize> {
        self.types
            .iter()
            .position(|name| *name == condition.condition_type)
    }

    fn priority(&self, condition: &Condition) -> u8 {
        match (
            condition.status,
            self.is_negative(&condition.condition_type),
        ) {
            (ConditionStatus::True, true) => 0,
            (ConditionStatus::False, false) => 1,
            (ConditionStatus::True, false) => 2,
            (ConditionStatus::False, true) => 3,
            (ConditionStatus::Unknown, _) => 4,
        }
    }
}

/// A status with conditions.
pub trait Reconciled {
    /// The conditions.
    fn conditions(&self) -> &[Condition];
    /// The conditions, to be changed.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;
    /// The generation that was last observed.
    fn observed_generation(&self) -> i64;
    /// Notes the generation that was observed.
    fn observe(&mut self, generation: i64);
    /// The last value of the annotation asking for an attempt that was heeded.
    fn last_handled_reconcile_at(&self) -> Option<&str>;
    /// Notes such a value.
    fn handle_request(&mut self, value: Option<&str>);
}

/// Makes statuses with the usual fields [`Reconciled`].
macro_rules! reconciled {
    ($($status:ty),* $(,)?) => {
        $(impl $crate::condition::Reconciled for $status {
            fn conditions(&self) -> &[$crate::condition::Condition] {
                &self.conditions
            }
            fn conditions_mut(&mut self) -> &mut Vec<$crate::condition::Condition> {
                &mut self.conditions
            }
            fn observed_generation(&self) -> i64 {
                self.observed_generation
            }
            fn observe(&mut self, generation: i64) {
                self.observed_generation = generation;
            }
            fn last_handled_reconcile_at(&self) -> Option<&str> {
                self.last_handled_reconcile_at.as_deref()
            }
            fn handle_request(&mut self, value: Option<&str>) {
                if let Some(value) = value {
                    self.last_handled_reconcile_at = Some(value.to_owned());
                }
            }
        })*
    };
}
pub(crate) use reconciled;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;

    const EARLY: Timestamp = Timestamp::from_seconds(100);
    const LATE: Timestamp = Timestamp::from_seconds(200);

    fn condition(name: &str, status: ConditionStatus, reason: &str) -> Condition {
        Condition::new(name, status, reason, format!("{name} says"))
    }

    #[test]
    fn transition_time_changes_only_with_the_status() {
        let mut conditions = Vec::new();
        let ready = condition(READY, ConditionStatus::True, "Succeeded");
        set(&mut conditions, ready.clone(), 1, EARLY);
        set(&mut conditions, ready.clone(), 2, LATE);
        assert_eq!(conditions[0].observed_generation, 2);
        assert_eq!(conditions[0].last_transition_time, EARLY);
        let other = Condition {
            message: "another".into(),
            ..ready
        };
        set(&mut conditions, other, 2, LATE);
        assert_eq!(conditions[0].last_transition_time, LATE);
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn reconciling_and_stalled_exclude_each_other_and_come_first() {
        let mut conditions = Vec::new();
        for name in ["Zeta", "Alpha", READY] {
            let condition = condition(name, ConditionStatus::True, "X");
            set(&mut conditions, condition, 1, EARLY);
        }
        mark_reconciling(&mut conditions, Reason::Progressing, "x", 1, EARLY);
        mark_stalled(&mut conditions, Reason::URLInvalid, "x", 1, EARLY);
        let names: Vec<&str> = conditions
            .iter()
            .map(|condition| condition.condition_type.as_str())
            .collect();
        assert_eq!(names, [STALLED, READY, "Alpha", "Zeta"]);
        mark_reconciling(&mut conditions, Reason::Progressing, "x", 2, LATE);
        assert!(is_true(&conditions, RECONCILING) && find(&conditions, STALLED).is_none());
        // A newer generation comes before the alphabet.
        set(
            &mut conditions,
            condition("Zeta", ConditionStatus::True, "X"),
            2,
            LATE,
        );
        assert_eq!(conditions[2].condition_type, "Zeta");
    }

    #[test]
    fn messages_are_cut_between_characters() {
        let mut conditions = Vec::new();
        let long = Condition::new(READY, ConditionStatus::True, "X", "ä".repeat(20_000));
        set(&mut conditions, long, 1, EARLY);
        let message = &conditions[0].message;
        assert!(message.len() <= LONGEST_MESSAGE && message.ends_with("ä..."));
    }

    #[test]
    fn failed_conditions_come_first_in_summaries() {
        let summary = Summary {
            types: &["Bad", "Good", "Worse"],
            negative: &["Bad", "Worse"],
            latest_generation: false,
        };
        let good = condition("Good", ConditionStatus::True, "G");
        assert_eq!(summary.of(&[], READY), None);
        assert_eq!(
            summary.of(std::slice::from_ref(&good), READY),
            Some(Condition::new(
                READY,
                ConditionStatus::True,
                "G",
                "Good says"
            ))
        );
        let worse = condition("Worse", ConditionStatus::True, "W");
        let bad = condition("Bad", ConditionStatus::True, "B");
        let summed = summary.of(&[good.clone(), worse, bad], READY);
        assert_eq!(
            summed,
            Some(Condition::new(
                READY,
                ConditionStatus::False,
                "B",
                "Bad says"
            ))
        );
        let unknown = condition("Good", ConditionStatus::Unknown, "U");
        let fine = condition("Bad", ConditionStatus::False, "F");
        let summed = summary.of(&[unknown, fine], READY).unwrap();
        assert_eq!(
            (summed.status, summed.reason.as_str()),
            (ConditionStatus::True, "F")
        );
        // Conditions that do not count do not matter.
        assert_eq!(
            summary.of(&[condition("Other", ConditionStatus::True, "O")], READY),
            None
        );
    }

    #[test]
    fn only_the_newest_generation_counts_where_asked() {
        let summary = Summary {
            types: &["A", "B"],
            negative: &[],
            latest_generation: true,
        };
        let mut conditions = Vec::new();
        set(
            &mut conditions,
            condition("A", ConditionStatus::False, "Old"),
            1,
            EARLY,
        );
        set(
            &mut conditions,
            condition("B", ConditionStatus::True, "New"),
            2,
            EARLY,
        );
        let summed = summary.of(&conditions, READY).unwrap();
        assert_eq!(
            (summed.status, summed.reason.as_str()),
            (ConditionStatus::True, "New")
        );
    }
}
