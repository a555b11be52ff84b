//! Mistakes with the queue of notifications on disk.

use std::io::{self, Write};

use everflow_env::disk::FileWriter;
use everflow_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Whether a file is part of the queue.
pub(super) fn is_one(path: &str) -> bool {
    path.starts_with("notifications/queue-")
}

/// A queue in which each notification is done with as soon as it is there.
pub(super) fn done_at_once(file: Box<dyn FileWriter>) -> Box<dyn FileWriter> {
    Box::new(DoneAtOnce(file))
}

struct DoneAtOnce(Box<dyn FileWriter>);

impl Write for DoneAtOnce {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(bytes)?;
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Some(id) = line.get(9..).and_then(number) {
                let text = json!({ "done": id }).to_string();
                let sum = Sha256::digest(&text);
                let sum: String = sum[..4].iter().map(|byte| format!("{byte:02x}")).collect();
                self.0.write_all(format!("{sum} {text}\n").as_bytes())?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The number of the notification in a line.
fn number(line: &[u8]) -> Option<u64> {
    let line: Value = everflow_json::from_slice(line).ok()?;
    line["id"].as_u64()
}

impl FileWriter for DoneAtOnce {
    fn sync(&mut self) -> io::Result<()> {
        self.0.sync()
    }
}
