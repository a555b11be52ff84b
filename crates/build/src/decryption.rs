//! Secrets of SOPS: in files that generators and patches name, in objects, and in values of Secrets.

use std::collections::BTreeSet;

use everflow_json::Value;
use everflow_kustomize::{FILE_NAMES, Located, paths, read_kustomization};
use everflow_sops::{Format, Keys};

use crate::error::Error;
use crate::finish;
use crate::mount::Mount;
use crate::place::Place;

/// The largest file that is decrypted.
const MAX_FILE: usize = 5 << 20;

/// Decrypts for one build.
pub struct Decryption<'a> {
    pub keys: &'a Keys,
}

/// Whether it is known that an object is as SOPS left it.
pub enum Integrity {
    /// It is.
    Verified,
    /// It could not be found out.
    Unknown,
}

impl Decryption<'_> {
    // ---- files, before the build ----

    /// Decrypts what the kustomizations below a directory generate Secrets from and patch with.
    pub fn sources(&self, mount: &mut Mount<'_>, directory: &str) -> Result<(), Error> {
        let mut visited = BTreeSet::new();
        let mut pending = vec![directory.to_owned()];
        while let Some(directory) = pending.pop() {
            if !visited.insert(directory.clone()) {
                continue;
            }
            let Some(file) = kustomization(mount, &directory) else {
                continue;
            };
            for (path, format) in encrypted_candidates(&file) {
                let path = inside(&directory, &path);
                self.file(mount, &path, format)?;
            }
            for field in ["components", "resources"] {
                for entry in texts(&file[field]) {
                    let path = inside(&directory, entry);
                    if let Ok(Located::Directory(real)) = mount.tree().locate(&path) {
                        pending.push(real);
                    }
                }
            }
        }
        Ok(())
    }

    fn file(&self, mount: &mut Mount<'_>, path: &str, format: Format) -> Result<(), Error> {
        // What is missing is for kustomize to report.
        let Ok(content) = mount.content(path) else {
            return Ok(());
        };
        if !format.is_marked(&content) {
            return Ok(());
        }
        let place = || Place {
            path: path.trim_start_matches('/').to_owned(),
            line: None,
        };
        if content.len() > MAX_FILE {
            return Err(Error::SourceTooLarge {
                place: place(),
                size: content.len(),
                limit: MAX_FILE,
            });
        }
        let plain =
            everflow_sops::decrypt(&content, format, format, self.keys).map_err(|cause| {
                Error::Source {
                    place: place(),
                    cause,
                }
            })?;
        mount.replace(path, plain);
        Ok(())
    }

    // ---- objects, after the build ----

    /// Decrypts an object; `None` when nothing in it is encrypted.
    pub fn object(
        &self,
        mount: &Mount<'_>,
        object: &Value,
    ) -> Result<Option<(Value, Integrity)>, String> {
        if finish::stays_encrypted(object) {
            return Ok(None);
        }
        if let Some(mac) = object["sops"]["mac"].as_str().filter(|mac| !mac.is_empty()) {
            return self.marked(mount, object, mac).map(Some);
        }
        if object["kind"] != "Secret" {
            return Ok(None);
        }
        let decrypted = self.secret_values(object)?;
        Ok(decrypted.map(|object| (object, Integrity::Verified)))
    }

    fn marked(
        &self,
        mount: &Mount<'_>,
        object: &Value,
        mac: &str,
    ) -> Result<(Value, Integrity), String> {
        let name = full_name(object);
        let kind = object["kind"].as_str().unwrap_or_default();
        let failed = |error: everflow_sops::Error| {
            format!("failed to decrypt and format '{name}' {kind} data: {error}")
        };
        let plain = everflow_sops::decrypt_value(object, self.keys).map_err(failed)?;
        // The built object has another order and more fields than the file: the authentication
        // code only fits the file.
        let Some((path, content)) = file_with(mount, mac) else {
            return Ok((plain, Integrity::Unknown));
        };
        let format = match Format::of_path(&path) {
            Format::Json => Format::Json,
            _ => Format::Yaml,
        };
        match everflow_sops::decrypt(&content, format, format, self.keys) {
            Ok(_) => Ok((plain, Integrity::Verified)),
            Err(error) => Err(format!(
                "{} (in {})",
                failed(error),
                path.trim_start_matches('/')
            )),
        }
    }

    /// Values of a Secret that are encrypted files themselves, as generators put them there.
    fn secret_values(&self, object: &Value) -> Result<Option<Value>, String> {
        let mut decrypted: Option<Value> = None;
        for (key, value) in object["data"].as_object().into_iter().flatten() {
            let Some(content) = value.as_str().and_then(finish::from_base64) else {
                continue;
            };
            let Some(input) = Format::detect(&content) else {
                continue;
            };
            let output = Format::of_path(key);
            let plain =
                everflow_sops::decrypt(&content, input, output, self.keys).map_err(|error| {
                    let name = full_name(object);
                    format!("failed to decrypt and format '{name}' Secret field '{key}': {error}")
                })?;
            let changed = decrypted.get_or_insert_with(|| object.clone());
            changed["data"][key] = Value::String(finish::to_base64(&plain).into());
        }
        Ok(decrypted)
    }
}

fn full_name(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

/// The file of the source with an authentication code, among those the build read.
fn file_with(mount: &Mount<'_>, mac: &str) -> Option<(String, std::sync::Arc<[u8]>)> {
    let mac = mac.as_bytes();
    mount.files_read().into_iter().find_map(|path| {
        let content = mount.content(&path).ok()?;
        let found = content.windows(mac.len()).any(|window| window == mac);
        found.then_some((path, content))
    })
}

/// The kustomization of a directory, if there is exactly one that can be read.
fn kustomization(mount: &Mount<'_>, directory: &str) -> Option<Value> {
    let mut files = FILE_NAMES
        .iter()
        .filter_map(|name| mount.content(&paths::join(directory, name)).ok());
    match (files.next(), files.next()) {
        (Some(content), None) => read_kustomization(&content).ok(),
        _ => None,
    }
}

/// A path of the source, as a kustomization names it.
fn inside(directory: &str, path: &str) -> String {
    match path.starts_with('/') {
        true => paths::clean(path),
        false => paths::join(directory, path),
    }
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The files that may be encrypted, and how they are written.
fn encrypted_candidates(file: &Value) -> Vec<(String, Format)> {
    let mut candidates = Vec::new();
    for generator in file["secretGenerator"].as_array().into_iter().flatten() {
        for entry in texts(&generator["files"]) {
            let (key, path) = entry.split_once('=').unwrap_or((entry, entry));
            candidates.push((path.to_owned(), Format::of_path(key)));
        }
        for path in texts(&generator["envs"]) {
            let format = match Format::of_path(path) {
                Format::Binary => Format::Dotenv,
                format => format,
            };
            candidates.push((path.to_owned(), format));
        }
    }
    for patch in file["patches"].as_array().into_iter().flatten() {
        let path = patch["path"].as_str().unwrap_or_default();
        if !path.is_empty() && !path.contains("://") {
            candidates.push((path.to_owned(), Format::of_path(path)));
        }
    }
    candidates
}
