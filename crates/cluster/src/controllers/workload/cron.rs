//! CronJobs: Jobs at certain times.

use everflow_json::{Value, json};

use super::{controlled, create, delete, number, patch, reference};
use crate::controllers::Task;
use crate::kinds::meta;
use crate::kinds::validation::cron::{Schedule, read};
use crate::server_core::ApiServer;
use crate::time::Timestamp;

pub const TABLE: &str = "batch/cronjobs";
/// How far back missed times are looked for, in seconds: the nearest are looked for first.
const LOOK_BACK: [i64; 5] = [120, 7_200, 2 * 86_400, 62 * 86_400, 5 * 366 * 86_400];

/// Brings the Jobs and the status of a CronJob up to date, and looks again at its next time.
pub fn sync(server: &ApiServer, cron: &Value) {
    let schedule = cron.pointer("/spec/schedule").and_then(Value::as_str);
    let Some(Ok(schedule)) = schedule.map(read) else {
        return;
    };
    let jobs = controlled(server, "batch/jobs", cron);
    forget_old(
        server,
        cron,
        &jobs,
        "Complete",
        "successfulJobsHistoryLimit",
        3,
    );
    forget_old(server, cron, &jobs, "Failed", "failedJobsHistoryLimit", 1);
    let mut active: Vec<&Value> = jobs.iter().filter(|job| !is_finished(job)).collect();
    let now = server.env().now();
    let mut last = time(cron, "/status/lastScheduleTime");
    let mut made = None;
    if cron.pointer("/spec/suspend") != Some(&Value::Bool(true)) {
        let policy = cron
            .pointer("/spec/concurrencyPolicy")
            .and_then(Value::as_str);
        if let Some(when) = missed(cron, &schedule, last, now)
            && (policy != Some("Forbid") || active.is_empty())
        {
            if policy == Some("Replace") {
                active
                    .drain(..)
                    .for_each(|job| delete(server, "batch/jobs", job));
            }
            made = Some(job_of(cron, when));
            last = Some(when);
        }
        if let Some(next) = schedule.next(now.seconds()) {
            let key = format!(
                "{}/{}",
                meta::text(cron, "namespace"),
                meta::text(cron, "name")
            );
            server.note_later(
                Timestamp::from_seconds(next),
                Task::Due(TABLE.to_owned(), key),
            );
        }
    }
    let finished = jobs
        .iter()
        .filter_map(|job| time(job, "/status/completionTime"));
    let mut references: Vec<Value> = active.iter().map(|job| job_reference(job)).collect();
    if let Some(job) = &made {
        // One that is refused is made at its next time.
        let _ = create(server, "batch/jobs", job);
        let key = format!(
            "{}/{}",
            meta::text(job, "namespace"),
            meta::text(job, "name")
        );
        let stored = server.store().get("batch/jobs", &key);
        references.extend(stored.map(|stored| job_reference(&stored.value)));
    }
    let shown = |time: Option<Timestamp>| time.map_or(Value::Null, |time| time.rfc3339().into());
    let status = json!({
        "active": if references.is_empty() { Value::Null } else { references.into() },
        "lastScheduleTime": shown(last),
        "lastSuccessfulTime": shown(finished.max()),
    });
    if says_less(cron, &status) {
        patch(server, TABLE, cron, "/status", &json!({"status": status}));
    }
}

/// Times count here, unlike in other statuses: the next Job depends on them.
fn says_less(cron: &Value, status: &Value) -> bool {
    let known = |key: &str| {
        cron.pointer(&format!("/status/{key}"))
            .cloned()
            .unwrap_or_default()
    };
    ["active", "lastScheduleTime", "lastSuccessfulTime"]
        .iter()
        .any(|key| known(key) != status[*key])
}

fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    Timestamp::parse(object.pointer(pointer)?.as_str()?)
}

/// The newest time that has come and was not served.
fn missed(
    cron: &Value,
    schedule: &Schedule,
    last: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let created = time(cron, "/metadata/creationTimestamp")?;
    let mut since = last.map_or(created, |last| last.max(created)).seconds();
    let deadline = number(cron, "/spec/startingDeadlineSeconds", -1);
    if deadline >= 0 {
        since = since.max(now.seconds() - deadline - 1);
    }
    if let Schedule::Every(seconds) = schedule {
        let times = (now.seconds() - since) / seconds;
        return (times > 0).then(|| Timestamp::from_seconds(since + times * seconds));
    }
    let mut found = None;
    for back in LOOK_BACK {
        let mut at = since.max(now.seconds() - back);
        while let Some(next) = schedule.next(at).filter(|next| *next <= now.seconds()) {
            found = Some(Timestamp::from_seconds(next));
            at = next;
        }
        if found.is_some() || since >= now.seconds() - back {
            break;
        }
    }
    found
}

fn job_of(cron: &Value, when: Timestamp) -> Value {
    let template = cron
        .pointer("/spec/jobTemplate")
        .cloned()
        .unwrap_or_default();
    let name = format!("{}-{}", meta::text(cron, "name"), when.seconds() / 60);
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": template["spec"], "metadata": {
        "name": name, "namespace": meta::text(cron, "namespace"), "ownerReferences": reference(cron),
        "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"]
    }});
    job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"] =
        when.rfc3339().into();
    job
}

fn job_reference(job: &Value) -> Value {
    let metadata = |key: &str| meta::text(job, key);
    json!({"apiVersion": "batch/v1", "kind": "Job", "name": metadata("name"), "namespace": metadata("namespace"),
        "resourceVersion": metadata("resourceVersion"), "uid": metadata("uid")})
}

fn ended(job: &Value, how: &str) -> bool {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == how && condition["status"] == "True")
}

fn is_finished(job: &Value) -> bool {
    ended(job, "Complete") || ended(job, "Failed")
}

fn forget_old(
    server: &ApiServer,
    cron: &Value,
    jobs: &[Value],
    how: &str,
    limit: &str,
    usual: i64,
) {
    let keep = number(cron, &format!("/spec/{limit}"), usual);
    let mut done: Vec<&Value> = jobs.iter().filter(|job| ended(job, how)).collect();
    done.sort_by_key(|job| {
        (
            time(job, "/status/startTime"),
            meta::text(job, "name").to_owned(),
        )
    });
    let surplus = done
        .len()
        .saturating_sub(usize::try_from(keep).unwrap_or(0));
    for job in &done[..surplus] {
        delete(server, "batch/jobs", job);
    }
}
