//! What actions do, in which order.

use everflow_api::inventory::ObjectId;
use everflow_json::Value;
use everflow_release::action::{Outcome, Step, StepResult, abandon};

use crate::cases::{Case, cases, names};
use crate::driver::{carry_out, holder, resume};
use crate::model::Cluster;

fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).unwrap()
}

fn named(objects: &[Value]) -> String {
    let names: Vec<String> = objects
        .iter()
        .map(|object| ObjectId::of(object).name)
        .collect();
    names.join(",")
}

/// A step in a few words; writes with what the record says.
fn told(step: &Step) -> String {
    match step {
        Step::WriteRecord { write, .. } => {
            let release = &write.release;
            let is_running = |hook: &&everflow_helm::release::HookRecord| hook.phase == "Running";
            let running = release.hooks.iter().find(is_running);
            let running =
                running.map_or(String::new(), |hook| format!(" running {}", hook.hook.name));
            format!(
                "write v{} {}{running}",
                release.version, release.info.status
            )
        }
        Step::NoteProgress { .. } => "note".to_owned(),
        Step::DeleteRecords { secrets } => format!("delete {} records", secrets.len()),
        Step::ApplyDefinitions { .. } => "apply definitions".to_owned(),
        Step::CheckOwnership { objects } => format!("check {}", named(objects)),
        Step::CreateNamespace(object) => format!("create namespace {}", ObjectId::of(object).name),
        Step::DeleteHook(hook) => format!("delete hook {}", named(&hook.objects)),
        Step::CreateHook { objects, .. } => format!("create hook {}", named(objects)),
        Step::AwaitHook(hook) => format!("await hook {}", named(&hook.objects)),
        Step::PrintHookLogs { objects } => format!("logs of {}", named(objects)),
        Step::Apply(apply) => format!("apply {}", named(&apply.objects)),
        Step::Delete(delete) => format!("delete {}", named(&delete.objects)),
        Step::AwaitHealth(wait) => format!("await {}", named(&wait.objects)),
        Step::AwaitDeletion(wait) => format!("await end of {}", named(&wait.objects)),
        Step::Over(outcome) => format!("over: {outcome:?}"),
    }
}

/// All steps of an action in which everything is ready at the first look.
fn steps(case: &Case) -> (Cluster, Vec<String>) {
    let mut cluster = case.cluster.clone();
    let mut run = (case.action.begin)(&cluster, &case.action.plan, holder(1));
    let mut told_steps = Vec::new();
    while !run.is_over() {
        let step = run.step();
        let mut result = cluster.carry_out(&step).unwrap();
        if result == StepResult::Pending {
            result = cluster.carry_out(&step).unwrap();
        }
        told_steps.push(told(&step));
        let now = cluster.tick();
        run.done(result, now);
    }
    told_steps.push(told(&run.step()));
    (cluster, told_steps)
}

#[test]
fn an_install_without_hooks_writes_two_records_and_applies_each_kind() {
    let (_, steps) = steps(&case("install without hooks and waits"));
    assert_eq!(
        steps,
        [
            "write v1 pending-install",
            "apply a",
            "apply d",
            "write v1 deployed",
            "over: Succeeded"
        ]
    );
}

#[test]
fn hooks_are_noted_before_they_are_created_and_successes_before_objects_go() {
    let (_, steps) = steps(&case("install"));
    assert_eq!(
        steps,
        [
            "create namespace apps",
            "write v1 pending-install",
            "delete hook install-first",
            "write v1 pending-install running install-first",
            "create hook install-first",
            "await hook install-first",
            "delete hook both",
            "write v1 pending-install running both",
            "create hook both",
            "await hook both",
            "write v1 pending-install running install-second",
            "create hook install-second",
            "await hook install-second",
            "write v1 pending-install",
            "delete hook settings",
            "write v1 pending-install running settings",
            "create hook settings",
            "await hook settings",
            "write v1 pending-install",
            "logs of install-second",
            "delete hook install-second",
            "logs of both",
            "logs of install-first",
            "apply a",
            "apply d",
            "await a,d",
            "delete hook both",
            "write v1 pending-install running both",
            "create hook both",
            "await hook both",
            "delete hook after",
            "write v1 pending-install running after",
            "create hook after",
            "await hook after",
            "write v1 pending-install",
            "logs of after",
            "delete hook after",
            "logs of both",
            "write v1 deployed",
            "over: Succeeded",
        ]
    );
}

