//! Signatures without keys, from the registry to the conditions.

use everflow_controllers::ControllerKind;
use everflow_cosign::testing::{BUNDLE_TYPE, Flaw, ISSUER, SUBJECT, Signing, Sigstore};
use everflow_fetch::testing::{Push, Registry};
use everflow_json::{Value, json};

use super::remotes::{found, ready, scenario};
use super::world::{World, recorded_options};

const PORT: u16 = 9_031;
const OCI: ControllerKind = ControllerKind::OCIRepository;
const CHART: ControllerKind = ControllerKind::HelmChart;

fn packed() -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    let mut header = tar::Header::new_gnu();
    header.set_size(5);
    header.set_mode(0o644);
    archive
        .append_data(&mut header, "a.yaml", &b"a: 1\n"[..])
        .unwrap();
    archive.into_inner().unwrap().finish().unwrap()
}

/// Lets a bundle refer to an artifact.
fn refer(registry: &Registry, repository: &str, digest: &str, bundle: Vec<u8>) {
    let push = Push {
        layers: vec![(BUNDLE_TYPE.to_owned(), bundle)],
        ..Push::default()
    };
    let own = registry.push(repository, &[], &push);
    let index = format!(
        r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"m","size":1,"digest":"{own}","artifactType":"{BUNDLE_TYPE}"}}]}}"#
    );
    let kind = "application/vnd.oci.image.index.v1+json";
    let tag = digest.replace(':', "-");
    registry.put_manifest(repository, &[&tag], kind, index.as_bytes());
}

fn source(name: &str, repository: &str, verify: Value) -> Value {
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
        "metadata": {"name": name},
        "spec": {"interval": "10m", "url": format!("oci://127.0.0.1:{PORT}/{repository}"),
            "insecure": true, "ref": {"tag": "1.0.0"}, "verify": verify},
    })
}

/// The condition `SourceVerified`: status, reason and message.
fn verified(object: &Value) -> (String, String, String) {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    let mut conditions = conditions.iter();
    let condition = conditions.find(|condition| condition["type"] == "SourceVerified");
    let text = |field: &str| condition.unwrap()[field].as_str().unwrap().to_owned();
    (text("status"), text("reason"), text("message"))
}

#[tokio::test(flavor = "current_thread", start_paused = true)]
async fn keyless_signatures_decide_over_repositories_and_charts() {
    let kinds = [OCI, CHART, ControllerKind::HelmRepository];
    let world = World::start(&scenario("keyless"), recorded_options(), &kinds).await;
    let (registry, sigstore) = (Registry::new(), Sigstore::new());
    registry.listen(&world.dialer, "127.0.0.1", PORT);
    let push = Push::content(packed());
    let digest = registry.push("good", &["1.0.0"], &push);
    let signing = Signing::of(&digest);
    refer(&registry, "good", &digest, sigstore.bundle(&signing));
    registry.push("forged", &["1.0.0"], &push);
    let forged = signing.with(Flaw::ForgedPromise);
    refer(&registry, "forged", &digest, sigstore.bundle(&forged));
    registry.push("unsigned", &["1.0.0"], &push);

    for (name, data) in [
        (
            "root",
            json!({"trusted_root.json": sigstore.trusted_root()}),
        ),
        ("empty", json!({"other": "x"})),
        ("broken", json!({"trusted_root.json": "{}"})),
    ] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        world.apply(&secret).await.unwrap();
    }
    let by = |issuer: &str, subject: &str| json!([{"issuer": issuer, "subject": subject}]);
    let root = |name: &str, identities: Value| json!({"provider": "cosign", "matchOIDCIdentity": identities, "trustedRootSecretRef": {"name": name}});
    let team = by(
        r"^https://token\.actions\.githubusercontent\.com$",
        "^https://github.com/team/app/.*",
    );
    for (name, repository, verify) in [
        ("right", "good", root("root", team.clone())),
        ("anybody", "good", root("root", json!([]))),
        (
            "other",
            "good",
            root("root", by(".*", "^https://github.com/other/")),
        ),
        ("malformed", "good", root("root", by("(", ""))),
        ("forged", "forged", root("root", json!([]))),
        ("unsigned", "unsigned", root("root", json!([]))),
        ("absent", "good", root("nowhere", json!([]))),
        ("empty", "good", root("empty", json!([]))),
        ("broken", "good", root("broken", json!([]))),
        ("public", "good", json!({"provider": "cosign"})),
    ] {
        world
            .apply(&source(name, repository, verify))
            .await
            .unwrap();
    }
    for object in [
        json!({"kind": "HelmRepository", "metadata": {"name": "charts"},
            "spec": {"interval": "10m", "type": "oci", "insecure": true, "url": format!("oci://127.0.0.1:{PORT}")}}),
        json!({"kind": "HelmChart", "metadata": {"name": "chart"},
            "spec": {"interval": "10m", "chart": "good", "version": "1.0.0",
                "sourceRef": {"kind": "HelmRepository", "name": "charts"},
                "verify": {"provider": "cosign", "matchOIDCIdentity": team}}}),
    ] {
        let mut object = object;
        object["apiVersion"] = json!("source.toolkit.fluxcd.io/v1");
        world.apply(&object).await.unwrap();
    }
    world.settle().await;

    for name in ["right", "anybody"] {
        let object = found(&world, OCI, name).await;
        assert_eq!(ready(&object).0, "True", "{object:#}");
        let message = format!("verified signature of revision 1.0.0@{digest}");
        let expected = ("True".to_owned(), "Succeeded".to_owned(), message);
        assert_eq!(verified(&object), expected);
    }
    let nobody = format!(
        "no matching attestations: none of the expected identities matched what was in the \
         certificate, got subjects [{SUBJECT}] with issuer {ISSUER}"
    );
    for (kind, name, words) in [
        (OCI, "other", nobody.as_str()),
        (
            OCI,
            "malformed",
            "malformed issuer in identity: ( : error parsing regexp",
        ),
        (OCI, "forged", "SET verification failed"),
        (OCI, "unsigned", "no signatures found"),
        (
            OCI,
            "absent",
            "failed to read trusted root from secret 'keyless/nowhere': secrets \"nowhere\" not found",
        ),
        (
            OCI,
            "empty",
            "failed to read trusted root from secret 'keyless/empty': 'trusted_root.json' not found \
             in secret 'keyless/empty'",
        ),
        (OCI, "broken", "unable to parse trusted root: "),
        // The mirror is out of reach, so the embedded root is used: it knows nothing of this log.
        (OCI, "public", "no matching attestations: "),
        (CHART, "chart", "no matching attestations: "),
    ] {
        let object = found(&world, kind, name).await;
        let (status, reason, message) = verified(&object);
        assert_eq!(
            (status.as_str(), reason.as_str()),
            ("False", "VerificationError"),
            "{name}"
        );
        let start = "failed to verify the signature using provider 'cosign keyless': ";
        assert!(message.starts_with(start), "{name}: {message}");
        assert!(message.contains(words), "{name}: {message}");
        assert_eq!(ready(&object), (status, reason, message), "{name}");
        assert!(object["status"]["artifact"].is_null(), "{name}");
    }
    let logged = world.logged.lock().unwrap().clone();
    assert!(
        logged.contains("failed to refresh the root of trust of Sigstore"),
        "{logged}"
    );
}
