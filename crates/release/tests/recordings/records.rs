//! Release records and what Flux remembers of them.

use everflow_corpus::Outcome;
use everflow_helm::release::Release;
use everflow_json::{Value, json};
use everflow_release::digest;
use everflow_release::record::{RecordWrite, Summary, snapshot};
use everflow_time::Timestamp;
use everflow_yaml::gojson::{HtmlEscape, compact};

use crate::corpus::{list, records, releases, scenarios, steps};

/// The text of a member of an object, and of the items of a list, as they stand in a file.
mod raw {
    /// The end of the value that begins at the start of a text.
    fn end(text: &str) -> usize {
        let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
        for (index, byte) in text.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => return index,
                b'}' | b']' => depth -= 1,
                b',' if depth == 0 => return index,
                _ => {}
            }
        }
        text.len()
    }

    fn items(text: &str) -> Vec<&str> {
        let mut rest = text.trim();
        rest = &rest[1..rest.len() - 1];
        let mut found = Vec::new();
        while !rest.trim().is_empty() {
            let end = end(rest);
            found.push(rest[..end].trim());
            rest = rest.get(end + 1..).unwrap_or("");
        }
        found
    }

    pub fn list(text: &str) -> Vec<&str> {
        items(text)
    }

    pub fn member<'t>(text: &'t str, key: &str) -> Option<&'t str> {
        let wanted = format!("\"{key}\"");
        items(text).into_iter().find_map(|item| {
            let rest = item.strip_prefix(wanted.as_str())?.trim_start();
            Some(rest.strip_prefix(':')?.trim())
        })
    }
}

/// What Flux takes the digest of, put together from the file's own text.
fn observed_line(release: &str, oci_digest: Option<&str>) -> String {
    let member = |text: &str, key: &str| raw::member(text, key).map(str::to_owned);
    let hooks = member(release, "hooks").unwrap_or_else(|| "[]".to_owned());
    let is_test =
        |hook: &&str| raw::member(hook, "events").is_some_and(|events| events.contains("\"test\""));
    let hooks: Vec<&str> = raw::list(&hooks)
        .into_iter()
        .filter(|hook| !is_test(hook))
        .collect();
    let hooks = match hooks.is_empty() {
        true => "null".to_owned(),
        false => format!("[{}]", hooks.join(",")),
    };
    let chart = member(release, "chart").unwrap();
    let config = member(release, "config").filter(|config| config != "{}");
    let line = format!(
        "{{\"name\":{},\"version\":{},\"info\":{},\"chartMetadata\":{},\"config\":{},\"manifest\":{},\
         \"hooks\":{hooks},\"namespace\":{}{}}}",
        member(release, "name").unwrap(),
        member(release, "version").unwrap(),
        member(release, "info").unwrap(),
        member(&chart, "metadata").unwrap(),
        config.unwrap_or_else(|| "null".to_owned()),
        member(release, "manifest").unwrap_or_else(|| "\"\"".to_owned()),
        member(release, "namespace").unwrap(),
        oci_digest.map_or_else(String::new, |digest| format!(
            ",\"ociDigest\":{}",
            json!(digest)
        )),
    );
    let mut line = String::from_utf8(compact(line.as_bytes(), HtmlEscape::On).unwrap()).unwrap();
    line.push('\n');
    line
}

fn release_of(record: &Value) -> Release {
    Release::from_json(record["release"].clone()).unwrap()
}

#[test]
fn digests_are_those_of_the_recorded_texts() {
    let mut outcome = Outcome::default();
    for scenario in scenarios() {
        let texts = raw::list(raw::member(&scenario.text, "steps").unwrap());
        for (number, step) in steps(&scenario.json) {
            let then = raw::member(texts[number], "then").unwrap();
            let secrets = raw::member(then, "releaseSecrets").map_or(Vec::new(), raw::list);
            for release in releases(step) {
                let name = &release["metadata"]["name"];
                let recomputed = list(&release["historyDigestRecomputed"]).iter();
                let history = list(&release["status"]["history"]);
                for (snapshot, _) in history
                    .iter()
                    .zip(recomputed)
                    .filter(|(_, agrees)| **agrees == true)
                {
                    let is_its = |record: &&Value| {
                        record["release"]["name"] == snapshot["name"]
                            && record["release"]["version"] == snapshot["version"]
                            && record["release"]["namespace"] == snapshot["namespace"]
                    };
                    let record = records(step).find(is_its).unwrap();
                    let index = list(&step["then"]["releaseSecrets"])
                        .iter()
                        .position(|secret| secret == record)
                        .unwrap();
                    let text = raw::member(secrets[index], "release").unwrap();
                    let oci_digest = snapshot["ociDigest"].as_str();
                    let expected = digest::of_bytes(observed_line(text, oci_digest).as_bytes());
                    let found = Summary::of(&release_of(record)).digest(oci_digest);
                    let id = format!("{}/{number}/{name}.v{}", scenario.name, snapshot["version"]);
                    outcome.record(
                        id,
                        match found == expected {
                            true => Ok(()),
                            false => Err(format!("{found}, not {expected}")),
                        },
                    );
                }
            }
        }
    }
    if outcome.total() > 0 {
        assert_eq!(outcome.total(), 408);
    }
    outcome.assert("");
}

