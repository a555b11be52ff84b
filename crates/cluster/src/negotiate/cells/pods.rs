//! Cells of pods.

use everflow_json::Value;

use super::row::Row;
use crate::kinds::meta;
use crate::negotiate::table::age;

pub(super) fn pod(row: &Row<'_>) -> Vec<Value> {
    let restartable: Vec<&str> = row
        .list("/spec/initContainers")
        .iter()
        .filter(|container| {
            container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
        })
        .filter_map(|container| container.get("name").and_then(Value::as_str))
        .collect();
    let total = row.count("/spec/containers") + restartable.len();
    let mut state = PodState {
        ready: 0,
        restarts: 0,
        last_restart: None,
        reason: String::new(),
        initializing: false,
    };
    state.reason = if row.str("/status/reason").is_empty() {
        row.str("/status/phase").to_owned()
    } else {
        row.str("/status/reason").to_owned()
    };
    for condition in row.list("/status/conditions") {
        if condition.get("type").and_then(Value::as_str) == Some("PodScheduled")
            && condition.get("reason").and_then(Value::as_str) == Some("SchedulingGated")
        {
            state.reason = "SchedulingGated".to_owned();
        }
    }
    state.read_init(row, &restartable);
    let initialized = row.list("/status/conditions").iter().any(|condition| {
        condition.get("type").and_then(Value::as_str) == Some("Initialized")
            && condition.get("status").and_then(Value::as_str) == Some("True")
    });
    if !state.initializing || initialized {
        state.read_main(row, &restartable);
    }
    if meta::is_terminating(row.object) {
        if row.str("/status/reason") == "NodeLost" {
            state.reason = "Unknown".to_owned();
        } else if !matches!(row.str("/status/phase"), "Succeeded" | "Failed") {
            state.reason = "Terminating".to_owned();
        }
    }
    let restarts = match &state.last_restart {
        Some(time) if state.restarts != 0 => {
            format!("{} ({} ago)", state.restarts, age(time, row.now))
        }
        _ => state.restarts.to_string(),
    };
    let gates = row.list("/spec/readinessGates");
    let met = gates
        .iter()
        .filter(|gate| {
            row.list("/status/conditions").iter().any(|condition| {
                condition.get("type") == gate.get("conditionType")
                    && condition.get("status").and_then(Value::as_str) == Some("True")
            })
        })
        .count();
    let gates = if gates.is_empty() {
        "<none>".to_owned()
    } else {
        format!("{met}/{}", gates.len())
    };
    vec![
        row.name(),
        format!("{}/{total}", state.ready).into(),
        state.reason.into(),
        restarts.into(),
        row.age(),
        row.text_or("/status/podIPs/0/ip", "<none>"),
        row.text_or("/spec/nodeName", "<none>"),
        row.text_or("/status/nominatedNodeName", "<none>"),
        gates.into(),
    ]
}

pub(super) struct PodState {
    ready: usize,
    restarts: i64,
    last_restart: Option<String>,
    reason: String,
    initializing: bool,
}

impl PodState {
    fn count(&mut self, container: &Value) {
        self.restarts += container
            .get("restartCount")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        if let Some(time) = container
            .pointer("/lastState/terminated/finishedAt")
            .and_then(Value::as_str)
            && self.last_restart.as_deref().is_none_or(|last| last < time)
        {
            self.last_restart = Some(time.to_owned());
        }
    }

    fn read_init(&mut self, row: &Row<'_>, restartable: &[&str]) {
        let ready = |container: &Value| container.get("ready") == Some(&Value::Bool(true));
        for (index, container) in row.list("/status/initContainerStatuses").iter().enumerate() {
            self.count(container);
            let stays = container
                .get("name")
                .and_then(Value::as_str)
                .is_some_and(|name| restartable.contains(&name));
            let ended = container.pointer("/state/terminated");
            let code = ended
                .and_then(|ended| ended.get("exitCode"))
                .and_then(Value::as_i64)
                .unwrap_or_default();
            if ended.is_some() && code == 0 {
                continue;
            }
            if stays && container.get("started") == Some(&Value::Bool(true)) {
                self.ready += usize::from(ready(container));
                continue;
            }
            let waiting = container
                .pointer("/state/waiting/reason")
                .and_then(Value::as_str)
                .unwrap_or_default();
            self.reason = match ended {
                Some(ended) => format!("Init:{}", ended_reason(ended)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                None => format!("Init:{index}/{}", row.count("/spec/initContainers")),
            };
            self.initializing = true;
            break;
        }
    }

    fn read_main(&mut self, row: &Row<'_>, restartable: &[&str]) {
        self.restarts = 0;
        self.last_restart = None;
        for container in row.list("/status/initContainerStatuses") {
            if container
                .get("name")
                .and_then(Value::as_str)
                .is_some_and(|name| restartable.contains(&name))
            {
                self.count(container);
            }
        }
        let mut running = false;
        let mut failed = String::new();
        for container in row.list("/status/containerStatuses").iter().rev() {
            self.count(container);
            let waiting = container
                .pointer("/state/waiting/reason")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(ended) = container.pointer("/state/terminated") {
                self.reason = ended_reason(ended);
                if ended
                    .get("exitCode")
                    .and_then(Value::as_i64)
                    .unwrap_or_default()
                    != 0
                {
                    failed.clone_from(&self.reason);
                }
            } else if container.get("ready") == Some(&Value::Bool(true))
                && container.pointer("/state/running").is_some()
            {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            let ready = row.list("/status/conditions").iter().any(|condition| {
                condition.get("type").and_then(Value::as_str) == Some("Ready")
                    && condition.get("status").and_then(Value::as_str) == Some("True")
            });
            if running && ready {
                self.reason = "Running".to_owned();
            } else if !failed.is_empty() {
                self.reason = failed;
            } else if running {
                self.reason = "NotReady".to_owned();
            }
        }
    }
}

pub(super) fn ended_reason(ended: &Value) -> String {
    let reason = ended
        .get("reason")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let number = |key: &str| ended.get(key).and_then(Value::as_i64).unwrap_or_default();
    match (reason, number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
