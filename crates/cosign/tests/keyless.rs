//! Signatures without keys, against a Sigstore in the test and against real ones.

#![allow(clippy::unwrap_used)]

use everflow_cosign::testing::{Flaw, ISSUER, SUBJECT, Signing, Sigstore};
use everflow_cosign::{
    Error, Identities, MAX_BUNDLE_BYTES, Signature, TrustRoot, verify_keyed, verify_keyless,
};
use everflow_limits::{Budget, Stop};

const DIGEST: &str = "sha256:5feceb66ffc86f38d952786c6d696c79c2dbc239dd4e91b46729d73a27fb57e9";
const OTHER: &str = "sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";

fn rules(rules: &[(&str, &str)]) -> Identities {
    Identities::new(rules.iter().copied()).unwrap()
}

/// What comes of the signature of an artifact for whom the rules allow.
fn outcome(
    sigstore: &Sigstore,
    signature: &Signature,
    digest: &str,
    identities: &Identities,
) -> Result<Vec<String>, String> {
    let root = TrustRoot::from_json(sigstore.trusted_root().as_bytes()).unwrap();
    verify_keyless(signature, digest, &root, identities, &Budget::unlimited())
        .map(|signer| [vec![signer.issuer], signer.subjects].concat())
        .map_err(|error| error.to_string())
}

#[test]
fn good_signatures_of_both_forms_are_verified() {
    let sigstore = Sigstore::new();
    for signature in sigstore.both(&Signing::of(DIGEST)) {
        for identities in [
            rules(&[]),
            rules(&[("", "")]),
            rules(&[("^https://token.actions.githubusercontent.com$", "team/app/")]),
            rules(&[("nobody", "nobody"), (r"^https://token\.actions\..*$", "")]),
        ] {
            let signer = outcome(&sigstore, &signature, DIGEST, &identities).unwrap();
            assert_eq!(signer, [ISSUER, SUBJECT]);
        }
    }
}

#[test]
fn another_issuer_or_subject_is_refused() {
    let sigstore = Sigstore::new();
    for signature in sigstore.both(&Signing::of(DIGEST)) {
        for identities in [
            rules(&[("^https://accounts.google.com$", ".*")]),
            rules(&[(".*", "^https://github.com/team/other/")]),
            // Each half matches, but not in one rule.
            rules(&[(ISSUER, "nobody"), ("nobody", "team/app")]),
        ] {
            let error = outcome(&sigstore, &signature, DIGEST, &identities).unwrap_err();
            assert_eq!(
                error,
                format!(
                    "none of the expected identities matched what was in the certificate, got subjects [{SUBJECT}] with issuer {ISSUER}"
                )
            );
        }
    }
}

#[test]
fn rules_that_are_no_expressions_are_refused() {
    let error = Identities::new([("ok", "ok"), ("(", "")]).unwrap_err();
    assert!(
        matches!(error, Error::Rule { what: "issuer", .. }),
        "{error}"
    );
    assert_eq!(
        error.to_string(),
        "malformed issuer in identity: ( : error parsing regexp: missing closing ): `(`"
    );
}

#[test]
fn a_signature_of_another_artifact_is_refused() {
    let sigstore = Sigstore::new();
    for signature in sigstore.both(&Signing::of(OTHER)) {
        outcome(&sigstore, &signature, OTHER, &rules(&[])).unwrap();
        outcome(&sigstore, &signature, DIGEST, &rules(&[])).unwrap_err();
    }
}

#[test]
fn each_flaw_is_refused_for_its_own_reason() {
    let sigstore = Sigstore::new();
    for (flaw, bundle, layer) in [
        (Flaw::NoSct, "missing SCT", "missing SCT"),
        (Flaw::ForgedSct, "SCT", "SCT"),
        (
            Flaw::ForgedPromise,
            "SET verification failed",
            "SET verification failed",
        ),
        (
            Flaw::NoPromise,
            "No verified timestamp",
            "no entry of a transparency log",
        ),
        (Flaw::ForgedProof, "inclusion proof", ""),
        (Flaw::Late, "expired", "expired"),
        (
            Flaw::ForgedSignature,
            "signature verification failed",
            "signature verification failed",
        ),
        (Flaw::ForeignEntry, "hash mismatch", "hash mismatch"),
        (Flaw::NotForCode, "certificate chain", "certificate chain"),
    ] {
        let signatures = sigstore.both(&Signing::of(DIGEST).with(flaw));
        for (signature, words) in signatures.iter().zip([bundle, layer]) {
            let outcome = outcome(&sigstore, signature, DIGEST, &rules(&[]));
            if words.is_empty() {
                // The older form has no proof that could be forged.
                outcome.unwrap();
                continue;
            }
            let error = outcome.unwrap_err().to_lowercase();
            assert!(error.contains(&words.to_lowercase()), "{flaw:?}: {error}");
        }
    }
}

#[test]
fn signatures_of_another_sigstore_are_refused() {
    let (own, foreign) = (Sigstore::new(), Sigstore::new());
    for signature in foreign.both(&Signing::of(DIGEST)) {
        outcome(&foreign, &signature, DIGEST, &rules(&[])).unwrap();
        outcome(&own, &signature, DIGEST, &rules(&[])).unwrap_err();
    }
}

