//! What is read of archives, and what is refused.
#![allow(clippy::unwrap_used)]

mod common;

use std::io::Read as _;

use common::{archive, entries, entry, file, header, limits, long_name, pax};
use everflow_limits::{Budget, Exceeded, Stop};
use everflow_tar::{Archive, Error, Kind, Meter, gunzip};
use tar::EntryType;

fn names(plain: &[u8]) -> Vec<String> {
    let found = entries(plain, limits(1 << 20, 100), &Budget::unlimited()).unwrap();
    let names = found
        .iter()
        .map(|found| String::from_utf8_lossy(&found.path));
    names.map(std::borrow::Cow::into_owned).collect()
}

fn refused(plain: &[u8]) -> Error {
    entries(plain, limits(1 << 20, 100), &Budget::unlimited()).unwrap_err()
}

#[test]
fn long_name_counts_more_than_pax_path_and_that_more_than_header() {
    let long = "d/".repeat(200) + "x";
    let bytes = archive(&[
        long_name(long.as_bytes()),
        pax(&[("path", b"from-pax")]),
        file("from-header", b"1"),
        pax(&[("path", b"other/\xc3\xbc"), ("mtime", b"1.5")]),
        file("from-header", b"2"),
        pax(&[("path", b"")]),
        file("from-header", b"3"),
    ]);
    assert_eq!(names(&bytes), [long.as_str(), "other/ü", "from-header"]);
}

#[test]
fn long_name_ends_at_its_first_zero_byte_and_an_empty_one_says_nothing() {
    let bytes = archive(&[
        long_name(b"a\0b"),
        file("x", b""),
        long_name(b"\0b"),
        file("y", b""),
    ]);
    assert_eq!(names(&bytes), ["a", "y"]);
}

#[test]
fn prefixes_are_read_where_the_format_has_them() {
    let with_prefix = |magic: &[u8; 8], end: &[u8; 4]| {
        let mut header = header(b"name", EntryType::Regular, 0);
        let bytes = header.as_mut_bytes();
        bytes[257..265].copy_from_slice(magic);
        bytes[345..500].fill(b'p');
        bytes[508..].copy_from_slice(end);
        header.set_cksum();
        archive(&[header.as_bytes().to_vec()])
    };
    let name = |prefix: usize| format!("{}/name", "p".repeat(prefix));
    assert_eq!(
        names(&with_prefix(b"ustar\x0000", b"\0\0\0\0")),
        [name(155)]
    );
    assert_eq!(
        names(&with_prefix(b"ustar\0\0\0", b"\0\0\0\0")),
        [name(155)]
    );
    assert_eq!(names(&with_prefix(b"ustar\x0000", b"tar\0")), [name(131)]);
    assert_eq!(names(&with_prefix(b"ustar  \0", b"\0\0\0\0")), ["name"]);
}

#[test]
fn pax_size_tells_where_the_next_header_is() {
    let mut first = file("a", b"");
    first.extend([b'x'; 512]);
    let bytes = archive(&[pax(&[("size", b"512")]), first, file("b", b"2")]);
    let found = entries(&bytes, limits(1 << 20, 9), &Budget::unlimited()).unwrap();
    assert_eq!(found[0].content, [b'x'; 512]);
    assert_eq!(found[1].content, b"2");
}

#[test]
fn checksums_of_signed_bytes_are_right_too() {
    let mut header = header("ü".as_bytes(), EntryType::Regular, 0);
    let sum = header.cksum().unwrap() - 2 * 256;
    header.as_old_mut().cksum[..8].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_eq!(names(header.as_bytes()), ["ü"]);
}

#[test]
fn sizes_in_base_256_are_read() {
    let mut header = header(b"a", EntryType::Regular, 0);
    header.as_old_mut().size = [0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3];
    header.set_cksum();
    let mut first = header.as_bytes().to_vec();
    first.extend(b"abc");
    first.resize(1_024, 0);
    let found = entries(&archive(&[first]), limits(9, 9), &Budget::unlimited()).unwrap();
    assert_eq!(found[0].content, b"abc");
}

#[test]
fn directories_and_links_have_no_content_whatever_their_size() {
    let empty = |kind| header(b"d", kind, 5_000).as_bytes().to_vec();
    let bytes = archive(&[
        empty(EntryType::Directory),
        empty(EntryType::Symlink),
        empty(EntryType::Link),
        file("a", b"1"),
    ]);
    let found = entries(&bytes, limits(9, 9), &Budget::unlimited()).unwrap();
    assert_eq!(found.len(), 4);
    assert_eq!(found[3].content, b"1");
}

