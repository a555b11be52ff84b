//! When attempts may be made, and of which objects.

use std::sync::Arc;
use std::time::Duration;

use everflow_env::watch;

use super::{Shared, feed};
use crate::client::Fence as _;
use crate::lease::{Epoch, EpochUse, Leadership};
use crate::queue::Key;
use crate::shards::Shards;

/// What lets an engine make attempts.
pub(super) enum Tenure {
    /// Nothing stands in its way.
    Always,
    /// It leads.
    Leading(watch::Receiver<Leadership>),
    /// It holds the shards of the objects.
    Sharing(watch::Receiver<Shards>),
}

/// The object is not worked on here.
pub(super) struct NotOurs;

impl Tenure {
    /// Before anything is told: nothing is worked on that is not ours.
    pub(super) fn begin(&self, shared: &Shared) {
        if let Tenure::Sharing(shards) = self {
            let none = shards.borrow().holding(Default::default());
            shared.lock().shards = Some(none);
        }
    }

    /// Takes in what has changed.
    pub(super) fn look(&mut self, shared: &Arc<Shared>) {
        match self {
            Tenure::Always => {}
            Tenure::Leading(leadership) => {
                shared.lock().leading = Some(leadership.borrow().clone());
            }
            Tenure::Sharing(shards) => {
                let new = shards.borrow_and_update().clone();
                adopt(shared, new);
            }
        }
    }

    /// Waits for a change; for ever when there will be none.
    pub(super) async fn changed(&mut self) {
        let changed = match self {
            Tenure::Always => false,
            Tenure::Leading(leadership) => leadership.changed().await.is_ok(),
            Tenure::Sharing(shards) => shards.changed().await.is_ok(),
        };
        if !changed {
            std::future::pending::<()>().await;
        }
    }

    /// How long attempts may be begun for; `None` when they may not.
    pub(super) fn remaining(&self) -> Option<Duration> {
        match self {
            Tenure::Always => Some(Duration::MAX),
            Tenure::Leading(leadership) => leadership
                .borrow()
                .epoch()
                .map(|epoch| epoch.remaining().unwrap_or_default()),
            Tenure::Sharing(shards) => {
                let shards = shards.borrow();
                let epochs = shards.held().values();
                epochs.filter_map(|epoch| epoch.remaining().ok()).max()
            }
        }
    }

    /// Begins an attempt of an object.
    pub(super) fn enter(&self, key: &Key) -> Result<(Option<Epoch>, Option<EpochUse>), NotOurs> {
        let epoch = match self {
            Tenure::Always => return Ok((None, None)),
            Tenure::Leading(leadership) => leadership.borrow().epoch().cloned(),
            Tenure::Sharing(shards) => shards.borrow().owns(key).cloned(),
        };
        let epoch = epoch.ok_or(NotOurs)?;
        let using = epoch.enter().ok_or(NotOurs)?;
        Ok((Some(epoch), Some(using)))
    }
}

/// Begins to work on what has become ours, and drops what is no more.
fn adopt(shared: &Arc<Shared>, new: Shards) {
    let before = {
        let mut state = shared.lock();
        let same = state
            .shards
            .as_ref()
            .is_some_and(|before| before.is_same(&new));
        if same {
            return;
        }
        state.shards.replace(new.clone())
    };
    for kind in shared.kinds.keys() {
        let Some(store) = shared.stores.get(kind) else {
            continue;
        };
        for object in store.list(None) {
            let key = Key::new(kind.clone(), object.namespace.clone(), object.name.clone());
            let had = before
                .as_ref()
                .is_some_and(|before| before.owns(&key).is_some());
            match (had, new.owns(&key).is_some()) {
                (false, true) => {
                    shared.lock().taken_over.insert(key.clone());
                    feed::take_up(shared, &key, &object);
                }
                (true, false) => feed::drop_key(shared, &key),
                _ => {}
            }
        }
    }
}