#[test]
fn snapshots_match_those_of_flux() {
    let mut outcome = Outcome::default();
    for scenario in scenarios() {
        for (number, step) in steps(&scenario.json) {
            for release in releases(step) {
                let agrees = list(&release["historyDigestRecomputed"]);
                let history = list(&release["status"]["history"]);
                for (remembered, _) in history
                    .iter()
                    .zip(agrees)
                    .filter(|(_, agrees)| **agrees == true)
                {
                    let record = records(step)
                        .map(release_of)
                        .find(|record| {
                            remembered["name"] == json!(record.name)
                                && remembered["version"] == json!(record.version)
                                && remembered["namespace"] == json!(record.namespace)
                        })
                        .unwrap();
                    let snapshot = snapshot(
                        &Summary::of(&record),
                        remembered["action"].as_str(),
                        remembered["ociDigest"].as_str(),
                    );
                    let found = everflow_api::to_value(&snapshot);
                    let mut expected = remembered.clone();
                    // Times are placeholders, digests are compared elsewhere, tests are the object's.
                    for key in [
                        "digest",
                        "firstDeployed",
                        "lastDeployed",
                        "deleted",
                        "testHooks",
                    ] {
                        expected[key] = found[key].clone();
                    }
                    expected
                        .as_object_mut()
                        .unwrap()
                        .retain(|_, value| !value.is_null());
                    let id = format!("{}/{number}/{}", scenario.name, snapshot.full_name());
                    outcome.record(
                        id,
                        match found == expected {
                            true => Ok(()),
                            false => Err(format!("{found}, not {expected}")),
                        },
                    );
                }
            }
        }
    }
    outcome.assert("");
}

#[test]
fn records_survive_a_secret_and_are_summed_up_from_its_stream() {
    let mut count = 0;
    for scenario in scenarios() {
        for (_, step) in steps(&scenario.json) {
            for record in records(step) {
                let release = release_of(record);
                let write = RecordWrite {
                    release: release.clone(),
                    storage_namespace: record["namespace"].as_str().unwrap().to_owned(),
                    progress: None,
                    made_from: None,
                };
                let secret = write.updated(Timestamp::default()).unwrap();
                assert_eq!(secret["metadata"]["name"], record["name"]);
                assert_eq!(secret["type"], record["type"]);
                let mut labels = record["labels"].clone();
                if labels["status"] != release.info.status.as_str() {
                    // Edited by hand in the scenario.
                    continue;
                }
                labels.as_object_mut().unwrap().remove("createdAt");
                labels["modifiedAt"] = json!("0");
                assert_eq!(secret["metadata"]["labels"], labels);
                assert_eq!(
                    everflow_helm::release::from_object(&secret).unwrap(),
                    release
                );
                let data = secret["data"]["release"].as_str().unwrap();
                let summary =
                    Summary::read(data, release.version, &everflow_limits::Budget::unlimited())
                        .unwrap();
                let whole = Summary::of(&release);
                assert_eq!(summary.digest(Some("x")), whole.digest(Some("x")));
                assert_eq!(summary.manifest_digest, whole.manifest_digest);
                assert_eq!((summary.hooks, summary.origin), (whole.hooks, whole.origin));
                count += 1;
            }
        }
    }
    println!("{count} records");
}

#[test]
fn the_digest_of_an_observation_is_that_of_flux() {
    let foo = Release {
        name: "foo".into(),
        ..Release::default()
    };
    // The one that the tests of helm-controller name.
    assert_eq!(
        Summary::of(&foo).digest(None),
        "sha256:f1498f27a16a09cd7e1ee610d924df065c03d30035638babc95dd9a8d412ce4d"
    );
}
