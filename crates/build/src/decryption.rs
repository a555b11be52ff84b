//! Secrets of SOPS: in files that generators and patches name, in objects, and in values of Secrets.

use std::collections::BTreeSet;
use std::sync::Arc;

use everflow_json::Value;
use everflow_kustomize::{FILE_NAMES, Located, paths, read_kustomization};
use everflow_limits::{Budget, Exceeded};
use everflow_sops::{Format, Keys};
use everflow_yaml::cost;
use memchr::memmem;

use crate::error::{Error, step};
use crate::finish;
use crate::mount::Mount;
use crate::place::Place;

/// The largest file that is decrypted.
const MAX_FILE: usize = 5 << 20;

/// Decrypts for one build.
pub struct Decryption<'a> {
    pub keys: &'a Keys,
    pub budget: &'a Budget,
}

/// Why an object cannot be decrypted.
#[derive(Debug)]
pub enum Fault {
    /// What is wrong with it.
    Problem(String),
    /// It would cost more than it may.
    Exceeded(Exceeded),
}

impl From<Exceeded> for Fault {
    fn from(exceeded: Exceeded) -> Self {
        Fault::Exceeded(exceeded)
    }
}

impl Fault {
    /// What sops says, in other words.
    fn of(error: everflow_sops::Error, words: impl FnOnce(everflow_sops::Error) -> String) -> Self {
        match error.exceeded() {
            Some(exceeded) => Fault::Exceeded(exceeded.clone()),
            None => Fault::Problem(words(error)),
        }
    }
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
            let file = kustomization(mount, &directory, self.budget).map_err(|exceeded| {
                Error::of_limit(step::DECRYPT, directory.trim_start_matches('/'), exceeded)
            })?;
            let Some(file) = file else {
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
        let exceeded = |cause| Error::of_limit(step::DECRYPT, place().path, cause);
        if content.len() > MAX_FILE {
            return Err(Error::SourceTooLarge {
                place: place(),
                size: content.len(),
                limit: MAX_FILE,
            });
        }
        let plain = everflow_sops::decrypt(&content, format, format, self.keys, self.budget);
        let plain = plain.map_err(|cause| match cause.exceeded() {
            Some(cause) => exceeded(cause.clone()),
            None => Error::Source {
                place: place(),
                cause,
            },
        })?;
        // It is there instead of the file until the build is done.
        self.budget.charge(plain.len()).map_err(exceeded)?;
        mount.replace(path, plain);
        Ok(())
    }

    // ---- objects, after the build ----

    /// Decrypts an object; `None` when nothing in it is encrypted.
    pub fn object(
        &self,
        mount: &Mount<'_>,
        object: &Value,
    ) -> Result<Option<(Value, Integrity)>, Fault> {
        self.budget.check()?;
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
    ) -> Result<(Value, Integrity), Fault> {
        let name = full_name(object);
        let kind = object["kind"].as_str().unwrap_or_default();
        let failed = |error: everflow_sops::Error| {
            format!("failed to decrypt and format '{name}' {kind} data: {error}")
        };
        let plain = everflow_sops::decrypt_value(object, self.keys, self.budget);
        let plain = plain.map_err(|error| Fault::of(error, failed))?;
        // The built object has another order and more fields than the file: the authentication
        // code only fits the file.
        let Some((path, content)) = file_with(mount, mac, self.budget)? else {
            return Ok((plain, Integrity::Unknown));
        };
        let format = match Format::of_path(&path) {
            Format::Json => Format::Json,
            _ => Format::Yaml,
        };
        let words = |error| format!("{} (in {})", failed(error), path.trim_start_matches('/'));
        match everflow_sops::decrypt(&content, format, format, self.keys, self.budget) {
            Ok(_) => Ok((plain, Integrity::Verified)),
            Err(error) => Err(Fault::of(error, words)),
        }
    }

    /// Values of a Secret that are encrypted files themselves, as generators put them there.
    fn secret_values(&self, object: &Value) -> Result<Option<Value>, Fault> {
        let mut decrypted: Option<Value> = None;
        let _copies = self.budget.hold(2 * cost::of_json(object))?;
        for (key, value) in object["data"].as_object().into_iter().flatten() {
            self.budget.check()?;
            let Some(content) = value.as_str().and_then(finish::from_base64) else {
                continue;
            };
            let Some(input) = Format::detect(&content) else {
                continue;
            };
            let output = Format::of_path(key);
            let words = |error| {
                let name = full_name(object);
                format!("failed to decrypt and format '{name}' Secret field '{key}': {error}")
            };
            let plain = everflow_sops::decrypt(&content, input, output, self.keys, self.budget);
            let plain = plain.map_err(|error| Fault::of(error, words))?;
            let changed = decrypted.get_or_insert_with(|| object.clone());
            self.budget.charge(2 * plain.len())?;
            changed["data"][key] = Value::String(finish::to_base64(&plain).into());
        }
        Ok(decrypted)
    }
}

fn full_name(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

/// The path of a file of the source, and its content.
type File = (String, Arc<[u8]>);

/// The file of the source with an authentication code, among those the build read.
fn file_with(mount: &Mount<'_>, mac: &str, budget: &Budget) -> Result<Option<File>, Exceeded> {
    let finder = memmem::Finder::new(mac);
    for path in mount.files_read() {
        budget.check()?;
        if let Ok(content) = mount.content(&path)
            && finder.find(&content).is_some()
        {
            return Ok(Some((path, content)));
        }
    }
    Ok(None)
}

/// The kustomization of a directory, if there is exactly one that can be read.
fn kustomization(
    mount: &Mount<'_>,
    directory: &str,
    budget: &Budget,
) -> Result<Option<Value>, Exceeded> {
    let mut files = FILE_NAMES
        .iter()
        .filter_map(|name| mount.content(&paths::join(directory, name)).ok());
    match (files.next(), files.next()) {
        (Some(content), None) => match read_kustomization(&content, budget) {
            Ok(file) => Ok(Some(file)),
            Err(error) => error.exceeded().cloned().map_or(Ok(None), Err),
        },
        _ => Ok(None),
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
