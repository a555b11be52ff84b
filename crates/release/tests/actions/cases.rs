//! The actions that are tried, each with what there is before.

use everflow_api::helm::TestFilter;
use everflow_helm::manifests::Hook;
use everflow_helm::release::{HookRecord, Info, Release};
use everflow_json::json;
use everflow_release::action::{ActionKind, Begin, Plan, Run, Wait};
use everflow_release::record::mark::{Holder, MadeFrom};
use everflow_release::record::record_for_rollback;
use everflow_time::Timestamp;

use crate::driver::{Action, carry_out, scope};
use crate::model::{Cluster, Faults, id};

fn config_map(name: &str, text: &str) -> String {
    format!(
        "---\n# Source: app/templates/{name}.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  text: {text}\n"
    )
}

fn deployment(name: &str, text: &str) -> String {
    format!(
        "---\n# Source: app/templates/{name}.yaml\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\nspec:\n  text: {text}\n"
    )
}

fn hook(name: &str, kind: &str, weight: i64, events: &[&str], policies: &[&str]) -> HookRecord {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    HookRecord::from(Hook {
        name: name.into(),
        kind: kind.into(),
        path: format!("app/templates/{name}.yaml"),
        manifest: format!("apiVersion: batch/v1\nkind: {kind}\nmetadata:\n  name: {name}\n"),
        events: owned(events),
        weight,
        delete_policies: owned(policies),
        output_log_policies: owned(&["hook-succeeded", "hook-failed"]),
    })
}

/// Hooks of all events, with all policies, some of them at several events.
fn hooks() -> Vec<HookRecord> {
    let before = |what: &str| {
        vec![
            hook(
                &format!("{what}-second"),
                "Job",
                5,
                &[&format!("pre-{what}")],
                &["hook-succeeded"],
            ),
            hook(
                &format!("{what}-first"),
                "Job",
                -5,
                &[&format!("pre-{what}")],
                &[],
            ),
        ]
    };
    let mut hooks = vec![
        hook(
            "both",
            "Job",
            0,
            &[
                "pre-install",
                "post-install",
                "pre-upgrade",
                "post-upgrade",
                "pre-rollback",
                "post-rollback",
                "pre-delete",
                "post-delete",
            ],
            &["before-hook-creation"],
        ),
        hook(
            "settings",
            "ConfigMap",
            9,
            &["pre-install", "pre-upgrade"],
            &[],
        ),
        hook(
            "after",
            "Job",
            1,
            &[
                "post-install",
                "post-upgrade",
                "post-rollback",
                "post-delete",
            ],
            &["before-hook-creation", "hook-succeeded", "hook-failed"],
        ),
        hook("check", "Job", 0, &["test"], &["hook-succeeded"]),
        hook("probe", "Job", 1, &["test"], &[]),
        hook("skipped", "Job", 2, &["test"], &[]),
    ];
    for what in ["install", "upgrade", "rollback", "delete"] {
        hooks.extend(before(what));
    }
    hooks
}

fn record(version: i64, status: &str, manifest: String, now: Timestamp) -> Release {
    Release {
        name: "web".into(),
        namespace: "apps".into(),
        version,
        info: Info {
            first_deployed: now.to_string(),
            last_deployed: now.to_string(),
            status: status.into(),
            description: match status {
                "pending-install" => "Initial install underway".into(),
                _ => "Preparing upgrade".into(),
            },
            ..Info::default()
        },
        chart: json!({"metadata": {"name": "app", "version": "1.0.0"}}),
        manifest,
        hooks: hooks(),
        apply_method: "ssa".into(),
        ..Release::default()
    }
}

fn made_from() -> Option<MadeFrom> {
    Some(MadeFrom {
        namespace: "apps".into(),
        name: "web".into(),
        ..MadeFrom::default()
    })
}

