//! Decrypts SOPS files with age and PGP keys.
//!
//! A file is a tree ([`Format`] says how it is written) whose leaves are encrypted with one data
//! key, beside metadata that holds the data key encrypted for each recipient. Here the data key is
//! taken with the [`Keys`] at hand, the leaves are decrypted, and the message authentication code
//! over all of them is compared: a file that was changed without SOPS is refused.
#![forbid(unsafe_code)]

mod age;
mod bech32;
mod cipher;
mod data_key;
mod decrypt;
mod error;
mod format;
mod keys;
mod metadata;
mod openpgp;
pub mod packets;
mod report;
mod rules;
mod shamir;
mod stores;
mod time_text;
mod tree;

pub use decrypt::{decrypt, decrypt_value};
pub use error::{Error, KeyError};
pub use format::Format;
pub use keys::Keys;
pub use metadata::RecipientKind;