#[test]
fn a_layer_without_certificate_or_with_too_many_is_refused() {
    let sigstore = Sigstore::new();
    let good = sigstore.layer(&Signing::of(DIGEST));
    let mut without = good.clone();
    without.certificate.clear();
    let mut many = good.clone();
    many.chain = good.chain.repeat(17);
    let mut two = good.clone();
    two.certificate = good.certificate.repeat(2);
    for (layer, words) in [
        (without, "no certificate found on signature"),
        (many, "more than 16 certificates found on signature"),
        (two, "more than one certificate found on signature"),
    ] {
        let signature = Signature::Layer(Box::new(layer));
        let error = outcome(&sigstore, &signature, DIGEST, &rules(&[])).unwrap_err();
        assert_eq!(error, words);
    }
}

#[test]
fn too_large_and_too_many_are_refused() {
    let sigstore = Sigstore::new();
    let large = Signature::Bundle(vec![b' '; MAX_BUNDLE_BYTES + 1]);
    let error = outcome(&sigstore, &large, DIGEST, &rules(&[])).unwrap_err();
    assert!(error.contains("at most 10485760 are read"), "{error}");
    let bundle = String::from_utf8(sigstore.bundle(&Signing::of(DIGEST))).unwrap();
    let start = bundle.find(r#""tlogEntries":["#).unwrap() + r#""tlogEntries":["#.len();
    let end = bundle.find("]},\"dsseEnvelope").unwrap();
    let entries = vec![&bundle[start..end]; 17].join(",");
    let many = format!("{}{entries}{}", &bundle[..start], &bundle[end..]);
    let many = Signature::Bundle(many.into_bytes());
    let error = outcome(&sigstore, &many, DIGEST, &rules(&[])).unwrap_err();
    assert!(error.contains("17 log entries, at most 16"), "{error}");
}

#[test]
fn work_that_was_stopped_ends() {
    let sigstore = Sigstore::new();
    let root = TrustRoot::from_json(sigstore.trusted_root().as_bytes()).unwrap();
    let stop = Stop::new();
    stop.raise();
    let budget = Budget::new(stop, u64::MAX);
    let signature = Signature::Bundle(sigstore.bundle(&Signing::of(DIGEST)));
    let error = verify_keyless(&signature, DIGEST, &root, &rules(&[]), &budget).unwrap_err();
    assert!(matches!(error, Error::Limit(_)), "{error}");
}

#[test]
fn small_values_that_grow_in_memory_are_charged_and_given_back() {
    let sigstore = Sigstore::new();
    let root = TrustRoot::from_json(sigstore.trusted_root().as_bytes()).unwrap();
    let budget = Budget::new(Stop::new(), 4 << 20);
    let good = sigstore.bundle(&Signing::of(DIGEST));
    let mut padded = format!(r#"{{"padding":[0{}],"#, ",0".repeat(100_000)).into_bytes();
    padded.extend_from_slice(&good[1..]);
    let padded = Signature::Bundle(padded);
    let error = verify_keyless(&padded, DIGEST, &root, &rules(&[]), &budget).unwrap_err();
    assert!(matches!(error, Error::Limit(_)), "{error}");
    verify_keyed(&padded, DIGEST, &[], &budget).unwrap_err();
    verify_keyless(&padded, DIGEST, &root, &rules(&[]), &Budget::unlimited()).unwrap();
    for _ in 0..100 {
        let good = Signature::Bundle(good.clone());
        verify_keyless(&good, DIGEST, &root, &rules(&[]), &budget).unwrap();
    }
    assert_eq!(budget.used(), 0);
}

/// Made on GitHub for the tests of others (Apache-2.0): the one is in the log of the public instance of Sigstore,
/// the other in the newer log of its staging instance.
#[test]
fn real_bundles_of_both_logs_are_verified() {
    let staging = sigstore_verify::trust_root::SIGSTORE_STAGING_TRUSTED_ROOT;
    let staging = TrustRoot::from_json(staging.as_bytes()).unwrap();
    let embedded = TrustRoot::embedded().unwrap();
    let budget = Budget::unlimited();
    let real = [
        (
            &include_bytes!("data/rekor-v1.json")[..],
            "sha256:54303491a8418fbed24344b513546182c29b43bf282ceb433af65e2299f9271f",
            &embedded,
            &staging,
        ),
        (
            &include_bytes!("data/rekor-v2.json")[..],
            "sha256:a0cfc71271d6e278e57cd332ff957c3f7043fdda354c4cbb190a30d56efa01bf",
            &staging,
            &embedded,
        ),
    ];
    for (bundle, digest, root, other) in real {
        let signature = Signature::Bundle(bundle.to_vec());
        let good = rules(&[(
            r"^https://token\.actions\.githubusercontent\.com$",
            r"^https://github\.com/",
        )]);
        let signer = verify_keyless(&signature, digest, root, &good, &budget).unwrap();
        assert_eq!(signer.issuer, ISSUER);
        let wrong = rules(&[("", "^somebody@example.com$")]);
        verify_keyless(&signature, digest, root, &wrong, &budget).unwrap_err();
        verify_keyless(&signature, DIGEST, root, &good, &budget).unwrap_err();
        verify_keyless(&signature, digest, other, &good, &budget).unwrap_err();
    }
}
