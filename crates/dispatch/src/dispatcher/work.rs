//! From the queue to the providers, and what is kept on the way.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use everflow_env::run_blocking;
use everflow_notify::alert::Warning;
use everflow_notify::dedup::Key;
use everflow_notify::grouping::{Limits, as_group};
use everflow_runtime::metadata::remove_finalizer;
use tokio::task::JoinSet;

use super::{Dispatcher, Finished};
use crate::deliver::Delivered;
use crate::journal::{Entry, Journal, Record};
use crate::lanes::Ended;
use crate::options::span;
use crate::report::{CONTROLLER, annotate};
use crate::resources::{ALERTS, PROVIDERS};

/// What Flux's controller leaves on Providers, and older ones on Alerts.
const FINALIZER: &str = everflow_api::names::FINALIZER;

impl Dispatcher {
    /// Takes up what an earlier process left.
    pub(super) async fn open_journal(&mut self) {
        let (disk, now) = (self.env.disk.clone(), self.env.clock.now());
        let memory = span(self.options.interval);
        let opening = move || Journal::open(disk, memory, now);
        let Some((journal, found)) = run_blocking(&*self.env.blocking, opening).await else {
            return;
        };
        for problem in &found.problems {
            self.reports
                .log
                .error("the queue of notifications cannot be read or kept", problem);
        }
        self.journal = Some(Arc::new(Mutex::new(journal)));
        for (at, identity) in found.told {
            self.dedup.take(Key::from_bytes(identity), at);
        }
        for entry in found.entries {
            self.next_id = self.next_id.max(entry.id);
            match entry.held {
                None => self.lanes.add(entry),
                // Who waited for more of the same has waited long enough.
                Some(count) => self.release(&entry, count),
            }
        }
        let left = self.lanes.len();
        if left > 0 {
            let left = left.to_string();
            let fields = [("count", left.as_str())];
            self.reports
                .log
                .info("delivering notifications of an earlier process", &fields);
        }
    }

    /// Sends a group that waited.
    fn release(&mut self, held: &Arc<Entry>, count: usize) {
        let entry = Arc::new(Entry {
            id: self.new_id(),
            event: as_group(held.event.clone(), count, Limits::default().window),
            held: None,
            ..Entry::clone(held)
        });
        self.records.push(Record::Taken(entry.clone()));
        self.records.push(Record::Done(held.id));
        self.lanes.add(entry);
    }

    /// Sends the groups whose time has come.
    pub(super) fn groups_due(&mut self) {
        if self.held.is_empty() {
            return;
        }
        for grouped in self.grouper.due(self.env.clock.now()) {
            let group = (grouped.alert, grouped.event.involved.path());
            if let Some(held) = self.held.remove(&group) {
                self.release(&held, grouped.count);
            }
        }
    }

    /// Starts all attempts that are due.
    pub(super) fn start(&mut self, attempts: &mut JoinSet<Finished>) {
        for (entry, tries) in self.lanes.start(self.env.clock.elapsed()) {
            let Some(alert) = self.index.get(&entry.alert).cloned() else {
                // Nobody wants to know any more.
                self.done(&entry, tries);
                self.reports.count("obsolete");
                continue;
            };
            if self.env.clock.now().since(entry.at).unsigned() > self.options.max_age {
                self.give_up(&entry, tries);
                continue;
            }
            let (sender, provider) = (self.sender.clone(), self.provider(&alert));
            attempts.spawn(async move {
                let delivered = sender.deliver(&entry, &alert, provider).await;
                Finished {
                    entry,
                    tries,
                    delivered,
                }
            });
        }
    }

    fn done(&mut self, entry: &Arc<Entry>, tries: u32) {
        let now = self.env.clock.elapsed();
        self.lanes.ended(entry, tries, Ended::Done, now);
        self.records.push(Record::Done(entry.id));
        self.room.note_gone();
    }

    /// Notes how an attempt ended.
    pub(super) fn ended(&mut self, finished: Finished) {
        let Finished {
            entry,
            tries,
            delivered,
        } = finished;
        let clock = self.env.clock.clone();
        let (now, wall) = (clock.elapsed(), clock.now());
        match delivered {
            Delivered::Taken => {
                self.done(&entry, tries);
                self.reports.delivered(&entry.alert, wall, &*clock);
            }
            Delivered::Skipped => {
                self.done(&entry, tries);
                self.reports.count("skipped");
            }
            Delivered::NotNow(why) => {
                self.lanes.ended(&entry, tries, Ended::Again, now);
                self.reports.failed(&entry.alert, &why, wall, &*clock);
            }
            Delivered::Failed { warning, again } => {
                match again {
                    true => self.lanes.ended(&entry, tries, Ended::Again, now),
                    false => self.done(&entry, tries),
                }
                self.reports.count(if again { "retried" } else { "failed" });
                self.warn_of(&entry, &warning);
            }
        }
    }

