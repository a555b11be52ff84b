//! From a seed to what goes wrong.

use everflow_env::{Random, SeededRandom};

use crate::plan::{
    DiskFate, EventFate, Fate, Fault, HostFate, Millis, Plan, RequestClass, Weather,
};
use crate::run::Stats;
use crate::scenario::Scenario;
use crate::ways::CLUSTER_IP;

/// No request is done later than this after its client has lost it: by then the server has given it up, too.
const LATEST: Millis = 30_000;

/// Draws from a seed.
pub struct Chance(SeededRandom);

impl Chance {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Self {
        Chance(SeededRandom::new(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)))
    }

    /// A number from 0 up to, but not including, `bound`.
    pub fn below(&self, bound: u64) -> u64 {
        self.0.next() % bound.max(1)
    }

    /// A number from one to another, both included.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// One of several.
    pub fn one<'a, T>(&self, all: &'a [T]) -> Option<&'a T> {
        all.get(usize::try_from(self.below(all.len() as u64)).unwrap_or_default())
    }

    fn span(&self) -> Millis {
        // Short ones are more telling than long ones.
        let longest = [50, 500, 5_000, 20_000, 45_000];
        let longest = self.one(&longest).copied().unwrap_or(500);
        self.between(1, longest)
    }

    fn down(&self) -> Millis {
        let all = [0, 100, 2_000, 10_000];
        self.one(&all).copied().unwrap_or_default()
    }
}

/// How much of everything there is to go wrong, from the run without faults.
#[derive(Debug, Clone)]
pub struct Profile<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Its run without faults.
    pub stats: &'a Stats,
}

