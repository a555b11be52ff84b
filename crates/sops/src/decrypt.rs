//! Decrypting whole files.

use everflow_json::Value;
use everflow_limits::Budget;
use everflow_yaml::cost;
use sha2::{Digest, Sha512};

use crate::cipher::{self, Plain};
use crate::data_key;
use crate::error::Error;
use crate::format::Format;
use crate::keys::Keys;
use crate::metadata::Metadata;
use crate::stores::{self, Loaded};
use crate::tree::{Comment, Entry, Item, Tree};

/// What a code over encrypted values only begins with, so that it cannot be taken for one over all:
/// the SHA-256 of `sops`.
const ONLY_ENCRYPTED: [u8; 32] = [
    0x8a, 0x3f, 0xd2, 0xad, 0x54, 0xce, 0x66, 0x52, 0x7b, 0x10, 0x34, 0xf3, 0xd1, 0x47, 0xbe, 0x0b,
    0x0b, 0x97, 0x5b, 0x3b, 0xf4, 0x4f, 0x72, 0xc6, 0xfd, 0xad, 0xec, 0x81, 0x76, 0xf2, 0x7d, 0x69,
];

/// Decrypts a file and checks that it is as SOPS left it.
///
/// # Errors
/// When it cannot be read or decrypted, was changed, or cannot be written as asked.
pub fn decrypt(
    content: &[u8],
    input: Format,
    output: Format,
    keys: &Keys,
    budget: &Budget,
) -> Result<Vec<u8>, Error> {
    let load = |problem| Error::Load {
        format: input.name(),
        problem,
    };
    let lines = content.iter().filter(|byte| **byte == b'\n').count();
    let mut held = budget.hold(TREES * (cost::of_reading(content) + lines * size_of::<Entry>()))?;
    let loaded = stores::load(content, input, &mut held);
    let mut loaded = loaded.map_err(|fault| fault.or(load))?;
    let metadata = Metadata::read(&loaded.metadata).map_err(load)?;
    let key = data_key::find(&metadata, keys, budget)?;
    let computed = decrypt_documents(&mut loaded, &metadata, &key, budget)?;
    check_integrity(&metadata, &key, &computed)?;
    held.grow(stores::printed(&loaded, output))?;
    stores::emit(&loaded, output).map_err(|problem| Error::Emit {
        input: input.name(),
        output: output.name(),
        problem,
    })
}

/// How many trees of a file there are at once: as it is read, decrypted, and as it is written.
const TREES: usize = 3;

/// Decrypts an object that carries SOPS metadata, and takes the metadata off. Whether it is as SOPS
/// left it cannot be told: order and values beside the encrypted ones may be others by now.
///
/// # Errors
/// When it cannot be decrypted.
pub fn decrypt_value(object: &Value, keys: &Keys, budget: &Budget) -> Result<Value, Error> {
    let _held = budget.hold(TREES * cost::of_json(object))?;
    let load = |problem| Error::Load {
        format: Format::Json.name(),
        problem,
    };
    let documents = vec![Tree::of_json(object)];
    let mut loaded = stores::split_metadata(documents).map_err(load)?;
    let metadata = Metadata::read(&loaded.metadata).map_err(load)?;
    let key = data_key::find(&metadata, keys, budget)?;
    decrypt_documents(&mut loaded, &metadata, &key, budget)?;
    Ok(loaded
        .documents
        .first()
        .map(Tree::to_json)
        .unwrap_or_default())
}

fn check_integrity(metadata: &Metadata, key: &[u8], computed: &str) -> Result<(), Error> {
    let stored = match cipher::decrypt(&metadata.mac, key, &metadata.last_modified) {
        Ok(Plain::Value(Tree::Text(mac))) => mac,
        Ok(_) => String::new(),
        Err(problem) => return Err(Error::Integrity { problem }),
    };
    if stored == computed {
        return Ok(());
    }
    let stored = if stored.is_empty() { "no MAC" } else { &stored };
    Err(Error::Integrity {
        problem: format!("expected mac '{stored}', got '{computed}'"),
    })
}

/// Decrypts in place and gives the authentication code of what came out.
fn decrypt_documents(
    loaded: &mut Loaded,
    metadata: &Metadata,
    key: &[u8],
    budget: &Budget,
) -> Result<String, Error> {
    let mut walk = Walk {
        budget,
        metadata,
        key,
        hash: Sha512::new(),
        path: Vec::new(),
        fitting_keys: 0,
        fitting_comments: Vec::new(),
        comments_in_sight: 0,
    };
    if metadata.mac_only_encrypted {
        walk.hash.update(ONLY_ENCRYPTED);
    }
    for document in &mut loaded.documents {
        walk.value(document)?;
    }
    let code = walk.hash.finalize();
    Ok(code.iter().map(|byte| format!("{byte:02X}")).collect())
}

