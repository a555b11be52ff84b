//! Against buckets in the same process.

use std::time::Duration;

use everflow_env::MemoryDialer;

use super::*;
use crate::archive::{Algorithm, digest_of};
use crate::testing::{Buckets, Fault};

fn world() -> (Buckets, Env) {
    let dialer = MemoryDialer::new();
    let buckets = Buckets::new();
    buckets.listen(&dialer, "minio", 9000);
    (buckets, Env::simulated(1, dialer))
}

fn deadline(env: &Env) -> Deadline {
    Deadline::after(&env.clock, Duration::from_secs(60))
}

fn remote() -> Remote {
    Remote {
        insecure: true,
        ..Remote::new("minio:9000", "bucket-x")
    }
}

async fn get(env: &Env, remote: Remote, ignore: Option<&str>) -> Result<Fetched, String> {
    let work = async {
        let client = BucketClient::new(env, remote)?;
        let index = client.index(ignore, &deadline(env)).await?;
        client.fetch(index, Algorithm::Sha256, &deadline(env)).await
    };
    work.await.map_err(|error: Error| {
        assert_eq!(error.reason(), "BucketOperationFailed");
        error.to_string()
    })
}

fn names(env: &Env, fetched: &Fetched) -> Vec<String> {
    let bytes = everflow_env::disk::read_all(&*env.disk, &fetched.path(), 1 << 20).unwrap();
    assert_eq!(digest_of(Algorithm::Sha256, &bytes), fetched.digest);
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_bucket_becomes_an_archive() {
    let (buckets, env) = world();
    for key in [
        "b/two.yaml",
        "a b/ü.yaml",
        "dir/",
        "skip.md",
        "other.txt",
        "pic.png",
    ] {
        buckets.put("bucket-x", key, key.as_bytes());
    }
    buckets.put("bucket-x", ".sourceignore", b"*.md\n");
    buckets.set_page(2);
    let fetched = get(&env, remote(), Some("*.txt")).await.unwrap();
    assert_eq!(
        names(&env, &fetched),
        [
            ".",
            ".sourceignore",
            "a b",
            "a b/ü.yaml",
            "b",
            "b/two.yaml",
            "pic.png"
        ]
    );
    let lines: String = ["a b/ü.yaml", "b/two.yaml", "pic.png"]
        .map(|key| format!("{key} {}\n", Buckets::etag(key.as_bytes())))
        .concat();
    assert_eq!(
        fetched.index.revision(Algorithm::Sha256),
        digest_of(Algorithm::Sha256, lines.as_bytes())
    );
    let only = Remote {
        prefix: "b/".to_owned(),
        ..remote()
    };
    let fetched = get(&env, only, None).await.unwrap();
    assert_eq!(
        names(&env, &fetched),
        [".", ".sourceignore", "b", "b/two.yaml"]
    );
    let path = fetched.path();
    drop(fetched);
    assert!(env.disk.open(&path).is_err());
}

#[tokio::test(start_paused = true)]
async fn objects_changed_during_the_fetch_update_the_index() {
    let (buckets, env) = world();
    for key in ["one", "two", "three"] {
        buckets.put("bucket-x", key, key.as_bytes());
    }
    let client = BucketClient::new(&env, remote()).unwrap();
    let index = client.index(None, &deadline(&env)).await.unwrap();
    let before = index.revision(Algorithm::Sha256);
    buckets.remove("bucket-x", "two");
    buckets.put("bucket-x", "three", b"new");
    let fetched = client
        .fetch(index, Algorithm::Sha256, &deadline(&env))
        .await
        .unwrap();
    assert_eq!(names(&env, &fetched), [".", "one", "three"]);
    assert_eq!(fetched.index.objects["three"], Buckets::etag(b"new"));
    assert_ne!(fetched.index.revision(Algorithm::Sha256), before);
}

#[tokio::test(start_paused = true)]
async fn requests_are_signed_and_keys_never_shown() {
    let (buckets, env) = world();
    buckets.put("bucket-x", "one", b"1");
    buckets.require("AKIA");
    let keys = |access: &str| {
        let data = BTreeMap::from([
            ("accesskey".to_owned(), access.as_bytes().to_vec()),
            ("secretkey".to_owned(), b"hunter2".to_vec()),
        ]);
        Remote {
            auth: BucketAuth::from_secret("creds", &data).unwrap(),
            ..remote()
        }
    };
    get(&env, keys("AKIA"), None).await.unwrap();
    let error = get(&env, keys("OTHER"), None).await.unwrap_err();
    assert_eq!(
        error,
        "failed to confirm existence of 'bucket-x' bucket: Access Denied."
    );
    assert!(!format!("{:?}", keys("AKIA")).contains("hunter2"));
    let error = BucketAuth::from_secret("creds", &BTreeMap::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid 'creds' secret data: required fields 'accesskey' and 'secretkey'"
    );
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_from_a_directory() {
    let (buckets, env) = world();
    buckets.put("bucket-x", "one", b"1");
    buckets.require("TEMP");
    let answer = b"<AssumeRoleWithLDAPIdentityResponse><AssumeRoleWithLDAPIdentityResult><Credentials><AccessKeyId>TEMP</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken></Credentials></AssumeRoleWithLDAPIdentityResult></AssumeRoleWithLDAPIdentityResponse>";
    let ldap = || Remote {
        auth: BucketAuth::Ldap(Ldap {
            endpoint: "http://minio:9000/sts".to_owned(),
            username: "me".to_owned(),
            password: "hunter2".into(),
            tls: TlsOptions::default(),
        }),
        ..remote()
    };
    buckets.fault("POST /sts", Fault::Status(200, answer.to_vec()));
    get(&env, ldap(), None).await.unwrap();
    buckets.heal();
    let refused = b"<ErrorResponse><Error><Code>InvalidParameterValue</Code><Message>LDAP server error</Message></Error></ErrorResponse>";
    buckets.fault("POST /sts", Fault::Status(400, refused.to_vec()));
    let error = get(&env, ldap(), None).await.unwrap_err();
    assert_eq!(
        error,
        "failed to confirm existence of 'bucket-x' bucket: LDAP server error"
    );
}

#[tokio::test(start_paused = true)]
async fn bucket_errors_name_the_bucket_and_the_cause() {
    let (buckets, env) = world();
    let error = get(&env, remote(), None).await.unwrap_err();
    assert_eq!(error, "bucket 'bucket-x' not found");
    buckets.put("bucket-x", "one", b"0123456789");
    let listing = "indexation of objects from bucket 'bucket-x' failed: listing objects from bucket 'bucket-x' failed: ";
    for (part, fault, words) in [
        (
            "list-type",
            Fault::Body(b"<html>".to_vec()),
            format!("{listing}the listing is not valid XML: unexpected EOF"),
        ),
        (
            "list-type",
            Fault::Status(403, b"<Error><Code>AccessDenied</Code></Error>".to_vec()),
            format!("{listing}Access Denied."),
        ),
        (
            "list-type",
            Fault::Body(b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken></ListBucketResult>".to_vec()),
            format!("{listing}the server gives the same page again and again"),
        ),
        (
            "HEAD /bucket-x/",
            Fault::Status(500, Vec::new()),
            "failed to confirm existence of 'bucket-x' bucket: 500 Internal Server Error".to_owned(),
        ),
        (
            "/.sourceignore",
            Fault::Status(403, Vec::new()),
            "failed to get Etag for '.sourceignore' object: Access Denied.".to_owned(),
        ),
        (
            "/bucket-x/one",
            Fault::Cut(4),
            "fetch from bucket 'bucket-x' failed: failed to get 'one' object: unexpected EOF".to_owned(),
        ),
        (
            "/bucket-x/one",
            Fault::Hang(4),
            "fetch from bucket 'bucket-x' failed: failed to get 'one' object: context deadline exceeded".to_owned(),
        ),
        (
            "/bucket-x/one",
            Fault::Redirect("http://10.0.0.1/?X-Amz-Signature=hunter2".to_owned()),
            "fetch from bucket 'bucket-x' failed: failed to get 'one' object: ".to_owned(),
        ),
    ] {
        buckets.fault(part, fault);
        let error = get(&env, remote(), None).await.unwrap_err();
        assert!(error.starts_with(&words), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
        buckets.heal();
    }
    let small = Remote {
        total: 5,
        ..remote()
    };
    let error = get(&env, small, None).await.unwrap_err();
    assert!(
        error.ends_with("the download is larger than the limit of 5"),
        "{error}"
    );
    let dead = Remote {
        endpoint: "127.0.0.1:1".to_owned(),
        ..remote()
    };
    let error = get(&env, dead, None).await.unwrap_err();
    assert_eq!(
        error,
        "failed to confirm existence of 'bucket-x' bucket: Get \"http://127.0.0.1:1/bucket-x/?location=\": dial tcp 127.0.0.1:1: connect: connection refused"
    );
    buckets.put("bucket-x", "one/below", b"x");
    let error = get(&env, remote(), None).await.unwrap_err();
    assert!(
        error.ends_with("failed to get 'one/below' object: mkdir one: not a directory"),
        "{error}"
    );
    // A server that stumbles once is asked again.
    buckets.remove("bucket-x", "one/below");
    buckets.fault_once("/bucket-x/one", Fault::Status(503, Vec::new()));
    get(&env, remote(), None).await.unwrap();
}

#[test]
fn unsupported_bucket_providers_are_refused_with_a_clear_error() {
    for provider in ["aws", "gcp", "azure"] {
        let error = unsupported_provider(provider);
        assert_eq!(error.reason(), "AuthenticationFailed");
        assert!(error.to_string().contains("not supported yet"), "{error}");
    }
}
