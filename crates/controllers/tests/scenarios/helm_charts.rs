//! Charts and their repository, as the recordings of HelmReleases had them.

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_json::{Value, json};

use super::registry::digest;

/// A chart as `.tgz`.
pub fn packed(files: &Value) -> Vec<u8> {
    let name = field(files, "name");
    let mut archive = tar::Builder::new(Vec::new());
    for (path, text) in files.as_object().unwrap() {
        let bytes = text.as_str().unwrap().as_bytes();
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, format!("{name}/{path}"), bytes)
            .unwrap();
    }
    let plain = archive.into_inner().unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(&plain).unwrap();
    packed.finish().unwrap()
}

/// A field of `Chart.yaml`.
pub fn field(files: &Value, name: &str) -> String {
    let text = files["Chart.yaml"].as_str().unwrap();
    let chart = everflow_yaml::sigs::yaml_to_json(text.as_bytes()).unwrap();
    chart[name].as_str().unwrap_or_default().to_owned()
}

/// A repository: what it serves, by path.
#[derive(Debug, Default)]
pub struct Repository {
    charts: Vec<(String, Value, Vec<u8>)>,
}

impl Repository {
    pub fn publish(&mut self, files: &Value) {
        let text = files["Chart.yaml"].as_str().unwrap();
        let metadata = everflow_yaml::sigs::yaml_to_json(text.as_bytes()).unwrap();
        let file = format!("{}-{}.tgz", field(files, "name"), field(files, "version"));
        self.charts.push((file, metadata, packed(files)));
    }

    /// The files in the form of scenarios.
    pub fn served(&self) -> Value {
        let mut entries: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let mut files = json!({});
        for (file, metadata, bytes) in &self.charts {
            let mut entry = metadata.clone();
            entry["urls"] = json!([file]);
            entry["digest"] = digest(bytes).trim_start_matches("sha256:").into();
            entry["created"] = "2026-01-01T00:00:00Z".into();
            let name = metadata["name"].as_str().unwrap().to_owned();
            entries.entry(name).or_default().insert(0, entry);
            files[file.as_str()] = json!({"base64": STANDARD.encode(bytes)});
        }
        let entries: Value = entries
            .into_iter()
            .map(|(name, list)| (everflow_json::Text::from(name), Value::from(list)))
            .collect::<everflow_json::Map>()
            .into();
        let index = json!({"apiVersion": "v1", "entries": entries,
            "generated": format!("2026-01-01T00:00:{:02}Z", self.charts.len())});
        files["index.yaml"] = index.to_string().into();
        files
    }
}
