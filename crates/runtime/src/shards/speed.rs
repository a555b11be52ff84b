//! Whether a replica's way to the API servers is much slower than its peers'.

use std::time::Duration;

/// So many times slower than the others is slow.
const SLOWER: u32 = 10;
/// So many times slower at most is well again.
const WELL: u32 = 3;
/// What is faster than this counts as this: nobody suffers from the difference.
const FLOOR: Duration = Duration::from_millis(50);

/// The one in the middle.
pub fn median(spans: &[Duration]) -> Option<Duration> {
    let mut spans = spans.to_vec();
    spans.sort();
    spans.get(spans.len() / 2).copied()
}

/// Whether we are slow, with how long our requests take and those of the others do. Who was slow is so for longer:
/// shards are not handed to and fro.
pub fn is_slow(own: Option<Duration>, peers: &[Duration], was: bool) -> bool {
    let (Some(own), Some(theirs)) = (own, median(peers)) else {
        // Nobody to compare with, or nobody to hand over to.
        return false;
    };
    let times = if was { WELL } else { SLOWER };
    own > theirs.max(FLOOR) * times
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn member_ten_times_slower_than_peers_is_slow_until_it_recovers() {
        let peers = [ms(60), ms(80), ms(5_000)];
        let slow = |own, was| is_slow(Some(ms(own)), &peers, was);
        assert_eq!((slow(799, false), slow(801, false)), (false, true));
        assert_eq!((slow(241, true), slow(239, true)), (true, false));
    }

    #[test]
    fn small_latency_differences_do_not_count_as_slow() {
        assert!(!is_slow(Some(ms(450)), &[ms(1)], false));
        assert!(is_slow(Some(ms(510)), &[ms(1)], false));
    }

    #[test]
    fn member_without_peers_or_measurements_is_not_slow() {
        assert!(!is_slow(Some(ms(9_000)), &[], true));
        assert!(!is_slow(None, &[ms(1)], true));
    }
}
