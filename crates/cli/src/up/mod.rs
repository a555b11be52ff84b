//! `everflow up` and `everflow test`: a whole repository with no cluster.

pub mod build;
mod cache;
mod contested;
mod data;
pub mod diff;
mod lines;
mod live;
mod notifications;
mod repository;
mod screen;
pub mod test;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use everflow_api::inventory::ObjectId;
use everflow_env::disk::private;
use everflow_env::{Clock as _, Env, RealDisk, SystemClock};
use everflow_local::picture::{Node, Picture, State};
use everflow_local::tree::Tree;
use everflow_local::world::{Detail, Ended, MissingReference, World};
use everflow_runtime::events::CollectingSink;
use everflow_time::Timestamp;

use crate::args::span;
use crate::build_limits::BuildLimits;
use crate::exit::Failure;
use crate::output::{DataFormat, print_data, print_text};
pub use cache::CacheFlags;
use lines::Paint;
use notifications::Notifications;
pub use repository::{Opened, open_tree};
use screen::Screen;

/// What to bring up, and how.
#[derive(clap::Args, Debug, Clone)]
pub struct Common {
    /// The repository: a directory with Flux's objects, kustomizations or plain manifests
    #[arg(value_name = "PATH", default_value = ".")]
    pub path: PathBuf,
    /// The entry directory; required if several qualify
    #[arg(long, value_name = "DIR")]
    pub entry: Option<String>,
    /// Fetch nothing; other sources, and what depends on them, are skipped
    #[arg(long)]
    pub offline: bool,
    #[command(flatten)]
    pub cache: CacheFlags,
    /// Use a directory in place of another source; may be given several times
    #[arg(long = "source", value_name = "[KIND/]NAME=DIR")]
    pub sources: Vec<String>,
    /// CRDs that the repository does not contain; may be given several times
    #[arg(long = "crds", value_name = "DIR")]
    pub crds: Vec<PathBuf>,
    /// Accept kinds that nothing defines, without a schema, and versions that Flux no longer serves
    #[arg(long)]
    pub assume_crds: bool,
    /// Create namespaces that the repository uses but does not define
    #[arg(long)]
    pub create_namespaces: bool,
    /// Objects that exist before anything is deployed, such as the Secret with the decryption key; may be given several
    /// times
    #[arg(long = "with", value_name = "FILE")]
    pub with: Vec<PathBuf>,
    /// A file with age keys, for Kustomizations whose own keys are missing
    #[arg(
        long,
        value_name = "FILE",
        env = "SOPS_AGE_KEY_FILE",
        hide_env_values = true
    )]
    pub age_key: Option<PathBuf>,
    /// Use placeholders for missing values: for secrets that cannot be decrypted, and for variables from ConfigMaps and
    /// Secrets that the repository does not contain
    #[arg(long, visible_alias = "without-decryption")]
    pub placeholders: bool,
    /// Non-default feature gates of the cluster and of Flux: HPAScaleToZero=true, StrictPostBuildSubstitutions=false or
    /// =true. By default, variables without a value are errors, except in `up` and `diff` of repositories that install
    /// a Flux before 2.9
    #[arg(long, value_name = "GATE=BOOL", value_delimiter = ',', value_parser = feature_gate)]
    pub feature_gates: Vec<String>,
    /// How long to wait for everything to become ready
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = span)]
    pub timeout: Duration,
    /// How long simulated workloads take to become ready
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = span)]
    pub workload_delay: Duration,
    #[command(flatten)]
    pub limits: BuildLimits,
    /// Print the outcome as data instead
    #[arg(short, long, value_name = "FORMAT")]
    pub output: Option<Format>,
    /// Log what the controllers do to standard error
    #[arg(long)]
    pub verbose: bool,
    /// Whether variables without a value are mistakes whatever Flux the repository installs.
    #[arg(skip)]
    strict: bool,
    /// The moment that charts see, where runs are compared with each other.
    #[arg(skip)]
    rendered_as_of: Option<Timestamp>,
    /// Who is handed the events of the controllers.
    #[arg(skip)]
    notices: Option<CollectingSink>,
}

impl Common {
    /// A repository with nothing said about it.
    pub fn of(path: &std::path::Path) -> Self {
        use clap::Parser as _;
        let Defaults { common } = Defaults::parse_from(["everflow"]);
        Common {
            path: path.to_owned(),
            ..common
        }
    }

