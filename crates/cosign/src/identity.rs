//! Who may have signed without a key, and who did.

use everflow_schema::structural::{Pattern, Patterns};
use sigstore_verify::types::DerCertificate;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::{ObjectIdentifier, Utf8StringRef};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use crate::Error;

/// The name that Fulcio gives to identities that are neither addresses nor URIs.
const OTHER_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.57264.1.7");

#[derive(Debug, Clone)]
struct Rule {
    issuer: Option<Pattern>,
    subject: Option<Pattern>,
}

/// Rules of which one must match. Without rules everybody matches, as in cosign.
#[derive(Debug, Clone, Default)]
pub struct Identities(Vec<Rule>);

/// Who signed, by a certificate that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signer {
    /// Who vouched for them, empty when nobody is named.
    pub issuer: String,
    /// All their names.
    pub subjects: Vec<String>,
}

/// What the compiled rules may take, in bytes.
const PATTERNS: usize = 8 << 20;

fn pattern(
    what: &'static str,
    text: &str,
    patterns: &mut Patterns,
) -> Result<Option<Pattern>, Error> {
    if text.is_empty() {
        return Ok(None);
    }
    let compiled = patterns.compile(text).map_err(|error| Error::Rule {
        what,
        pattern: text.to_owned(),
        why: error.to_string(),
    })?;
    Ok(Some(compiled))
}

impl Identities {
    /// Compiles pairs of issuer and subject. Both are regular expressions of Go that may match
    /// anywhere in the text; an empty one matches everything.
    pub fn new<'a>(rules: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, Error> {
        let mut patterns = Patterns::within(PATTERNS);
        let rules = rules.into_iter().map(|(issuer, subject)| {
            Ok(Rule {
                issuer: pattern("issuer", issuer, &mut patterns)?,
                subject: pattern("subject", subject, &mut patterns)?,
            })
        });
        Ok(Identities(rules.collect::<Result<_, Error>>()?))
    }

    /// Whether the signer is one of those who may have signed.
    pub(crate) fn check(&self, signer: &Signer) -> Result<(), Error> {
        let matches = |rule: &Rule| {
            let issuer = rule.issuer.as_ref();
            let subject = rule.subject.as_ref();
            issuer.is_none_or(|pattern| pattern.is_match(&signer.issuer))
                && subject
                    .is_none_or(|pattern| signer.subjects.iter().any(|name| pattern.is_match(name)))
        };
        if self.0.is_empty() || self.0.iter().any(matches) {
            return Ok(());
        }
        Err(Error::Identity {
            subjects: signer.subjects.join(", "),
            issuer: signer.issuer.clone(),
        })
    }
}

/// All names that a certificate gives to its owner.
pub(crate) fn subjects(certificate: &DerCertificate) -> Result<Vec<String>, Error> {
    let unreadable =
        |error: x509_cert::der::Error| Error::Malformed(format!("unreadable certificate: {error}"));
    let certificate = Certificate::from_der(certificate.as_bytes()).map_err(unreadable)?;
    let names = certificate.tbs_certificate.get::<SubjectAltName>();
    let Some((_, names)) = names.map_err(unreadable)? else {
        return Ok(Vec::new());
    };
    let text = |name: &GeneralName| match name {
        GeneralName::Rfc822Name(name) => Some(name.to_string()),
        GeneralName::UniformResourceIdentifier(name) => Some(name.to_string()),
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::OtherName(name) if name.type_id == OTHER_NAME => {
            let text = name.value.decode_as::<Utf8StringRef<'_>>().ok()?;
            Some(text.as_str().to_owned())
        }
        _ => None,
    };
    Ok(names.0.iter().filter_map(text).collect())
}
