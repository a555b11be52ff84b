//! The readers of what remote servers and Secrets hold. They are private to the crate, which lists them
//! for tests in `testing::parsers`.

use everflow_corpus::hostile::Reader;
use everflow_fetch::testing::parsers;

/// All of them.
pub const ALL: &[Reader] = &ALL_OF_THEM;

const ALL_OF_THEM: [Reader; parsers::ALL.len()] = {
    let mut readers = [Reader::new("", |_| false, Vec::new); parsers::ALL.len()];
    let mut at = 0;
    while at < readers.len() {
        let (name, read) = parsers::ALL[at];
        readers[at] = Reader::new(name, read, SEEDS[at]).tokens(TOKENS);
        at += 1;
    }
    readers
};

/// Valid input, in the order of the readers.
const SEEDS: [fn() -> Vec<Vec<u8>>; parsers::ALL.len()] = [
    || seeds("sourceignore"),
    || seeds("manifest"),
    || seeds("challenge"),
    || seeds("listing"),
    || seeds("refusal"),
    || seeds("docker config"),
    || seeds("chart address"),
    || seeds("certificates"),
    || seeds("address"),
    || seeds("archive path"),
];

/// Texts that mean something in one of the formats.
const TOKENS: &[&str] = &[
    "..",
    "%",
    "%zz",
    "&",
    "<",
    "<a>",
    "&#x0;",
    "&amp;",
    "<![CDATA[",
    "[",
    "{",
    "{\"a\":",
    "}",
    "@",
    "*",
    "**/",
    "!",
    "\u{7f}\u{7f}\u{7f}\u{7f}",
    "x/",
    "Bearer ",
    "realm=",
];

/// Valid input for a reader.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let digest = format!("sha256:{}", "a".repeat(64));
    let texts = match name {
        "certificates" => {
            let made = rcgen::generate_simple_self_signed(vec!["x".to_owned()]).unwrap();
            vec![format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem())]
        }
        "sourceignore" => vec!["# all\n/*\n!/deploy\n**/x?[a-c]\\*.yaml\n[^z]*/\n".to_owned()],
        "manifest" => vec![
            format!(
                r#"{{"schemaVersion":2,"config":{{"mediaType":"c","size":2,"digest":"{digest}"}},"layers":[{{"mediaType":"l","size":3,"digest":"{digest}"}}],"annotations":{{"a":"b"}}}}"#
            ),
            format!(
                r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"m","size":2,"digest":"{digest}","platform":{{"os":"linux","architecture":"amd64"}}}}]}}"#
            ),
        ],
        "challenge" => vec![r#"Bearer realm="https://a.io/t?x=1,2",service="s \"q\"", Other=fun"#.to_owned()],
        "listing" | "refusal" => vec![
            "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><EncodingType>url</EncodingType><IsTruncated>true\
             </IsTruncated><NextContinuationToken>t</NextContinuationToken><Contents><Key>a%2Fb+c</Key><ETag>\
             &quot;e1&quot;</ETag></Contents><![CDATA[x]]><!-- c --></ListBucketResult>"
                .to_owned(),
        ],
        "docker config" => vec![
            r#"{"auths":{"registry.example":{"auth":"dTpw"},"https://x/v1/":{"username":"u","password":"p"},"*.y":{"identitytoken":"t"}}}"#
                .to_owned(),
        ],
        "chart address" => vec!["../charts/app-1.tgz?x=y".to_owned(), "https://h/a.tgz".to_owned()],
        "address" => vec![
            "https://me%40x:p%2Fw@git.example:8443/a b/c.git?x=1#frag".to_owned(),
            "oci://registry.example:5000/team/app:v1".to_owned(),
            "http://[::ffff:127.0.0.1]:80".to_owned(),
        ],
        "archive path" => vec!["./a/b.yaml".to_owned()],
        other => panic!("no valid input for {other}"),
    };
    texts.into_iter().map(String::into_bytes).collect()
}
