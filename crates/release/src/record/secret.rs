//! Records on their way into a Secret.

use everflow_helm::release::{Release, object_name, to_secret};
use everflow_json::{Value, json};
use everflow_time::Timestamp;

use super::mark::{MADE_FROM, MadeFrom, PROGRESS, Progress};
use crate::error::Error;

/// What the data of a Secret may weigh, as the API server counts: before the outer base64.
pub const LARGEST_RECORD: usize = 1024 * 1024;
/// What is kept free for the runs of hooks and the description of how it went.
const HEADROOM: usize = 8 * 1024;
/// What is left of a description that does not fit.
const SHORT_DESCRIPTION: usize = 1024;
/// How many files an error names.
const NAMED_FILES: usize = 3;

/// A record that is to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordWrite {
    /// The record.
    pub release: Release,
    /// The namespace of its Secret.
    pub storage_namespace: String,
    /// The action that is under way, if one is.
    pub progress: Option<Progress>,
    /// What the revision was made from.
    pub made_from: Option<MadeFrom>,
}

impl RecordWrite {
    /// The name of the Secret.
    pub fn secret_name(&self) -> String {
        object_name(&self.release.name, self.release.version)
    }

    /// The Secret as it is created.
    ///
    /// # Errors
    /// When the record does not fit, with room for what is added to it while the action runs.
    pub fn created(&self, now: Timestamp) -> Result<Value, Error> {
        self.secret("createdAt", now, LARGEST_RECORD - HEADROOM)
    }

    /// The Secret as it takes the place of an older state. A description that does not fit is cut.
    ///
    /// # Errors
    /// When the record does not fit even so.
    pub fn updated(&self, now: Timestamp) -> Result<Value, Error> {
        match self.secret("modifiedAt", now, LARGEST_RECORD) {
            Err(Error::RecordTooLarge { .. })
                if self.release.info.description.len() > SHORT_DESCRIPTION =>
            {
                let mut shorter = self.clone();
                cut(&mut shorter.release.info.description, SHORT_DESCRIPTION);
                shorter.secret("modifiedAt", now, LARGEST_RECORD)
            }
            outcome => outcome,
        }
    }

    fn secret(&self, time_label: &str, now: Timestamp, limit: usize) -> Result<Value, Error> {
        let release = &self.release;
        let full_name = || {
            format!(
                "{}/{}.v{}",
                release.namespace, release.name, release.version
            )
        };
        let mut secret = to_secret(release).map_err(|cause| Error::UnwritableRecord {
            release: full_name(),
            cause,
        })?;
        let data = secret["data"]["release"].as_str().unwrap_or_default();
        let size = decoded_length(data);
        if size > limit {
            return Err(Error::RecordTooLarge {
                release: full_name(),
                size,
                limit,
                largest: largest_files(&release.chart),
            });
        }
        secret["metadata"]["namespace"] = json!(self.storage_namespace);
        secret["metadata"]["labels"][time_label] = json!(now.seconds.to_string());
        let progress = self.progress.as_ref().map(Progress::to_text);
        let made_from = self.made_from.as_ref().map(MadeFrom::to_text);
        for (key, text) in [(PROGRESS, progress), (MADE_FROM, made_from)] {
            if let Some(text) = text {
                secret["metadata"]["annotations"][key] = json!(text);
            }
        }
        Ok(secret)
    }
}

/// How many bytes base64 stands for.
fn decoded_length(base64: &str) -> usize {
    let padding = base64
        .bytes()
        .rev()
        .take_while(|byte| *byte == b'=')
        .count();
    (base64.len() / 4 * 3).saturating_sub(padding)
}

fn largest_files(chart: &Value) -> Vec<String> {
    let lists = [&chart["templates"], &chart["files"]];
    let files = lists.into_iter().filter_map(Value::as_array).flatten();
    let mut sizes: Vec<(usize, &str)> = files
        .filter_map(|file| {
            let size = decoded_length(file["data"].as_str()?);
            Some((size, file["name"].as_str()?))
        })
        .collect();
    sizes.sort_unstable_by(|one, two| two.cmp(one));
    sizes.truncate(NAMED_FILES);
    let named = sizes
        .into_iter()
        .map(|(size, name)| format!("{name} ({size} bytes)"));
    named.collect()
}

fn cut(text: &mut String, length: usize) {
    let mut end = length.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text.push_str("...");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::ActionKind;
    use crate::record::mark::Holder;
    use everflow_helm::release::Info;

    fn write(noise: usize) -> RecordWrite {
        // Text that gzip cannot make smaller than about three quarters.
        let mut state = 1_u64;
        let noise: String = (0..noise)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                char::from(b'!' + ((state >> 33) % 90) as u8)
            })
            .collect();
        RecordWrite {
            release: Release {
                name: "web".into(),
                namespace: "apps".into(),
                version: 2,
                info: Info {
                    status: "pending-upgrade".into(),
                    ..Info::default()
                },
                chart: json!({"files": [{"name": "README.md", "data": noise}]}),
                labels: [("team".to_owned(), "x".to_owned())].into(),
                ..Release::default()
            },
            storage_namespace: "flux".into(),
            progress: None,
            made_from: None,
        }
    }

    #[test]
    fn a_secret_has_the_labels_of_helm_and_notes_only_where_there_are_any() {
        let now = Timestamp::from_seconds(1_700_000_000);
        let mut record = write(1);
        let secret = record.created(now).unwrap();
        assert_eq!(secret["type"], "helm.sh/release.v1");
        assert_eq!(
            secret["metadata"],
            json!({
                "name": "sh.helm.release.v1.web.v2", "namespace": "flux",
                "labels": {
                    "name": "web", "owner": "helm", "status": "pending-upgrade", "version": "2",
                    "team": "x", "createdAt": "1700000000",
                },
            })
        );
        let progress = Progress::new(ActionKind::Upgrade, Holder::default(), None);
        record.progress = Some(progress);
        let secret = record.updated(now).unwrap();
        assert_eq!(secret["metadata"]["labels"]["modifiedAt"], "1700000000");
        assert!(secret["metadata"]["labels"].get("createdAt").is_none());
        assert!(secret["metadata"]["annotations"][PROGRESS].is_string());
    }

    #[test]
    fn a_record_beyond_the_limit_is_refused_and_its_largest_file_named() {
        let error = write(1_400_000)
            .created(Timestamp::default())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("the record of release apps/web.v2 has "),
            "{error}"
        );
        assert!(error.contains("README.md (1050000 bytes)"), "{error}");
        assert!(error.contains(".helmignore"), "{error}");
    }

    #[test]
    fn a_description_is_cut_before_a_record_is_lost() {
        let mut record = write(900_000);
        let noise = record.release.chart["files"][0]["data"].as_str().unwrap();
        record.release.info.description = noise.chars().rev().take(500_000).collect();
        let secret = record.updated(Timestamp::default()).unwrap();
        let read = everflow_helm::release::from_object(&secret).unwrap();
        assert_eq!(read.info.description.len(), SHORT_DESCRIPTION + 3);
    }
}
