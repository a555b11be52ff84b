//! Where a bucket is: which host answers for it, and how it is addressed there.

use super::sign::escaped;
use crate::{Error, Url};

/// The server that was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    url: Url,
    bucket: String,
}

fn wrong(text: String) -> Error {
    Error::Source {
        reason: "AuthenticationFailed",
        message: text,
    }
}

impl Endpoint {
    /// Reads an endpoint: host and port, no more.
    pub fn new(endpoint: &str, bucket: &str, insecure: bool) -> Result<Self, Error> {
        let scheme = if insecure { "http" } else { "https" };
        let shown = endpoint.rsplit_once('@').map_or(endpoint, |(_, host)| host);
        let odd = || {
            wrong(format!(
                "Endpoint: {shown} does not follow ip address or domain name standards."
            ))
        };
        if endpoint.contains("://") || endpoint.contains('@') {
            return Err(odd());
        }
        let mut url = Url::parse(&format!("{scheme}://{endpoint}")).map_err(|_| odd())?;
        if !matches!(url.path.as_str(), "" | "/") || url.query.is_some() {
            return Err(wrong(
                "Endpoint url cannot have fully qualified paths.".to_owned(),
            ));
        }
        let plain = |char: char| char.is_ascii_alphanumeric() || "-._:".contains(char);
        if url.host.is_empty() || !url.host.chars().all(plain) {
            return Err(odd());
        }
        // The usual port is left out, as it is in what other clients sign.
        if matches!(
            (scheme, url.port),
            ("http", Some(80)) | ("https", Some(443))
        ) {
            url.port = None;
        }
        url.path = String::new();
        Ok(Endpoint {
            url,
            bucket: bucket.to_owned(),
        })
    }

    /// The region in the name of one of Amazon's hosts.
    pub fn region(&self) -> Option<String> {
        let host = self.url.host.as_str();
        let rest = host
            .strip_suffix(".amazonaws.com")
            .or_else(|| host.strip_suffix(".amazonaws.com.cn"))?;
        if let Some(inner) = rest.strip_suffix(".vpce") {
            return inner
                .rsplit_once(".s3.")
                .map(|(_, region)| region.to_owned());
        }
        let rest = [
            "s3-fips.dualstack.",
            "s3.dualstack.",
            "s3-fips.",
            "s3.",
            "s3-",
        ]
        .iter()
        .find_map(|start| rest.strip_prefix(start))?;
        let region = !rest.is_empty() && !rest.contains('.') && !rest.starts_with("external-");
        region.then(|| rest.to_owned())
    }

    fn is_amazon(&self) -> bool {
        self.url.host == "s3.amazonaws.com" || self.region().is_some()
    }

    /// Google's servers know only the old kind of listing.
    pub fn is_google(&self) -> bool {
        self.url.host == "storage.googleapis.com"
    }

    fn by_host(&self) -> bool {
        let dotted = self.url.scheme == "https" && self.bucket.contains('.');
        (self.is_amazon() || self.is_google()) && !dotted
    }

    fn host_of(&self, region: &str) -> String {
        let host = self.url.host.as_str();
        let own = host.contains("-fips") || host.contains("vpce") || !self.is_amazon();
        match own || region.is_empty() {
            true => host.to_owned(),
            false if region.starts_with("cn-") => {
                format!("s3.dualstack.{region}.amazonaws.com.cn")
            }
            false => format!("s3.dualstack.{region}.amazonaws.com"),
        }
    }

    /// The address that tells the region of the bucket.
    pub fn location(&self) -> Url {
        let mut url = self.address("", "");
        url.query = Some("location=".to_owned());
        url
    }

    /// The address of the bucket, or of an object in it.
    pub fn address(&self, key: &str, region: &str) -> Url {
        let host = self.host_of(region);
        let key = escaped(key, true);
        let mut url = self.url.clone();
        match self.by_host() {
            true => {
                url.host = format!("{}.{host}", self.bucket);
                url.path = format!("/{key}");
            }
            false => {
                url.host = host;
                url.path = format!("/{}/{key}", self.bucket);
            }
        }
        url
    }
}