fn begin(cluster: &Cluster, plan: &Plan, holder: Holder, record: Release) -> Run {
    let version = record.version;
    let others: Vec<_> = cluster
        .records()
        .into_iter()
        .filter(|stored| stored.release.version != version)
        .collect();
    let is_deployed =
        |stored: &&everflow_release::record::StoredRecord| stored.release.info.status == "deployed";
    let base = match plan.kind {
        ActionKind::Upgrade => others
            .iter()
            .rev()
            .find(is_deployed)
            .or(others.last())
            .cloned(),
        ActionKind::Rollback => others.last().cloned(),
        _ => None,
    };
    let deployed = others
        .iter()
        .filter(is_deployed)
        .filter(|stored| {
            Some(stored.release.version) != base.as_ref().map(|base| base.release.version)
        })
        .cloned()
        .collect();
    let replaced = others.last().filter(|_| plan.replace_release).cloned();
    let in_place_of = cluster
        .records()
        .into_iter()
        .find(|stored| stored.release.version == version);
    let begin = Begin {
        plan: plan.clone(),
        record,
        in_place_of,
        storage_namespace: "store",
        holder,
        made_from: made_from(),
        base,
        deployed,
        revisions: cluster.revisions_but(version),
        replaced,
    };
    Run::begin(begin, &scope, cluster.now).unwrap()
}

fn begin_install(cluster: &Cluster, plan: &Plan, holder: Holder) -> Run {
    let version = cluster
        .records()
        .last()
        .map_or(1, |last| last.release.version + 1);
    let manifest = config_map("a", "one") + &deployment("d", "one");
    begin(
        cluster,
        plan,
        holder,
        record(version, "pending-install", manifest, cluster.now),
    )
}

fn begin_upgrade(cluster: &Cluster, plan: &Plan, holder: Holder) -> Run {
    let version = cluster.records().last().unwrap().release.version + 1;
    let manifest = config_map("b", "two") + &config_map("c", "two") + &deployment("d", "two");
    begin(
        cluster,
        plan,
        holder,
        record(version, "pending-upgrade", manifest, cluster.now),
    )
}

fn begin_rollback(cluster: &Cluster, plan: &Plan, holder: Holder) -> Run {
    let records = cluster.records();
    let current = &records.last().unwrap().release;
    let target = &records[0].release;
    let record = record_for_rollback(
        target,
        current.version + 1,
        &current.info.first_deployed,
        true,
        cluster.now,
    );
    begin(cluster, plan, holder, record)
}

fn begin_on_last(cluster: &Cluster, plan: &Plan, holder: Holder) -> Run {
    let record = cluster.records().pop().unwrap().release;
    begin(cluster, plan, holder, record)
}

fn plan(kind: ActionKind) -> Plan {
    let spec = everflow_api::helm::HelmReleaseSpec::default();
    let mut plan = Plan::install(&spec);
    plan.kind = kind;
    plan.definitions = None;
    plan
}

fn action(kind: ActionKind, change: impl FnOnce(&mut Plan)) -> Action {
    let mut plan = plan(kind);
    change(&mut plan);
    Action {
        plan,
        begin: match kind {
            ActionKind::Install => begin_install,
            ActionKind::Upgrade => begin_upgrade,
            ActionKind::Rollback => begin_rollback,
            _ => begin_on_last,
        },
    }
}

/// An action, and the cluster that it begins on.
pub struct Case {
    pub name: &'static str,
    pub cluster: Cluster,
    pub action: Action,
}

fn faults(change: impl FnOnce(&mut Faults)) -> Faults {
    let mut faults = Faults::default();
    change(&mut faults);
    faults
}

fn one(name: &str) -> std::collections::BTreeSet<String> {
    [name.to_owned()].into()
}

/// A cluster in which actions have gone well.
fn after(actions: &[Action]) -> Cluster {
    let mut cluster = Cluster::new(Faults::default());
    for action in actions {
        carry_out(&mut cluster, action, &[]);
    }
    cluster
}

fn installed() -> Cluster {
    after(&[action(ActionKind::Install, |_| ())])
}

fn with(mut cluster: Cluster, faults: Faults) -> Cluster {
    cluster.faults = faults;
    cluster.hook_runs.clear();
    cluster
}

/// A release whose newest revision is a failed upgrade.
fn failed_upgrade() -> Cluster {
    let mut cluster = with(
        installed(),
        faults(|faults| faults.unhealthy = one("Deployment/d")),
    );
    carry_out(&mut cluster, &action(ActionKind::Upgrade, |_| ()), &[]);
    with(cluster, Faults::default())
}

/// A release that was uninstalled, its record kept.
fn uninstalled() -> Cluster {
    let keep = action(ActionKind::Uninstall, |plan| plan.keep_history = true);
    after(&[action(ActionKind::Install, |_| ()), keep])
}

