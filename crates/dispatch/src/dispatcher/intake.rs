//! From events to the queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use everflow_api::Object;
use everflow_api::notification::Provider;
use everflow_limits::Bytes;
use everflow_notify::Event;
use everflow_notify::alert::Labels as Seen;
use everflow_notify::dedup::{Key, Verdict};
use everflow_notify::dispatch::{Dispatch, dispatch};
use everflow_notify::grouping::{Verdict as Grouping, may_group};
use everflow_runtime::client::{At, Client};
use tokio::sync::oneshot;

use super::room::{ROOM, SHARE};
use super::{Dispatcher, Input, Labels, Offered, event_of};
use crate::alerts::{Prepared, labels, name_of};
use crate::journal::{Entry, Record};

impl Dispatcher {
    /// Takes what came in.
    pub(super) fn take(&mut self, input: Input) {
        match input {
            Input::Notice(notice) => {
                let (event, seen) = event_of(*notice, &self.host_name);
                self.first_look(event, Labels::Known(labels(&seen)), None);
            }
            Input::Posted(event, answer) => self.first_look(*event, Labels::NotAsked, Some(answer)),
            Input::Labelled(offered) => self.offer(*offered),
        }
    }

    /// Decides whether an event is new; what is goes on to the Alerts.
    fn first_look(
        &mut self,
        mut event: Event,
        labels: Labels,
        answer: Option<oneshot::Sender<Verdict>>,
    ) {
        event.clean();
        let key = Key::of(&event);
        let verdict = self.dedup.take(key, self.env.clock.now());
        let answer = answer.map(|answer| (answer, verdict));
        if !verdict.is_new {
            self.answers.extend(answer);
            return self.reports.count("duplicate");
        }
        event.drop_token();
        self.offer(Offered {
            event,
            identity: *key.as_bytes(),
            labels,
            answer,
        });
    }

    /// Offers an event to all Alerts.
    fn offer(&mut self, offered: Offered) {
        let candidates = self.index.candidates(&offered.event);
        let is_asked = matches!(offered.labels, Labels::NotAsked);
        if is_asked
            && candidates
                .iter()
                .any(|alert| alert.matcher.needs_labels(&offered.event))
        {
            return self.ask_for_labels(offered);
        }
        let seen = match &offered.labels {
            Labels::Known(labels) => Seen::Known(labels),
            Labels::NotAsked | Labels::Unavailable => Seen::Unavailable,
        };
        for alert in candidates {
            let found = alert.matcher.matches(&offered.event, seen);
            for warning in &found.warnings {
                self.reports.warn(&alert, warning, &BTreeMap::new());
            }
            if found.is_match {
                self.enqueue(&alert, &offered.event, offered.identity);
            }
        }
        self.answers.extend(offered.answer);
    }

    /// Has the labels of the object read, beside everything else.
    fn ask_for_labels(&self, offered: Offered) {
        let (client, back) = (self.client.clone(), self.back.clone());
        tokio::spawn(async move {
            let labels = match live_labels(&client, &offered.event).await {
                Some(labels) => Labels::Known(labels),
                None => Labels::Unavailable,
            };
            let offered = Offered { labels, ..offered };
            // When nobody takes it any more the program ends.
            let _ = back.send(Input::Labelled(Box::new(offered))).await;
        });
    }

    /// Queues an event that an Alert matches, unless it is not to be sent.
    fn enqueue(&mut self, alert: &Arc<Prepared>, event: &Event, identity: [u8; 32]) {
        let provider = self.provider(alert);
        let known = provider.as_ref().map_err(String::as_str);
        match dispatch(event, &alert.object, known, &self.sender.options) {
            Ok(Dispatch::Skip(_)) => self.reports.count("skipped"),
            Ok(Dispatch::Send(notification)) => {
                if let Some(warning) = notification.warning() {
                    let conflicts = &notification.combined.conflicts;
                    self.reports.warn(alert, &warning, conflicts);
                }
                if let Ok(provider) = provider {
                    self.group_or_send(alert, &provider, event, identity);
                }
            }
            Err(error) => {
                let warning = error.warning(&event.involved);
                self.reports.count("refused");
                self.reports.warn(alert, &warning, &BTreeMap::new());
                let clock = self.env.clock.clone();
                let (name, now) = (alert.name(), clock.now());
                self.reports.failed(&name, &warning.message, now, &*clock);
            }
        }
    }

    fn group_or_send(
        &mut self,
        alert: &Arc<Prepared>,
        provider: &Object<Provider>,
        event: &Event,
        identity: [u8; 32],
    ) {
        let name = alert.name();
        let grouping = match may_group(provider.spec.provider_type) {
            true => self.grouper.offer(&name, event, self.env.clock.now()),
            false => Grouping::Now,
        };
        let group = (name.clone(), event.involved.path());
        let before = match grouping {
            Grouping::Now => None,
            Grouping::At(_) => self.held.remove(&group),
        };
        let count = before.as_ref().and_then(|before| before.held).unwrap_or(0) + 1;
        let entry = Arc::new(Entry {
            id: self.new_id(),
            at: self.env.clock.now(),
            alert: name,
            provider: name_of(provider.metadata.namespace(), &provider.metadata.name),
            event: event.clone(),
            identity,
            held: matches!(grouping, Grouping::At(_)).then_some(count),
        });
        let (lanes, held) = (&self.lanes, &self.held);
        let all = || lanes.entries().chain(held.values().map(|held| &**held));
        if !self.room.take(&entry, all) {
            // What was held before it for the same group goes with it.
            let gone = before.iter().map(|before| Record::Done(before.id));
            self.records.extend(gone);
            return self.drop_for_want_of_room(&entry);
        }
        self.records.push(Record::Taken(entry.clone()));
        if let Some(shared) = &mut self.shared {
            shared.note(identity, entry.at, self.env.clock.elapsed());
        }
        if let Some(before) = before {
            self.records.push(Record::Done(before.id));
        }
        match grouping {
            Grouping::Now => self.lanes.add(entry),
            Grouping::At(_) => {
                self.reports.count("grouped");
                self.held.insert(group, entry);
            }
        }
    }

    fn drop_for_want_of_room(&mut self, entry: &Entry) {
        self.reports.count("dropped");
        let why = format!(
            "a notification was dropped: those of one namespace that wait may hold {}, and of all {}; see why its \
             provider does not take them, or narrow eventSources",
            Bytes(SHARE as u64),
            Bytes(ROOM as u64)
        );
        let clock = self.env.clock.clone();
        self.reports
            .failed(&entry.alert, &why, clock.now(), &*clock);
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

/// The labels of an event's object as they are now.
async fn live_labels(client: &Client, event: &Event) -> Option<BTreeMap<String, String>> {
    let object = &event.involved;
    let resource = client
        .resource(&object.api_version, &object.kind)
        .await
        .ok()?;
    let at = At::new(&object.namespace, &object.name);
    let found = client.get_metadata(&resource, at).await.ok()?;
    Some(labels(&found["metadata"]["labels"]))
}
