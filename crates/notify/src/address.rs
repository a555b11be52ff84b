//! Addresses, which often hold secrets.

use std::fmt;

use crate::url::Url;

/// An address. Printing it leaves out credentials and queries, and the path as well when it came from a Secret.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Address {
    text: String,
    is_secret: bool,
    /// Whether the query was made here and holds nothing secret.
    has_own_query: bool,
}

impl Address {
    /// An address that anyone may see.
    pub fn open(text: impl Into<String>) -> Self {
        Address {
            text: text.into(),
            ..Address::default()
        }
    }

    /// An address from a Secret.
    pub fn secret(text: impl Into<String>) -> Self {
        Address {
            text: text.into(),
            is_secret: true,
            ..Address::default()
        }
    }

    /// Another address that is as secret as this one.
    pub(crate) fn with_text(&self, text: impl Into<String>) -> Self {
        Address {
            text: text.into(),
            is_secret: self.is_secret,
            has_own_query: false,
        }
    }

    /// As [`Address::with_text`], with a query that anyone may see.
    pub(crate) fn with_api_text(&self, text: impl Into<String>) -> Self {
        Address {
            has_own_query: true,
            ..self.with_text(text)
        }
    }

    /// The address itself, for the one place that connects to it.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn is_secret(&self) -> bool {
        self.is_secret
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ok(url) = Url::parse(&self.text) else {
            return f.write_str(if self.is_secret { "***" } else { &self.text });
        };
        if self.is_secret {
            return match url.host.is_empty() {
                true => f.write_str("***"),
                false => write!(f, "{}://{}/***", url.scheme, url.host),
            };
        }
        if !url.host.is_empty() {
            write!(f, "{}://{}", url.scheme, url.host)?;
        }
        f.write_str(&url.escaped_path())?;
        match url.query {
            Some(query) if self.has_own_query => write!(f, "?{query}"),
            Some(_) => f.write_str("?***"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_credentials_and_secret_ones_without_paths() {
        let text = "https://user:pass@h:8/services/T0/B0/x?token=1";
        assert_eq!(
            Address::open(text).to_string(),
            "https://h:8/services/T0/B0/x?***"
        );
        assert_eq!(format!("{:?}", Address::secret(text)), "https://h:8/***");
        assert_eq!(Address::secret("no address").to_string(), "***");
        assert_eq!(Address::open("/only/path").to_string(), "/only/path");
    }
}
