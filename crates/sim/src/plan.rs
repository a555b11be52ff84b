//! What goes wrong in a run, as plain data: a seed makes it, shrinking takes away from it.

use serde::{Deserialize, Serialize};

/// A moment or a span, in milliseconds of simulated time.
pub type Millis = u64;

/// Which requests of a replica count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestClass {
    /// All but watches.
    Any,
    /// Those that change something, Leases and Events aside.
    Write,
    /// Writes of statuses.
    Status,
    /// Server-side applies.
    Apply,
    /// Deletions.
    Delete,
    /// Reads of one object.
    Get,
    /// Lists.
    List,
    /// Watches.
    Watch,
    /// Renewals of Leases.
    Lease,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// The server fails and has done nothing.
    FailsBefore,
    /// The server fails and has done it.
    FailsAfter,
    /// It is said to conflict with another write, and is not done.
    Conflicts,
    /// The server is too busy, for so many seconds.
    TooBusy(u32),
    /// The server is not available.
    Unavailable,
    /// Somebody refuses it.
    Denied,
    /// The connection breaks before anything is done.
    LostBefore,
    /// It is done, and the connection breaks before the answer.
    LostAfter,
    /// It takes so long.
    Late(Millis),
    /// It is done, and the answer takes so long.
    AnswerLate(Millis),
    /// It is done twice.
    Twice,
    /// The replica dies before it is done, and starts again after so long.
    DiesBefore(Millis),
    /// The replica dies after it was done, before it hears of it.
    DiesAfter(Millis),
    /// It is done, and the process stands still for so long before it hears of it.
    Stops(Millis),
    /// The connection breaks at once, and it is done after so long all the same, whoever lives then.
    LandsLate(Millis),
    /// It gets no answer for so long and is done then, though the client may have given up before, or have died.
    HangsAndLands(Millis),
}

impl Fate {
    /// For how long after the request something is wrong.
    pub fn lasts(&self) -> Millis {
        match self {
            Fate::Late(millis)
            | Fate::AnswerLate(millis)
            | Fate::Stops(millis)
            | Fate::LandsLate(millis)
            | Fate::HangsAndLands(millis) => *millis,
            Fate::TooBusy(seconds) => u64::from(*seconds).min(60) * 1_000,
            _ => 0,
        }
    }
}

impl EventFate {
    /// For how long after the event something is wrong. What was lost is found when the watch compares with the server.
    pub fn lasts(&self) -> Millis {
        match self {
            EventFate::Late(millis) => *millis,
            EventFate::Lost | EventFate::Behind(_) => 12 * 60_000,
            _ => 0,
        }
    }
}

/// What becomes of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventFate {
    /// It and what follows come later.
    Late(Millis),
    /// It is lost.
    Lost,
    /// It comes twice.
    Twice,
    /// It comes behind so many others.
    Behind(usize),
    /// The watch ends before it.
    Ends,
    /// The watch ends before it, because its history is gone.
    Expires,
    /// It comes as something that cannot be read.
    Garbled,
    /// The replica dies when it hears of it.
    Dies(Millis),
}

/// What becomes of a connection to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostFate {
    /// Nobody listens.
    Refused,
    /// Nobody answers.
    Silent,
    /// The other side goes away without a word after so many bytes.
    SilentAfter(usize),
    /// The connection breaks after so many bytes.
    CutAfter(usize),
    /// It takes so long to connect.
    Slow(Millis),
    /// The host answers with a status.
    Answers(u16),
    /// The host is too busy, for so many seconds.
    TooBusy(u32),
}

/// What becomes of a change on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskFate {
    /// It fails.
    Fails,
    /// There is no space.
    Full,
    /// The replica dies before it.
    DiesBefore(Millis),
    /// The replica dies after it.
    DiesAfter(Millis),
}

