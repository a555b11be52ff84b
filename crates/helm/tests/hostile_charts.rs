//! Packed charts that take more than they should end in an error that names the limit, in little memory and
//! time.
#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use everflow_gotemplate::{Limits, Meter};
use everflow_helm::chart::{ChartFile, ChartLimits, ChartLoader, LoadError, load_files};
use everflow_helm::dependencies::process_dependencies;
use everflow_helm::package::metadata_of_archive;
use everflow_helm::values::Warnings;
use everflow_limits::{Budget, Exceeded, Stop};
use everflow_tar::Limit;
use peak_alloc::PeakAlloc;
use tar::EntryType;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;
/// One test at a time: others would count into the memory of this one.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const CHART: &[u8] = b"apiVersion: v2\nname: web\nversion: 1.0.0\n";

fn limits(unpacked: u64, files: u64) -> ChartLimits {
    ChartLimits {
        unpacked: Limit::new(unpacked, "--helm-chart-max-unpacked-size"),
        files: Limit::new(files, "--helm-chart-max-files"),
    }
}

fn entry(name: &str, kind: EntryType, content: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(name: &str, content: &[u8]) -> Vec<u8> {
    entry(name, EntryType::Regular, content)
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(plain).unwrap();
    gzip.finish().unwrap()
}

fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
    let entries = files.iter().map(|(name, content)| file(name, content));
    gzip(&entries.collect::<Vec<_>>().concat())
}

fn load(archive: &[u8], limits: ChartLimits, budget: &Budget) -> Result<(), LoadError> {
    let mut loader = ChartLoader::new(limits, budget);
    loader.archive(archive, &mut Warnings::default()).map(drop)
}

fn refused(archive: &[u8], limits: ChartLimits) -> LoadError {
    load(archive, limits, &Budget::unlimited()).unwrap_err()
}

/// A chart of a megabyte, packed, that begins with an extension record of a gibibyte.
fn bomb(kind: EntryType) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(1 << 30);
    header.set_cksum();
    let text = gzip(&vec![b'a'; 1 << 20]);
    [gzip(header.as_bytes()), text.repeat(1 << 10)].concat()
}

#[test]
fn charts_whose_records_claim_a_gibibyte_are_refused_in_little_memory() {
    let _alone = alone();
    for kind in [
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::XHeader,
    ] {
        let archive = bomb(kind);
        MEMORY.reset_peak_usage();
        let before = MEMORY.current_usage();
        let error = refused(&archive, ChartLimits::default());
        let metadata = metadata_of_archive(
            &archive,
            ChartLimits::default(),
            1 << 20,
            &Budget::unlimited(),
        );
        let used = MEMORY.peak_usage().saturating_sub(before);
        assert!(error.to_string().contains("1 GiB"), "{error}");
        assert!(metadata.unwrap_err().to_string().contains("1 GiB"));
        assert!(used < 1 << 20, "{kind:?} took {used} bytes");
    }
}

#[test]
fn chart_and_packed_charts_in_it_share_the_unpacked_size() {
    let _alone = alone();
    let zeros = vec![0; 3 << 20];
    let inner = packed(&[("sub/Chart.yaml", CHART), ("sub/zeros", &zeros)]);
    let names: Vec<String> = (0..20)
        .map(|n| format!("web/charts/s{n}-1.0.0.tgz"))
        .collect();
    let files: Vec<(&str, &[u8])> = std::iter::once(("web/Chart.yaml", CHART))
        .chain(names.iter().map(|name| (name.as_str(), &inner[..])))
        .collect();
    let outer = packed(&files);
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let error = refused(&outer, limits(20 << 20, 1_000));
    let used = MEMORY.peak_usage().saturating_sub(before);
    let text = error.to_string();
    assert!(
        text.ends_with(
            "decompressed chart is larger than the maximum size 20971520: \"sub/zeros\" is too much; make \
             the chart smaller, or raise --helm-chart-max-unpacked-size"
        ),
        "{text}"
    );
    let limit = error.exceeded();
    assert!(
        matches!(
            limit,
            Some(Exceeded::Count {
                limit: 20_971_520,
                ..
            })
        ),
        "{limit:?}"
    );
    assert!(used < 40 << 20, "took {used} bytes");
    load(&outer, limits(80 << 20, 1_000), &Budget::unlimited()).unwrap();
}

