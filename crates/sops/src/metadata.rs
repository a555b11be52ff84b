//! What SOPS writes beside the values.

use crate::rules::{Expression, Rule};
use crate::tree::Tree;

/// What a data key can be encrypted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecipientKind {
    /// age.
    Age,
    /// PGP.
    Pgp,
    /// AWS KMS.
    AwsKms,
    /// GCP KMS.
    GcpKms,
    /// Azure Key Vault.
    AzureKeyVault,
    /// HashiCorp Vault or OpenBao.
    Vault,
    /// Huawei Cloud KMS.
    HuaweiKms,
}

impl std::fmt::Display for RecipientKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            RecipientKind::Age => "age",
            RecipientKind::Pgp => "PGP",
            RecipientKind::AwsKms => "AWS KMS",
            RecipientKind::GcpKms => "GCP KMS",
            RecipientKind::AzureKeyVault => "Azure Key Vault",
            RecipientKind::Vault => "HashiCorp Vault",
            RecipientKind::HuaweiKms => "Huawei Cloud KMS",
        })
    }
}

/// The data key, encrypted for one recipient.
#[derive(Clone, Debug)]
pub struct Recipient {
    pub kind: RecipientKind,
    pub name: String,
    pub encrypted_key: String,
}

/// The metadata of a file.
#[derive(Debug)]
pub struct Metadata {
    /// Each group has one part of the data key, or all of it when there is one group only.
    pub groups: Vec<Vec<Recipient>>,
    /// How many groups are needed.
    pub threshold: usize,
    pub last_modified: String,
    pub mac: String,
    pub mac_only_encrypted: bool,
    pub rule: Rule,
}

/// How many recipients a file may have: each that is tried costs a private operation.
const MAX_RECIPIENTS: usize = 256;

const DEFAULT_SUFFIX: &str = "_unencrypted";

impl Metadata {
    /// Reads the tree under `sops`.
    pub fn read(tree: &Tree) -> Result<Metadata, String> {
        let last_modified = text(tree, "lastmodified");
        if last_modified.is_empty() {
            return Err("sops.lastmodified is missing".to_owned());
        }
        Ok(Metadata {
            groups: groups(tree)?,
            threshold: text(tree, "shamir_threshold").parse().unwrap_or(0),
            last_modified,
            mac: text(tree, "mac"),
            mac_only_encrypted: text(tree, "mac_only_encrypted") == "true",
            rule: rule(tree)?,
        })
    }
}

fn text(tree: &Tree, key: &str) -> String {
    tree.get(key).and_then(Tree::scalar).unwrap_or_default()
}

fn rule(tree: &Tree) -> Result<Rule, String> {
    type Make = fn(&str) -> Rule;
    let makers: [(&str, Make); 6] = [
        ("unencrypted_suffix", |text| {
            Rule::UnencryptedSuffix(text.to_owned())
        }),
        ("encrypted_suffix", |text| {
            Rule::EncryptedSuffix(text.to_owned())
        }),
        ("unencrypted_regex", |text| {
            Rule::UnencryptedRegex(Expression::new(text))
        }),
        ("encrypted_regex", |text| {
            Rule::EncryptedRegex(Expression::new(text))
        }),
        ("unencrypted_comment_regex", |text| {
            Rule::UnencryptedComment(Expression::new(text))
        }),
        ("encrypted_comment_regex", |text| {
            Rule::EncryptedComment(Expression::new(text))
        }),
    ];
    let mut rules = makers.iter().filter_map(|(key, make)| {
        let text = text(tree, key);
        (!text.is_empty()).then(|| make(&text))
    });
    match (rules.next(), rules.next()) {
        (None, _) => Ok(Rule::UnencryptedSuffix(DEFAULT_SUFFIX.to_owned())),
        (Some(rule), None) => Ok(rule),
        (Some(_), Some(_)) => Err(
            "Cannot use more than one of encrypted_suffix, unencrypted_suffix, encrypted_regex, \
             unencrypted_regex, encrypted_comment_regex, or unencrypted_comment_regex in the same \
             file"
                .to_owned(),
        ),
    }
}

fn groups(tree: &Tree) -> Result<Vec<Vec<Recipient>>, String> {
    let own = recipients(tree);
    let groups: Vec<_> = match own.is_empty() {
        true => tree
            .get("key_groups")
            .into_iter()
            .flat_map(Tree::items)
            .map(recipients)
            .collect(),
        false => vec![own],
    };
    let count: usize = groups.iter().map(|group| group.len().max(1)).sum();
    match count {
        0 => Err("No keys found in file".to_owned()),
        1..=MAX_RECIPIENTS => Ok(groups),
        _ => Err(format!(
            "sops has {count} recipients, more than {MAX_RECIPIENTS}: encrypt the file for fewer"
        )),
    }
}

/// The recipients of a group, those that can be tried first.
fn recipients(group: &Tree) -> Vec<Recipient> {
    type Name = fn(&Tree) -> String;
    let kinds: [(&str, RecipientKind, Name); 7] = [
        ("age", RecipientKind::Age, |key| text(key, "recipient")),
        ("pgp", RecipientKind::Pgp, |key| text(key, "fp")),
        ("kms", RecipientKind::AwsKms, |key| text(key, "arn")),
        ("gcp_kms", RecipientKind::GcpKms, |key| {
            text(key, "resource_id")
        }),
        ("hckms", RecipientKind::HuaweiKms, |key| text(key, "key_id")),
        ("azure_kv", RecipientKind::AzureKeyVault, |key| {
            let (url, name) = (text(key, "vault_url"), text(key, "name"));
            format!("{url}/keys/{name}/{}", text(key, "version"))
        }),
        ("hc_vault", RecipientKind::Vault, |key| {
            let (address, engine) = (text(key, "vault_address"), text(key, "engine_path"));
            format!("{address}/v1/{engine}/keys/{}", text(key, "key_name"))
        }),
    ];
    let mut recipients = Vec::new();
    for (field, kind, name) in kinds {
        for key in group.get(field).into_iter().flat_map(Tree::items) {
            recipients.push(Recipient {
                kind,
                name: name(key),
                encrypted_key: text(key, "enc"),
            });
        }
    }
    recipients
}
