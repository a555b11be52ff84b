//! Options that Flux's controllers have as flags.

use std::time::Duration;

use crate::reflector::ReflectorOptions;

/// How controllers run.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Only objects with these labels, by `--watch-label-selector`: this is how shards are told
    /// apart (`sharding.fluxcd.io/key=…`). Empty for all.
    pub watch_label_selector: String,
    /// Which ConfigMaps and Secrets wake those who refer to them.
    pub watch_configs_label_selector: String,
    /// Only this namespace; all when `--watch-all-namespaces` is set.
    pub watch_namespace: Option<String>,
    /// Whether references to other namespaces are refused.
    pub no_cross_namespace_refs: bool,
    /// The service account of objects that name none.
    pub default_service_account: String,
    /// The service account for decryption of objects that name none.
    pub default_decryption_service_account: String,
    /// The service account for remote clusters of objects that name none.
    pub default_kubeconfig_service_account: String,
    /// How long to wait for a dependency that does not say when it is ready.
    pub requeue_dependency: Duration,
    /// The first pause after a failure.
    pub min_retry_delay: Duration,
    /// The longest pause after failures.
    pub max_retry_delay: Duration,
    /// By how much intervals are spread, in percent.
    pub interval_jitter_percentage: u8,
    /// How many attempts run at once, over all kinds.
    pub concurrency: usize,
    /// How many attempts run at once for each remote host.
    pub concurrency_per_host: usize,
    /// How long attempts have to reach a safe point when the program stops.
    pub stop_grace: Duration,
    /// An attempt that runs longer than this means that something is wrong with the program.
    pub longest_attempt: Duration,
    /// How watches behave.
    pub reflector: ReflectorOptions,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            watch_label_selector: String::new(),
            watch_configs_label_selector: "reconcile.fluxcd.io/watch=Enabled".into(),
            watch_namespace: None,
            no_cross_namespace_refs: false,
            default_service_account: String::new(),
            default_decryption_service_account: String::new(),
            default_kubeconfig_service_account: String::new(),
            requeue_dependency: Duration::from_secs(30),
            min_retry_delay: Duration::from_millis(750),
            max_retry_delay: Duration::from_secs(15 * 60),
            interval_jitter_percentage: 5,
            concurrency: 32,
            concurrency_per_host: 8,
            stop_grace: Duration::from_secs(10),
            longest_attempt: Duration::from_secs(3_600),
            reflector: ReflectorOptions::default(),
        }
    }
}

impl Options {
    /// An interval, spread by the jitter: from so many percent less to so many percent more.
    /// `chance` lies between 0 and 1.
    pub fn jittered(&self, interval: Duration, chance: f64) -> Duration {
        let share = f64::from(self.interval_jitter_percentage.min(99)) / 100.0;
        interval.mul_f64(1.0 + share * (2.0 * chance.clamp(0.0, 1.0) - 1.0))
    }

    /// Whether an object of one namespace may refer to one of another.
    pub fn may_refer(&self, from: &str, to: &str) -> bool {
        !self.no_cross_namespace_refs || to.is_empty() || from == to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_spread_to_both_sides() {
        let options = Options::default();
        let spread = |chance| {
            options
                .jittered(Duration::from_secs(100), chance)
                .as_secs_f64()
        };
        assert_eq!(
            (spread(0.0), spread(0.5), spread(1.0)),
            (95.0, 100.0, 105.0)
        );
        let strict = Options {
            no_cross_namespace_refs: true,
            ..Options::default()
        };
        assert!(
            options.may_refer("a", "b") && strict.may_refer("a", "") && !strict.may_refer("a", "b")
        );
    }
}
