//! Replays what was recorded of the real controllers, on the embedded API server, in one thread and
//! in simulated time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::panic,
    dead_code
)]

mod bad_input;
mod causes;
mod compare;
mod deletion;
mod economy;
mod facts;
mod faults;
mod git;
mod helm_charts;
mod helm_compare;
mod helmreleases;
mod keyless;
mod kustomizations;
mod limits;
mod messages;
mod mistakes;
mod net;
mod preflight;
mod registry;
mod releases;
mod remote;
mod remotes;
mod replicas;
mod scenario;
mod sources;
mod ssh;
mod stages;
mod tenants;
mod workloads;
mod world;
