//! Git servers in the same process, for tests and for the simulator.

pub mod parsers;
mod repositories;
mod ssh;

pub use repositories::{File, Repositories, Repository, advertisement};
pub use ssh::{SshHost, SshStream, keygen, serve_certified_ssh, serve_ssh};