/// A walk over all leaves in order. How deep it can go is bounded by the readers.
struct Walk<'a> {
    budget: &'a Budget,
    metadata: &'a Metadata,
    key: &'a [u8],
    hash: Sha512,
    path: Vec<String>,
    /// How many keys of the path fit the rule.
    fitting_keys: usize,
    /// How many comments fit the rule: before the value, and before each thing it is in.
    fitting_comments: Vec<usize>,
    /// The sum of these.
    comments_in_sight: usize,
}

impl Walk<'_> {
    /// Decrypts a value. In lists encrypted comments stand as values: then it is the comment.
    fn value(&mut self, tree: &mut Tree) -> Result<Option<Comment>, Error> {
        self.budget.check()?;
        match tree {
            Tree::Null => Ok(None),
            Tree::List(items) => self.list(items).map(|()| None),
            Tree::Map(entries) => self.map(entries).map(|()| None),
            leaf => self.leaf(leaf),
        }
    }

    fn list(&mut self, items: &mut [Item]) -> Result<(), Error> {
        self.fitting_comments.push(0);
        for item in items {
            match item {
                Item::Comment(comment) => self.comment(comment),
                Item::Value(value) => {
                    if let Some(comment) = self.value(value)? {
                        *item = Item::Comment(comment);
                    }
                    self.forget_comments();
                }
            }
        }
        self.forget_comments();
        self.fitting_comments.pop();
        Ok(())
    }

    fn map(&mut self, entries: &mut [Entry]) -> Result<(), Error> {
        self.fitting_comments.push(0);
        for entry in entries {
            match entry {
                Entry::Comment(comment) => self.comment(comment),
                Entry::Pair(key, value) => {
                    let fits = usize::from(self.metadata.rule.fits_key(key));
                    self.path.push(key.clone());
                    self.fitting_keys += fits;
                    self.value(value)?;
                    self.fitting_keys -= fits;
                    self.path.pop();
                    self.forget_comments();
                }
            }
        }
        self.forget_comments();
        self.fitting_comments.pop();
        Ok(())
    }

    fn forget_comments(&mut self) {
        if let Some(last) = self.fitting_comments.last_mut() {
            self.comments_in_sight -= std::mem::take(last);
        }
    }

    fn place(&self) -> String {
        format!("{}:", self.path.join(":"))
    }

    /// A comment that cannot be decrypted never was encrypted: old versions did not.
    fn comment(&mut self, comment: &mut Comment) {
        let rule = &self.metadata.rule;
        let fits = usize::from(rule.fits_comment(&comment.text));
        if let Some(last) = self.fitting_comments.last_mut() {
            *last += fits;
            self.comments_in_sight += fits;
        }
        let own = if rule.counts_for_itself() { 0 } else { fits };
        if !rule.encrypts(self.fitting_keys, self.comments_in_sight - own) {
            return;
        }
        if let Ok(Plain::Comment(text)) = cipher::decrypt(&comment.text, self.key, &self.place()) {
            *comment = Comment {
                text,
                inline: false,
            };
        }
    }

    fn leaf(&mut self, leaf: &mut Tree) -> Result<Option<Comment>, Error> {
        let rule = &self.metadata.rule;
        let encrypted = rule.encrypts(self.fitting_keys, self.comments_in_sight);
        if encrypted {
            let wrong = |problem: String| Error::Value {
                problem,
                path: self.path.join("."),
            };
            let Tree::Text(text) = &*leaf else {
                let kind = leaf.go_type();
                return Err(wrong(format!(
                    "Expected encrypted value as string, but got {kind}"
                )));
            };
            let plain = cipher::decrypt(text, self.key, &self.place())
                .map_err(|problem| wrong(format!("Could not decrypt value: {problem}")))?;
            *leaf = match plain {
                Plain::Value(value) => value,
                Plain::Comment(text) => {
                    *leaf = Tree::Text(text.clone());
                    return Ok(Some(Comment {
                        text,
                        inline: false,
                    }));
                }
            };
        }
        if encrypted || !self.metadata.mac_only_encrypted {
            self.hash.update(leaf.mac_bytes());
        }
        Ok(None)
    }
}
