//! `everflow adopt`: the work of Flux's controllers taken over, with nothing rolled out and nothing pruned.

mod carry;
mod engine;
mod find;
mod notes;
mod stop;
mod survey;
mod watch;

use std::path::PathBuf;

use super::bootstrap::{ComponentOptions, components, objects_of, until_deployed};
use super::connection::{Connection, Session};
use super::{in_runtime, say};
use crate::exit::Failure;
use crate::output::print_text;
use engine::Engine;
use everflow_install::instance::Carried;
use survey::{Survey, survey};

pub use engine::{forget, restore, stop as stop_engine};
pub use find::{Install, installation, is_controller_of_flux};
pub use stop::{resume_operator, start_controllers, stop_controllers};

/// `everflow adopt`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Continue although a feature in use is not supported
    #[arg(long)]
    force: bool,
    /// A file or directory with the manifests to install
    #[arg(long, value_name = "PATH", hide = true)]
    manifests: Option<PathBuf>,
    /// The registry of the image
    #[arg(long, value_name = "HOST/PATH", default_value = "")]
    registry: String,
    /// A Secret to pull the image with
    #[arg(long, value_name = "NAME", default_value = "")]
    image_pull_secret: String,
    #[command(flatten)]
    connection: Connection,
}

impl Args {
    fn component_options(&self, namespace: &str, domain: &str) -> ComponentOptions {
        ComponentOptions {
            namespace: namespace.to_owned(),
            components: find::REPLACED
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
            components_extra: Vec::new(),
            registry: self.registry.clone(),
            image_pull_secret: self.image_pull_secret.clone(),
            network_policy: true,
            watch_all_namespaces: true,
            cluster_domain: domain.to_owned(),
            toleration_keys: Vec::new(),
            log_level: "info".to_owned(),
            manifests: self.manifests.clone(),
        }
    }
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    in_runtime(async {
        let session = args.connection.open()?;
        say::action("looking for Flux");
        let installs = installation(&session).await?;
        let install = choose(&installs, &args.connection.namespace)?;
        say::success(&format!(
            "found Flux {} in {:?} namespace",
            install.version(),
            install.namespace
        ));
        say::action("looking at what is in use");
        let survey = survey(&session, &installs).await?;
        let options = args.component_options(&install.namespace, carry::domain(install));
        let mut objects = objects_of(&components(&options)?, "component manifests")?;
        let carried = match args.manifests {
            // What somebody wrote down is what they want.
            Some(_) => Carried::default(),
            None => carry::over(&session, install, &options, &mut objects).await?,
        };
        let engine = Engine::new(&session, objects).await?;
        if engine.deployments().is_empty() {
            return Err(Failure::Work(
                "there is no Deployment in the manifests".to_owned(),
            ));
        }
        print_text(&plan(install, &survey, &engine, &carried))?;
        if !survey.blockers.is_empty() && !args.force {
            return Err(Failure::Work(
                "this cluster cannot be taken over: see above; nothing was changed".to_owned(),
            ));
        }
        say::action("rehearsing the installation");
        engine.apply(true).await?;
        say::success("the API server would take it");
        if args.dry_run {
            return Ok(());
        }
        take_over(args, &session, install, &survey, &engine).await
    })
}

/// The installation that is meant: that of the namespace, or the only one.
fn choose<'i>(installs: &'i [Install], namespace: &str) -> Result<&'i Install, Failure> {
    let with_work = |install: &&Install| {
        install
            .controllers
            .iter()
            .any(find::Controller::is_replaced)
    };
    let found: Vec<&Install> = installs.iter().filter(with_work).collect();
    match found[..] {
        [] => Err(Failure::Work(
            "there is no Flux in this cluster: everflow install or everflow bootstrap brings Everflow".to_owned(),
        )),
        [only] => Ok(only),
        _ => {
            let own = found.iter().find(|install| install.namespace == namespace);
            own.copied().ok_or_else(|| {
                let all: Vec<&str> = found.iter().map(|one| one.namespace.as_str()).collect();
                Failure::Work(format!(
                    "Flux is installed more than once: say which with --namespace ({})",
                    all.join(", ")
                ))
            })
        }
    }
}