    /// Whether a gate of Flux was given in this form.
    fn asks_for(&self, gate: &str) -> bool {
        self.feature_gates.iter().any(|given| given == gate)
    }
}

/// The moment that charts see where what they render to is compared between runs.
const SAME_MOMENT: Timestamp = Timestamp::from_seconds(1_577_836_800);

/// The gate of Flux that is off: variables without a value are empty.
const UNSET_VARIABLES: &str = "StrictPostBuildSubstitutions=false";
/// The same gate when it is on: they are mistakes.
const STRICT_VARIABLES: &str = "StrictPostBuildSubstitutions=true";

/// A gate that changes what the embedded API server, or the controllers, accept.
pub fn feature_gate(text: &str) -> Result<String, String> {
    match text {
        "HPAScaleToZero=true" => Ok("HPAScaleToZero".to_owned()),
        UNSET_VARIABLES | STRICT_VARIABLES => Ok(text.to_owned()),
        _ => Err(format!(
            "only HPAScaleToZero=true, {UNSET_VARIABLES} and {STRICT_VARIABLES} are known"
        )),
    }
}

/// `everflow up`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Keep running, and deploy what changes on disk
    #[arg(long)]
    watch: bool,
    /// Open the API to kubectl, write a kubeconfig to this file, and keep running
    #[arg(long, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Print the notifications that the repository's Alerts would send; nothing leaves this machine
    #[arg(long, conflicts_with = "output")]
    notifications: bool,
    /// Send these notifications
    #[arg(long, requires = "notifications")]
    send: bool,
}

/// Formats of the outcome.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Indented JSON.
    Json,
    /// YAML.
    Yaml,
    /// JUnit's XML.
    Junit,
}

/// Runs `everflow up`.
pub fn run(args: &Args) -> Result<(), Failure> {
    in_runtime(up(args))
}

fn in_runtime<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let ended = runtime.block_on(work);
    // Work that blocks has been told to stop and ends by itself, or with the program.
    runtime.shutdown_background();
    ended
}

async fn up(args: &Args) -> Result<(), Failure> {
    let begun = Instant::now();
    let scratch = Scratch::new()?;
    let progress = Progress::default();
    let mut common = args.common.clone();
    common.notices = args.notifications.then(CollectingSink::new);
    // What changes on disk is told without what would be random or of the moment.
    common.rendered_as_of = args.watch.then(|| SystemClock::new().now());
    let work = async {
        let mut session = Session::start(&common, &scratch, &progress).await?;
        let ended = session.settle(session.time_left()).await?;
        Ok((session, ended))
    };
    let (mut session, ended) = unless_interrupted(work, &progress).await?;
    session.conclude(ended, begun.elapsed())?;
    let notices = common.notices.as_ref();
    let mut notifications = notices.map(|notices| Notifications::new(notices, args.send));
    if let Some(notifications) = &mut notifications {
        notifications.show(&session.world).await?;
    }
    if args.watch || args.kubeconfig_out.is_some() {
        let kubeconfig = args.kubeconfig_out.as_deref();
        watch::stay(&mut session, args.watch, kubeconfig, notifications).await?;
    }
    session.end(ended).await
}

/// The defaults of what is given on the command line.
#[derive(clap::Parser)]
struct Defaults {
    #[command(flatten)]
    common: Common,
}

/// What a repository deploys, as far as it comes up: for those who look at the manifests.
pub fn deployed(
    path: &std::path::Path,
    entry: Option<&str>,
    offline: bool,
) -> Result<Vec<everflow_json::Value>, Failure> {
    let common = Common {
        entry: entry.map(str::to_owned),
        offline,
        assume_crds: true,
        create_namespaces: true,
        placeholders: true,
        // Nothing is shown but what is found.
        output: Some(Format::Json),
        ..Common::of(path)
    };
    let progress = Progress::default();
    let mut deployed = Vec::new();
    in_runtime(async {
        let scratch = Scratch::new()?;
        let work = async {
            let mut session = Session::start(&common, &scratch, &progress).await?;
            session.settle(session.time_left()).await?;
            let manifests = session.world.manifests().await;
            session.world.stop().await;
            manifests.map_err(|error| Failure::Work(error.to_string()))
        };
        let manifests = unless_interrupted(work, &progress).await?;
        deployed.extend(manifests.all.into_values());
        Ok(())
    })?;
    Ok(deployed)
}

