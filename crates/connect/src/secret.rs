//! Values that must not be shown.

use std::fmt;

/// A value that no message, log or event may show: whatever prints it prints `***`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    /// Hides a value.
    pub fn new(value: T) -> Self {
        Secret(value)
    }

    /// The value itself, for the one place that needs it.
    pub fn reveal(&self) -> &T {
        &self.0
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Secret(value)
    }
}

impl From<&str> for Secret<String> {
    fn from(value: &str) -> Self {
        Secret(value.to_owned())
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl<T> fmt::Display for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_stars() {
        let secret: Secret<String> = "hunter2".into();
        assert_eq!(format!("{secret} {secret:?}"), "*** ***");
        assert_eq!(secret.reveal(), "hunter2");
    }
}
