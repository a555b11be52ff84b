//! The credentials of the registry, from `--registry-creds`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use everflow_install::Options;
use everflow_json::{Value, json};

use crate::exit::Failure;

/// The Secret for `--registry-creds USER:PASSWORD`; `None` when it was not given.
pub fn pull_secret(options: &Options, credentials: &str) -> Result<Option<Value>, Failure> {
    if credentials.is_empty() {
        return Ok(None);
    }
    if options.image_pull_secret.is_empty() {
        let text = "--registry-creds requires --image-pull-secret to be set";
        return Err(Failure::Work(text.to_owned()));
    }
    let Some((user, password)) = credentials.split_once(':') else {
        let text = "--registry-creds: write it as USER:PASSWORD";
        return Err(Failure::Work(text.to_owned()));
    };
    let image = options.image();
    let server = image.split('/').next().unwrap_or_default();
    let auth = STANDARD.encode(credentials);
    let config = json!({"auths": {server: {"username": user, "password": password, "auth": auth}}});
    Ok(Some(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": options.image_pull_secret, "namespace": options.namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": config.to_string()},
    })))
}
