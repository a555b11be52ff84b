//! Bucket.

use everflow_time::Duration;

use crate::common::{Artifact, DURATION, INT64, LocalObjectReference, SHORT_DURATION};
use crate::condition::Condition;
use crate::crd::{AGE, MESSAGE, READY, SOURCES, column};

kind! {
    /// A bucket of objects.
    Bucket in crate::names::group::SOURCE {
        version: "v1",
        plural: "buckets",
        singular: "bucket",
        short_names: [],
        categories: SOURCES,
        columns: [column("Endpoint", ".spec.endpoint"), AGE, READY, MESSAGE],
        spec: BucketSpec,
        status: BucketStatus, Some(BucketStatus::RECORD), true,
    }
}

choice! {
    /// Whose bucket it is.
    pub enum BucketProvider {
        /// Anyone's who speaks S3.
        Generic = "generic",
        /// Of AWS.
        Aws = "aws",
        /// Of Google Cloud.
        Gcp = "gcp",
        /// Of Azure.
        Azure = "azure",
    }
}

choice! {
    /// Who gives temporary credentials.
    pub enum StsProvider {
        /// AWS.
        Aws = "aws",
        /// An LDAP service.
        Ldap = "ldap",
    }
}

record! {
    /// Where the bucket is and what to take of it.
    [
        Check {
            rule: "self.provider == 'aws' || self.provider == 'generic' || !has(self.sts)",
            message: "STS configuration is only supported for the 'aws' and 'generic' Bucket providers",
        },
        Check {
            rule: "self.provider != 'aws' || !has(self.sts) || self.sts.provider == 'aws'",
            message: "'aws' is the only supported STS provider for the 'aws' Bucket provider",
        },
        Check {
            rule: "self.provider != 'generic' || !has(self.sts) || self.sts.provider == 'ldap'",
            message: "'ldap' is the only supported STS provider for the 'generic' Bucket provider",
        },
        Check {
            rule: "!has(self.sts) || self.sts.provider != 'aws' || !has(self.sts.secretRef)",
            message: "spec.sts.secretRef is not required for the 'aws' STS provider",
        },
        Check {
            rule: "!has(self.sts) || self.sts.provider != 'aws' || !has(self.sts.certSecretRef)",
            message: "spec.sts.certSecretRef is not required for the 'aws' STS provider",
        },
        Check {
            rule: "self.provider != 'generic' || !has(self.serviceAccountName)",
            message: "ServiceAccountName is not supported for the 'generic' Bucket provider",
        },
        Check {
            rule: "!has(self.secretRef) || !has(self.serviceAccountName)",
            message: "cannot set both .spec.secretRef and .spec.serviceAccountName",
        },
    ]
    pub struct BucketSpec {
        /// Whose bucket it is: generic by default.
        provider "provider": Option<BucketProvider> [Default(r#""generic""#)],
        /// The name of the bucket.
        bucket_name "bucketName": String,
        /// The host of the bucket.
        endpoint "endpoint": String,
        /// Who gives temporary credentials.
        sts "sts": Option<BucketStsSpec>,
        /// Whether plain HTTP is used.
        insecure "insecure": bool,
        /// The region of the endpoint.
        region "region": Option<String>,
        /// With what the names of the objects begin.
        prefix "prefix": Option<String>,
        /// The Secret to sign in with.
        secret_ref "secretRef": Option<LocalObjectReference>,
        /// The ServiceAccount to sign in with, for the clouds.
        service_account_name "serviceAccountName": Option<String>,
        /// The Secret with certificates, for generic.
        cert_secret_ref "certSecretRef": Option<LocalObjectReference>,
        /// The Secret with the proxy to go through.
        proxy_secret_ref "proxySecretRef": Option<LocalObjectReference>,
        /// How often to look for changes.
        interval "interval": Duration [DURATION],
        /// How long fetching may take.
        timeout "timeout": Option<Duration> [SHORT_DURATION, Default(r#""60s""#)],
        /// What to leave out, in the form of .gitignore.
        ignore "ignore": Option<Box<str>>,
        /// Whether to leave it alone.
        suspend "suspend": bool,
    }
}

record! {
    /// Who gives temporary credentials.
    pub struct BucketStsSpec {
        /// The kind of service.
        provider "provider": StsProvider,
        /// Its address.
        endpoint "endpoint": String [Pattern("^(http|https)://.*$")],
        /// The Secret to sign in there with, for ldap.
        secret_ref "secretRef": Option<LocalObjectReference>,
        /// The Secret with certificates, for ldap.
        cert_secret_ref "certSecretRef": Option<LocalObjectReference>,
    }
}

record! {
    /// What is known of the bucket.
    pub struct BucketStatus {
        /// The generation of the spec that was last heeded.
        observed_generation "observedGeneration": i64 [INT64],
        /// How it stands.
        conditions "conditions": Vec<Condition>,
        /// Where the newest artifact can be had.
        url "url": Option<String>,
        /// What was last produced.
        artifact "artifact": Option<Artifact>,
        /// What was left out.
        observed_ignore "observedIgnore": Option<Box<str>>,
        /// The last request for an attempt that was heeded.
        last_handled_reconcile_at "lastHandledReconcileAt": Option<String>,
    }
}
