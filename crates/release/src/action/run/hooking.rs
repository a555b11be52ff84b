//! Running the hooks of an event, one after the other.

use std::collections::VecDeque;

use everflow_time::Timestamp;

use super::failure::{Cleanup, FailedAt};
use super::{At, Run};
use crate::action::hooks::{
    DeletePolicy, Phase, complete, forget_run, order, phase, prints_logs, set_default_policy,
    start, vanishes,
};
use crate::action::step::{Await, Step, StepResult};
use crate::action::{ActionKind, Event};
use crate::record::mark::Stage;

/// A part of running one hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HookPart {
    /// Delete what an earlier run created.
    Delete,
    /// Note that it runs.
    Start,
    Create,
    Await,
    /// Note that it succeeded, before its objects go.
    Note,
}

impl Run {
    /// Begins with the hooks of an event, or goes on with them when they were begun before.
    pub(super) fn enter_hooks(&mut self, event: Event, now: Timestamp) {
        let order = match self.plan.hooks {
            true => order(&self.record, event, &self.plan.filters),
            false => Vec::new(),
        };
        if order.is_empty() {
            return self.advance(now);
        }
        if self.progress.stage != Stage::Hooks(event) {
            // A hook may run at several events; what it did before says nothing of this one.
            for place in &order {
                forget_run(&mut self.record.hooks[*place]);
            }
            self.progress.stage = Stage::Hooks(event);
        }
        self.next_hook(event, order, 0, now);
    }

    /// Goes to the first hook from a place on that has not succeeded.
    fn next_hook(&mut self, event: Event, order: Vec<usize>, from: usize, now: Timestamp) {
        let is_done = |place: &usize| phase(&self.record.hooks[order[*place]]) == Phase::Succeeded;
        let Some(place) = (from..order.len()).find(|place| !is_done(place)) else {
            return self.end_hooks(&order, now);
        };
        let hook = &mut self.record.hooks[order[place]];
        set_default_policy(hook);
        let part = match phase(hook) {
            // It was noted before it was created: what is there under its name is its own.
            Phase::Running => HookPart::Create,
            _ if DeletePolicy::BeforeCreation.is_of(hook) => HookPart::Delete,
            _ => HookPart::Start,
        };
        self.enter_part(event, order, place, part, now);
    }

    fn enter_part(
        &mut self,
        event: Event,
        order: Vec<usize>,
        place: usize,
        part: HookPart,
        now: Timestamp,
    ) {
        match part {
            HookPart::Start => start(&mut self.record.hooks[order[place]], self.began, now),
            HookPart::Delete => self.since = now,
            HookPart::Await => self.since = self.hook_since(order[place], now),
            HookPart::Create | HookPart::Note => {}
        }
        self.at = At::Hook {
            event,
            order,
            place,
            part,
        };
    }

    /// Since when a hook is waited for: since it began, or since this process is at it.
    fn hook_since(&self, index: usize, now: Timestamp) -> Timestamp {
        let started = Timestamp::parse(&self.record.hooks[index].started_at).unwrap_or(now);
        self.progress.since.map_or(started, |own| own.max(started))
    }

    pub(super) fn hook_step(&self, index: usize, part: HookPart) -> Step {
        let objects = || match self.hook_objects.get(index) {
            Some(Ok(objects)) => objects.clone(),
            _ => Vec::new(),
        };
        let awaits = || Await {
            objects: objects(),
            what: self.plan.wait,
            since: self.since,
            timeout: self.plan.timeout,
        };
        match part {
            HookPart::Delete => Step::DeleteHook(awaits()),
            HookPart::Start | HookPart::Note => self.write_in_progress(),
            HookPart::Create => Step::CreateHook {
                objects: objects(),
                server_side: self.plan.server_side,
            },
            HookPart::Await => Step::AwaitHook(awaits()),
        }
    }

    pub(super) fn hook_done(
        &mut self,
        event: Event,
        order: Vec<usize>,
        place: usize,
        part: HookPart,
        result: StepResult,
        now: Timestamp,
    ) {
        self.note(&result);
        let index = order[place];
        match (part, result) {
            (_, StepResult::Pending) => {
                self.at = At::Hook {
                    event,
                    order,
                    place,
                    part,
                };
            }
            (HookPart::Create, StepResult::Failed(message)) => {
                let path = &self.record.hooks[index].hook.path;
                let message = format!("warning: Hook {event} {path} failed: {message}");
                self.hook_failed(event, index, &message, now);
            }
            (_, StepResult::Failed(message)) => self.hook_failed(event, index, &message, now),
            (HookPart::Delete, _) => match self.unbuildable(event, index) {
                Some(message) => self.hook_failed(event, index, &message, now),
                None => self.enter_part(event, order, place, HookPart::Start, now),
            },
            (HookPart::Start, _) => match self.unbuildable(event, index) {
                Some(message) => self.hook_failed(event, index, &message, now),
                None => self.enter_part(event, order, place, HookPart::Create, now),
            },
            (HookPart::Create, _) => self.enter_part(event, order, place, HookPart::Await, now),
            (HookPart::Await, _) => {
                complete(&mut self.record.hooks[index], true, now);
                self.has_news = true;
                // Whether objects have been applied must be known from the record, too.
                let is_last = place + 1 == order.len() && event.precedes_objects();
                match is_last || vanishes(&self.record.hooks[index]) {
                    true => self.enter_part(event, order, place, HookPart::Note, now),
                    false => self.next_hook(event, order, place + 1, now),
                }
            }
            (HookPart::Note, _) => self.next_hook(event, order, place + 1, now),
        }
    }

    /// Why a hook has no objects.
    fn unbuildable(&self, event: Event, index: usize) -> Option<String> {
        let why = self.hook_objects.get(index)?.as_ref().err()?;
        let path = &self.record.hooks[index].hook.path;
        Some(format!(
            "unable to build kubernetes object for {event} hook {path}: {why}"
        ))
    }

    /// All hooks of an event have succeeded: their logs are printed and what is to go goes, the last first.
    fn end_hooks(&mut self, order: &[usize], now: Timestamp) {
        let mut left = VecDeque::new();
        for index in order.iter().rev() {
            let hook = &self.record.hooks[*index];
            if prints_logs(hook, true) {
                left.push_back(Cleanup::Logs(*index));
            }
            if DeletePolicy::Succeeded.is_of(hook) {
                left.push_back(Cleanup::Hook(*index));
            }
        }
        self.next_cleanup(left, now);
    }

    fn hook_failed(&mut self, event: Event, index: usize, why: &str, now: Timestamp) {
        complete(&mut self.record.hooks[index], false, now);
        let message = match (self.plan.kind, event) {
            (ActionKind::Install, _) => format!("failed {event}: {why}"),
            (ActionKind::Upgrade, _) => format!("{event} hooks failed: {why}"),
            _ => why.to_owned(),
        };
        match event {
            // What is deleted is deleted: Helm goes on, and tells of it at the end.
            Event::PostDelete => {
                self.errors.push(message);
                self.advance(now);
            }
            _ => self.fail(&message, FailedAt::Elsewhere, now),
        }
    }
}
