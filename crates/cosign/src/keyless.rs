//! Signatures by certificates that were valid for some minutes, proven by logs.

use everflow_limits::Budget;
use sigstore_verify::VerificationPolicy;
use sigstore_verify::types::bundle::VerificationMaterialContent;
use sigstore_verify::types::{
    Artifact, ArtifactDigest, Bundle, DigestBytes, HashAlgorithm, SignatureContent,
};

use crate::cost::Charge;
use crate::statement::names_digest;
use crate::{
    Error, Identities, MAX_BUNDLE_BYTES, MAX_PAYLOAD_BYTES, MAX_PROOFS, Signature, Signer,
    TrustRoot, identity,
};

/// Checks that somebody who may do so signed the artifact with the digest (`sha256:HEX`).
///
/// The certificate of the signer leads to the root, was in a certificate log, and was valid at each
/// time that a log or a timestamp authority vouches for; the entry of the log is about this very
/// signature. Bundles prove that the log holds the entry, older signatures show the promise of the
/// log, as cosign asks of each.
pub fn verify_keyless(
    signature: &Signature,
    digest: &str,
    root: &TrustRoot,
    identities: &Identities,
    budget: &Budget,
) -> Result<Signer, Error> {
    budget.check()?;
    let policy = VerificationPolicy::any_identity();
    let (bundle, result) = match signature {
        Signature::Bundle(bytes) => {
            bounded("bundle", bytes.len(), MAX_BUNDLE_BYTES)?;
            let _text = Charge::for_texts(budget, &[bytes])?;
            let bundle = read(bytes)?;
            let _inner = Charge::for_texts(budget, &inner_texts(&bundle))?;
            let artifact = artifact(digest)?;
            let result = root.0.verify(artifact, &bundle, &policy);
            (bundle, result)
        }
        Signature::Layer(layer) => {
            bounded("payload", layer.payload.len(), MAX_PAYLOAD_BYTES)?;
            let texts = [layer.payload.as_slice(), layer.bundle.as_bytes()];
            let _texts = Charge::for_texts(budget, &texts)?;
            if !names_digest(&layer.payload, digest) {
                return Err(Error::Unverified(format!(
                    "the signature is not of '{digest}'"
                )));
            }
            let bundle = layer.to_bundle()?;
            // There is no proof in these, so none can be asked for; the promise is checked before
            // the time it vouches for is used, and without such a time nothing is verified.
            let policy = policy.skip_tlog_unsafe();
            let result = root.0.verify(layer.payload.as_slice(), &bundle, &policy);
            (bundle, result)
        }
    };
    let result = result.map_err(|error| Error::Unverified(error.to_string()))?;
    let proven = result.certificate_verified()
        && result.sct_verified()
        && !result.verified_timestamps().is_empty()
        && !bundle.verification_material.tlog_entries.is_empty();
    let certificate = bundle.signing_certificate().filter(|_| proven);
    let Some(certificate) = certificate else {
        return Err(Error::Unverified(
            "the signature is not proven by a log".to_owned(),
        ));
    };
    let signer = Signer {
        issuer: result.issuer().unwrap_or_default().to_owned(),
        subjects: identity::subjects(certificate)?,
    };
    identities.check(&signer)?;
    Ok(signer)
}

fn bounded(what: &str, size: usize, most: usize) -> Result<(), Error> {
    if size <= most {
        return Ok(());
    }
    Err(Error::Malformed(format!(
        "the {what} of the signature has {size} bytes, at most {most} are read"
    )))
}

/// Reads a bundle and counts what would be verified one by one.
fn read(bytes: &[u8]) -> Result<Bundle, Error> {
    let unreadable = |why: String| Error::Malformed(format!("unreadable bundle: {why}"));
    let text = std::str::from_utf8(bytes).map_err(|error| unreadable(error.to_string()))?;
    let bundle = Bundle::from_json(text).map_err(|error| unreadable(error.to_string()))?;
    let material = &bundle.verification_material;
    let certificates = match &material.content {
        VerificationMaterialContent::X509CertificateChain { certificates } => certificates.len(),
        _ => 1,
    };
    let timestamps = &material.timestamp_verification_data.rfc3161_timestamps;
    let counts = [
        ("log entries", material.tlog_entries.len()),
        ("timestamps", timestamps.len()),
        ("certificates", certificates),
    ];
    for (what, count) in counts {
        if count > MAX_PROOFS {
            return Err(unreadable(format!(
                "it has {count} {what}, at most {MAX_PROOFS} are looked at"
            )));
        }
    }
    Ok(bundle)
}

/// The texts within a bundle that are read in their turn.
fn inner_texts(bundle: &Bundle) -> Vec<&[u8]> {
    let entries = bundle.verification_material.tlog_entries.iter();
    let mut texts: Vec<&[u8]> = entries
        .map(|entry| entry.canonicalized_body.as_bytes())
        .collect();
    if let SignatureContent::DsseEnvelope(envelope) = &bundle.content {
        texts.push(envelope.payload.as_bytes());
    }
    texts
}

/// The artifact as those who verify name it.
fn artifact(digest: &str) -> Result<Artifact<'static>, Error> {
    let unknown = || Error::Unverified(format!("signatures of '{digest}' cannot be verified"));
    let (algorithm, hex) = digest.split_once(':').ok_or_else(unknown)?;
    let algorithm = match algorithm {
        "sha256" => HashAlgorithm::Sha2256,
        "sha384" => HashAlgorithm::Sha2384,
        "sha512" => HashAlgorithm::Sha2512,
        _ => return Err(unknown()),
    };
    let value = DigestBytes::from_hex(hex).map_err(|_| unknown())?;
    let digest = ArtifactDigest::new(algorithm, value).map_err(|_| unknown())?;
    Ok(digest.into())
}