#[test]
fn old_archives_mark_directories_with_a_slash() {
    let mut header = tar::Header::new_old();
    header.as_old_mut().name[..2].copy_from_slice(b"d/");
    header.set_mode(0o755);
    header.set_size(0);
    header.set_cksum();
    let bytes = archive(&[header.as_bytes().to_vec()]);
    let found = entries(&bytes, limits(9, 9), &Budget::unlimited()).unwrap();
    assert_eq!(found[0].kind, Kind::Directory);
}

#[test]
fn global_headers_are_passed_over() {
    let global = entry(
        b"pax_global_header",
        EntryType::XGlobalHeader,
        b"52 comment=x",
    );
    assert_eq!(names(&archive(&[global, file("a", b"1")])), ["a"]);
}

#[test]
fn archives_may_end_without_zeros_and_after_the_first_zero_block() {
    assert_eq!(names(&file("a", b"1")), ["a"]);
    assert_eq!(
        names(&[file("a", b"1"), vec![0; 512], vec![7; 100]].concat()),
        ["a"]
    );
    assert_eq!(names(b""), Vec::<String>::new());
    // The last file has all of its content, but not all of its padding.
    for end in [513, 700] {
        assert_eq!(names(&file("a", b"1")[..end]), ["a"]);
    }
}

#[test]
fn unread_content_is_skipped() {
    let bytes = archive(&[file("a", &[1; 1_000]), file("b", b"2")]);
    let budget = Budget::unlimited();
    let mut meter = Meter::new(limits(1 << 20, 9), &budget);
    let mut archive = Archive::new(&bytes[..], &mut meter);
    let mut first = archive.next_entry().unwrap().unwrap();
    first.read_exact(&mut [0; 10]).unwrap();
    let second = archive.next_entry().unwrap().unwrap();
    assert_eq!(second.path(), b"b");
}

#[test]
fn broken_archives_are_refused() {
    let mut wrong_sum = file("a", b"1");
    wrong_sum[0] = b'b';
    let text = refused(&wrong_sum).to_string();
    assert_eq!(text, "invalid tar header at byte 0: its checksum is wrong");
    let text = refused(&archive(&[long_name(b"a")])).to_string();
    assert!(
        text.contains("the entry that the records before it are about is missing"),
        "{text}"
    );
    let twice = archive(&[long_name(b"a"), long_name(b"b"), file("x", b"")]);
    let text = refused(&twice).to_string();
    assert!(
        text.starts_with("invalid tar header at byte 1024: a second record"),
        "{text}"
    );
    for end in [1, 511, 513, 700, 811] {
        let cut = refused(&file("a", &[1; 300])[..end]);
        assert!(matches!(cut, Error::Read(_)), "{cut}");
    }
}

#[test]
fn sparse_files_are_refused() {
    let old = entry(b"holes", EntryType::GNUSparse, b"");
    let new = [pax(&[("GNU.sparse.major", b"1")]), file("holes", b"")].concat();
    for bytes in [old, new] {
        let error = refused(&bytes);
        assert!(
            matches!(&error, Error::Sparse(name) if name == "holes"),
            "{error}"
        );
    }
}

#[test]
fn limits_name_the_entry_the_limit_and_the_option() {
    let bytes = archive(&[file("a", &[1; 300]), file("b", &[2; 300])]);
    let budget = Budget::unlimited();
    let text = |limits| entries(&bytes, limits, &budget).unwrap_err().to_string();
    assert_eq!(
        text(limits(500, 9)),
        "\"b\": more than 500 bytes in one archive: make it smaller, or raise --max-size"
    );
    assert_eq!(
        text(limits(1_000, 1)),
        "\"b\": more than 1 entries in one archive: make it smaller, or raise --max-entries"
    );
    let one = limits(1_000, 9).with_file(everflow_tar::Limit::new(200, "--max-file"));
    assert_eq!(
        text(one),
        "\"a\": more than 200 bytes in one file of an archive: make it smaller, or raise --max-file"
    );
    let error = entries(&bytes, limits(500, 9), &budget).unwrap_err();
    assert!(matches!(
        error.exceeded(),
        Some(Exceeded::Count { limit: 500, .. })
    ));
}