/// Whether a name can be that of a bucket.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let wrong = |text: &str| Err(Error::Protocol(text.to_owned()));
    let edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    match name.trim().len() {
        0 => wrong("Bucket name cannot be empty"),
        1..=2 => wrong("Bucket name cannot be shorter than 3 characters"),
        64.. => wrong("Bucket name cannot be longer than 63 characters"),
        _ if name.parse::<std::net::Ipv4Addr>().is_ok() => {
            wrong("Bucket name cannot be an ip address")
        }
        _ if name.contains("..") || name.contains(".-") || name.contains("-.") => {
            wrong("Bucket name contains invalid characters")
        }
        _ if name.bytes().all(plain)
            && edge(name.bytes().next())
            && edge(name.bytes().next_back()) =>
        {
            Ok(())
        }
        _ => wrong("Bucket name contains invalid characters"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(endpoint: &str, bucket: &str, key: &str, region: &str) -> String {
        let endpoint = Endpoint::new(endpoint, bucket, false).unwrap();
        endpoint.address(key, region).to_string()
    }

    #[test]
    fn buckets_are_addressed_as_other_clients_do() {
        for (endpoint, bucket, region, expected) in [
            (
                "minio.example:9000",
                "b-1",
                "us-east-1",
                "https://minio.example:9000/b-1/k%20y",
            ),
            (
                "minio.example:443",
                "b-1",
                "",
                "https://minio.example/b-1/k%20y",
            ),
            (
                "s3.amazonaws.com",
                "b-1",
                "eu-west-1",
                "https://b-1.s3.dualstack.eu-west-1.amazonaws.com/k%20y",
            ),
            (
                "s3.amazonaws.com",
                "b.1",
                "eu-west-1",
                "https://s3.dualstack.eu-west-1.amazonaws.com/b.1/k%20y",
            ),
            (
                "s3.cn-north-1.amazonaws.com.cn",
                "b-1",
                "cn-north-1",
                "https://b-1.s3.dualstack.cn-north-1.amazonaws.com.cn/k%20y",
            ),
            (
                "storage.googleapis.com",
                "b-1",
                "x",
                "https://b-1.storage.googleapis.com/k%20y",
            ),
        ] {
            assert_eq!(address(endpoint, bucket, "k y", region), expected);
        }
        let dead = Endpoint::new("127.0.0.1:1", "bucket-x", true).unwrap();
        assert_eq!(
            dead.location().to_string(),
            "http://127.0.0.1:1/bucket-x/?location="
        );
    }

    #[test]
    fn regions_stand_in_amazons_names() {
        for (host, region) in [
            ("s3.amazonaws.com", None),
            ("s3.eu-west-1.amazonaws.com", Some("eu-west-1")),
            ("s3-eu-west-1.amazonaws.com", Some("eu-west-1")),
            ("s3.dualstack.eu-west-1.amazonaws.com", Some("eu-west-1")),
            ("s3-external-1.amazonaws.com", None),
            (
                "bucket.vpce-1a2b.s3.us-east-1.vpce.amazonaws.com",
                Some("us-east-1"),
            ),
            ("minio.example", None),
        ] {
            let endpoint = Endpoint::new(host, "bucket", false).unwrap();
            assert_eq!(endpoint.region().as_deref(), region, "{host}");
        }
    }

    #[test]
    fn invalid_endpoints_and_bucket_names_are_refused() {
        for endpoint in ["http://x", "x/y", "", "u:hunter2@h", "a b", "h:port"] {
            let error = Endpoint::new(endpoint, "bucket", false).unwrap_err();
            assert_eq!(error.reason(), "AuthenticationFailed");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        for (name, fine) in [
            ("bucket-x", true),
            ("b", false),
            ("1.2.3.4", false),
            ("-ab", false),
            ("a..b", false),
            ("", false),
        ] {
            assert_eq!(check_name(name).is_ok(), fine, "{name}");
        }
    }
}