/// Does some work, and stops in good order when somebody presses ^C.
async fn unless_interrupted<T>(
    work: impl Future<Output = Result<T, Failure>>,
    progress: &Progress,
) -> Result<T, Failure> {
    tokio::select! {
        done = work => done,
        stopped = told_to_stop() => {
            stopped?;
            Err(Failure::Interrupted(progress.told()))
        }
    }
}

/// Waits for ^C, or for somebody who asks the process to end.
async fn told_to_stop() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            stopped = tokio::signal::ctrl_c() => stopped,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

/// How far it all has come, for those who interrupt it.
#[derive(Debug, Clone, Default)]
struct Progress(Arc<Mutex<Option<String>>>);

impl Progress {
    fn note(&self, picture: &Picture) {
        let counts = picture.counts().into_iter().rev();
        let counts = counts.map(|(state, count)| format!("{count} {}", state.word()));
        let mut text = counts.collect::<Vec<_>>().join(", ");
        let moving = picture.all().filter(|node| node.state.is_moving());
        let moving: Vec<String> = moving.map(|node| node.id.subject()).collect();
        if let Some((first, rest)) = moving.split_first() {
            let more = match rest.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            text += &format!("; stopped while waiting for {first}{more}");
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
    }

    fn told(&self) -> String {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told.clone();
        told.unwrap_or_else(|| "nothing was deployed yet".to_owned())
    }
}

/// A repository that is up, and how it is shown.
struct Session {
    options: Common,
    opened: Opened,
    world: World,
    screen: Option<Screen>,
    told: Reported,
    picture: Picture,
    progress: Progress,
    /// What placeholders stand for.
    made_up: Vec<String>,
    /// HelmReleases with hooks in which nothing runs.
    hooks: Vec<String>,
    /// When it all began: reading the repository counts too.
    begun: Instant,
}

impl Session {
    async fn start(
        options: &Common,
        scratch: &Scratch,
        progress: &Progress,
    ) -> Result<Session, Failure> {
        Self::start_with(options, scratch, None, progress).await
    }

    /// Starts with other files than those in the directory.
    async fn start_with(
        options: &Common,
        scratch: &Scratch,
        tree: Option<Tree>,
        progress: &Progress,
    ) -> Result<Session, Failure> {
        let begun = Instant::now();
        let disk = RealDisk::new(&scratch.directory)?;
        let starting = async {
            let given = options.clone();
            let opened = tokio::task::spawn_blocking(move || repository::open(&given, tree));
            let opened = opened.await;
            let opened = opened.map_err(|error| Failure::Work(error.to_string()))??;
            let plan = opened.plan(options);
            let env = Env::system_with(disk, options.limits.threads());
            Ok((opened, World::start(env, plan).await))
        };
        let started = tokio::time::timeout(options.timeout, starting).await;
        let (opened, world) = started.unwrap_or_else(|_| {
            Err(Failure::Work(format!(
                "{} was not read in time; --timeout gives more",
                options.path.display()
            )))
        })?;
        let quiet = options.output.is_some();
        let screen = if quiet { None } else { Screen::of_terminal() };
        let paint = match screen {
            Some(_) => Paint::Colours,
            None => Paint::Plain,
        };
        let session = Session {
            options: options.clone(),
            world: world.map_err(|error| Failure::Work(error.to_string()))?,
            screen,
            told: Reported {
                states: BTreeMap::new(),
                paint,
                quiet,
            },
            picture: Picture::default(),
            progress: progress.clone(),
            made_up: Vec::new(),
            hooks: Vec::new(),
            begun,
            opened,
        };
        if !quiet {
            print_text(&session.opened.introduction())?;
        }
        Ok(session)
    }

    /// What is left of the time that everything may take.
    fn time_left(&self) -> Duration {
        self.options.timeout.saturating_sub(self.begun.elapsed())
    }

    /// Shows what happens until nothing moves.
    async fn settle(&mut self, patience: Duration) -> Result<Ended, Failure> {
        let Session {
            world,
            screen,
            told,
            progress,
            ..
        } = self;
        let mut last = Vec::new();
        let detail = match screen {
            Some(_) => Detail::Everything,
            None => Detail::Flux,
        };
        let settled = world.settle(patience, detail, |picture| {
            progress.note(picture);
            match screen {
                Some(screen) => {
                    let lines = live::fitted(picture, Paint::Colours, Screen::room());
                    if lines != last {
                        // A terminal that is gone cannot be told so.
                        let _ = screen.draw(&lines);
                        last = lines;
                    }
                }
                None => told.tell(picture),
            }
        });
        let (picture, ended) = settled
            .await
            .map_err(|error| Failure::Work(error.to_string()))?;
        self.picture = picture;
        let made_up = self.world.not_had().await;
        let made_up = made_up.map_err(|error| Failure::Work(error.to_string()))?;
        self.made_up = match self.options.placeholders {
            true => made_up.iter().map(told_lack).collect(),
            false => Vec::new(),
        };
        if self.options.output.is_none() {
            let hooks = self.world.hooks_that_did_not_run().await;
            self.hooks = hooks.map_err(|error| Failure::Work(error.to_string()))?;
        }
        Ok(ended)
    }

