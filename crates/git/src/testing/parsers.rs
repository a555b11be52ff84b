//! Every reader of foreign bytes behind one kind of function, for tests with random input.

use std::sync::Arc;

use everflow_env::MemoryDisk;
use everflow_env::disk::write_whole;
use everflow_limits::{Budget, Stop};
use sha1::{Digest as _, Sha1};

use crate::object::{Commit, ObjectId, Tag, parse_tree};
use crate::pack::{Pack, PackLimits};
use crate::pkt::{Decoder, Packet};
use crate::protocol::{Capabilities, OldGreeting, parse_ref};
use crate::signature::{TrustedKeys, verify_one};
use crate::{LocalRepository, Url, delta, known_hosts, pack_index, submodule};

/// A reader, by name: whether it takes an input. What it makes of it is dropped.
pub type Parser = (&'static str, fn(&[u8]) -> bool);

/// All of them.
pub const ALL: [Parser; 14] = [
    ("pkt-line", pkt_lines),
    ("greeting", greeting),
    ("ref", reference),
    ("pack", pack),
    ("delta", apply_delta),
    ("tree", tree),
    ("commit", commit),
    ("tag", tag),
    ("pack index", index_of_pack),
    ("gitmodules", modules),
    ("known_hosts", known),
    ("signature", signature),
    ("local repository", local_repository),
    ("revision", revision),
];

const ID: ObjectId = ObjectId([1; 20]);

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Limits under which a pack of tests is opened.
const LIMITS: PackLimits = PackLimits {
    packed: 1 << 20,
    objects: 10_000,
    unpacked: 8 << 20,
    in_memory: 1 << 20,
    chain: 100,
    made: 32 << 20,
};

fn pkt_lines(bytes: &[u8]) -> bool {
    let mut decoder = Decoder::default();
    let mut taken = true;
    for piece in bytes.chunks(7) {
        decoder.feed(piece);
        loop {
            match decoder.next() {
                Ok(Some(_)) => {}
                next => {
                    taken &= next.is_ok();
                    break;
                }
            }
        }
    }
    taken
}

fn greeting(bytes: &[u8]) -> bool {
    let mut decoder = Decoder::default();
    decoder.feed(bytes);
    let mut old = OldGreeting::default();
    let mut new = Capabilities::version_2();
    let mut lines = 0;
    while let Ok(Some(packet)) = decoder.next() {
        if let Packet::Data(line) = packet {
            let _ = old.add(&line);
            new.add(text(&line));
            lines += 1;
        }
    }
    let _ = (new.check_format(), old.capabilities.check_format());
    let _ = (new.fetch_has("shallow"), old.capabilities.has("shallow"));
    lines > 1
}

fn reference(bytes: &[u8]) -> bool {
    parse_ref(bytes).is_ok()
}

/// The checksum at the end is made right: it would hide all that comes after it.
fn pack(bytes: &[u8]) -> bool {
    let disk = Arc::new(MemoryDisk::new());
    let budget = Budget::new(Stop::new(), 8 << 20);
    let mut taken = false;
    for whole in [
        bytes.to_vec(),
        [bytes, Sha1::digest(bytes).as_slice()].concat(),
    ] {
        if write_whole(&*disk, "pack", &whole).is_err() {
            return false;
        }
        let Ok(mut pack) = Pack::open(disk.clone(), "pack", LIMITS, &budget) else {
            continue;
        };
        taken = true;
        let ids: Vec<ObjectId> = pack.ids().collect();
        for id in ids {
            let _ = pack.object(id, &budget);
            if let Ok((_, mut content)) = pack.blob(id, &budget) {
                let _ = std::io::copy(&mut content, &mut std::io::sink());
            }
        }
    }
    taken
}

fn apply_delta(bytes: &[u8]) -> bool {
    let _ = delta::result_size(bytes);
    let (base, change) = bytes.split_at(bytes.len() / 2);
    let _ = delta::apply(base, change, 1 << 20);
    delta::apply(&[7; 1_000], bytes, 1 << 20).is_ok()
}

fn tree(bytes: &[u8]) -> bool {
    parse_tree(ID, bytes).is_ok()
}

fn commit(bytes: &[u8]) -> bool {
    let commit = Commit::parse(ID, bytes);
    commit.is_ok_and(|commit| commit.short_message().len() < 500)
}

fn tag(bytes: &[u8]) -> bool {
    Tag::parse(ID, bytes).is_ok()
}

fn index_of_pack(bytes: &[u8]) -> bool {
    let whole = [&pack_index::MAGIC[..], bytes].concat();
    let taken = pack_index::read(&whole).is_some();
    let disk = Arc::new(MemoryDisk::new());
    if write_whole(&*disk, "pack", bytes).is_ok()
        && let Ok(mut pack) = Pack::indexed(disk, "pack", &whole, LIMITS)
    {
        let ids: Vec<ObjectId> = pack.ids().take(10).collect();
        for id in ids {
            let _ = pack.object(id, &Budget::new(Stop::new(), 8 << 20));
        }
    }
    taken
}

fn modules(bytes: &[u8]) -> bool {
    let Ok(base) = Url::parse("https://host/team/repo.git") else {
        return false;
    };
    let modules = submodule::parse(&text(bytes));
    let resolved = modules
        .iter()
        .map(|module| submodule::resolve(&base, &module.url));
    resolved.filter(Result::is_ok).count() > 0
}

fn known(bytes: &[u8]) -> bool {
    let _ = known_hosts::find(bytes, "git.example", 2222);
    known_hosts::find(bytes, "git.example", 22).is_ok()
}

/// Keys, a zero byte, and a signature of `payload`.
fn signature(bytes: &[u8]) -> bool {
    let end = bytes.iter().position(|byte| *byte == 0);
    let (keys, signature) = bytes.split_at(end.unwrap_or(0));
    let Ok(mut commit) = Commit::parse(ID, b"tree 1111111111111111111111111111111111111111\n\nx")
    else {
        return false;
    };
    commit.signature = text(signature).trim_start_matches('\0').to_owned();
    commit.signed = b"payload".to_vec();
    let keys = TrustedKeys::from_entries([("a.asc", keys), ("a.sshpub", keys)]);
    verify_one(&commit, &keys, 1_800_000_000).is_ok()
}

/// The files of a repository that name objects: its head, its packed names, and a loose object that the
/// first of these stands for.
fn local_repository(bytes: &[u8]) -> bool {
    let mut parts = bytes.splitn(3, |byte| *byte == 0);
    let (head, packed) = (parts.next(), parts.next().unwrap_or_default());
    let named = text(packed).get(..40).and_then(ObjectId::parse);
    let id = named.unwrap_or(ID).to_string();
    let object = format!("objects/{}/{}", &id[..2], &id[2..]);
    let disk = Arc::new(MemoryDisk::new());
    let files = [
        ("HEAD", head.unwrap_or_default()),
        ("packed-refs", packed),
        (&object, parts.next().unwrap_or_default()),
    ];
    if !files
        .iter()
        .all(|(path, content)| write_whole(&*disk, path, content).is_ok())
    {
        return false;
    }
    let mut repository = LocalRepository::new(disk.clone(), disk);
    let _ = repository.commit("main");
    let Ok(id) = repository.commit("HEAD") else {
        return false;
    };
    let _ = repository.files(id, "", |_, _| Ok(()));
    true
}

fn revision(bytes: &[u8]) -> bool {
    let disk = Arc::new(MemoryDisk::new());
    let mut repository = LocalRepository::new(disk.clone(), disk);
    let _ = repository.commit(&text(bytes));
    ObjectId::parse(&text(bytes)).is_some()
}
