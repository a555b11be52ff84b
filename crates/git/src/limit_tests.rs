//! Repositories that are small and make much work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use everflow_env::disk::write_whole;
use everflow_env::{Env, MemoryDialer};
use everflow_limits::{Budget, Exceeded, Stop};

use super::checkout::Module;
use super::tests::{deflated, head, name_delta, open_pack, pack_of, whole};
use super::*;
use everflow_fetch::archive::{Algorithm, ArchiveWriter};
use everflow_fetch::testing::{answer, serve};

/// A directory: names with mode and content.
fn tree(entries: &[(&str, &str, ObjectId)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (mode, name, id) in entries {
        bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        bytes.extend_from_slice(&id.0);
    }
    bytes
}

/// `levels` trees, each with `width` entries that name the same next one: `width` to the power of
/// `levels` paths.
fn bomb(levels: usize, width: usize) -> Vec<(Kind, Vec<u8>)> {
    let mut objects = vec![(Kind::Blob, b"x".to_vec())];
    let mut below = ("100644", ObjectId::of(Kind::Blob, b"x").unwrap());
    for _ in 0..levels {
        let names: Vec<String> = (0..width).map(|number| format!("d{number}")).collect();
        let entries: Vec<(&str, &str, ObjectId)> = names
            .iter()
            .map(|name| (below.0, name.as_str(), below.1))
            .collect();
        let content = tree(&entries);
        below = ("40000", ObjectId::of(Kind::Tree, &content).unwrap());
        objects.push((Kind::Tree, content));
    }
    objects
}

/// A checkout of the last tree.
fn checkout(env: &Env, objects: &[(Kind, Vec<u8>)]) -> Checkout {
    let (_, root) = objects.last().unwrap();
    let root = ObjectId::of(Kind::Tree, root).unwrap();
    let text = format!("tree {root}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nm\n");
    let id = ObjectId::of(Kind::Commit, text.as_bytes()).unwrap();
    let kinds = [Kind::Commit, Kind::Tree, Kind::Blob];
    let mut packed = vec![whole(1, text.as_bytes())];
    for (kind, content) in objects {
        let kind = kinds.iter().position(|known| known == kind).unwrap();
        packed.push(whole(kind as u8 + 1, content));
    }
    let pack = pack_of(packed.len() as u32, &packed);
    assert!(pack.len() < 10_000);
    let resolution = Resolution {
        reference: String::new(),
        commit: id,
        want: id,
        revision: revision("", id, false),
        by_id: true,
    };
    let pack = open_pack(&pack, PackLimits::default()).unwrap();
    let place = Arc::new(TemporaryDirectory::new(env, "git").unwrap());
    open(pack, place, &resolution, &Budget::unlimited()).unwrap()
}

fn world() -> Env {
    Env::simulated(1, MemoryDialer::new())
}

fn archived(checkout: &mut Checkout, options: &CheckoutOptions) -> Result<Summary, Error> {
    let archived = checkout.archive(Vec::new(), options, &Budget::unlimited());
    archived.map(|(_, summary)| summary)
}

fn at_most_paths(paths: u64) -> CheckoutOptions {
    CheckoutOptions {
        paths,
        ..CheckoutOptions::default()
    }
}

#[test]
fn trees_that_repeat_are_counted_at_each_place() {
    let env = world();
    let mut small = checkout(&env, &bomb(2, 10));
    assert_eq!(
        archived(&mut small, &at_most_paths(110)).unwrap().files,
        100
    );
    let mut large = checkout(&env, &bomb(10, 10));
    for sparse in [Vec::new(), vec!["nowhere".to_owned()]] {
        let options = CheckoutOptions {
            sparse,
            ..at_most_paths(1_000)
        };
        let error = archived(&mut large, &options).unwrap_err();
        assert_eq!(
            error.to_string(),
            "more than 1000 paths in one commit: make it smaller, or raise --max-git-paths"
        );
        assert_eq!(error.reason(), "LimitExceeded");
    }
}

#[test]
fn bytes_of_paths_are_counted() {
    let env = world();
    let name = "n".repeat(250);
    let blob = ObjectId::of(Kind::Blob, b"x").unwrap();
    let mut objects = vec![(Kind::Blob, b"x".to_vec())];
    let mut below = ("100644", blob);
    for _ in 0..10 {
        let content = tree(&[(below.0, &name, below.1)]);
        below = ("40000", ObjectId::of(Kind::Tree, &content).unwrap());
        objects.push((Kind::Tree, content));
    }
    let mut deep = checkout(&env, &objects);
    let error = archived(&mut deep, &at_most_paths(20)).unwrap_err();
    assert!(error.to_string().contains("5120 bytes of paths"), "{error}");
    for _ in 0..10 {
        let content = tree(&[("40000", &name, below.1)]);
        below = ("40000", ObjectId::of(Kind::Tree, &content).unwrap());
        objects.push((Kind::Tree, content));
    }
    let mut deeper = checkout(&env, &objects);
    let error = archived(&mut deeper, &CheckoutOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("larger than the limit of 4096"),
        "{error}"
    );
}

#[test]
fn raised_stop_ends_a_walk_at_once() {
    let env = world();
    let mut large = checkout(&env, &bomb(10, 10));
    let stop = Stop::new();
    let budget = Budget::new(stop.clone(), u64::MAX);
    let began = Instant::now();
    let raising = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        stop.raise();
    });
    let archived = large.archive(Vec::new(), &at_most_paths(u64::MAX / 1_000), &budget);
    let error = archived.map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Limit(Exceeded::Stopped)), "{error}");
    assert!(error.is_transient());
    assert!(began.elapsed() < Duration::from_secs(2));
    raising.join().unwrap();
}