/// Something that lasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weather {
    /// The replica's requests break.
    ApiDown,
    /// The replica's requests get no answer.
    ApiSilent,
    /// The replica's requests take so long.
    ApiSlow(Millis),
    /// Every write of the replica is refused with a conflict first, in turns.
    Conflicts,
    /// Events of a kind (its plural name; all when empty) come so late.
    EventsLate(String, Millis),
    /// No event of a kind comes.
    EventsHeld(String),
    /// The API server that the replica talks to sees nothing new.
    ViewHeld,
    /// The replica is moved to an API server that is so far behind, has no history, and sees nothing new.
    ViewBehind(Millis),
    /// The process stands still, and its clock goes on.
    Stopped,
    /// A host is down.
    HostDown(String),
    /// A host gives no answer.
    HostSilent(String),
    /// A host answers with a status.
    HostAnswers(String, u16),
    /// The replica's disk is full.
    DiskFull,
    /// Objects of a kind (its plural name) cannot be read, one by one or as a list.
    KindBroken(String),
    /// Lists and watches of a kind fail; its objects can be read one by one.
    ListBroken(String),
    /// One object of a kind, `NAMESPACE/NAME`, cannot be converted: whatever touches it fails, lists of its kind
    /// included.
    ObjectBroken(String, String),
    /// Admission takes so long for each write of a kind.
    WritesSlow(String, Millis),
    /// Admission refuses each write of a kind.
    WritesDenied(String),
    /// Nobody may act as this user any more.
    Forbidden(String),
    /// The API is too busy for anything but Leases, and asks for so many seconds.
    ApiBusy(u32),
    /// The process dies whenever it has worked on the foreign input of an object, `KIND/NAMESPACE/NAME`.
    Poisoned(String),
    /// One way to the API servers, by its name, refuses connections.
    WayDown(String),
    /// Nothing gets through by one way: no connection, no request, no answer.
    WayCut(String),
    /// One way takes connections and requests, and never answers.
    WayMute(String),
    /// Answers by one way take so long.
    WaySlow(String, Millis),
}

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The n-th request of a kind, counted from 1 over all lives of a replica.
    Request {
        /// Whose.
        replica: usize,
        /// Which are counted.
        asked: RequestClass,
        /// Which one.
        nth: u64,
        /// What becomes of it.
        fate: Fate,
    },
    /// The n-th event.
    Event {
        /// Whose.
        replica: usize,
        /// The plural name of the kind; all kinds when empty.
        kind: String,
        /// Which one.
        nth: u64,
        /// What becomes of it.
        fate: EventFate,
    },
    /// The n-th connection to a host.
    Host {
        /// Its name.
        host: String,
        /// Which one.
        nth: u64,
        /// What becomes of it.
        fate: HostFate,
    },
    /// The n-th change on a disk.
    Disk {
        /// Whose.
        replica: usize,
        /// Which one.
        nth: u64,
        /// What becomes of it.
        fate: DiskFate,
    },
    /// Something that lasts for a while.
    Weather {
        /// Whose.
        replica: usize,
        /// From when.
        from: Millis,
        /// How long.
        lasts: Millis,
        /// What.
        what: Weather,
    },
    /// A replica dies.
    Crash {
        /// Which.
        replica: usize,
        /// When.
        at: Millis,
        /// It starts again after so long.
        down: Millis,
        /// Whether its disk is lost.
        wiped: bool,
    },
    /// A replica is asked to stop, does so in its own time, and is started again.
    Stop {
        /// Which.
        replica: usize,
        /// When.
        at: Millis,
        /// How long after its end it starts again.
        down: Millis,
    },
    /// The whole cluster is restored from a backup: objects and revisions of some time ago. Users do again what was lost.
    Restore {
        /// When.
        at: Millis,
        /// How old the backup is.
        back: Millis,
    },
    /// The time of day of a replica jumps.
    Jump {
        /// Whose.
        replica: usize,
        /// When.
        at: Millis,
        /// By how many seconds.
        seconds: i64,
    },
}

impl Fault {
    /// Until when it may have an effect, if that is a moment on the clock.
    pub fn ends(&self) -> Millis {
        match self {
            Fault::Weather { from, lasts, .. } => from + lasts,
            Fault::Crash { at, down, .. } | Fault::Stop { at, down, .. } => at + down,
            Fault::Jump { at, .. } | Fault::Restore { at, .. } => *at,
            _ => 0,
        }
    }

    /// For how long a process stands still by it.
    pub fn stops(&self) -> Option<Millis> {
        match self {
            Fault::Request {
                fate: Fate::Stops(span),
                ..
            } => Some(*span),
            Fault::Weather {
                lasts,
                what: Weather::Stopped,
                ..
            } => Some(*lasts),
            _ => None,
        }
    }

