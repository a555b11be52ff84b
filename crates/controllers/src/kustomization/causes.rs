//! Why objects are not healthy, for those who read the status.

use std::time::Duration;

use everflow_apply::effects::causes;
use everflow_apply::health::{Assessment, Health};
use everflow_apply::inventory::Entry;

use super::attempt::Attempt;
use crate::target::Target;

/// So many objects are looked into.
const LOOKED_INTO: usize = 5;
/// No longer than that is looked for causes: the failure itself must be told.
const PATIENCE: Duration = Duration::from_secs(10);

impl Attempt<'_> {
    /// What is known of the causes, a line for each object.
    pub(super) async fn causes(
        &self,
        open: &[&(Entry, Assessment)],
        target: &Target,
    ) -> Vec<String> {
        let clock = &*self.context.env.clock;
        let until = clock.elapsed() + PATIENCE;
        let mut lines = Vec::new();
        for (entry, assessed) in open.iter().take(LOOKED_INTO) {
            let mut parts = match assessed.health {
                // Is said already.
                Health::Unknown | Health::NotFound => continue,
                _ if assessed.message.is_empty() => Vec::new(),
                _ => vec![assessed.message.clone()],
            };
            let left = until.saturating_sub(clock.elapsed());
            let found = everflow_env::within(clock, left, causes(&target.client, entry));
            parts.extend(found.await.into_iter().flatten());
            if !parts.is_empty() {
                lines.push(format!("{}: {}", entry.id.subject(), parts.join("; ")));
            }
        }
        lines
    }
}