    fn warn_of(&mut self, entry: &Entry, warning: &Warning) {
        let clock = self.env.clock.clone();
        if let Some(alert) = self.index.get(&entry.alert) {
            self.reports.warn(alert, warning, &BTreeMap::new());
        }
        let (alert, why) = (&entry.alert, &warning.message);
        self.reports.failed(alert, why, clock.now(), &*clock);
    }

    /// Gives up a notification that is too old.
    fn give_up(&mut self, entry: &Arc<Entry>, tries: u32) {
        self.done(entry, tries);
        let age = span(self.options.max_age);
        self.told_lost(entry, &format!("given up, it is older than {age}"));
    }

    /// Gives up what the queue has no room for.
    pub(super) fn give_up_the_oldest(&mut self) {
        while let Some(entry) = self.lanes.overflow(self.options.queued) {
            self.records.push(Record::Done(entry.id));
            self.room.note_gone();
            let most = self.options.queued;
            self.told_lost(
                &entry,
                &format!("given up, more than {most} notifications wait"),
            );
        }
    }

    fn told_lost(&mut self, entry: &Entry, why: &str) {
        self.reports.count("lost");
        let object = entry.event.involved.path();
        let warning = Warning {
            reason: everflow_api::Reason::NotificationDispatchFailed,
            message: format!("failed to send notification for {object}: {why}"),
        };
        self.warn_of(entry, &warning);
    }

    /// Makes what happened durable, and then tells those who wait for that.
    pub(super) async fn write(&mut self) {
        let records = std::mem::take(&mut self.records);
        if let Some(journal) = self.journal.clone().filter(|_| !records.is_empty()) {
            let now = self.env.clock.now();
            let writing = move || {
                let mut journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
                journal.write(&records, now)
            };
            if let Some(Err(error)) = run_blocking(&*self.env.blocking, writing).await {
                self.reports.count("not kept");
                let text = error.to_string();
                self.reports
                    .log
                    .error("the queue of notifications cannot be kept", &text);
            }
        }
        for (answer, verdict) in self.answers.drain(..) {
            // Whoever posted may have gone.
            let _ = answer.send(verdict);
        }
        self.measure();
    }

    fn measure(&self) {
        let waiting = self.lanes.len() + self.held.len();
        self.reports
            .metrics
            .set("everflow_notifications_waiting", &[], waiting as f64);
    }

    /// Writes what is to be said on Alerts, beside everything else.
    pub(super) fn annotate(&mut self, background: &mut JoinSet<()>) {
        for (alert, annotations) in self.reports.due(self.env.clock.elapsed()) {
            background.spawn(annotate(self.client.clone(), alert, annotations));
        }
    }

    /// Remembers what other replicas have told.
    pub(super) fn hear_of_others(&mut self) {
        let told = self.shared.as_ref().map(super::shared::Shared::told);
        for (at, identity) in told.unwrap_or_default() {
            self.dedup.take(Key::from_bytes(identity), at);
        }
    }

    /// Tells other replicas what was told here.
    pub(super) fn tell_others(&mut self, background: &mut JoinSet<()>) {
        let (now, wall) = (self.env.clock.elapsed(), self.env.clock.now());
        let Some(shared) = &mut self.shared else {
            return;
        };
        if let Some(data) = shared.patch(now, wall) {
            let namespace = shared.namespace().to_owned();
            background.spawn(super::shared::write(self.client.clone(), namespace, data));
        }
    }

    /// Lets go of what another controller has left a finalizer on: nothing has to be done before it goes.
    pub(super) fn release_finalizers(&self, background: &mut JoinSet<()>) {
        for (resource, store) in [(ALERTS, &self.alerts), (PROVIDERS, &self.providers)] {
            for cached in store.list(None) {
                if !cached.deleting {
                    continue;
                }
                let (client, value, resource) =
                    (self.client.clone(), cached.value(), resource.clone());
                background.spawn(async move {
                    // It is tried again at the next change.
                    let _ =
                        remove_finalizer(&client, &resource, &value, FINALIZER, CONTROLLER).await;
                });
            }
        }
    }
}
