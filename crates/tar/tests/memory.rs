//! What hostile archives take in memory. One test only: others would count into the memory of this one.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::{gzip, header, limits};
use everflow_limits::Budget;
use everflow_tar::{Archive, Error, Meter, gunzip};
use peak_alloc::PeakAlloc;
use tar::EntryType;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// An archive of about a megabyte that begins with an extension record of a gibibyte.
fn bomb(kind: EntryType) -> Vec<u8> {
    let start = header(b"x", kind, 1 << 30).as_bytes().to_vec();
    [gzip(&start), gzip(&vec![b'a'; 1 << 20]).repeat(1 << 10)].concat()
}

#[test]
fn archives_whose_records_claim_a_gibibyte_are_refused_in_little_memory() {
    for kind in [
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::XHeader,
        EntryType::XGlobalHeader,
    ] {
        let packed = bomb(kind);
        assert!(packed.len() < 2 << 20, "{} bytes", packed.len());
        let budget = Budget::unlimited();
        let mut meter = Meter::new(limits(1 << 30, 1_000), &budget);
        MEMORY.reset_peak_usage();
        let (before, began) = (MEMORY.current_usage(), Instant::now());
        let error = Archive::new(gunzip(&packed[..], &budget), &mut meter)
            .next_entry()
            .map(drop)
            .unwrap_err();
        let used = MEMORY.peak_usage().saturating_sub(before);
        assert!(matches!(error, Error::Record { .. }), "{kind:?}: {error}");
        assert!(error.to_string().contains("1 GiB"), "{error}");
        assert!(used < 1 << 20, "{kind:?} took {used} bytes");
        assert!(began.elapsed() < Duration::from_secs(1));
    }
}