#[test]
fn paths_of_submodules_count_with_those_around_them() {
    let env = world();
    let module = |env: &Env| Module {
        name: "m".to_owned(),
        checkout: checkout(env, &bomb(2, 10)),
    };
    let commit = ObjectId([7; 20]);
    let root = tree(&[("160000", "a", commit), ("160000", "b", commit)]);
    let mut outer = checkout(&env, &[(Kind::Tree, root)]);
    outer.submodules.insert("a".to_owned(), module(&env));
    outer.submodules.insert("b".to_owned(), module(&env));
    assert!(archived(&mut outer, &at_most_paths(222)).is_ok());
    let error = archived(&mut outer, &at_most_paths(221)).unwrap_err();
    assert!(error.to_string().contains("--max-git-paths"), "{error}");
}

/// An artifact with these files on the disk.
fn artifact(env: &Env, name: &str, files: &[(&str, &str)]) -> String {
    let mut writer = ArchiveWriter::new(
        Vec::new(),
        Algorithm::Sha256,
        everflow_fetch::archive::Limit::new(1 << 20, "--max"),
    )
    .unwrap();
    for (path, text) in files {
        let size = text.len() as u64;
        let content = &mut std::io::Cursor::new(text.as_bytes());
        writer.file(path.as_bytes(), false, size, content).unwrap();
    }
    let (bytes, _) = writer.finish().unwrap();
    write_whole(&*env.disk, name, &bytes).unwrap();
    name.to_owned()
}

fn include(artifact: String) -> Include {
    Include {
        artifact,
        from_path: String::new(),
        to_path: "sub".to_owned(),
    }
}

/// The pack lies on a disk of its own in these tests: the artifacts lie there too.
fn with_disk_of(checkout: &Checkout) -> Env {
    Env {
        disk: checkout.pack.disk().clone(),
        ..world()
    }
}

