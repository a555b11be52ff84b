//! What was there before a recorded request.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_cluster::auth::User;
use everflow_cluster::env::ManualEnvironment;
use everflow_cluster::rest::request::Target;
use everflow_cluster::time::Timestamp;
use everflow_cluster::{ApiServer, Body, Options, Request};
use everflow_json::{Value, json};

use super::text;

pub const TOKEN: &str = "trace-token";
const JSON: &str = "application/json";

/// Objects as some trace shows them, by kind, namespace and name, and the definitions of Flux.
pub struct Library {
    objects: BTreeMap<(String, String, String), Value>,
    definitions: Vec<Value>,
}

fn place(object: &Value) -> (String, String, String) {
    (
        text(object, "kind").to_owned(),
        text(&object["metadata"], "namespace").to_owned(),
        text(&object["metadata"], "name").to_owned(),
    )
}

/// The object in the body of a request.
fn sent(recorded: &Value) -> Option<Value> {
    if let Some(body) = recorded.get("request_body") {
        return Some(body.clone());
    }
    let bytes = match recorded["request_base64"].as_str() {
        Some(encoded) => STANDARD.decode(encoded).ok()?,
        None => recorded["request_text"].as_str()?.as_bytes().to_vec(),
    };
    everflow_schema::protobuf::decode(&bytes).ok()
}

impl Library {
    pub fn new<'v>(root: &Path, requests: impl Iterator<Item = &'v Value>) -> Self {
        let mut definitions: Vec<Value> = Vec::new();
        let mut files: Vec<_> = std::fs::read_dir(root.join("fixtures/crds"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        for file in files {
            let text = std::fs::read_to_string(file).unwrap();
            definitions.push(everflow_json::from_str(&text).unwrap());
        }
        let mut library = Library {
            objects: BTreeMap::new(),
            definitions: definitions.clone(),
        };
        definitions.iter().for_each(|object| library.learn(object));
        for request in requests {
            let bodies = [request.get("response_body").cloned(), sent(request)];
            for object in bodies.into_iter().flatten() {
                library.learn(&object);
                for item in object["items"].as_array().into_iter().flatten() {
                    library.learn(item);
                }
            }
        }
        library
    }

    fn learn(&mut self, object: &Value) {
        let usable = text(object, "kind") != "Status"
            && !text(&object["metadata"], "name").is_empty()
            && object.as_object().is_some_and(|map| map.len() > 3);
        if usable {
            self.objects
                .entry(place(object))
                .or_insert_with(|| object.clone());
        }
    }

    /// What stood in a body that was too large to be recorded, and its media type.
    pub fn large_body(&self, recorded: &Value) -> (Value, &'static str) {
        let path = text(recorded, "path").split('?').next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        let mut known = self.definitions.iter();
        if let Some(definition) = known.find(|known| known["metadata"]["name"] == name) {
            return (definition.clone(), "application/apply-patch+yaml");
        }
        // Otherwise it is the record of a release.
        let name = match name {
            "secrets" => "sh.helm.release.v1.r.v1",
            other => other,
        };
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
            "metadata": {"name": name, "labels": {"owner": "helm", "name": "r"}}});
        (secret, JSON)
    }
}

/// A server and what is known about its objects.
pub struct World<'l> {
    pub server: ApiServer,
    pub library: &'l Library,
}

impl<'l> World<'l> {
    pub fn new(library: &'l Library) -> Self {
        let env = ManualEnvironment::new(Timestamp::from_seconds(1_794_776_600), 5);
        let user = User {
            name: "admin".into(),
            uid: "admin".into(),
            groups: vec!["system:masters".into()],
            ..User::default()
        };
        let options = Options {
            authorization: true,
            tokens: vec![(TOKEN.into(), user)],
            ..Options::default()
        };
        let server = ApiServer::new(Arc::new(env), options);
        World { server, library }
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let bytes = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        let media = match method {
            "PATCH" => "application/apply-patch+yaml",
            _ => JSON,
        };
        let request = Request::new(method, path, bytes)
            .header("content-type", media)
            .header("accept", JSON)
            .header("authorization", &format!("Bearer {TOKEN}"))
            .header("user-agent", "kubectl/v1");
        let answer = self.server.handle(&request);
        let Body::Full(bytes) = answer.body else {
            panic!("no stream was asked for");
        };
        (
            answer.status,
            everflow_json::from_slice(&bytes).unwrap_or_default(),
        )
    }

    /// Makes the kinds of Flux known where the answer shows that they were.
    pub fn prepare_kinds(&self, recorded: &Value) {
        let known = self
            .server
            .registry()
            .has_group("kustomize.toolkit.fluxcd.io");
        let definitions = text(recorded, "path").contains("customresourcedefinitions");
        let asked = text(recorded, "path").contains("toolkit.fluxcd.io");
        if asked && !known && !definitions && recorded["status"] != 404 {
            for definition in &self.library.definitions {
                let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
                self.send("POST", path, definition);
            }
        }
    }