#[test]
fn chart_and_packed_charts_in_it_share_the_number_of_files() {
    let _alone = alone();
    let names: Vec<String> = (0..40).map(|n| format!("sub/templates/{n}")).collect();
    let files: Vec<(&str, &[u8])> = std::iter::once(("sub/Chart.yaml", CHART))
        .chain(names.iter().map(|name| (name.as_str(), &b""[..])))
        .collect();
    let inner = packed(&files);
    let outer = packed(&[
        ("web/Chart.yaml", CHART),
        ("web/charts/a-1.tgz", &inner),
        ("web/charts/b-1.tgz", &inner),
    ]);
    let text = refused(&outer, limits(1 << 20, 60)).to_string();
    assert!(
        text.ends_with(
            "chart contains more than 60 files: \"sub/templates/15\" is one too many; make the chart \
             smaller, or raise --helm-chart-max-files"
        ),
        "{text}"
    );
    load(&outer, limits(1 << 20, 85), &Budget::unlimited()).unwrap();
}

#[test]
fn three_hundred_thousand_entries_are_refused() {
    let _alone = alone();
    let archive = gzip(&file("web/templates/x", b"").repeat(1_000)).repeat(300);
    let text = refused(&archive, ChartLimits::default()).to_string();
    assert_eq!(
        text,
        "chart contains more than 20000 files: \"web/templates/x\" is one too many"
    );
}

#[test]
fn packed_charts_nest_ten_levels_deep() {
    let _alone = alone();
    let nested = |levels: usize| {
        let mut archive = packed(&[("web/Chart.yaml", CHART)]);
        for _ in 0..levels {
            archive = packed(&[
                ("web/Chart.yaml", CHART),
                ("web/charts/web-1.0.0.tgz", &archive),
            ]);
        }
        archive
    };
    load(&nested(10), ChartLimits::default(), &Budget::unlimited()).unwrap();
    let error = refused(&nested(11), ChartLimits::default());
    assert!(
        error
            .to_string()
            .ends_with("packed charts nested deeper than 10 levels"),
        "{error}"
    );
    assert!(matches!(error.exceeded(), Some(Exceeded::Depth { .. })));
}

#[test]
fn long_names_in_nested_charts_are_charged_at_each_level() {
    let _alone = alone();
    let nested = "web/".to_owned() + &"charts/c/".repeat(40);
    let chart = |depth: usize| {
        file(
            &format!("web/{}Chart.yaml", "charts/c/".repeat(depth)),
            CHART,
        )
    };
    let mut plain: Vec<u8> = (0..10).flat_map(chart).collect();
    for number in 0..20 {
        let name = format!("{nested}{number}{}", "x".repeat(1 << 19));
        plain.extend(entry(
            "././@LongLink",
            EntryType::GNULongName,
            name.as_bytes(),
        ));
        plain.extend(file("x", b""));
    }
    let budget = Budget::new(Stop::new(), 32 << 20);
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let error = load(&gzip(&plain), ChartLimits::default(), &budget).unwrap_err();
    let used = MEMORY.peak_usage().saturating_sub(before);
    assert_eq!(
        error.exceeded(),
        Some(&Exceeded::Memory { limit: 32 << 20 }),
        "{error}"
    );
    assert!(used < 64 << 20, "took {used} bytes");
}

