//! What every port of the program shares: how many connections it has, for how long, and for whom.
//!
//! A [`Port`] accepts connections and has them served. Clients that take their time, by mistake or on purpose, keep
//! nobody else from being served:
//!
//! - The connections of a port are bounded. When all places are taken, a new connection takes that of one which has
//!   no request under way: of those that never sent one, the newest that has had half a second to do so; after these,
//!   the newest that is between two requests. Connections with a request under way are never dropped for others; when
//!   there are only such, new ones wait.
//! - One address has a share of the places, beyond which it competes only with itself.
//! - A TLS handshake, and the whole head of a request, must be complete within a span.
//! - Bodies must move at a least pace while the other side is waited for. A watch that has nothing to tell is not
//!   slow; a client that does not read what it is told is.
//! - When no files can be opened any more, idle connections are dropped, and accepting goes on when there are.
//!
//! Time comes from a [`Clock`](everflow_env::Clock), so that the simulator can steer it.

#![forbid(unsafe_code)]

mod activity;
mod admission;
mod body;
mod connection;
mod limits;
mod meter;
mod port;
mod system;
mod wire;

pub use body::RequestBody;
pub use connection::Connection;
pub use limits::{Limits, Pace};
pub use port::Port;
pub use system::raise_open_files;
pub use wire::Wire;