/// Objects that are there before, one of which the upgrade takes over.
fn with_foreign_object(mut cluster: Cluster) -> Cluster {
    cluster.create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "apps"}}));
    cluster.tick();
    cluster.tick();
    cluster
}

pub fn cases() -> Vec<Case> {
    let case = |name, cluster, action| Case {
        name,
        cluster,
        action,
    };
    let upgrade = |change: fn(&mut Plan)| action(ActionKind::Upgrade, change);
    let test = |change: fn(&mut Plan)| {
        action(ActionKind::Test, |plan| {
            plan.filters = vec![TestFilter {
                name: "skipped".into(),
                exclude: true,
                ..TestFilter::default()
            }];
            change(plan);
        })
    };
    let unhealthy = || faults(|faults| faults.unhealthy = one("Deployment/d"));
    vec![
        case(
            "install",
            Cluster::new(Faults::default()),
            action(ActionKind::Install, |plan| plan.create_namespace = true),
        ),
        case(
            "install without hooks and waits",
            Cluster::new(Faults::default()),
            action(ActionKind::Install, |plan| {
                plan.hooks = false;
                plan.wait = Wait::Hooks;
            }),
        ),
        case(
            "install with a failing hook",
            Cluster::new(faults(|faults| {
                faults.failing_hooks = one("Job/install-second")
            })),
            action(ActionKind::Install, |_| ()),
        ),
        case(
            "install with a failing hook that is deleted",
            Cluster::new(faults(|faults| faults.failing_hooks = one("Job/after"))),
            action(ActionKind::Install, |_| ()),
        ),
        case(
            "install that is refused",
            Cluster::new(faults(|faults| faults.refused = one("Deployment/d"))),
            action(ActionKind::Install, |_| ()),
        ),
        case(
            "install that times out",
            Cluster::new(unhealthy()),
            action(ActionKind::Install, |_| ()),
        ),
        case(
            "install in place of one that was uninstalled",
            with(uninstalled(), Faults::default()),
            action(ActionKind::Install, |plan| plan.replace_release = true),
        ),
        case(
            "upgrade",
            with(installed(), Faults::default()),
            upgrade(|_| ()),
        ),
        case(
            "upgrade that leaves one record",
            with(installed(), Faults::default()),
            upgrade(|plan| plan.max_history = 1),
        ),
        case(
            "upgrade of a failed release",
            failed_upgrade(),
            upgrade(|plan| plan.max_history = 2),
        ),
        case(
            "upgrade that times out and is cleaned up",
            with(with_foreign_object(installed()), unhealthy()),
            upgrade(|plan| plan.cleanup_on_fail = true),
        ),
        case(
            "upgrade with a failing hook at its end",
            with(
                installed(),
                faults(|faults| faults.failing_hooks = one("Job/after")),
            ),
            upgrade(|plan| plan.cleanup_on_fail = true),
        ),
        case(
            "rollback",
            failed_upgrade(),
            action(ActionKind::Rollback, |_| ()),
        ),
        case(
            "rollback that times out",
            with(failed_upgrade(), unhealthy()),
            action(ActionKind::Rollback, |_| ()),
        ),
        case(
            "rollback that is refused",
            with(
                failed_upgrade(),
                faults(|faults| faults.refused = one("ConfigMap/a")),
            ),
            action(ActionKind::Rollback, |_| ()),
        ),
        case(
            "uninstall",
            with(failed_upgrade(), Faults::default()),
            action(ActionKind::Uninstall, |_| ()),
        ),
        case(
            "uninstall that keeps the records",
            with(failed_upgrade(), Faults::default()),
            action(ActionKind::Uninstall, |plan| plan.keep_history = true),
        ),
        case(
            "uninstall with a failing hook",
            with(
                installed(),
                faults(|faults| faults.failing_hooks = one("Job/delete-second")),
            ),
            action(ActionKind::Uninstall, |_| ()),
        ),
        case(
            "uninstall remediation",
            with(failed_upgrade(), Faults::default()),
            action(ActionKind::UninstallRemediation, |_| ()),
        ),
        case("test", with(installed(), Faults::default()), test(|_| ())),
        case(
            "test that fails",
            with(
                installed(),
                faults(|faults| faults.failing_hooks = one("Job/probe")),
            ),
            test(|_| ()),
        ),
    ]
}

/// The names of what is there.
pub fn names(cluster: &Cluster) -> Vec<String> {
    cluster.objects.values().map(id).collect()
}