#[test]
fn raised_stop_flag_ends_loading() {
    let _alone = alone();
    let archive = gzip(&file("web/templates/x", &[0; 1_000]).repeat(500)).repeat(200);
    let stop = Stop::new();
    let budget = Budget::new(stop.clone(), u64::MAX);
    let loading = std::thread::spawn(move || {
        let outcome = load(&archive, limits(u64::MAX, u64::MAX), &budget);
        (outcome, Instant::now())
    });
    std::thread::sleep(Duration::from_millis(50));
    stop.raise();
    let raised = Instant::now();
    let (outcome, ended) = loading.join().unwrap();
    assert_eq!(outcome.unwrap_err().exceeded(), Some(&Exceeded::Stopped));
    assert!(ended.saturating_duration_since(raised) < Duration::from_secs(1));
}

#[test]
fn yaml_takes_no_more_memory_than_the_budget_allows() {
    let _alone = alone();
    for line in [
        "- \n",
        "- *a\n",
        "- &b\n",
        "- {a,b}\n",
        "- [{a,b},{a,b}]\n",
        "- [[],[],[],[]]\n",
        "- {a: {}, b: }\n",
        "- {? : }\n",
        "# comment\n- a: b\n",
    ] {
        let yaml = format!("a: &a c\nb: *a\nx:\n{}", line.repeat(100_000));
        let files = packed(&[
            ("web/Chart.yaml", CHART),
            ("web/values.yaml", yaml.as_bytes()),
        ]);
        for share in [16 << 20, 512 << 20] {
            let budget = Budget::new(Stop::new(), share);
            MEMORY.reset_peak_usage();
            let before = MEMORY.current_usage();
            let mut loader = ChartLoader::new(ChartLimits::default(), &budget);
            let loaded = loader.archive(&files, &mut Warnings::default());
            let used = MEMORY.peak_usage().saturating_sub(before) as u64;
            assert!(used < share, "{line:?} took {used} bytes of {share}");
            let error = loaded.as_ref().err().and_then(LoadError::exceeded);
            assert!(error.is_none() || share == 16 << 20, "{line:?}: {error:?}");
            let stays = MEMORY.current_usage().saturating_sub(before) as u64;
            let charged = budget.used() + (1 << 20);
            assert!(
                stays <= charged,
                "{line:?}: {stays} bytes stay, {charged} are charged"
            );
        }
    }
}

#[test]
fn copies_of_a_dependency_under_many_aliases_are_charged() {
    let _alone = alone();
    let mut parent = String::from("apiVersion: v2\nname: web\nversion: 1.0.0\ndependencies:\n");
    for number in 0..2_000 {
        parent.push_str(&format!(
            "- {{name: inner, version: '1', alias: a{number}}}\n"
        ));
    }
    let values: String = (0..2_000).map(|number| format!("k{number}: v\n")).collect();
    let described = format!(
        "apiVersion: v2\nname: inner\nversion: 1.0.0\ndescription: {}\n",
        "x".repeat(200_000)
    );
    let plain = "apiVersion: v2\nname: inner\nversion: 1.0.0\n";
    for (inner, values) in [(plain, values.as_str()), (described.as_str(), "")] {
        let files = [
            ("Chart.yaml", parent.as_str()),
            ("charts/inner/Chart.yaml", inner),
            ("charts/inner/values.yaml", values),
        ];
        let files = files.map(|(name, text)| ChartFile::new(name, text.as_bytes().to_vec()));
        let mut chart = load_files(files.to_vec(), &mut Warnings::default()).unwrap();
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let budget = Budget::new(Stop::new(), 32 << 20);
        let meter = Meter::new(&Limits::default(), &budget);
        let none = everflow_gotemplate::Map::new();
        let done = process_dependencies(&mut chart, &none, &mut Warnings::default(), &meter);
        let peak = MEMORY.peak_usage().saturating_sub(before);
        let error = done.unwrap_err().to_string();
        assert!(error.contains("--max-work-memory"), "{error}");
        assert!(peak < 128 << 20, "{} MB", peak >> 20);
    }
}
