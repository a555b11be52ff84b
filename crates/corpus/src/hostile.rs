//! Random and changed input for readers of foreign bytes.
//!
//! A crate lists its readers in `tests/hostile_input/readers.rs`, and its test runs them all with
//! [`Trial::run`]: nothing panics, and neither time, memory nor stack grows beyond what the input is
//! worth. The guided targets below `fuzz/` take the same lists.
//!
//! An input that a reader once failed on is a file in `tests/hostile_input/found/READER/`, with `-` for the
//! spaces in the name of the reader.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use peak_alloc::PeakAlloc;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// The stack of the threads that readers run on in production.
pub const STACK: usize = 2 << 20;

/// What one input may take beside a share for each of its bytes.
pub const MEMORY: usize = 24 << 20;
/// The share for each byte.
pub const MEMORY_FOR_A_BYTE: usize = 2_000;
/// The longest that a processor may work on one input, in any profile.
const LONGEST: Duration = Duration::from_secs(4);

/// How often a token stands in a row when an input nests deep. The last one overflows the stack of a
/// reader that follows its input without a bound.
const DEEP: usize = 30_000;

/// Tokens that mean something in many formats.
const COMMON: [&str; 12] = [
    "\0",
    "\n",
    " ",
    "/",
    "..",
    "\"",
    "=",
    ":",
    ",",
    "\\",
    "é",
    "99999999999999999999",
];

/// A reader of foreign bytes.
#[derive(Clone, Copy)]
pub struct Reader {
    /// Its name in reports, and the name of its guided target behind the name of the crate.
    pub name: &'static str,
    /// Reads an input and drops what it makes of it; whether the input is taken.
    pub read: fn(&[u8]) -> bool,
    /// Input that is taken.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// More input to start from, such as recordings; none when there are no recordings.
    pub recorded: fn() -> Vec<Vec<u8>>,
    /// Texts that mean something in the format.
    pub tokens: &'static [&'static str],
    /// How many inputs are tried.
    pub cases: u32,
}

impl Reader {
    /// A reader, with input that it takes.
    pub const fn new(
        name: &'static str,
        read: fn(&[u8]) -> bool,
        seeds: fn() -> Vec<Vec<u8>>,
    ) -> Self {
        Reader {
            name,
            read,
            seeds,
            recorded: Vec::new,
            tokens: &[],
            cases: 200,
        }
    }

    /// Adds input to start from.
    pub const fn recorded(mut self, recorded: fn() -> Vec<Vec<u8>>) -> Self {
        self.recorded = recorded;
        self
    }

    /// Adds texts that mean something in the format.
    pub const fn tokens(mut self, tokens: &'static [&'static str]) -> Self {
        self.tokens = tokens;
        self
    }

    /// Changes how many inputs are tried.
    pub const fn cases(mut self, cases: u32) -> Self {
        self.cases = cases;
        self
    }
}

/// Texts as seeds.
pub fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Parts of cases in a recording of one JSON document per line, as seeds: those of ordinary size, and at most
/// so many of them from all over the file.
pub fn from_lines(name: &str, most: usize, part: impl Fn(&str) -> Option<Vec<u8>>) -> Vec<Vec<u8>> {
    let text = crate::find(name).and_then(|path| std::fs::read_to_string(path).ok());
    let text = text.unwrap_or_default();
    let mut found: Vec<Vec<u8>> = text
        .lines()
        .filter_map(part)
        .filter(|seed| seed.len() < 4_000)
        .collect();
    let step = found.len().div_ceil(most.max(1)).max(1);
    let mut at = 0;
    found.retain(|_| {
        at += 1;
        (at - 1) % step == 0
    });
    found
}

/// What a reader of the crate under test once failed on.
fn found(reader: &str) -> Vec<Vec<u8>> {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    found_in(Path::new(&root), reader)
}