impl Profile<'_> {
    /// The plan of a seed.
    pub fn plan(&self, seed: u64) -> Plan {
        let chance = Chance::new(seed);
        let mut count = 1;
        while count < 8 && chance.below(10) < 6 {
            count += 1;
        }
        let faults = (0..count).filter_map(|_| self.fault(&chance)).collect();
        Plan {
            seed,
            later: chance.below(3_000),
            faults,
        }
    }

    /// Another plan near to one.
    pub fn mutated(&self, plan: &Plan, seed: u64) -> Plan {
        let chance = Chance::new(seed);
        let mut plan = plan.clone();
        plan.seed = seed;
        let at = usize::try_from(chance.below(plan.faults.len().max(1) as u64)).unwrap_or_default();
        match chance.below(4) {
            0 if plan.faults.len() > 1 => drop(plan.faults.remove(at)),
            1 if !plan.faults.is_empty() => {
                if let Some(fault) = self.fault(&chance) {
                    plan.faults[at] = fault;
                }
            }
            2 if !plan.faults.is_empty() => self.moved(&chance, &mut plan.faults[at]),
            _ => plan.faults.extend(self.fault(&chance)),
        }
        plan
    }

    /// Moves a fault a little.
    fn moved(&self, chance: &Chance, fault: &mut Fault) {
        let step = chance.between(1, 3);
        match fault {
            Fault::Request { nth, .. }
            | Fault::Event { nth, .. }
            | Fault::Host { nth, .. }
            | Fault::Disk { nth, .. } => {
                *nth = match chance.below(2) {
                    0 => *nth + step,
                    _ => nth.saturating_sub(step).max(1),
                }
            }
            Fault::Weather { from, lasts, .. } => {
                *from += chance.below(2_000);
                *lasts = chance.span();
            }
            Fault::Crash { at, .. }
            | Fault::Stop { at, .. }
            | Fault::Jump { at, .. }
            | Fault::Restore { at, .. } => {
                *at += chance.below(2_000);
            }
        }
    }

    fn fault(&self, chance: &Chance) -> Option<Fault> {
        let processes = self.scenario.processes() as u64;
        let replica = usize::try_from(chance.below(processes)).unwrap_or(0);
        if !self.scenario.ways.is_empty() && chance.below(2) == 0 {
            return self.way(chance, replica);
        }
        match chance.below(100) {
            0..40 => self.request(chance, replica),
            40..58 => self.event(chance, replica),
            58..68 => self.host(chance),
            68..76 => self.disk(chance, replica),
            76..94 => Some(self.weather(chance, replica)),
            94 if !self.scenario.restores => None,
            94 => Some(Fault::Restore {
                at: chance.between(2_000, self.scenario.lasts.max(3) * 1_000),
                back: [500, 5_000, 30_000][chance.below(3) as usize],
            }),
            95 => Some(Fault::Stop {
                replica,
                at: chance.below(self.scenario.lasts * 1_000),
                down: chance.down(),
            }),
            96..98 => Some(Fault::Crash {
                replica,
                at: chance.below(self.scenario.lasts * 1_000),
                down: chance.down(),
                wiped: chance.below(3) == 0,
            }),
            _ => Some(Fault::Jump {
                replica,
                at: chance.below(self.scenario.lasts * 1_000),
                seconds: chance.between(0, 7_200) as i64 - 3_600,
            }),
        }
    }

    fn request(&self, chance: &Chance, replica: usize) -> Option<Fault> {
        let kinds = [
            RequestClass::Any,
            RequestClass::Write,
            RequestClass::Write,
            RequestClass::Status,
            RequestClass::Status,
            RequestClass::Apply,
            RequestClass::Delete,
            RequestClass::Get,
            RequestClass::List,
            RequestClass::Watch,
            RequestClass::Lease,
        ];
        let seen: Vec<(RequestClass, u64)> = kinds
            .iter()
            .filter_map(|kind| Some((*kind, *self.stats.requests.get(&(replica, *kind))?)))
            .collect();
        let (asked, count) = *chance.one(&seen)?;
        let nth = chance.between(1, (count + count / 3).min(200) + 1);
        let fates = [
            Fate::FailsBefore,
            Fate::FailsAfter,
            Fate::Conflicts,
            Fate::TooBusy([1, 5, 3_600][chance.below(3) as usize]),
            Fate::Unavailable,
            Fate::LostBefore,
            Fate::LostAfter,
            Fate::Late(chance.span()),
            Fate::AnswerLate(chance.span()),
            Fate::Twice,
            Fate::DiesBefore(chance.down()),
            Fate::DiesAfter(chance.down()),
            Fate::Denied,
            Fate::Stops([2_000, 20_000, 60_000][chance.below(3) as usize]),
            Fate::LandsLate(chance.span().min(LATEST)),
            Fate::HangsAndLands(chance.span()),
        ];
        let fate = *chance.one(&fates)?;
        Some(Fault::Request {
            replica,
            asked,
            nth,
            fate,
        })
    }

    fn event(&self, chance: &Chance, replica: usize) -> Option<Fault> {
        let seen: Vec<(&String, u64)> = self
            .stats
            .events
            .iter()
            .filter(|((whose, _), _)| *whose == replica)
            .map(|((_, kind), count)| (kind, *count))
            .collect();
        let (kind, count) = chance.one(&seen)?;
        let nth = chance.between(1, count + count / 3 + 1);
        let fates = [
            EventFate::Late(chance.span()),
            EventFate::Late(chance.span()),
            EventFate::Lost,
            EventFate::Twice,
            EventFate::Behind(usize::try_from(chance.between(1, 3)).unwrap_or(1)),
            EventFate::Ends,
            EventFate::Expires,
            EventFate::Garbled,
            EventFate::Dies(chance.down()),
        ];
        let fate = *chance.one(&fates)?;
        Some(Fault::Event {
            replica,
            kind: (*kind).clone(),
            nth,
            fate,
        })
    }

    fn host(&self, chance: &Chance) -> Option<Fault> {
        let seen: Vec<(&String, &u64)> = self.stats.connections.iter().collect();
        let (host, count) = chance.one(&seen)?;
        let nth = chance.between(1, **count + **count / 3 + 1);
        let bytes = usize::try_from(chance.below(600)).unwrap_or_default();
        let fates = [
            HostFate::Refused,
            HostFate::Silent,
            HostFate::SilentAfter(bytes),
            HostFate::CutAfter(bytes),
            HostFate::Slow(chance.span()),
            HostFate::Answers([500, 502, 403, 404][chance.below(4) as usize]),
            HostFate::TooBusy([1, 30, 3_600][chance.below(3) as usize]),
        ];
        let fate = *chance.one(&fates)?;
        Some(Fault::Host {
            host: (*host).clone(),
            nth,
            fate,
        })
    }

    fn disk(&self, chance: &Chance, replica: usize) -> Option<Fault> {
        let count = *self.stats.changes.get(&replica)?;
        let fates = [
            DiskFate::Fails,
            DiskFate::Full,
            DiskFate::DiesBefore(chance.down()),
            DiskFate::DiesAfter(chance.down()),
        ];
        let fate = *chance.one(&fates)?;
        Some(Fault::Disk {
            replica,
            nth: chance.between(1, (count + count / 3).min(200) + 1),
            fate,
        })
    }

    /// Something that is wrong with one way to the API servers.
    fn way(&self, chance: &Chance, replica: usize) -> Option<Fault> {
        let further = self.scenario.ways.iter().map(String::as_str);
        let all: Vec<&str> = std::iter::once(CLUSTER_IP).chain(further).collect();
        let way = || chance.one(&all).copied().unwrap_or(CLUSTER_IP).to_owned();
        let slow = [200, 1_200, 5_000][chance.below(3) as usize];
        let kinds = [
            Weather::WayDown(way()),
            Weather::WayCut(way()),
            Weather::WayMute(way()),
            Weather::WaySlow(way(), slow),
        ];
        Some(Fault::Weather {
            replica,
            from: chance.below(self.scenario.lasts * 1_000),
            lasts: chance.span(),
            what: chance.one(&kinds)?.clone(),
        })
    }

    fn weather(&self, chance: &Chance, replica: usize) -> Fault {
        let mut kinds: Vec<&str> = self
            .stats
            .events
            .keys()
            .map(|(_, kind)| kind.as_str())
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        let kind = chance.one(&kinds).copied().unwrap_or_default().to_owned();
        let hosts: Vec<&String> = self.stats.connections.keys().collect();
        let host = chance
            .one(&hosts)
            .map_or("git", |host| host.as_str())
            .to_owned();
        let slow = [200, 2_000, 8_000][chance.below(3) as usize];
        let all = [
            Weather::ApiDown,
            Weather::ApiSilent,
            Weather::ApiSlow(slow),
            Weather::Conflicts,
            Weather::EventsLate(kind.clone(), slow),
            Weather::EventsHeld(kind.clone()),
            Weather::ViewHeld,
            Weather::ViewHeld,
            Weather::ViewBehind([1_000, 10_000, 60_000][chance.below(3) as usize]),
            Weather::Stopped,
            Weather::HostDown(host.clone()),
            Weather::HostSilent(host.clone()),
            Weather::HostAnswers(host, 503),
            Weather::DiskFull,
            Weather::KindBroken(kind.clone()),
            Weather::ListBroken(kind.clone()),
            Weather::WritesSlow(kind.clone(), slow),
            Weather::WritesDenied(kind),
            Weather::ApiBusy([1, 60, 3_600][chance.below(3) as usize]),
        ];
        let what = chance.one(&all).cloned().unwrap_or(Weather::ApiDown);
        Fault::Weather {
            replica,
            from: chance.below(self.scenario.lasts * 1_000),
            lasts: chance.span(),
            what,
        }
    }
}
