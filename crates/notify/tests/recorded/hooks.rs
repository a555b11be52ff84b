//! Webhooks and Receivers in the small world.

use std::collections::BTreeMap;

use everflow_api::Object;
use everflow_api::notification::Receiver;
use everflow_json::Value;
use everflow_notify::alert::selects;
use everflow_notify::event::LARGEST_BODY;
use everflow_notify::provider::Lookup;
use everflow_notify::receiver::status::reconcile as attempt;
use everflow_notify::receiver::{
    Call, Discovery, KeySet, KeySource, Keys, Options, Refusal, Route, Select, Target, check,
    key_source, route,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::symbols::ISSUER;
use crate::world::{ObjectEvent, Response, World};

/// The path of a Receiver that was there once.
fn path_of<'w>(world: &'w World<'_>, name: &str) -> &'w str {
    world.paths.get(name).map_or("/hook/none", String::as_str)
}

/// Makes an attempt at a Receiver, as after a change.
pub fn reconcile(world: &mut World<'_>, namespace: &str, name: &str) {
    let Some(object) = world.get("Receiver", namespace, name) else {
        return;
    };
    let receiver: Object<Receiver> = Object::read(object).unwrap();
    let secret = secret(world, &receiver);
    let done = attempt(&receiver, &secret, world.now);
    if let Some(told) = done.event {
        world.warnings.push(ObjectEvent {
            object: format!("Receiver/{name}"),
            kind: if told.is_warning { "Warning" } else { "Normal" },
            reason: told.reason.as_str().to_owned(),
            message: told.message,
            annotations: BTreeMap::new(),
            token: None,
        });
    }
    if let Some(path) = done
        .status
        .webhook_path
        .as_ref()
        .filter(|_| namespace == world.namespace)
    {
        world.paths.insert(name.to_owned(), path.clone());
    }
    let status = everflow_api::to_value(&done.status);
    let key = ("Receiver".to_owned(), namespace.to_owned(), name.to_owned());
    world.objects.get_mut(&key).unwrap()["status"] = status;
}

fn secret(world: &World<'_>, receiver: &Object<Receiver>) -> Lookup {
    let name = receiver
        .spec
        .secret_ref
        .as_ref()
        .map(|reference| reference.name.as_str());
    world.lookup(receiver.metadata.namespace(), name)
}

/// Sends a request to the receiver server.
pub fn hook(world: &mut World<'_>, given: &Value) -> Response {
    let target = target(world, given["path"].as_str().unwrap());
    let body = match given["size"].as_u64() {
        Some(size) => vec![b'x'; size as usize],
        None => match &given["body"] {
            Value::String(text) => text.as_bytes().to_vec(),
            other => other.to_string().into_bytes(),
        },
    };
    match route(&target) {
        Route::Redirect => {
            let mut response = Response::status(307);
            response.headers.push(("Location", "/hook/".to_owned()));
            return response;
        }
        Route::Nothing => {
            let mut response = Response::status(404);
            response
                .headers
                .push(("Content-Type", "text/plain; charset=utf-8".to_owned()));
            response
                .headers
                .push(("X-Content-Type-Options", "nosniff".to_owned()));
            response.text = "404 page not found\n".to_owned();
            return response;
        }
        Route::Hook => {}
    }
    // The size is looked at before the Receiver is.
    if body.len() > LARGEST_BODY {
        return Response::status(413);
    }
    let receivers = world.receivers();
    let found = receivers
        .iter()
        .find(|receiver| receiver.status.webhook_path.as_deref() == Some(&target));
    let Some(receiver) = found else {
        return Response::status(404);
    };
    let headers = headers(world, &given["headers"]);
    let call = Call {
        headers: &headers,
        body: &body,
    };
    match accept(world, receiver, &call) {
        Ok(is_whole) => Response::status(if is_whole { 200 } else { 500 }),
        Err(refusal) => Response::status(refusal.status),
    }
}

fn target(world: &World<'_>, given: &str) -> String {
    match given.strip_prefix("$PATH(") {
        Some(rest) => {
            let (name, rest) = rest.split_once(')').unwrap();
            format!("{}{rest}", path_of(world, name))
        }
        None => given.to_owned(),
    }
}

fn headers(world: &World<'_>, given: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in given.as_object().into_iter().flatten() {
        let value = match value {
            Value::String(text) => text.to_string(),
            other => world.keys.bearer(&other["jwt"], world.now.seconds),
        };
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.insert(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

/// Checks a request and wakes what it asks for; whether all of it could be.
fn accept(
    world: &mut World<'_>,
    receiver: &Object<Receiver>,
    call: &Call<'_>,
) -> Result<bool, Refusal> {
    let source = key_source(receiver, call)?;
    let keys = source.map(|source| fetch_keys(world, &source));
    let keys = keys
        .as_ref()
        .map(|keys| keys.as_ref().map_err(String::as_str));
    let secret = secret(world, receiver);
    let options = Options {
        no_cross_namespace_refs: world.options.no_cross_namespace_refs,
    };
    let accepted = check(receiver, &secret, call, keys, &options, world.now)?;
    let mut is_whole = accepted.problems.is_empty();
    for target in &accepted.targets {
        let Ok(objects) = find(world, target) else {
            is_whole = false;
            continue;
        };
        for (name, object) in objects {
            match accepted.filters.evaluator().admit(target.resource, &object) {
                Ok(true) => annotate(world, target, &name),
                Ok(false) => {}
                Err(_) => {
                    is_whole = false;
                    break;
                }
            }
        }
    }
    Ok(is_whole)
}

fn fetch_keys(world: &World<'_>, source: &KeySource) -> Result<Keys, String> {
    let set = KeySet::read(world.keys.jwks.as_bytes()).unwrap();
    let KeySource::Issuer(issuer) = source else {
        return Ok(Keys::google(set));
    };
    let served = match issuer.strip_prefix(ISSUER) {
        Some("") => issuer.clone(),
        Some("/liar") => format!("{ISSUER}/other"),
        _ => return Err("404 Not Found".to_owned()),
    };
    assert!(Discovery::address(issuer).ends_with("/.well-known/openid-configuration"));
    let document = everflow_json::json!({"issuer": served, "jwks_uri": format!("{ISSUER}/keys")});
    let discovery = Discovery::read(document.to_string().as_bytes(), issuer)
        .map_err(|error| error.to_string())?;
    Ok(Keys {
        set,
        algorithms: discovery.algorithms,
    })
}

/// Objects that a target stands for, by their names.
fn find(world: &World<'_>, target: &Target) -> Result<Vec<(String, Value)>, ()> {
    let kind = target.kind.as_str();
    match &target.select {
        Select::Name(name) => match world.get(kind, &target.namespace, name) {
            Some(object) if object["apiVersion"] == target.api_version.as_str() => {
                Ok(vec![(name.clone(), object.clone())])
            }
            _ => Err(()),
        },
        Select::Labels(wanted) => {
            let all = world
                .objects
                .iter()
                .filter(|((found, namespace, _), object)| {
                    let labels = object["metadata"]["labels"]
                        .as_object()
                        .cloned()
                        .unwrap_or_default();
                    let labels = labels.iter().map(|(key, value)| {
                        (
                            key.to_string(),
                            value.as_str().unwrap_or_default().to_owned(),
                        )
                    });
                    found == kind
                        && *namespace == target.namespace
                        && selects(wanted, &labels.collect())
                });
            Ok(all
                .map(|((_, _, name), object)| (name.clone(), object.clone()))
                .collect())
        }
    }
}

fn annotate(world: &mut World<'_>, target: &Target, name: &str) {
    let kind = target.kind.as_str();
    let shown = match target.namespace == world.namespace {
        true => format!("{kind}/{name}"),
        false => format!("{kind}/{name}/{}", target.namespace),
    };
    if !world.annotated.contains(&shown) {
        world.annotated.push(shown);
    }
}
