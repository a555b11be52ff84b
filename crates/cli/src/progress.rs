//! What is shown while work takes long: a spinner on a terminal, nothing elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const TURN: Duration = Duration::from_millis(120);
const SHAPES: [&str; 4] = ["◐", "◓", "◑", "◒"];

/// Turns on standard error until it is dropped.
pub struct Spinner {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Starts to turn, where somebody can see it and wants to.
    pub fn start(text: &str, wanted: bool) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = wanted && std::io::stderr().is_terminal();
        let thread = seen.then(|| {
            let (over, text) = (over.clone(), text.to_owned());
            std::thread::spawn(move || turn(&text, &over))
        });
        Spinner { over, thread }
    }
}

fn turn(text: &str, over: &AtomicBool) {
    let mut out = std::io::stderr();
    for shape in SHAPES.iter().cycle() {
        if over.load(Ordering::Relaxed) {
            break;
        }
        // Nobody to tell is no reason to stop.
        let _ = write!(out, "\r{shape} {text}");
        let _ = out.flush();
        std::thread::sleep(TURN);
    }
    let _ = write!(out, "\r\x1b[2K");
    let _ = out.flush();
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A spinner that broke is gone, too.
            let _ = thread.join();
        }
    }
}