#[test]
fn included_artifacts_share_the_limits_and_replace_each_other() {
    let mut outer = checkout(&world(), &bomb(1, 3));
    let env = with_disk_of(&outer);
    env.disk.create_dir(outer.place.path()).unwrap();
    let one = artifact(&env, "one", &[("a", "1"), ("b", "22"), ("c", "333")]);
    let two = artifact(&env, "two", &[("a", "4444"), ("d", "55555"), ("e", "6")]);
    let options = |paths, limit| CheckoutOptions {
        includes: vec![include(one.clone()), include(two.clone())],
        limit,
        ..at_most_paths(paths)
    };
    let (bytes, _) = outer
        .archive(Vec::new(), &options(9, 1 << 20), &Budget::unlimited())
        .unwrap();
    let mut found = Vec::new();
    everflow_fetch::archive::read_archive(
        &bytes[..],
        everflow_fetch::archive::artifact_limits(1 << 20, 100),
        everflow_fetch::archive::Links::Refuse,
        &Budget::unlimited(),
        &mut |path, item| {
            if let everflow_fetch::archive::Item::File { content, .. } = item {
                let mut text = String::new();
                content.read_to_string(&mut text).unwrap();
                found.push(format!("{path}={text}"));
            }
            Ok(())
        },
    )
    .unwrap();
    let expected = [
        "d0=x",
        "d1=x",
        "d2=x",
        "sub/a=4444",
        "sub/b=22",
        "sub/c=333",
        "sub/d=55555",
        "sub/e=6",
    ];
    assert_eq!(found, expected);
    for (paths, limit, words) in [
        (8, 1 << 20, "--max-git-paths"),
        (5, 1 << 20, "--max-git-paths"),
        (9, 12, "bigger than max archive size"),
    ] {
        let error = archived(&mut outer, &options(paths, limit)).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// A delta that replaces the last four bytes of its base.
fn changed(size: usize, number: u32) -> Vec<u8> {
    let number_of = |mut size: usize| {
        let mut bytes = Vec::new();
        while size >= 0x80 {
            bytes.push(size as u8 | 0x80);
            size >>= 7;
        }
        bytes.push(size as u8);
        bytes
    };
    let mut delta = [number_of(size), number_of(size)].concat();
    let copied = size - 4;
    assert!(copied < 1 << 24);
    delta.push(0x80 | 0x70);
    delta.extend([copied as u8, (copied >> 8) as u8, (copied >> 16) as u8]);
    delta.push(4);
    delta.extend(number.to_be_bytes());
    delta
}

fn far_delta(back: u64, delta: &[u8]) -> Vec<u8> {
    let mut bytes = vec![(back & 0x7f) as u8];
    let mut rest = back >> 7;
    while rest > 0 {
        rest -= 1;
        bytes.insert(0, (rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    [head(6, delta.len()), bytes, deflated(delta)].concat()
}

/// A pack of one object and deltas; `base_of` says for each on which of those before it it stands.
fn deltas(size: usize, count: usize, base_of: impl Fn(usize) -> usize) -> Vec<u8> {
    let mut objects = vec![whole(3, &vec![0; size])];
    let mut places = vec![12_u64];
    for at in 1..=count {
        let place = places[at - 1] + objects[at - 1].len() as u64;
        places.push(place);
        let back = place - places[base_of(at)];
        objects.push(far_delta(back, &changed(size, at as u32)));
    }
    pack_of(count as u32 + 1, &objects)
}

#[test]
fn each_delta_is_put_together_once_however_they_stand_on_each_other() {
    let (size, count) = (40_000, 300);
    type Shape = (&'static str, fn(usize) -> usize);
    let shapes: [Shape; 4] = [
        ("one chain", |at| at - 1),
        ("all on one", |_| 0),
        ("three chains in turns", |at| at.saturating_sub(3)),
        ("a tree", |at| (at - 1) / 2),
    ];
    for (shape, base_of) in shapes {
        let bytes = deltas(size, count, base_of);
        assert!(bytes.len() < 20_000, "{shape}");
        let disk = Arc::new(everflow_env::MemoryDisk::new());
        write_whole(&*disk, "pack", &bytes).unwrap();
        // Few are held at a time.
        let budget = Budget::new(Stop::new(), 16 * size as u64);
        let pack = Pack::open(disk, "pack", PackLimits::default(), &budget);
        let pack = pack.unwrap_or_else(|error| panic!("{shape}: {error}"));
        assert_eq!(pack.len(), count + 1, "{shape}");
        assert_eq!(pack.made(), (size * (count + 1)) as u64, "{shape}");
    }
}

#[test]
fn deltas_that_name_their_bases_are_put_together_once() {
    let (size, count) = (40_000, 200);
    let mut content = vec![0; size];
    let mut id = ObjectId::of(Kind::Blob, &content).unwrap();
    let mut objects = vec![whole(3, &content)];
    for number in 1..=count {
        objects.push(name_delta(id, &changed(size, number)));
        content[size - 4..].copy_from_slice(&number.to_be_bytes());
        id = ObjectId::of(Kind::Blob, &content).unwrap();
    }
    // The last one comes first.
    objects.reverse();
    let mut pack = open_pack(&pack_of(count + 1, &objects), PackLimits::default()).unwrap();
    assert_eq!(pack.made(), (size as u64) * u64::from(count + 1));
    assert!(*pack.read(id, Kind::Blob, &Budget::unlimited()).unwrap() == content);
}

#[test]
fn bytes_put_together_over_all_reads_are_bounded() {
    let bytes = deltas(40_000, 10, |at| at - 1);
    let limits = PackLimits {
        made: 600_000,
        ..PackLimits::default()
    };
    let mut pack = open_pack(&bytes, limits).unwrap();
    let mut last = vec![0; 40_000];
    last[39_996..].copy_from_slice(&10_u32.to_be_bytes());
    let id = ObjectId::of(Kind::Blob, &last).unwrap();
    let mut read = || {
        pack.forget();
        pack.read(id, Kind::Blob, &Budget::unlimited())
    };
    let error = (0..5).find_map(|_| read().err()).unwrap();
    assert!(
        error
            .to_string()
            .contains("more than 600000 bytes put together"),
        "{error}"
    );
}

#[test]
fn pack_reading_stops_on_request_or_over_budget() {
    let disk = Arc::new(everflow_env::MemoryDisk::new());
    write_whole(&*disk, "pack", &deltas(40_000, 10, |at| at - 1)).unwrap();
    let open = |budget: &Budget| {
        let opened = Pack::open(disk.clone(), "pack", PackLimits::default(), budget);
        opened.map(|_| ()).unwrap_err().to_string()
    };
    let stop = Stop::new();
    stop.raise();
    assert!(open(&Budget::new(stop, u64::MAX)).contains("stopped before it was done"));
    assert!(open(&Budget::new(Stop::new(), 100_000)).contains("--max-work-memory"));
}

fn line(text: &str) -> String {
    format!("{:04x}{text}\n", text.len() + 5)
}

async fn refs_of(greeting: String, listing: String) -> String {
    let dialer = MemoryDialer::new();
    serve(&dialer, "git.example", 80, move |seen| {
        let body = match seen.line().starts_with("GET") {
            true => format!("{}0000{greeting}", line("# service=git-upload-pack")),
            false => listing.clone(),
        };
        answer("200 OK", "", body.as_bytes())
    });
    let env = Env::simulated(1, dialer);
    let mut remote = Remote::new(Url::parse("http://git.example/x.git").unwrap());
    remote.listing = 100_000;
    let client = GitClient::new(&env, remote).unwrap();
    let deadline = Deadline::after(&env.clock, Duration::from_secs(60));
    let resolved = client.resolve(&GitRef::default(), &deadline).await;
    resolved.map(|_| ()).unwrap_err().to_string()
}

#[tokio::test(start_paused = true)]
async fn lists_of_names_and_abilities_are_bounded_by_bytes() {
    let id = "1".repeat(40);
    let long = "n".repeat(60_000);
    let named = line(&format!("{id} refs/heads/{long}"));
    let version_2 = format!("{}{}0000", line("version 2"), line("ls-refs"));
    let error = refs_of(version_2, named.repeat(3)).await;
    assert!(
        error.contains("the list of references is larger than the limit of 100000"),
        "{error}"
    );
    let error = refs_of(named.repeat(3), String::new()).await;
    assert!(
        error.contains("greeting of the git server is larger than the limit of 100000"),
        "{error}"
    );
    let greeting = format!(
        "{}{}",
        line("version 2"),
        line(&format!("x={long}")).repeat(2)
    );
    let error = refs_of(greeting, String::new()).await;
    assert!(
        error.contains("greeting of the git server is larger than the limit of 65536"),
        "{error}"
    );
}