#[test]
fn an_upgrade_deletes_what_is_gone_and_supersedes_the_revision_before() {
    let (cluster, steps) = steps(&case("upgrade of a failed release"));
    let from = steps.iter().position(|step| step == "apply b,c").unwrap();
    let without_hooks: Vec<&String> = steps[from..]
        .iter()
        .filter(|step| {
            !step.contains("hook") && !step.contains("logs") && !step.contains("running")
        })
        .collect();
    assert_eq!(
        without_hooks,
        [
            "apply b,c",
            "apply d",
            "delete a",
            "await b,c,d",
            "write v3 pending-upgrade",
            // One record too many, and never the deployed one.
            "delete 1 records",
            "write v1 superseded",
            "write v3 deployed",
            "over: Succeeded",
        ]
    );
    let statuses: Vec<String> = cluster
        .records()
        .iter()
        .map(|stored| format!("v{} {}", stored.release.version, stored.release.info.status))
        .collect();
    assert_eq!(statuses, ["v1 superseded", "v3 deployed"]);
}

#[test]
fn failure_messages_match_helm() {
    let mut found = Vec::new();
    for name in [
        "install with a failing hook",
        "install that is refused",
        "install that times out",
        "upgrade with a failing hook at its end",
        "rollback that times out",
        "rollback that is refused",
        "uninstall with a failing hook",
        "test that fails",
    ] {
        let case = case(name);
        let mut cluster = case.cluster.clone();
        let report = carry_out(&mut cluster, &case.action, &[]);
        let Some(Outcome::Failed { message, stored }) = report.outcome else {
            panic!("{name}: {:?}", report.outcome);
        };
        assert!(stored);
        let last = cluster.records().pop().unwrap().release;
        found.push((message, last.info.status, last.info.description));
    }
    let hook = |name: &str| format!("timeout waiting for: [Job/{name} status: 'InProgress']");
    let unhealthy = "timeout waiting for: [Deployment/d status: 'InProgress']";
    let expected = [
        (
            format!("failed pre-install: {}", hook("install-second")),
            "failed",
            format!(
                "Release \"web\" failed: failed pre-install: {}",
                hook("install-second")
            ),
        ),
        (
            "Deployment/d is refused".to_owned(),
            "failed",
            "Release \"web\" failed: Deployment/d is refused".to_owned(),
        ),
        (
            unhealthy.to_owned(),
            "failed",
            format!("Release \"web\" failed: {unhealthy}"),
        ),
        (
            format!("post-upgrade hooks failed: {}", hook("after")),
            "failed",
            format!(
                "Upgrade \"web\" failed: post-upgrade hooks failed: {}",
                hook("after")
            ),
        ),
        (
            format!("release web failed: {unhealthy}"),
            "failed",
            format!("Release \"web\" failed: {unhealthy}"),
        ),
        (
            "ConfigMap/a is refused".to_owned(),
            "failed",
            "Rollback \"web\" failed: ConfigMap/a is refused".to_owned(),
        ),
        (
            hook("delete-second"),
            "uninstalling",
            "Deletion in progress (or silently failed)".to_owned(),
        ),
        (hook("probe"), "deployed", "Install complete".to_owned()),
    ];
    for ((message, status, description), expected) in found.into_iter().zip(expected) {
        assert_eq!((message, status.as_str(), description), expected);
    }
}

#[test]
fn failed_upgrade_deletes_created_objects_but_not_existing_ones() {
    let (cluster, _) = steps(&case("upgrade that times out and is cleaned up"));
    let names: Vec<String> = names(&cluster)
        .into_iter()
        .filter(|name| name.starts_with("ConfigMap/") && name.len() < 13)
        .collect();
    // `a` was in the revision before only, `b` is new, `c` was there before.
    assert_eq!(names, ["ConfigMap/c"]);
}

#[test]
fn uninstall_removes_everything_except_hooks() {
    let (cluster, steps) = steps(&case("uninstall"));
    assert!(cluster.secrets.is_empty());
    let is_hook = |name: &String| name.starts_with("Job/") || name == "ConfigMap/settings";
    assert!(names(&cluster).iter().all(is_hook), "{:?}", names(&cluster));
    let place = |wanted: &str| steps.iter().position(|step| step == wanted).unwrap();
    assert!(place("delete d,b,c") < place("await end of d,b,c"));
    assert_eq!(steps[steps.len() - 2], "delete 2 records");
}

