//! A disk in memory that remembers every step.

use std::io;
use std::sync::{Arc, Mutex};

use redb::StorageBackend;

use crate::Numbers;

#[derive(Clone, Debug)]
enum Step {
    Length(u64),
    Write(u64, Vec<u8>),
    Sync,
}

#[derive(Debug, Default)]
struct State {
    now: Vec<u8>,
    steps: Vec<Step>,
    failing: bool,
}

/// The disk; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<State>>);

/// A disk as a crash left it.
#[derive(Debug)]
pub struct Image(Mutex<Vec<u8>>);

fn apply(bytes: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Length(length) => bytes.resize(*length as usize, 0),
        Step::Write(offset, data) => {
            let (from, to) = (*offset as usize, *offset as usize + data.len());
            if bytes.len() < to {
                bytes.resize(to, 0);
            }
            bytes[from..to].copy_from_slice(data);
        }
        Step::Sync => {}
    }
}

fn read(bytes: &[u8], offset: u64, out: &mut [u8]) -> io::Result<()> {
    let from = offset as usize;
    let part = bytes
        .get(from..from + out.len())
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    out.copy_from_slice(part);
    Ok(())
}

impl Recorder {
    pub fn steps(&self) -> usize {
        self.0.lock().unwrap().steps.len()
    }

    /// From now on nothing can be written.
    pub fn fail(&self) {
        self.0.lock().unwrap().failing = true;
    }

    /// The disk as it is.
    pub fn image(&self) -> Image {
        Image(Mutex::new(self.0.lock().unwrap().now.clone()))
    }

    /// What a crash after some steps may leave: everything that was written (the program died), only what was synced
    /// (the power went), and some of the rest, the last of it torn.
    pub fn crashes(&self, steps: usize, numbers: &mut Numbers) -> Vec<Image> {
        let state = self.0.lock().unwrap();
        let done = &state.steps[..steps];
        let synced = done
            .iter()
            .rposition(|step| matches!(step, Step::Sync))
            .map_or(0, |at| at + 1);
        let mut safe = Vec::new();
        done[..synced]
            .iter()
            .for_each(|step| apply(&mut safe, step));
        let mut all = safe.clone();
        let open = &done[synced..];
        open.iter().for_each(|step| apply(&mut all, step));
        let mut some = safe.clone();
        for step in open {
            match step {
                Step::Write(offset, data) => match numbers.below(3) {
                    0 => {}
                    1 => apply(&mut some, step),
                    // Disks write whole sectors.
                    _ => {
                        let sectors = numbers.below(data.len() / 512 + 1) * 512;
                        let torn = data[..sectors.min(data.len())].to_vec();
                        apply(&mut some, &Step::Write(*offset, torn));
                    }
                },
                other => apply(&mut some, other),
            }
        }
        let mut images = vec![all];
        if !open.is_empty() {
            images.push(safe);
            images.push(some);
        }
        images
            .into_iter()
            .map(|bytes| Image(Mutex::new(bytes)))
            .collect()
    }

    fn step(&self, step: Step) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.failing {
            return Err(io::Error::other("the disk is gone"));
        }
        apply(&mut state.now, &step);
        state.steps.push(step);
        Ok(())
    }
}

impl StorageBackend for Recorder {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().now.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read(&self.0.lock().unwrap().now, offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.step(Step::Length(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.step(Step::Sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.step(Step::Write(offset, data.to_vec()))
    }
}

impl StorageBackend for Image {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read(&self.0.lock().unwrap(), offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(length as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        apply(
            &mut self.0.lock().unwrap(),
            &Step::Write(offset, data.to_vec()),
        );
        Ok(())
    }
}