    /// Prints the outcome.
    fn conclude(&mut self, ended: Ended, took: Duration) -> Result<(), Failure> {
        match self.options.output {
            Some(Format::Json) => {
                return print_data(&data::data(&self.picture, &self.opened), DataFormat::Json);
            }
            Some(Format::Yaml) => {
                return print_data(&data::data(&self.picture, &self.opened), DataFormat::Yaml);
            }
            Some(Format::Junit) => {
                return print_text(&data::junit(&self.picture, took.as_secs_f64()));
            }
            None => {}
        }
        let paint = self.told.paint;
        let mut text = String::from("\n");
        if let Some(screen) = &mut self.screen {
            screen.draw(&live::fitted(&self.picture, paint, Screen::room()))?;
            *screen = Screen::default();
        }
        text += &self.opened.lacking(self.picture.is_ready());
        for line in lines::summary(&self.picture, paint) {
            text += &format!("{line}\n");
        }
        for line in &self.made_up {
            text += &format!("{line}\n");
        }
        if let Some((first, more)) = self.hooks.split_first() {
            let more = match more.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            text += &format!(
                "hooks that are Jobs or Pods count as succeeded, for nothing runs here ({first}{more})\n"
            );
        }
        if ended == Ended::OutOfTime {
            text += "the time is up; --timeout gives more\n";
        }
        text += &format!("{:.1}s\n", took.as_secs_f64());
        print_text(&text)
    }

    /// Stops, with the exit code that belongs to the outcome.
    async fn end(self, ended: Ended) -> Result<(), Failure> {
        let good = ended == Ended::Settled && self.picture.is_ready();
        let first = first_cause(&self.picture);
        self.world.stop().await;
        match good {
            true => Ok(()),
            false => {
                Err(Failure::Work(first.unwrap_or_else(|| {
                    "not everything was ready in time".to_owned()
                })))
            }
        }
    }
}

fn told_lack(lack: &MissingReference) -> String {
    let more = match lack.users.len() {
        0 | 1 => String::new(),
        many => format!(" and {} more", many - 1),
    };
    let first = lack.users.first().map_or("", String::as_str);
    format!("placeholders stand for {} ({first}{more})", lack.what)
}

/// What to mend first, in one line.
fn first_cause(picture: &Picture) -> Option<String> {
    let (causes, waiting) = picture.causes();
    let mut all = causes.into_iter().chain(waiting);
    all.next().map(cause)
}

/// The cause in one line.
fn cause(node: &Node) -> String {
    let message = lines::headline(&node.message);
    let what = node.id.subject();
    match node.state {
        State::Failed => format!("{what} failed: {}: {message}", node.reason),
        state => format!("{what} is {}: {message}", state.word()),
    }
}

/// What was told line by line.
struct Reported {
    states: BTreeMap<ObjectId, (State, String)>,
    paint: Paint,
    quiet: bool,
}

impl Reported {
    /// Tells what has changed.
    fn tell(&mut self, picture: &Picture) {
        for node in picture.all() {
            let line = lines::line(node, self.paint);
            let now = (node.state, line.clone());
            let before = self.states.insert(node.id.clone(), now.clone());
            let news = before.as_ref() != Some(&now) && !node.state.is_moving();
            if news && !self.quiet {
                // A reader that went away needs no more lines.
                let _ = print_text(&format!("{line}\n"));
            }
        }
    }
}

/// A place for artifacts and unfinished work, gone with the value.
pub struct Scratch {
    /// Where it is.
    pub directory: PathBuf,
}

impl Scratch {
    /// An empty one.
    pub fn new() -> Result<Self, Failure> {
        let nanos = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let nanos = nanos.unwrap_or_default().as_nanos();
        let name = format!("everflow-up-{}-{nanos}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        private::create_new_dir(&directory)?;
        Ok(Scratch { directory })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is the system's to clean up.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
