//! Random archives, as written and with changes: read as by the tar crate, without panics, within bounds.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Found, archive, entries, entries_of_tar_crate, entry, limits, long_name, pax};
use everflow_limits::{Budget, Stop};
use everflow_tar::Kind;
use proptest::collection::vec;
use proptest::prelude::*;
use tar::EntryType;

/// How an entry is named.
#[derive(Debug, Clone)]
enum Name {
    Short(String),
    Prefixed(String, String),
    Pax(String),
    Gnu(String),
}

#[derive(Debug, Clone)]
struct Written {
    name: Name,
    kind: EntryType,
    content: Vec<u8>,
    /// Whether the size stands in a PAX record alone.
    pax_size: bool,
    /// Whether a global header stands before it.
    global: bool,
}

fn written() -> impl Strategy<Value = Written> {
    let name = prop_oneof![
        "[a-z./ü-]{1,40}".prop_map(Name::Short),
        ("[a-z]{1,50}/[a-z]{1,90}", "[a-z.]{1,90}").prop_map(|(one, two)| Name::Prefixed(one, two)),
        "[a-zA-Z0-9./äß日=]{1,300}".prop_map(Name::Pax),
        "[a-z./ ü\n]{1,600}".prop_map(Name::Gnu),
    ];
    let kind = prop_oneof![
        4 => Just(EntryType::Regular),
        1 => Just(EntryType::Directory),
        1 => Just(EntryType::Symlink),
        1 => Just(EntryType::Continuous),
    ];
    (
        name,
        kind,
        vec(any::<u8>(), 0..1_500),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(name, kind, content, pax_size, global)| {
            let has_content = matches!(kind, EntryType::Regular | EntryType::Continuous);
            Written {
                name,
                kind,
                pax_size: pax_size && has_content,
                content: if has_content { content } else { Vec::new() },
                global,
            }
        })
}

fn bytes_of(written: &Written) -> Vec<u8> {
    let mut bytes = Vec::new();
    if written.global {
        bytes.extend(entry(b"g", EntryType::XGlobalHeader, b"13 comment=x\n"));
    }
    let mut records: Vec<(&str, Vec<u8>)> = Vec::new();
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(written.kind);
    header.set_mode(0o755);
    let mut name = |field: &str| {
        header.as_old_mut().name[..field.len()].copy_from_slice(field.as_bytes());
    };
    match &written.name {
        Name::Short(text) => name(text),
        Name::Prefixed(prefix, text) => {
            name(text);
            let field = &mut header.as_ustar_mut().unwrap().prefix;
            field[..prefix.len()].copy_from_slice(prefix.as_bytes());
        }
        Name::Pax(text) => {
            name("short");
            records.push(("path", text.clone().into_bytes()));
        }
        Name::Gnu(text) => {
            name("short");
            bytes.extend(long_name(text.as_bytes()));
        }
    }
    let length = written.content.len() as u64;
    if written.pax_size {
        records.push(("size", length.to_string().into_bytes()));
    }
    header.set_size(if written.pax_size { 0 } else { length });
    header.set_cksum();
    if !records.is_empty() {
        let records: Vec<(&str, &[u8])> = records
            .iter()
            .map(|(key, value)| (*key, &value[..]))
            .collect();
        bytes.extend(pax(&records));
    }
    bytes.extend(header.as_bytes());
    bytes.extend(&written.content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn expected(written: &Written) -> Found {
    let path = match &written.name {
        Name::Short(text) | Name::Pax(text) | Name::Gnu(text) => text.clone(),
        Name::Prefixed(prefix, text) => format!("{prefix}/{text}"),
    };
    Found {
        path: path.into_bytes(),
        kind: match written.kind {
            EntryType::Directory => Kind::Directory,
            EntryType::Symlink => Kind::Symlink,
            _ => Kind::File,
        },
        content: written.content.clone(),
    }
}

fn changed(mut bytes: Vec<u8>, changes: &[(usize, u8, bool)]) -> Vec<u8> {
    for (at, byte, sum) in changes {
        let at = at % bytes.len();
        bytes[at] = *byte;
        // A wrong checksum would hide all that comes after it.
        let start = at / 512 * 512;
        if let Some(block) = bytes.get_mut(start..start + 512).filter(|_| *sum) {
            let mut header = tar::Header::new_old();
            header.as_mut_bytes().copy_from_slice(block);
            header.set_cksum();
            block.copy_from_slice(header.as_bytes());
        }
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn archives_are_read_as_by_the_tar_crate(all in vec(written(), 0..8)) {
        let bytes = archive(&all.iter().map(bytes_of).collect::<Vec<_>>());
        let found = entries(&bytes, limits(1 << 20, 100), &Budget::unlimited()).unwrap();
        prop_assert_eq!(&found, &entries_of_tar_crate(&bytes).unwrap());
        prop_assert_eq!(found, all.iter().map(expected).collect::<Vec<_>>());
    }

    #[test]
    fn changed_archives_are_read_or_refused_within_bounds(
        all in vec(written(), 1..6),
        changes in vec((any::<usize>(), any::<u8>(), any::<bool>()), 1..6),
        cut in any::<usize>(),
    ) {
        let mut bytes = archive(&all.iter().map(bytes_of).collect::<Vec<_>>());
        bytes = changed(bytes, &changes);
        if cut % 3 == 0 {
            bytes.truncate(cut % bytes.len());
        }
        let budget = Budget::new(Stop::new(), 64 << 10);
        if let Ok(found) = entries(&bytes, limits(1 << 20, 100), &budget) {
            let content: usize = found.iter().map(|found| found.content.len()).sum();
            prop_assert!(content <= bytes.len());
        }
        prop_assert!(budget.used() <= bytes.len() as u64);
    }

    #[test]
    fn random_blocks_are_read_or_refused(mut bytes in vec(any::<u8>(), 0..3_000), kind in any::<u8>()) {
        if bytes.len() >= 512 {
            bytes[156] = kind;
            bytes = changed(bytes, &[(0, b'a', true)]);
        }
        let _ = entries(&bytes, limits(1 << 20, 100), &Budget::new(Stop::new(), 64 << 10));
    }
}
