//! One replica of `everflow run` in a namespace of its own, with a small disk of its own.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::place::{Place, Process, address_of, must, run, signal};

/// The program under test: another one than that of this build, where it is named.
pub fn program() -> PathBuf {
    match std::env::var_os("EVERFLOW_PROGRAM") {
        Some(program) => program.into(),
        None => env!("CARGO_BIN_EXE_everflow").into(),
    }
}

/// Times of leases that end soon.
pub const SHORT: [&str; 3] = [
    "--leader-election-lease-duration=6s",
    "--leader-election-renew-deadline=4s",
    "--leader-election-retry-period=1s",
];

pub struct Replica {
    number: usize,
    flags: Vec<String>,
    process: Option<Process>,
    starts: usize,
    directory: PathBuf,
}

impl Replica {
    /// One that does not run yet.
    pub fn new(place: &Place, number: usize, flags: &[&str]) -> Self {
        let directory = place.directory.clone();
        let storage = directory.join(format!("storage-{number}"));
        std::fs::create_dir_all(&storage).unwrap();
        must(&format!(
            "mount -t tmpfs -o size=32m tmpfs '{}'",
            storage.display()
        ));
        Replica {
            number,
            flags: flags.iter().map(|flag| (*flag).to_owned()).collect(),
            process: None,
            starts: 0,
            directory,
        }
    }

    pub fn storage(&self) -> PathBuf {
        self.directory.join(format!("storage-{}", self.number))
    }

    pub fn log(&self) -> PathBuf {
        self.directory.join(format!("engine-{}.log", self.number))
    }

    pub fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Starts it, unless it runs.
    pub fn start(&mut self) {
        if self.runs() {
            return;
        }
        self.starts += 1;
        let (number, address) = (self.number, address_of(self.number));
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.log());
        let child = Command::new("ip")
            .args(["netns", "exec", &format!("r{number}")])
            .arg(program())
            .args(["run", "--enable-leader-election", "--log-level", "info"])
            .args(["--min-retry-delay", "200ms", "--requeue-dependency", "1s"])
            .arg("--kubeconfig")
            .arg(self.directory.join(format!("kubeconfig-{number}")))
            .arg("--storage-path")
            .arg(self.storage())
            .args(["--storage-addr", &format!("{address}:9090")])
            .args(["--storage-adv-addr", &format!("{address}:9090")])
            .args(["--metrics-addr", &format!("{address}:8080")])
            .args(["--health-addr", &format!("{address}:9440")])
            .args(&self.flags)
            .env("RUNTIME_NAMESPACE", "default")
            .env("POD_IP", &address)
            .env("HOSTNAME", format!("engine-{number}"))
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn();
        self.process = Some(Process(child.unwrap()));
    }

    /// Kills it with -9.
    pub fn kill(&mut self) {
        self.process = None;
    }

    pub fn signal(&self, name: &str) {
        if let Some(process) = &self.process {
            signal(&process.0, name);
        }
    }

    /// Asks it to stop, and waits until it has.
    pub fn stop(&mut self) {
        self.signal("TERM");
        if let Some(process) = &mut self.process {
            let _ = process.0.wait();
        }
        self.process = None;
    }

    /// Starts it again if it has ended by itself.
    pub fn ended_by_itself(&mut self) -> bool {
        let ended = self
            .process
            .as_mut()
            .is_some_and(|process| process.0.try_wait().unwrap().is_some());
        if ended {
            self.process = None;
        }
        ended
    }

    /// Fills its disk to the last byte.
    pub fn fill_disk(&self) {
        let _ = run(&format!(
            "dd if=/dev/zero of='{}/filler' bs=64k 2>/dev/null",
            self.storage().display()
        ));
    }

    pub fn free_disk(&self) {
        let _ = std::fs::remove_file(self.storage().join("filler"));
    }

    /// Removes all that is on its disk.
    pub fn lose_disk(&self) {
        must(&format!(
            "find '{}' -mindepth 1 -delete",
            self.storage().display()
        ));
    }

    /// Makes its disk one that cannot be written to, or one that can again.
    pub fn set_read_only(&self, read_only: bool) {
        let how = if read_only { "ro" } else { "rw" };
        let _ = run(&format!(
            "mount -o remount,{how} '{}'",
            self.storage().display()
        ));
    }
}
