//! Connections that can be cut.

use everflow_env::watch;

/// The connection of one client: whoever holds it can cut it. Requests over a cut line break, whether they were handled
/// or not, and so do open watches. What a client does after its own death is kept out in this way.
#[derive(Debug, Default)]
pub struct Line {
    switch: Switch,
}

impl Line {
    /// A line that works.
    pub fn new() -> Self {
        Self::default()
    }

    /// Breaks what is open and whatever comes.
    pub fn cut(&self) {
        self.switch.set(true);
    }

    /// Lets new requests pass again; what was open stays broken.
    pub fn mend(&self) {
        self.switch.set(false);
    }

    /// Whether it is cut now.
    pub fn is_cut(&self) -> bool {
        self.switch.is_set()
    }

    pub(crate) fn watch(&self) -> Cut {
        self.switch.watch()
    }
}

/// Something that is off until it is switched on, and counts how often that happened.
#[derive(Debug)]
pub(crate) struct Switch {
    state: watch::Sender<(bool, u64)>,
}

impl Default for Switch {
    fn default() -> Self {
        Switch {
            state: watch::Sender::new((false, 0)),
        }
    }
}

impl Switch {
    pub(crate) fn set(&self, on: bool) {
        self.state.send_if_modified(|(state, times)| {
            let changed = *state != on;
            *times += u64::from(changed && on);
            *state = on;
            changed
        });
    }

    pub(crate) fn is_set(&self) -> bool {
        self.state.borrow().0
    }

    pub(crate) fn watch(&self) -> Cut {
        let state = self.state.subscribe();
        let times = state.borrow().1;
        Cut { state, times }
    }
}

/// Sees whether a switch was on at any time since this was made.
#[derive(Debug)]
pub(crate) struct Cut {
    state: watch::Receiver<(bool, u64)>,
    times: u64,
}

impl Cut {
    pub(crate) fn happened(&self) -> bool {
        let (on, times) = *self.state.borrow();
        on || times != self.times
    }

    /// Done when it happened.
    pub(crate) async fn wait(&mut self) {
        while !self.happened() {
            if self.state.changed().await.is_err() {
                // Nobody is left who could switch it.
                std::future::pending::<()>().await;
            }
        }
    }
}