/// What a reader of the crate in a directory once failed on.
pub fn found_in(root: &Path, reader: &str) -> Vec<Vec<u8>> {
    let directory = root
        .join("tests/hostile_input/found")
        .join(reader.replace(' ', "-"));
    let Ok(entries) = std::fs::read_dir(&directory) else {
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let read = |path| std::fs::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    paths.iter().map(read).collect()
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Change {
    Flip(usize, u8),
    Cut(usize),
    Drop(usize, usize),
    Repeat(usize, usize, usize),
    Insert(usize, usize),
    Nest(usize, usize, usize),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<usize>();
    prop_oneof![
        8 => (place, any::<u8>()).prop_map(|(at, byte)| Change::Flip(at, byte)),
        2 => place.prop_map(Change::Cut),
        4 => (place, 1..40_usize).prop_map(|(at, count)| Change::Drop(at, count)),
        4 => (place, 1..60_usize, 1..200_usize).prop_map(|(at, count, times)| Change::Repeat(at, count, times)),
        8 => (place, place).prop_map(|(at, token)| Change::Insert(at, token)),
        1 => (place, place, 2..2_000_usize).prop_map(|(at, token, times)| Change::Nest(at, token, times)),
    ]
}

fn changed(seed: &[u8], changes: &[Change], tokens: &[&str]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    let token = |at: usize| tokens[at % tokens.len()].as_bytes();
    for change in changes {
        let length = bytes.len().max(1);
        let place = |at: usize| (at % length).min(bytes.len());
        let end = |at: usize, count: usize| (place(at) + count).min(bytes.len());
        match *change {
            Change::Flip(at, byte) => {
                if let Some(place) = bytes.get_mut(at % length) {
                    *place = byte;
                }
            }
            Change::Cut(at) => bytes.truncate(at % length),
            Change::Drop(at, count) => {
                bytes.drain(place(at)..end(at, count));
            }
            Change::Repeat(at, count, times) => {
                let piece = bytes[place(at)..end(at, count)].repeat(times);
                let at = place(at);
                bytes.splice(at..at, piece);
            }
            Change::Insert(at, which) => {
                let at = place(at);
                bytes.splice(at..at, token(which).iter().copied());
            }
            Change::Nest(at, which, times) => {
                let at = place(at);
                bytes.splice(at..at, token(which).repeat(times));
            }
        }
    }
    bytes
}

/// An input that prints short.
#[derive(Clone)]
struct Input(Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = &self.0[..self.0.len().min(2_000)];
        write!(f, "{} bytes: b\"{}\"", self.0.len(), head.escape_ascii())
    }
}

/// What a test binary tries its readers with.
pub struct Trial {
    memory: &'static PeakAlloc,
}

impl Trial {
    /// With the allocator of the test binary, which must run this test alone: others would count into its memory.
    pub const fn new(memory: &'static PeakAlloc) -> Self {
        Trial { memory }
    }

    /// Tries all readers with the same inputs in every run, in a process where errors carry backtraces: making
    /// and printing these takes more than most readers may.
    ///
    /// # Panics
    /// When a reader panics, takes too long or takes too much memory. One that overflows its stack ends the process:
    /// the last name in the output is its name.
    pub fn run(&self, readers: &[Reader]) {
        if std::env::var_os("RUST_BACKTRACE").is_none_or(|set| set == "0") {
            return run_again_with_backtraces();
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            let all = || {
                for (at, reader) in readers.iter().enumerate() {
                    let began = Instant::now();
                    self.try_reader(at, reader);
                    println!("{}: {:?}", reader.name, began.elapsed());
                }
            };
            let run = thread.spawn_scoped(scope, all);
            if let Err(panic) = run
                .map(|thread| thread.join())
                .unwrap_or_else(|error| Err(Box::new(error)))
            {
                std::panic::resume_unwind(panic);
            }
        });
    }

    fn try_reader(&self, at: usize, reader: &Reader) {
        println!("{} …", reader.name);
        let mut seeds = (reader.seeds)();
        for seed in &seeds {
            // What is made once, such as tables, is not the input's.
            let _ = (reader.read)(seed);
            let taken = self.feed(reader, seed);
            assert!(
                taken,
                "{} does not take {:?}",
                reader.name,
                Input(seed.clone())
            );
        }
        for seed in (reader.recorded)() {
            self.feed(reader, &seed);
            seeds.push(seed);
        }
        for input in found(reader.name) {
            self.feed(reader, &input);
            seeds.push(input);
        }
        let tokens = [reader.tokens, &COMMON].concat();
        for token in reader.tokens {
            self.feed(reader, token.repeat(DEEP).as_bytes());
        }
        let mut runner = runner(at, reader.cases / 20 + 5);
        let first = seeds.first().cloned().unwrap_or_default();
        let nested = (any::<usize>(), 0..tokens.len()).prop_map(|(place, token)| {
            Input(changed(
                &first,
                &[Change::Nest(place, token, DEEP)],
                &tokens,
            ))
        });
        self.run_strategy(&mut runner, reader, &nested);
        let random = vec(any::<u8>(), 0..300).prop_map(Input);
        self.run_strategy(&mut runner, reader, &random);
        let mutated = (0..seeds.len(), vec(change(), 1..8));
        let mutated =
            mutated.prop_map(|(seed, changes)| Input(changed(&seeds[seed], &changes, &tokens)));
        let mut runner = self::runner(at, reader.cases);
        self.run_strategy(&mut runner, reader, &mutated);
    }

    fn run_strategy(
        &self,
        runner: &mut TestRunner,
        reader: &Reader,
        inputs: &impl Strategy<Value = Input>,
    ) {
        let run = runner.run(inputs, |input| {
            self.feed(reader, &input.0);
            Ok(())
        });
        run.unwrap_or_else(|error| panic!("{}: {error}", reader.name));
    }

    /// Feeds a reader and watches time and memory; whether it takes the input.
    ///
    /// # Panics
    /// When the reader panics, takes too long or takes too much memory.
    pub fn feed(&self, reader: &Reader, input: &[u8]) -> bool {
        self.memory.reset_peak_usage();
        let before = self.memory.current_usage();
        let before_time = Busy::now();
        let taken = (reader.read)(input);
        let took = before_time.elapsed();
        let used = self.memory.peak_usage().saturating_sub(before);
        let (name, length) = (reader.name, input.len());
        assert!(took < LONGEST, "{name} took {took:?} for {length} bytes");
        let most = MEMORY + MEMORY_FOR_A_BYTE * length;
        assert!(
            used < most,
            "{name} took {used} bytes of memory for {length} bytes"
        );
        taken
    }
}

