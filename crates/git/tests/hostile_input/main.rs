//! Readers of what remote servers and Secrets hold get random and changed input.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod readers;

use everflow_corpus::hostile::Trial;
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

#[test]
fn readers_do_not_panic_and_stay_within_bounds() {
    Trial::new(&MEMORY).run(readers::ALL);
}
