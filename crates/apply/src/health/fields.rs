//! Fields of an object that may not be there, or not be what they should.

use everflow_json::Value;

/// An object to look into.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a Value);

/// A condition; what it does not say is empty.
pub(super) struct Condition<'a> {
    pub(super) kind: &'a str,
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

impl<'a> Fields<'a> {
    pub(super) fn text(self, at: &str) -> Option<&'a str> {
        self.0.pointer(at)?.as_str()
    }

    pub(super) fn number(self, at: &str) -> Option<i64> {
        self.0.pointer(at)?.as_i64()
    }

    /// A count that is zero where nothing is said.
    pub(super) fn count(self, at: &str) -> i64 {
        self.number(at).unwrap_or(0)
    }

    pub(super) fn conditions(self) -> impl Iterator<Item = Condition<'a>> {
        let conditions = self
            .0
            .pointer("/status/conditions")
            .and_then(Value::as_array);
        conditions.into_iter().flatten().map(|condition| {
            let text = |key: &str| condition[key].as_str().unwrap_or_default();
            Condition {
                kind: text("type"),
                status: text("status"),
                reason: text("reason"),
                message: text("message"),
            }
        })
    }
}