    /// Makes what the answer shows to have been there, and takes away what was not.
    pub fn prepare(&self, named: &Target, recorded: &Value) -> Result<(), String> {
        let status = recorded["status"].as_u64().unwrap();
        let found = (200..300).contains(&status) || status == 409 || status == 400 || status == 304;
        if found && !named.namespace.is_empty() && !named.names_namespace {
            let namespace = json!({"metadata": {"name": named.namespace}});
            self.send("POST", "/api/v1/namespaces", &namespace);
        }
        let body = sent(recorded).unwrap_or_default();
        let manager = text(recorded, "content_type")
            .contains("apply")
            .then(|| text(recorded, "path"))
            .and_then(|path| path.split_once("fieldManager="))
            .map(|(_, rest)| rest.split('&').next().unwrap_or_default());
        match named.verb {
            "create" if named.subresource.is_empty() => {
                let name = [&recorded["response_body"], &body]
                    .into_iter()
                    .map(|object| text(&object["metadata"], "name").to_owned())
                    .find(|name| !name.is_empty())
                    .unwrap_or_default();
                match status {
                    409 => self.make(named, &name, None)?,
                    _ if !name.is_empty() => self.remove(named, &name),
                    _ => {}
                }
            }
            "list" | "deletecollection" | "watch" => {
                let items = recorded.pointer("/response_body/items");
                for item in items.and_then(Value::as_array).into_iter().flatten() {
                    self.make(named, text(&item["metadata"], "name"), None)?;
                }
            }
            "patch" if status == 201 => self.remove(named, &named.name),
            _ if named.name.is_empty() => {}
            _ if status == 404 && !named.names_namespace => self.remove(named, &named.name),
            _ if found => self.make(named, &named.name, manager)?,
            _ => {}
        }
        Ok(())
    }

    fn collection(&self, named: &Target, namespaced: bool) -> String {
        let root = match named.group.as_str() {
            "" => format!("/api/{}", named.version),
            group => format!("/apis/{group}/{}", named.version),
        };
        match namespaced {
            true => format!("{root}/namespaces/{}/{}", named.namespace, named.resource),
            false => format!("{root}/{}", named.resource),
        }
    }

    fn make(&self, named: &Target, name: &str, manager: Option<&str>) -> Result<(), String> {
        let registry = self.server.registry();
        let Some(resource) = registry.find(&named.group, &named.version, &named.resource) else {
            return Ok(());
        };
        let namespace = if resource.namespaced {
            named.namespace.as_str()
        } else {
            ""
        };
        let key = resource.key(namespace, name);
        if name.is_empty() || self.server.store().get(&resource.table, &key).is_some() {
            return Ok(());
        }
        let place = (resource.kind.clone(), namespace.to_owned(), name.to_owned());
        let mut object = self.library.objects.get(&place).cloned().unwrap_or_else(|| {
            json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {"name": name}})
        });
        object["metadata"]["name"] = name.into();
        if name.starts_with("sh.helm.release") {
            object["type"] = "helm.sh/release.v1".into();
        }
        let managers = object["metadata"].get("managedFields").cloned();
        let managers = managers.filter(|_| manager.is_none());
        let metadata = object["metadata"].as_object_mut().unwrap();
        for key in [
            "resourceVersion",
            "uid",
            "managedFields",
            "deletionTimestamp",
            "generateName",
        ] {
            metadata.remove(key);
        }
        metadata.remove("namespace");
        let path = self.collection(named, resource.namespaced);
        let (status, answer) = match manager {
            None => self.send("POST", &path, &object),
            Some(manager) => {
                object["apiVersion"] = resource.api_version().into();
                object["kind"] = resource.kind.as_str().into();
                let path = format!("{path}/{name}?fieldManager={manager}");
                self.send("PATCH", &path, &object)
            }
        };
        if status != 201 {
            return Err(format!("cannot make {place:?}: {answer}"));
        }
        if object.get("status").is_some() {
            let mut answer = answer;
            answer["status"] = object["status"].take();
            self.send("PUT", &format!("{path}/{name}/status"), &answer);
        }
        let store = self.server.store();
        if let (Some(managers), Some(made)) = (managers, store.get(&resource.table, &key)) {
            let mut value = made.value.clone();
            value["metadata"]["managedFields"] = managers;
            store
                .update(&resource.table, &key, made.revision, value)
                .unwrap();
        }
        Ok(())
    }

    fn remove(&self, named: &Target, name: &str) {
        let registry = self.server.registry();
        let Some(resource) = registry.find(&named.group, &named.version, &named.resource) else {
            return;
        };
        let namespace = if resource.namespaced {
            named.namespace.as_str()
        } else {
            ""
        };
        let store = self.server.store();
        let key = resource.key(namespace, name);
        if let Some(stored) = store.get(&resource.table, &key) {
            store
                .delete(&resource.table, &key, stored.revision, None)
                .unwrap();
        }
    }

    /// Revisions and uids in bodies are those of this server's objects.
    pub fn renew(&self, named: &Target, request: &mut Request) {
        let Ok(mut body) = everflow_json::from_slice::<Value>(&request.body) else {
            return;
        };
        let registry = self.server.registry();
        let Some(resource) = registry.find(&named.group, &named.version, &named.resource) else {
            return;
        };
        let namespace = if resource.namespaced {
            named.namespace.as_str()
        } else {
            ""
        };
        let key = resource.key(namespace, &named.name);
        let Some(stored) = self.server.store().get(&resource.table, &key) else {
            return;
        };
        for operation in body.as_array_mut().into_iter().flatten() {
            if operation["path"] == "/metadata/resourceVersion" {
                operation["value"] = stored.value["metadata"]["resourceVersion"].clone();
            }
        }
        for part in ["metadata", "preconditions"] {
            for name in ["uid", "resourceVersion"] {
                let now = stored.value["metadata"][name].clone();
                if let Some(value) = body.get_mut(part).and_then(|part| part.get_mut(name)) {
                    *value = now;
                }
            }
        }
        request.body = body.to_string().into();
    }
}