/// What will be done, in words.
fn plan(install: &Install, survey: &Survey, engine: &Engine<'_>, carried: &Carried) -> String {
    let mut text = String::new();
    let mut line = |depth: usize, words: &str| {
        text.push_str(&"  ".repeat(depth));
        text.push_str(words);
        text.push('\n');
    };
    let kept = match &install.manager {
        find::Manager::Kustomization { namespace, name } => {
            format!("kept up by the Kustomization {namespace}/{name}")
        }
        find::Manager::Chart { namespace, name } => {
            format!("kept up by the Helm release {namespace}/{name}")
        }
        find::Manager::Operator => "kept up by the Flux operator".to_owned(),
        find::Manager::Nobody => "kept up by nobody".to_owned(),
    };
    line(
        0,
        &format!(
            "Flux {} in {}, {kept}",
            install.version(),
            install.namespace
        ),
    );
    for objects in survey.lines() {
        line(1, &objects);
    }
    line(0, "Stopped");
    for controller in install.controllers.iter().filter(|one| one.is_replaced()) {
        let replicas = match (controller.replicas, controller.noted) {
            (0, Some(noted)) => format!("{noted} replicas, stopped already"),
            (replicas, _) => format!("{replicas} replicas"),
        };
        line(1, &format!("{}: {replicas}", controller.name));
    }
    line(0, "Started");
    for (namespace, name) in engine.deployments() {
        line(1, &format!("{namespace}/{name}"));
    }
    let (new, changed) = engine.counts();
    line(
        1,
        &format!(
            "{new} objects are new, {} are changed and noted as they are:",
            changed.len()
        ),
    );
    for name in changed {
        line(2, &name);
    }
    for (title, words) in [
        ("Carried over from Flux's Deployments", &carried.changes),
        ("Not carried over", &carried.notes),
        ("Not supported", &survey.blockers),
        ("Heed", &survey.warnings),
    ] {
        if !words.is_empty() {
            line(0, title);
        }
        for words in words {
            line(1, words);
        }
    }
    line(0, "everflow release gives the cluster back to Flux");
    text
}

async fn take_over(
    args: &Args,
    session: &Session,
    install: &Install,
    survey: &Survey,
    engine: &Engine<'_>,
) -> Result<(), Failure> {
    let kinds: Vec<_> = survey.objects.iter().map(|one| one.kind).collect();
    let before = watch::picture(session, &kinds).await?;
    say::action("stopping Flux's controllers");
    stop_controllers(session, install, true).await?;
    say::success("Flux's controllers are stopped");
    say::action("starting everflow");
    let begun = async {
        engine.apply(false).await?;
        until_deployed(session, &engine.deployments(), args.connection.timeout).await
    };
    begun.await.map_err(|failure| {
        Failure::Work(format!(
            "{failure}. Run this again when that is mended, or give the cluster back with everflow release"
        ))
    })?;
    say::success("everflow runs");
    let asked = watch::ask_all(session, &survey.objects).await?;
    let count = asked.len();
    say::waiting(&format!("waiting for the first attempt of {count} objects"));
    let late = watch::until_attempted(session, asked, args.connection.timeout).await?;
    let after = watch::picture(session, &kinds).await?;
    report(count, &late, &before.changes(&after))
}

fn report(count: usize, late: &[String], changes: &[String]) -> Result<(), Failure> {
    let done = count - late.len();
    say::success(&format!(
        "{done} of {count} objects had their first attempt"
    ));
    match changes {
        [] => say::success("nothing was rolled out, nothing was pruned"),
        changes => {
            say::warning("something changed meanwhile; a commit may be the reason:");
            for change in changes {
                say::plain(&format!("  {change}"));
            }
        }
    }
    if late.is_empty() {
        say::success("everflow has taken over");
        return Ok(());
    }
    for name in late {
        say::failure(&format!("{name} had no attempt yet"));
    }
    Err(Failure::Work(format!(
        "{} objects had no attempt in time; they are tried on. everflow get all says how they stand, everflow \
         release gives the cluster back",
        late.len()
    )))
}