#[test]
fn long_names_are_cut_in_messages() {
    let bytes = archive(&[long_name(&[b'a'; 100_000]), file("x", b"12")]);
    let error = entries(&bytes, limits(1, 9), &Budget::unlimited()).unwrap_err();
    let start = format!("\"{}…\": more than 1 bytes", "a".repeat(256));
    assert!(error.to_string().starts_with(&start), "{error}");
}

#[test]
fn archives_with_one_meter_share_their_limits() {
    let bytes = archive(&[file("a", &[1; 300])]);
    let budget = Budget::unlimited();
    let mut meter = Meter::new(limits(500, 9), &budget);
    let mut read = || Archive::new(&bytes[..], &mut meter).next_entry().map(drop);
    read().unwrap();
    assert!(matches!(read(), Err(Error::TooLarge { .. })));
    assert_eq!(meter.used().entries, 2);
    let mut later = Meter::going_on(limits(800, 2), meter.used(), &budget);
    let error = Archive::new(&bytes[..], &mut later).next_entry().map(drop);
    assert!(error.unwrap_err().to_string().contains("--max-entries"));
}

#[test]
fn headers_count_towards_the_size_limit() {
    let global = entry(b"g", EntryType::XGlobalHeader, &[b' '; 100_000]);
    let bytes = archive(&vec![global; 50]);
    let error = entries(&bytes, limits(10, 100), &Budget::unlimited()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("bytes in one archive with its headers"),
        "{text}"
    );
    assert!(text.contains("--max-size"), "{text}");
}

/// Reads what an iterator gives.
struct Bytes<I>(I);

impl<I: Iterator<Item = u8>> std::io::Read for Bytes<I> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let places = buffer.iter_mut().zip(&mut self.0);
        Ok(places.map(|(place, byte)| *place = byte).count())
    }
}

#[test]
fn three_hundred_thousand_entries_are_refused() {
    let block = file("x", b"");
    let endless = block.iter().copied().cycle().take(300_000 * block.len());
    let budget = Budget::unlimited();
    let mut meter = Meter::new(limits(1 << 30, 200_000), &budget);
    let mut archive = Archive::new(Bytes(endless), &mut meter);
    let error = loop {
        match archive.next_entry() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("all entries were read"),
            Err(error) => break error,
        }
    };
    assert!(
        error.to_string().contains("more than 200000 entries"),
        "{error}"
    );
}

#[test]
fn raised_stop_flag_ends_headers_content_and_members() {
    let stop = Stop::new();
    let budget = Budget::new(stop.clone(), u64::MAX);
    let plain = archive(&[file("a", &[1; 1 << 20]), file("b", b"")]);
    let mut meter = Meter::new(limits(1 << 30, 9), &budget);
    let mut archive = Archive::new(&plain[..], &mut meter);
    let mut entry = archive.next_entry().unwrap().unwrap();
    entry.read_exact(&mut [0; 100]).unwrap();
    stop.raise();
    let error = entry.read_content().unwrap_err();
    assert_eq!(error.exceeded(), Some(&Exceeded::Stopped), "{error}");
    let error = archive.next_entry().unwrap_err();
    assert_eq!(error.exceeded(), Some(&Exceeded::Stopped), "{error}");
    // Nothing comes out of members without content.
    let members = common::gzip(b"").repeat(1_000);
    let error = gunzip(&members[..], &budget)
        .read(&mut [0; 10])
        .unwrap_err();
    assert_eq!(everflow_tar::exceeded_in(&error), Some(&Exceeded::Stopped));
}

#[test]
fn names_and_content_are_charged_and_names_are_released() {
    let bytes = archive(&[
        long_name(&[b'a'; 10_000]),
        file("x", &[1; 1_000]),
        file("y", b""),
    ]);
    let budget = Budget::unlimited();
    let mut meter = Meter::new(limits(1 << 20, 9), &budget);
    let mut archive = Archive::new(&bytes[..], &mut meter);
    let mut first = archive.next_entry().unwrap().unwrap();
    first.read_content().unwrap();
    assert_eq!(budget.used(), 11_001);
    archive.next_entry().unwrap().unwrap();
    assert_eq!(budget.used(), 1_000);
    drop(archive);
    let little = Budget::new(Stop::new(), 5_000);
    let error = entries(&bytes, limits(1 << 20, 9), &little).unwrap_err();
    assert_eq!(error.exceeded(), Some(&Exceeded::Memory { limit: 5_000 }));
    assert_eq!(little.used(), 0);
}
