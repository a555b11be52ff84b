//! What the operating system is asked for.

use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

/// How many files the process may have open at once.
#[cfg(unix)]
pub(crate) fn open_files() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

/// How many files the process may have open at once.
#[cfg(not(unix))]
pub(crate) fn open_files() -> usize {
    usize::MAX
}

/// Lets the process open as many files as it may ask for; the usual limit is for programs that wait with `select`.
#[cfg(unix)]
pub fn raise_open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // It goes on with what it has.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Lets the process open as many files as it may ask for.
#[cfg(not(unix))]
pub fn raise_open_files() {}

/// Lets more connections wait to be accepted. The usual 128 are used up in a moment when many come at once, and those
/// beyond come again a second later at the earliest.
pub(crate) fn widen(listener: &TcpListener) {
    // It works with fewer.
    #[cfg(unix)]
    let _ = rustix::net::listen(listener, 4_096);
    #[cfg(not(unix))]
    let _ = listener;
}

/// Sends what is written at once, and notices clients that are gone without a word.
pub(crate) fn prepare(stream: &TcpStream) {
    const QUIET: Duration = Duration::from_secs(60);
    const ASK_EVERY: Duration = Duration::from_secs(15);
    // A connection works without any of it.
    let _ = stream.set_nodelay(true);
    #[cfg(unix)]
    {
        use rustix::net::sockopt;
        let _ = sockopt::set_socket_keepalive(stream, true);
        let _ = sockopt::set_tcp_keepidle(stream, QUIET);
        let _ = sockopt::set_tcp_keepintvl(stream, ASK_EVERY);
    }
}
