//! One seed, one history.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use everflow_sim::search::Ready;
use everflow_sim::{Scenario, Settings};

fn ready(name: &str) -> Ready {
    let settings = Settings {
        trace: true,
        ..Settings::default()
    };
    Ready::new(Scenario::find(name).unwrap(), settings).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let ready = ready("basic");
    for seed in 0..20 {
        let plan = ready.plan(seed);
        let (one, two) = (ready.run(&plan).unwrap(), ready.run(&plan).unwrap());
        assert!(one.history.len() > 50);
        for (number, (one, two)) in one.history.iter().zip(&two.history).enumerate() {
            assert_eq!(one, two, "seed {seed}, line {number}");
        }
        assert_eq!(one.history.len(), two.history.len());
    }
}
