//! Passwords, encryption, keys and certificates.

pub(crate) mod cert;
mod der;
pub(crate) mod dsa;
pub(crate) mod key;
pub(crate) mod password;
mod pem;
mod prime;
pub(crate) mod symmetric;
