//! Every reader of foreign bytes behind one kind of function, for tests with random input.

use everflow_env::{Env, MemoryDialer};

use crate::Url;
use crate::archive::ignore::{Ignore, read_patterns};
use crate::archive::unpack::plain_path;
use crate::archive::{Algorithm, digest_of};
use crate::bucket::answer;
use crate::docker_config::DockerConfig;
use crate::helm::{normalize_url, resolve_chart_url};
use crate::oci::Repository;
use crate::oci::challenge::Challenge;
use crate::oci::manifest::Document;

/// A reader, by name: whether it takes an input. What it makes of it is dropped.
pub type Parser = (&'static str, fn(&[u8]) -> bool);

/// All of them.
pub const ALL: [Parser; 10] = [
    ("sourceignore", ignore),
    ("manifest", manifest),
    ("challenge", challenge),
    ("listing", listing),
    ("refusal", refusal),
    ("docker config", docker_config),
    ("chart address", chart_address),
    ("certificates", certificates),
    ("address", address),
    ("archive path", archive_path),
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ignore(bytes: &[u8]) -> bool {
    let lines = text(bytes);
    let ignore = Ignore::with_defaults(read_patterns(&lines, &["a".to_owned()]));
    let last = lines.lines().last().unwrap_or_default();
    for path in ["a/b/c.yaml", "a/", "", &format!("a/{last}")] {
        let _ = ignore.leaves_out(path, false);
        let _ = ignore.leaves_out(path, true);
    }
    true
}

fn manifest(bytes: &[u8]) -> bool {
    let digest = digest_of(Algorithm::Sha256, bytes);
    let mut taken = false;
    for kind in ["", "application/vnd.oci.image.index.v1+json"] {
        let document = Document::parse(bytes, kind, digest.clone());
        taken |= document.is_ok();
        if let Ok(Document::Index(index)) = document {
            let _ = crate::oci::manifest::pick(&index);
        }
    }
    taken
}

fn challenge(bytes: &[u8]) -> bool {
    Challenge::parse(&text(bytes)).is_some_and(|one| !one.parameters.is_empty())
}

fn listing(bytes: &[u8]) -> bool {
    let _ = answer::page(&text(bytes), true);
    answer::page(&text(bytes), false).is_ok()
}

fn refusal(bytes: &[u8]) -> bool {
    answer::element(&text(bytes), "EncodingType").is_some()
}

fn docker_config(bytes: &[u8]) -> bool {
    let mut config = DockerConfig::new();
    let taken = config.add(bytes).is_ok();
    if let Ok(repository) = Repository::parse("oci://registry.example/team/app") {
        let _ = config.auth_for(&repository);
    }
    taken
}

fn chart_address(bytes: &[u8]) -> bool {
    let reference = text(bytes);
    let _ = normalize_url(&reference);
    let base = Url::parse("https://host/charts?x=1");
    base.is_ok_and(|base| resolve_chart_url(&base, &reference).is_ok())
}

fn certificates(bytes: &[u8]) -> bool {
    let _ = everflow_connect::certificates(bytes, everflow_connect::Unusable::Authority);
    let options = crate::http::TlsOptions {
        ca: Some(bytes.to_vec()),
        client: Some((bytes.to_vec(), bytes.to_vec().into())),
        ..Default::default()
    };
    let env = Env::simulated(1, MemoryDialer::new());
    everflow_connect::configure(&options, &env.clock, &[everflow_connect::HTTP]).is_ok()
}

fn address(bytes: &[u8]) -> bool {
    let address = text(bytes);
    let _ = Repository::parse(&address);
    let url = Url::parse(&address);
    if let Ok(url) = &url {
        let _ = (url.to_string(), url.target(), url.origin());
        let _ = url.join("../x?y");
        let _ = crate::http::is_private(&url.host);
    }
    url.is_ok()
}

fn archive_path(bytes: &[u8]) -> bool {
    plain_path(bytes)
        .is_ok_and(|path| !path.starts_with('/') && !path.split('/').any(|part| part == ".."))
}
