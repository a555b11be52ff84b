//! Texts that are meant to hurt: bounded memory, bounded time, no panic.
#![allow(clippy::unwrap_used)]

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everflow_envsubst::{Cause, Error, substitute};
use everflow_limits::{Budget, Exceeded, Stop};
use peak_alloc::PeakAlloc;
use proptest::prelude::*;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const SHARE: usize = 8 << 20;

/// Memory is measured for the whole process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with(values: &[(&str, &str)], text: &str, budget: &Budget) -> Result<String, Error> {
    let value = |name: &str| {
        let found = values.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| Cow::from(*value))
    };
    substitute(text, &value, budget)
}

/// Substitutes with little memory; more than twice of what it may use is a failure, for texts grow by
/// doubling.
fn within_share(values: &[(&str, &str)], text: &str) -> Result<String, Error> {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let budget = Budget::new(Stop::new(), SHARE as u64);
    let result = with(values, text, &budget);
    let peak = MEMORY.peak_usage().saturating_sub(before);
    assert!(peak <= 2 * SHARE + (1 << 20), "{peak} bytes");
    assert_eq!(budget.used(), 0);
    result
}

#[test]
fn texts_that_grow_beyond_the_share_are_refused() {
    let _alone = alone();
    let letters = "x".repeat(900_000);
    let long = "y".repeat(100_000);
    let values = [("a", letters.as_str()), ("long", &long)];
    for text in [
        "${a}".repeat(20_000),
        format!("${{a//x/{long}}}"),
        "${a//x/${a}}".to_owned(),
        "${a//x/${a//x/${a//x/yy}}}".to_owned(),
        format!("${{unset:-{}}}", "${a}".repeat(100)),
        "${a/x/${long}}".repeat(200),
        "${unset}".repeat(100_000),
    ] {
        let error = within_share(&values, &text).unwrap_err();
        let limit = SHARE as u64;
        assert_eq!(error.cause, Cause::Exceeded(Exceeded::Memory { limit }));
        assert!(error.to_string().contains("--max-work-memory"), "{error}");
    }
    let fits = within_share(&values, "${a//x/yy}").unwrap();
    assert_eq!(fits.len(), 1_800_000);
}

#[test]
fn a_raised_flag_ends_slow_patterns() {
    let _alone = alone();
    let value = "ab".repeat(200_000);
    let stars = "*ab".repeat(2_000);
    for text in [format!("${{a#{stars}c}}"), format!("${{a%%c{stars}*}}")] {
        let stop = Stop::new();
        let budget = Budget::new(stop.clone(), u64::MAX);
        let timer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            stop.raise();
        });
        let started = Instant::now();
        let result = with(&[("a", &value)], &text, &budget).map(|text| text.len());
        assert_eq!(
            result.unwrap_err().cause,
            Cause::Exceeded(Exceeded::Stopped)
        );
        assert!(started.elapsed() < Duration::from_secs(1));
        timer.join().unwrap();
    }
}

fn fragment() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec![
        "${",
        "}",
        "$",
        "$$",
        "a",
        "b",
        "unset",
        ":",
        ":-",
        "=",
        "#",
        "##",
        "%",
        "%%",
        "/",
        "//",
        "/#",
        "/%",
        "^",
        "^^",
        ",",
        ",,",
        "*",
        "?",
        "[",
        "]",
        "\\",
        "-1",
        "2",
        "é",
        "\n",
        " ",
        "\0",
        "${a}",
        "${b//x/",
        "${a//x/${b}}",
    ]);
    prop::collection::vec(parts, 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, rng_seed: proptest::test_runner::RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_substituted_or_refused_within_bounds(
        text in fragment(),
        value in "[x/é]{0,40}",
        times in 0..5_usize,
    ) {
        let _alone = alone();
        let started = Instant::now();
        let large = "x".repeat(4 << (4 * times));
        let _ = within_share(&[("a", &value), ("b", &large)], &text);
        let _ = within_share(&[("a", &large), ("b", &large)], &text);
        prop_assert!(started.elapsed() < Duration::from_secs(10));
    }
}
