//! What goes wrong in an episode.

use std::time::Duration;

use crate::faults::{Loss, heal, lose};
use crate::load::Load;
use crate::place::{CLUSTER_IP, Place, SERVERS, address_of};
use crate::proxy::Mode;
use crate::replica::Replica;

/// Numbers that follow from a seed.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }

    fn span(&mut self, least: usize, most: usize) -> Duration {
        Duration::from_millis((least + self.below(most - least)) as u64)
    }
}

/// Something that goes wrong.
#[derive(Debug, Clone, Copy)]
pub enum Fault {
    /// Packets of one replica are lost.
    Lost(usize, Loss),
    /// Packets of all are.
    AllLost(Loss),
    /// The address that stands for the ClusterIP takes connections and never answers, for one or for all.
    Silent(usize),
    AllSilent,
    /// It resets connections.
    Reset(usize),
    /// It is slow.
    Slow(usize),
    ServerKilled(usize),
    /// An API server takes connections and never answers.
    ServerStopped(usize),
    /// One that stands still most of the time.
    ServerSlow(usize),
    Killed(usize),
    AllKilled,
    Restarted(usize),
    /// It stands still, and goes on.
    Stopped(usize),
    AllStopped,
    DiskFull(usize),
    DiskGone(usize),
    DiskReadOnly(usize),
    /// The machine of a replica is lost with its disk.
    MachineLost(usize),
}

impl Fault {
    /// Each kind in turn, at a place that is left to chance.
    pub fn pick(chance: &mut Chance, episode: u64) -> Self {
        let (replica, server) = (chance.below(3), chance.below(2));
        let kinds = [
            Fault::Lost(replica, Loss::Of(CLUSTER_IP)),
            Fault::Killed(replica),
            Fault::ServerKilled(server),
            Fault::Stopped(replica),
            Fault::AllLost(Loss::Of(CLUSTER_IP)),
            Fault::Lost(replica, Loss::Half),
            Fault::DiskGone(replica),
            Fault::ServerStopped(server),
            Fault::Silent(replica),
            Fault::DiskFull(replica),
            Fault::AllKilled,
            Fault::Lost(replica, Loss::All),
            Fault::Restarted(replica),
            Fault::AllSilent,
            Fault::ServerSlow(server),
            Fault::MachineLost(replica),
            Fault::Lost(replica, Loss::Of(SERVERS[server])),
            Fault::Reset(replica),
            Fault::AllStopped,
            Fault::Lost(replica, Loss::Slow),
            Fault::AllLost(Loss::All),
            Fault::DiskReadOnly(replica),
            Fault::Slow(replica),
            Fault::AllLost(Loss::Half),
        ];
        // A seed of its own begins elsewhere.
        kinds[(episode as usize + chance.below(2) * 12) % kinds.len()]
    }
}

/// Everything that takes part.
pub struct Scene {
    pub place: Place,
    pub replicas: Vec<Replica>,
    pub load: Load,
}

impl Scene {
    /// Makes a change while something goes wrong, mends that, and waits. How long the change took after that, and what
    /// ended by itself.
    pub async fn play(
        &mut self,
        fault: &Fault,
        chance: &mut Chance,
        patience: Duration,
    ) -> (Result<Duration, Vec<String>>, String) {
        // Sometimes it is there before the change, most often it comes into the middle of it.
        let before = chance.below(4) == 0;
        if before {
            self.begin(fault).await;
        }
        self.load.next().await;
        if !before {
            tokio::time::sleep(chance.span(0, 2_500)).await;
            self.begin(fault).await;
        }
        self.last(fault, chance.span(1_500, 12_000)).await;
        self.end(fault);
        let ended: Vec<String> = (0..self.replicas.len())
            .filter(|number| self.replicas[*number].ended_by_itself())
            .map(|number| format!(", replica {number} had ended by itself"))
            .collect();
        self.replicas.iter_mut().for_each(Replica::start);
        (self.load.until_delivered(patience).await, ended.concat())
    }

    async fn begin(&mut self, fault: &Fault) {
        let all = 0..self.replicas.len();
        match *fault {
            Fault::Lost(replica, loss) => lose(replica, loss),
            Fault::AllLost(loss) => all.for_each(|replica| lose(replica, loss)),
            Fault::Silent(replica) => self.place.proxy.set(&address_of(replica), Mode::Silent),
            Fault::AllSilent => {
                all.for_each(|replica| self.place.proxy.set(&address_of(replica), Mode::Silent))
            }
            Fault::Reset(replica) => self.place.proxy.set(&address_of(replica), Mode::Reset),
            Fault::Slow(replica) => {
                let slow = Mode::Slow(Duration::from_millis(900));
                self.place.proxy.set(&address_of(replica), slow);
            }
            Fault::ServerKilled(server) => self.place.kill_server(server),
            Fault::ServerStopped(server) | Fault::ServerSlow(server) => {
                self.place.signal_server(server, "STOP")
            }
            Fault::Killed(replica) => self.replicas[replica].kill(),
            Fault::AllKilled => self.replicas.iter_mut().for_each(Replica::kill),
            Fault::Restarted(replica) => self.replicas[replica].stop(),
            Fault::Stopped(replica) => self.replicas[replica].signal("STOP"),
            Fault::AllStopped => all.for_each(|replica| self.replicas[replica].signal("STOP")),
            Fault::DiskFull(replica) => self.replicas[replica].fill_disk(),
            Fault::DiskGone(replica) => self.replicas[replica].lose_disk(),
            Fault::DiskReadOnly(replica) => self.replicas[replica].set_read_only(true),
            Fault::MachineLost(replica) => {
                self.replicas[replica].kill();
                self.replicas[replica].lose_disk();
            }
        }
    }

    async fn last(&mut self, fault: &Fault, span: Duration) {
        let Fault::ServerSlow(server) = *fault else {
            tokio::time::sleep(span).await;
            return;
        };
        let begun = std::time::Instant::now();
        while begun.elapsed() < span {
            self.place.signal_server(server, "STOP");
            tokio::time::sleep(Duration::from_millis(900)).await;
            self.place.signal_server(server, "CONT");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn end(&mut self, fault: &Fault) {
        for replica in 0..self.replicas.len() {
            if matches!(fault, Fault::Lost(..) | Fault::AllLost(_)) {
                heal(replica);
            }
            self.place.proxy.set(&address_of(replica), Mode::Pass);
            self.replicas[replica].signal("CONT");
            if matches!(fault, Fault::DiskFull(_)) {
                self.replicas[replica].free_disk();
            }
            if matches!(fault, Fault::DiskReadOnly(_)) {
                self.replicas[replica].set_read_only(false);
            }
        }
        match *fault {
            Fault::ServerKilled(server) => self.place.start_server(server),
            Fault::ServerStopped(server) | Fault::ServerSlow(server) => {
                self.place.signal_server(server, "CONT")
            }
            _ => {}
        }
    }
}