#[test]
fn tests_that_filters_leave_out_come_first_in_the_record_afterwards() {
    let (cluster, steps) = steps(&case("test"));
    assert!(
        !steps.iter().any(|step| step.contains("skipped")),
        "{steps:?}"
    );
    let record = cluster.records().pop().unwrap().release;
    assert_eq!(record.hooks[0].hook.name, "skipped");
    let phases: Vec<(&str, &str)> = record
        .hooks
        .iter()
        .filter(|hook| hook.hook.events == ["test"])
        .map(|hook| (hook.hook.name.as_str(), hook.phase.as_str()))
        .collect();
    assert_eq!(
        phases,
        [
            ("skipped", ""),
            ("check", "Succeeded"),
            ("probe", "Succeeded")
        ]
    );
}

#[test]
fn an_install_that_flux_left_in_the_middle_of_a_hook_goes_on_as_the_same_revision() {
    let case = case("install");
    let mut cluster = case.cluster.clone();
    let mut run = (case.action.begin)(&cluster, &case.action.plan, holder(1));
    while told(&run.step()) != "await hook both" {
        let result = cluster.carry_out(&run.step()).unwrap();
        let now = cluster.tick();
        run.done(result, now);
    }
    // Flux makes no notes.
    for stored in cluster.secrets.values_mut() {
        stored.place.progress = None;
        stored.place.made_from = None;
    }
    let report = carry_out(&mut cluster, &case.action, &[]);
    assert_eq!(report.outcome, Some(Outcome::Succeeded));
    let mut whole = case.cluster.clone();
    carry_out(&mut whole, &case.action, &[]);
    assert_eq!(cluster.hook_runs, whole.hook_runs);
    assert_eq!(cluster.records().len(), 1);
    assert_eq!(
        cluster.records()[0].release.info.description,
        "Install complete"
    );
}

#[test]
fn unwanted_action_is_ended_by_one_write() {
    let case = case("upgrade");
    let mut cluster = case.cluster.clone();
    let mut run = (case.action.begin)(&cluster, &case.action.plan, holder(1));
    while told(&run.step()) != "await b,c,d" {
        let result = cluster.carry_out(&run.step()).unwrap();
        let now = cluster.tick();
        run.done(result, now);
    }
    let stored = cluster.records().pop().unwrap();
    assert!(!stored.summary().can_begin_anew());
    let (write, expected) = abandon(&stored, "store");
    let step = Step::WriteRecord {
        write: Box::new(write),
        expected,
    };
    cluster.carry_out(&step).unwrap();
    let record = cluster.records().pop().unwrap();
    assert_eq!(record.release.info.status, "failed");
    assert_eq!(record.place.progress, None);
    // Whoever still has the action in hand finds out at its next write.
    while let Ok(result) = cluster.carry_out(&run.step()) {
        run.done(result, cluster.now);
    }
    assert!(!run.is_over());
}

#[test]
fn an_action_may_begin_anew_as_long_as_only_its_first_hooks_have_run() {
    let case = case("upgrade");
    let mut cluster = case.cluster.clone();
    let mut run = (case.action.begin)(&cluster, &case.action.plan, holder(1));
    let mut can = Vec::new();
    while !run.is_over() {
        let mut result = cluster.carry_out(&run.step()).unwrap();
        if result == StepResult::Pending {
            result = cluster.carry_out(&run.step()).unwrap();
        }
        let step = told(&run.step());
        let now = cluster.tick();
        run.done(result, now);
        let stored = cluster.records().pop().unwrap();
        if step.starts_with("apply") || step.contains("running upgrade-first") {
            can.push((step, stored.summary().can_begin_anew()));
        }
        if run.is_over() {
            break;
        }
        let again = resume(&cluster, &case.action, stored, holder(1), now);
        assert_eq!(again.plan(), run.plan());
    }
    let expected = [
        ("write v2 pending-upgrade running upgrade-first", true),
        ("apply b,c", false),
        ("apply d", false),
    ];
    let found: Vec<(&str, bool)> = can
        .iter()
        .map(|(step, can)| (step.as_str(), *can))
        .collect();
    assert_eq!(found, expected);
}