/// The time that a processor has worked for this thread: other processes do not count. Where the system does not
/// tell, all time that passes.
struct Busy {
    on_processor: Option<Duration>,
    began: Instant,
}

impl Busy {
    fn now() -> Self {
        Busy {
            on_processor: on_processor(),
            began: Instant::now(),
        }
    }

    fn elapsed(&self) -> Duration {
        match (self.on_processor, on_processor()) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            _ => self.began.elapsed(),
        }
    }
}

fn on_processor() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = text.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

fn run_again_with_backtraces() {
    let program = std::env::current_exe().unwrap_or_else(|error| panic!("{error}"));
    let ran = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env("RUST_BACKTRACE", "1")
        .env("RUST_TEST_NOCAPTURE", "1")
        .output()
        .unwrap_or_else(|error| panic!("{error}"));
    println!(
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
    assert!(ran.status.success(), "{}", ran.status);
}

fn runner(at: usize, cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let mut seed = [u8::try_from(at % 256).unwrap_or_default(); 32];
    // Other inputs than those of every run: a number.
    if let Some(other) = std::env::var("EVERFLOW_HOSTILE_SEED")
        .ok()
        .and_then(|number| number.parse::<u64>().ok())
    {
        seed[..8].copy_from_slice(&other.to_le_bytes());
    }
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed))
}
