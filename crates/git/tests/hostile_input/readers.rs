//! The readers of what remote servers and Secrets hold. They are private to the crate, which lists them
//! for tests in `testing::parsers`.

use std::io::Write as _;

use everflow_corpus::hostile::Reader;
use everflow_git::testing::parsers;
use russh::keys::ssh_key::private::{Ed25519Keypair, KeypairData};
use russh::keys::ssh_key::{HashAlg, LineEnding, PrivateKey};
use sha1::{Digest as _, Sha1};

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
    || seeds("pkt-line"),
    || seeds("greeting"),
    || seeds("ref"),
    || seeds("pack"),
    || seeds("delta"),
    || seeds("tree"),
    || seeds("commit"),
    || seeds("tag"),
    || seeds("pack index"),
    || seeds("gitmodules"),
    || seeds("known_hosts"),
    || seeds("signature"),
    || seeds("local repository"),
    || seeds("revision"),
];

/// Texts that mean something in one of the formats.
const TOKENS: &[&str] = &[
    "..",
    "%",
    "[",
    "@",
    "*",
    "**/",
    "!",
    "0000",
    "ffff",
    "0001",
    "\u{7f}\u{7f}\u{7f}\u{7f}",
    "ref: refs/heads/main\n",
    "|1|",
    "ssh-ed25519 AAAA",
    "-----BEGIN PGP SIGNATURE-----\n",
    "~1",
    "^2",
    "x/",
];

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// A pack without its checksum: a blob, a tree, a delta by place and one by name.
fn pack() -> Vec<u8> {
    let mut bytes = b"PACK\0\0\0\x02\0\0\0\x04".to_vec();
    let blob = [vec![0x35], deflated(b"hello")].concat();
    let delta = [5, 6, 0x90, 5, 1, b'!'];
    let by_place = [vec![0x66, blob.len() as u8], deflated(&delta)].concat();
    let id = [
        0xb6, 0xfc, 0x4c, 0x62, 0x0b, 0x67, 0xd9, 0x5f, 0x95, 0x3a, 0x5c, 0x1c, 0x12, 0x30, 0xaa,
        0xab, 0x5d, 0xb5, 0xa1, 0xb0,
    ];
    let by_name = [vec![0x76], id.to_vec(), deflated(&delta)].concat();
    let tree = tree();
    let size = tree.len();
    assert!(size < 2_048);
    let tree = [
        vec![0xa0 | (size & 15) as u8, (size >> 4) as u8],
        deflated(&tree),
    ]
    .concat();
    for object in [blob, by_place, by_name, tree] {
        bytes.extend(object);
    }
    bytes
}

fn tree() -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in [
        "100644 a.yaml\0",
        "40000 dir\0",
        "120000 link\0",
        "160000 sub\0",
    ] {
        bytes.extend_from_slice(entry.as_bytes());
        bytes.extend_from_slice(&[9; 20]);
    }
    bytes
}

fn index_of_pack() -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..256 {
        bytes.extend(2_u32.to_be_bytes());
    }
    bytes.extend([1; 40]);
    bytes.extend([0; 8]);
    bytes.extend(12_u32.to_be_bytes());
    bytes.extend((1_u32 << 31).to_be_bytes());
    bytes.extend(24_u64.to_be_bytes());
    bytes
}

/// Valid input for a reader.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let id = "1111111111111111111111111111111111111111";
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
    let texts = match name {
        "pack" => return vec![pack()],
        "tree" => return vec![tree()],
        "pack index" => return vec![index_of_pack()],
        "delta" => {
            return vec![vec![
                0xe8, 7, 12, 0x90, 6, 5, b't', b'h', b'e', b'r', b'e', 0x91, 10, 1,
            ]];
        }
        "pkt-line" | "greeting" => {
            let lines = |lines: &[String]| {
                let framed = lines
                    .iter()
                    .map(|line| format!("{:04x}{line}", line.len() + 4));
                format!("{}0000", framed.collect::<String>())
            };
            let new = ["version 2\n", "agent=git/2.40.0\n", "ls-refs=unborn\n"].map(str::to_owned);
            let old = [
                format!("{id} HEAD\0side-band-64k shallow object-format=sha1\n"),
                format!("{id} refs/tags/v1\n"),
            ];
            vec![lines(&new), lines(&old)]
        }
        "ref" => vec![
            format!("{id} refs/tags/v1 peeled:{id}\n"),
            "unborn HEAD symref-target:x".to_owned(),
        ],
        "commit" => vec![format!(
            "tree {id}\nparent {id}\nauthor A B <a@b> 1767225600 +0100\ncommitter C <c@d> 5 +0000\n\
             gpgsig -----BEGIN PGP SIGNATURE-----\n abc\n -----END PGP SIGNATURE-----\n\ntitle\n\nbody\n"
        )],
        "tag" => vec![format!(
            "object {id}\ntype commit\ntag v1\ntagger A <a@b> 7 +0000\n\nm\n-----BEGIN PGP SIGNATURE-----\nabc\n"
        )],
        "gitmodules" => {
            vec!["[submodule \"libs/one\"]\n\tpath = lib\n\turl = ../one.git\n# c\n".to_owned()]
        }
        "known_hosts" => vec![format!(
            "git.example,*.test {key} me\n[git.example]:2222 {key}\n@revoked * {key}\n@cert-authority *.x {key}\n\
             |1|c2FsdA==|c2FsdA== {key}\n"
        )],
        "signature" => return signatures(),
        "local repository" => {
            let commit = format!("tree {id}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nm\n");
            let object = format!("commit {}\0{commit}", commit.len());
            let id: String = Sha1::digest(&object)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let object = deflated(object.as_bytes());
            let names = format!("{id} refs/heads/main\n# pack-refs with: peeled\n^{id}\n");
            return vec![
                [
                    b"ref: refs/heads/main\n\0",
                    names.as_bytes(),
                    b"\0",
                    &object,
                ]
                .concat(),
            ];
        }
        "revision" => vec![id.to_owned()],
        other => panic!("no valid input for {other}"),
    };
    texts.into_iter().map(String::into_bytes).collect()
}

/// Keys and signatures of both kinds.
fn signatures() -> Vec<Vec<u8>> {
    let pair = KeypairData::Ed25519(Ed25519Keypair::from_seed(&[7; 32]));
    let key = PrivateKey::new(pair, "me").unwrap();
    let signature = key.sign("git", HashAlg::Sha256, b"payload").unwrap();
    let ssh = [
        key.public_key().to_openssh().unwrap(),
        signature.to_pem(LineEnding::LF).unwrap(),
    ];
    let pgp = [
        include_str!("../data/signer.asc"),
        include_str!("../data/signature.asc"),
    ];
    vec![ssh.join("\0").into_bytes(), pgp.join("\0").into_bytes()]
}