    /// The class of faults it is of, for counting.
    pub fn class(&self) -> &'static str {
        match self {
            Fault::Request { fate, .. } => match fate {
                Fate::FailsBefore | Fate::Unavailable => "request fails before",
                Fate::FailsAfter => "request fails after it was done",
                Fate::Conflicts => "conflict",
                Fate::TooBusy(_) => "too many requests",
                Fate::Denied => "denied by admission",
                Fate::LostBefore => "request lost",
                Fate::LostAfter => "answer lost",
                Fate::Late(_) | Fate::AnswerLate(_) => "request late",
                Fate::Twice => "request repeated",
                Fate::DiesBefore(_) => "crash before a request",
                Fate::DiesAfter(_) => "crash after a request",
                Fate::Stops(_) => "process stands still",
                Fate::LandsLate(_) | Fate::HangsAndLands(_) => "write lands late",
            },
            Fault::Event { fate, .. } => match fate {
                EventFate::Late(_) => "event late",
                EventFate::Lost => "event lost",
                EventFate::Twice => "event repeated",
                EventFate::Behind(_) => "event out of order",
                EventFate::Ends => "watch ends",
                EventFate::Expires => "history gone",
                EventFate::Garbled => "event cannot be read",
                EventFate::Dies(_) => "crash at an event",
            },
            Fault::Host { fate, .. } => match fate {
                HostFate::Refused => "host refuses",
                HostFate::Silent | HostFate::SilentAfter(_) => "host silent",
                HostFate::CutAfter(_) => "host breaks off",
                HostFate::Slow(_) => "host slow",
                HostFate::Answers(_) => "host fails",
                HostFate::TooBusy(_) => "host too busy",
            },
            Fault::Disk { fate, .. } => match fate {
                DiskFate::Fails => "disk fails",
                DiskFate::Full => "disk full once",
                DiskFate::DiesBefore(_) => "crash before a change on disk",
                DiskFate::DiesAfter(_) => "crash after a change on disk",
            },
            Fault::Weather { what, .. } => match what {
                Weather::ApiDown => "API down",
                Weather::ApiSilent => "API silent",
                Weather::ApiSlow(_) => "API slow",
                Weather::Conflicts => "conflict storm",
                Weather::EventsLate(..) => "watch late",
                Weather::EventsHeld(_) => "watch frozen",
                Weather::ViewHeld => "stale API server",
                Weather::ViewBehind(_) => "API server goes back",
                Weather::Stopped => "process stands still",
                Weather::HostDown(_) => "host down",
                Weather::HostSilent(_) => "host black hole",
                Weather::HostAnswers(..) => "host errors",
                Weather::DiskFull => "disk full",
                Weather::KindBroken(_) => "kind cannot be read",
                Weather::ListBroken(_) => "kind cannot be listed",
                Weather::ObjectBroken(..) => "object cannot be converted",
                Weather::WritesSlow(..) => "admission slow",
                Weather::WritesDenied(_) => "admission down",
                Weather::Forbidden(_) => "rights gone",
                Weather::ApiBusy(_) => "API too busy",
                Weather::Poisoned(_) => "poisonous object",
                Weather::WayDown(_) => "way to the API refuses",
                Weather::WayCut(_) => "way to the API cut",
                Weather::WayMute(_) => "way to the API never answers",
                Weather::WaySlow(..) => "way to the API slow",
            },
            Fault::Crash { wiped: false, .. } => "crash",
            Fault::Crash { wiped: true, .. } => "crash and disk lost",
            Fault::Stop { .. } => "orderly stop",
            Fault::Restore { .. } => "cluster restored from a backup",
            Fault::Jump { .. } => "clock jumps",
        }
    }
}

/// All that goes wrong in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Fixes jitter, names and everything else that is left to chance.
    pub seed: u64,
    /// By how much the users' actions come later than the scenario says.
    #[serde(default)]
    pub later: Millis,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

impl Plan {
    /// Nothing goes wrong.
    pub fn calm(seed: u64) -> Self {
        Plan {
            seed,
            later: 0,
            faults: Vec::new(),
        }
    }
}
