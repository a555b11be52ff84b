//! What was used: time, CPU, memory, requests.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::world::World;

/// Requests by verb and resource.
pub type Requests = BTreeMap<String, f64>;

/// What the engine is measured by.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Measure {
    /// Seconds that applying the objects took.
    pub raw: f64,
    /// Seconds that making their namespaces took.
    pub namespaces: f64,
    /// Seconds that the least of an engine took.
    pub least: f64,
    /// What the controllers of Kubernetes asked for because of the objects.
    pub others: Requests,
}

impl Measure {
    /// From what was applied raw.
    pub fn of_raw(raw: &Usage, namespaces: Duration, others: &Usage) -> Self {
        Measure {
            raw: raw.wall,
            namespaces: namespaces.as_secs_f64(),
            least: 0.0,
            others: others.requests.clone(),
        }
    }

    /// As it was kept.
    pub fn read(file: &Path) -> Result<Self, Failure> {
        Ok(everflow_json::from_slice(&std::fs::read(file)?)?)
    }

    /// Keeps it.
    pub fn write(&self, file: &Path) -> Result<(), Failure> {
        Ok(std::fs::write(file, everflow_json::to_vec(self)?)?)
    }
}

/// What was used up to a moment.
#[derive(Debug, Clone)]
pub struct Usage {
    at: Instant,
    /// Seconds on the clock.
    pub wall: f64,
    /// Seconds of CPU of the engine.
    pub engine: f64,
    /// Seconds of CPU of the API server and its storage.
    pub server: f64,
    /// Requests that the API server counted, by verb and resource.
    requests: Requests,
}

impl Usage {
    /// Up to now.
    pub async fn of(world: &World, engines: &[String]) -> Result<Self, Failure> {
        Ok(Usage {
            at: Instant::now(),
            wall: 0.0,
            engine: cpu_seconds(engines)?,
            server: cpu_seconds(&world.servers)?,
            requests: requests(&world.text("/metrics").await?),
        })
    }

    /// From `before` to this moment.
    pub fn since(&self, before: &Usage) -> Usage {
        let mut requests = self.requests.clone();
        for (key, count) in &mut requests {
            *count -= before.requests.get(key).copied().unwrap_or_default();
        }
        requests.retain(|_, count| *count > 0.0);
        Usage {
            at: self.at,
            wall: (self.at - before.at).as_secs_f64(),
            engine: self.engine - before.engine,
            server: self.server - before.server,
            requests,
        }
    }

    /// The same without what others asked for meanwhile: so many times what they asked for in
    /// another span, applies left out, which are ours.
    pub fn without(mut self, others: &Requests) -> Usage {
        for (key, count) in &mut self.requests {
            if !key.starts_with("APPLY ") {
                *count -= others.get(key).copied().unwrap_or_default();
            }
        }
        self.requests.retain(|_, count| *count > 0.0);
        self
    }

    fn shown(&self, over: f64) -> (f64, String) {
        let all: f64 = self.requests.values().fold(0.0, |sum, count| sum + count);
        let lines: Vec<String> = self
            .requests
            .iter()
            .map(|(request, count)| format!("{request} {:.2}", count / over))
            .collect();
        (all / over, lines.join(", "))
    }

    /// What was asked for, by verb and resource.
    // One of the benchmarks that share this file has no use for it.
    #[allow(dead_code)]
    pub fn asked(&self) -> &Requests {
        &self.requests
    }

    /// Whether nothing was asked.
    pub fn is_quiet(&self) -> bool {
        self.requests.is_empty()
    }

    /// How many requests there were for each object.
    pub fn requests_each(&self, count: f64) -> String {
        let (all, lines) = self.shown(count);
        format!("{all:.2} requests for each ({lines})")
    }

    /// How many requests there were.
    pub fn requests(&self) -> String {
        let (all, lines) = self.shown(1.0);
        format!("{all:.0} requests ({lines})")
    }
}

/// Counts of requests, watches and our own questions left out.
fn requests(metrics: &str) -> Requests {
    let mut all = BTreeMap::new();
    let lines = metrics.lines();
    for line in lines.filter(|line| line.starts_with("apiserver_request_total{")) {
        let label = |name: &str| {
            let key = format!("{name}=\"");
            let from = line.find(&key)? + key.len();
            Some(line[from..].split('"').next()?.to_owned())
        };
        let (Some(verb), Some(mut resource)) = (label("verb"), label("resource")) else {
            continue;
        };
        // Metrics, health, discovery.
        if resource.is_empty() {
            continue;
        }
        let count = line.rsplit(' ').next().and_then(|count| count.parse().ok());
        if let Some(below) = label("subresource").filter(|below| !below.is_empty()) {
            resource = format!("{resource}/{below}");
        }
        // The API server looks after its own things.
        let own = matches!(resource.as_str(), "leases" | "endpointslices" | "endpoints")
            || resource.contains("flowcontrol")
            || resource == "prioritylevelconfigurations"
            || resource == "flowschemas"
            || resource.starts_with("ipaddresses")
            || resource.starts_with("servicecidrs")
            || resource.starts_with("apiservices")
            || resource.starts_with("customresourcedefinitions");
        if verb == "WATCH" || own {
            continue;
        }
        *all.entry(format!("{verb} {resource}")).or_default() += count.unwrap_or(0.0);
    }
    all
}

/// CPU seconds that processes have used.
fn cpu_seconds(pids: &[String]) -> Result<f64, Failure> {
    let mut ticks = 0.0;
    for pid in pids {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = rest.split_whitespace().collect();
        for field in [11, 12] {
            ticks += fields.get(field).unwrap_or(&"0").parse::<f64>()?;
        }
    }
    Ok(ticks / 100.0)
}

/// The most memory that processes ever held, in megabytes.
pub fn peak_memory(pids: &[String]) -> Result<f64, Failure> {
    let mut sum = 0.0;
    for pid in pids {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
        sum += kilobytes.unwrap_or("0").parse::<f64>()? / 1024.0;
    }
    Ok(sum)
}
