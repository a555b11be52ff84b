//! Where a simulator can get between client and server.

use std::time::Duration;

use crate::rest::request::Request;
use crate::status::ApiError;

/// What happens to a request or to its answer.
#[derive(Debug)]
pub enum Verdict {
    /// Nothing special.
    Pass,
    /// It takes this much longer.
    Delay(Duration),
    /// It fails with this Status.
    Fail(Box<ApiError>),
    /// The connection breaks.
    Drop,
}

/// What happens to one watch event.
#[derive(Debug)]
pub enum EventVerdict {
    /// It is delivered.
    Pass,
    /// It is delivered later, and everything behind it, too.
    Delay(Duration),
    /// It is lost.
    Drop,
    /// It is delivered twice.
    Duplicate,
    /// The stream ends before it.
    Close,
}

/// The hook at each request and each watch event.
pub trait Faults: Send + Sync + 'static {
    /// Before the request is handled: nothing of it has happened yet.
    fn before(&self, _request: &Request) -> Verdict {
        Verdict::Pass
    }

    /// After the request was handled and before its answer is sent: its effects have happened.
    fn after(&self, _request: &Request, _status: u16) -> Verdict {
        Verdict::Pass
    }

    /// Before a watch event is sent.
    fn event(&self, _request: &Request, _kind: &str, _line: &[u8]) -> EventVerdict {
        EventVerdict::Pass
    }
}

/// No faults.
#[derive(Debug, Default)]
pub struct NoFaults;

impl Faults for NoFaults {}
