//! Archives, plain and packed.

use std::io::Write as _;

use everflow_corpus::hostile::Reader;
use everflow_limits::{Budget, Stop};
use everflow_tar::{Archive, Limit, Limits, Meter, gunzip};
use tar::{EntryType, Header};

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("tar", plain, || vec![archive()])
        .tokens(TOKENS)
        .cases(400),
    Reader::new("tar-gz", packed, || vec![gzipped(&archive())])
        .tokens(TOKENS)
        .cases(200),
];

const TOKENS: &[&str] = &[
    "ustar\0",
    "ustar  \0",
    "30 size=99999999999999999999\n",
    "path=../x\n",
    "11 path=a\n",
    "00000000000",
    "77777777777\0",
    "././@LongLink",
    "L",
    "x",
    "g",
    "S",
    "\u{1f}\u{8b}\u{8}",
];

fn archive() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let long = format!("{}/b.yaml", "a".repeat(120));
    for (path, content) in [
        ("Chart.yaml", "name: x\n"),
        ("dir/a.yaml", ""),
        (&long, "b"),
    ] {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder
            .append_data(&mut header, path, content.as_bytes())
            .unwrap();
    }
    let mut link = Header::new_ustar();
    link.set_entry_type(EntryType::Symlink);
    link.set_size(0);
    builder
        .append_link(&mut link, "link", "dir/a.yaml")
        .unwrap();
    builder
        .append_pax_extensions([("path", b"pax/long.yaml".as_slice())])
        .unwrap();
    builder
        .append_data(&mut Header::new_ustar(), "short", std::io::empty())
        .unwrap();
    builder.into_inner().unwrap()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn limits() -> Limits {
    Limits::new(
        Limit::new(4 << 20, "--max-size"),
        Limit::new(1_000, "--max-entries"),
    )
}

fn read(input: impl std::io::Read, budget: &Budget) -> bool {
    let mut meter = Meter::new(limits(), budget);
    let mut archive = Archive::new(input, &mut meter);
    loop {
        match archive.next_entry() {
            Ok(None) => return true,
            Ok(Some(mut entry)) => {
                let _ = (entry.shown(), entry.kind(), entry.mode());
                if entry.read_content().is_err() {
                    return false;
                }
            }
            Err(error) => {
                let _ = error.to_string();
                return false;
            }
        }
    }
}

fn plain(bytes: &[u8]) -> bool {
    read(bytes, &Budget::new(Stop::new(), 8 << 20))
}

fn packed(bytes: &[u8]) -> bool {
    let budget = Budget::new(Stop::new(), 8 << 20);
    read(gunzip(bytes, &budget), &budget)
}
