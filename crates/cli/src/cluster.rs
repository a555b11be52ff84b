//! `everflow cluster`: a Kubernetes API server on this machine, without a cluster behind it.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use everflow_cluster::auth::User;
use everflow_cluster::env::{Environment as _, SystemEnvironment};
use everflow_cluster::faults::NoFaults;
use everflow_cluster::server::is_loopback;
use everflow_cluster::store::Store;
use everflow_cluster::store::disk::DiskJournal;
use everflow_cluster::{ApiServer, Authority, Options, kubeconfig, serve};
use everflow_env::disk::private;

use crate::exit::Failure;

/// `everflow cluster`
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to do with it.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What can be done with the embedded cluster.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Serve the Kubernetes API until interrupted
    Start(StartArgs),
}

/// `everflow cluster start`
#[derive(clap::Args, Debug)]
pub struct StartArgs {
    /// Store objects in this directory; without it, they are lost when the program ends
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,
    /// Where to write the kubeconfig
    #[arg(long, value_name = "FILE", default_value = "everflow.kubeconfig")]
    pub kubeconfig: PathBuf,
    /// Who may connect, as lines of TOKEN,USER,UID,"GROUP,GROUP"; enables authorization
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,
    /// CAs whose client certificates are accepted, as PEM; the server's own CA always is
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Which controllers run: all, none, or a comma-separated list.
    ///
    /// They are namespace, garbagecollector, serviceaccount, roleaggregation, resourcequota and workload. The last one
    /// simulates a cluster that runs things: pods become ready and Jobs succeed. The annotation
    /// cluster.everflow.dev/behavior on a workload or its pod template makes them fail: never-ready, image-pull,
    /// crash-loop or job-failed.
    #[arg(long, value_name = "all|none|LIST", default_value = "all")]
    pub controllers: String,
    /// How many seconds simulated workloads take to become ready
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub workload_delay: f64,
}

/// Runs the verb.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.verb {
        Verb::Start(start) => start_cluster(start),
    }
}

fn start_cluster(args: &StartArgs) -> Result<(), Failure> {
    if !is_loopback(&args.listen) && args.token_auth_file.is_none() {
        return Err(Failure::Usage(format!(
            "{} can be reached from other machines; say who may connect with --token-auth-file, or listen on 127.0.0.1",
            args.listen
        )));
    }
    if let Some(dir) = &args.dir {
        prepare(dir)
            .map_err(|error| Failure::Work(format!("cannot use {}: {error}", dir.display())))?;
    }
    everflow_serve::raise_open_files();
    let env = Arc::new(SystemEnvironment::new());
    let token: String = (0..4).map(|_| format!("{:016x}", env.random())).collect();
    let mut tokens = vec![(token.clone(), User::admin())];
    if let Some(file) = &args.token_auth_file {
        tokens.extend(read_tokens(file)?);
    }
    let workload_delay = std::time::Duration::try_from_secs_f64(args.workload_delay)
        .map_err(|_| Failure::Usage("--workload-delay takes a number of seconds".into()))?;
    let authority = authority(args, &args.listen)?;
    let options = Options {
        authorization: true,
        workload_delay,
        root_certificate: Some(authority.ca_certificate.clone()),
        tokens,
        signing_key: args.dir.as_deref().map(signing_key).transpose()?,
        ..Options::default()
    }
    .with_controllers(&args.controllers)
    .map_err(Failure::Usage)?;
    let store = match &args.dir {
        Some(dir) => {
            let file = dir.join(OBJECTS);
            let journal = DiskJournal::open(&file).map_err(|error| {
                Failure::Work(format!("cannot open {}: {error}", file.display()))
            })?;
            Store::open(options.window, Box::new(journal)).map_err(|error| {
                Failure::Work(format!("cannot read {}: {error}", file.display()))
            })?
        }
        None => Store::new(options.window),
    };
    let server = ApiServer::with_store(env, options, store);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(listen(args, server, &token, &authority))
}

/// The file with all objects.
const OBJECTS: &str = "objects.redb";
/// The secret that signs tokens of service accounts.
const SIGNING_KEY: &str = "service-accounts.key";
/// The certificates and keys of the authority and of the server.
const AUTHORITY: [&str; 4] = ["ca.crt", "ca.key", "server.crt", "server.key"];

/// Makes the directory. What an older version left in it for others to read is theirs no more.
fn prepare(dir: &Path) -> std::io::Result<()> {
    private::create_dir(dir)?;
    let files = AUTHORITY.iter().chain([&OBJECTS, &SIGNING_KEY]);
    for file in files.map(|name| dir.join(name)) {
        if file.exists() {
            keep_private(&file)?;
        }
    }
    // A directory with other things in it may be for others.
    let is_ours = dir.join(OBJECTS).exists() || std::fs::read_dir(dir)?.next().is_none();
    match is_ours {
        true => keep_private(dir),
        false => Ok(()),
    }
}

fn keep_private(path: &Path) -> std::io::Result<()> {
    if let Some(before) = private::tighten(path)? {
        let shown = path.display();
        say(&format!(
            "► others may not use {shown} any more; its mode was {before:04o}"
        ));
    }
    Ok(())
}

/// Tells something beside what was asked for.
fn say(text: &str) {
    // Whoever does not listen misses it.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The secret of the directory that signs tokens of service accounts, made on first use.
fn signing_key(dir: &Path) -> Result<Vec<u8>, Failure> {
    let file = dir.join(SIGNING_KEY);
    match std::fs::read(&file) {
        Ok(key) if key.len() >= 32 => return Ok(key),
        Ok(_) => {
            return Err(Failure::Work(format!(
                "{} is too short; delete it to have a new one made",
                file.display()
            )));
        }
        Err(_) => {}
    }
    let env = SystemEnvironment::new();
    let key: String = (0..4).map(|_| format!("{:016x}", env.random())).collect();
    private::write_file(&file, &key)?;
    Ok(key.into_bytes())
}

/// Reads lines of `token,user,uid,"group1,group2"`.
fn read_tokens(file: &Path) -> Result<Vec<(String, User)>, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))?;
    if private::open_to_others(file).unwrap_or(false) {
        let shown = file.display();
        say(&format!(
            "⚠ others may read {shown}, which has tokens in it; use chmod 600"
        ));
    }
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut fields = line.splitn(4, ',').map(str::trim);
        let (Some(token), Some(name), Some(uid)) = (fields.next(), fields.next(), fields.next())
        else {
            return Err(Failure::Usage(format!(
                "{}:{}: expected TOKEN,USER,UID[,\"GROUP,GROUP\"]",
                file.display(),
                index + 1
            )));
        };
        let groups = fields
            .next()
            .unwrap_or_default()
            .trim_matches('"')
            .split(',')
            .map(str::trim)
            .filter(|group| !group.is_empty())
            .map(str::to_owned)
            .collect();
        tokens.push((
            token.to_owned(),
            User {
                name: name.to_owned(),
                uid: uid.to_owned(),
                groups,
                ..User::default()
            },
        ));
    }
    Ok(tokens)
}

/// The authority of the directory, made on first use; one for this run without a directory.
fn authority(args: &StartArgs, address: &SocketAddr) -> Result<Authority, Failure> {
    let mut names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
        "kubernetes".to_owned(),
        "kubernetes.default".to_owned(),
        "kubernetes.default.svc".to_owned(),
    ];
    let own = address.ip().to_string();
    if !names.contains(&own) {
        names.push(own);
    }
    let files = args.dir.as_ref();
    let files = files.map(|dir| AUTHORITY.map(|name| dir.join(name)));
    if let Some([ca, ca_key, certificate, key]) = &files
        && let (Ok(ca_certificate), Ok(certificate), Ok(key)) = (
            std::fs::read_to_string(ca),
            std::fs::read_to_string(certificate),
            std::fs::read_to_string(key),
        )
    {
        return Ok(Authority {
            ca_certificate,
            ca_key: std::fs::read_to_string(ca_key).ok(),
            certificate,
            key,
        });
    }
    let fresh = Authority::generate(&names).map_err(|error| Failure::Work(error.to_string()))?;
    if let Some([ca, ca_key, certificate, key]) = &files {
        private::write_file(ca, &fresh.ca_certificate)?;
        private::write_file(certificate, &fresh.certificate)?;
        private::write_file(key, &fresh.key)?;
        private::write_file(ca_key, fresh.ca_key.as_deref().unwrap_or_default())?;
    }
    Ok(fresh)
}

async fn listen(
    args: &StartArgs,
    server: ApiServer,
    token: &str,
    authority: &Authority,
) -> Result<(), Failure> {
    let listener = tokio::net::TcpListener::bind(args.listen)
        .await
        .map_err(|error| Failure::Work(format!("cannot listen on {}: {error}", args.listen)))?;
    let address = listener.local_addr()?;
    let mut client_authorities = authority.ca_certificate.clone();
    if let Some(file) = &args.client_ca_file {
        let more = std::fs::read_to_string(file)
            .map_err(|error| Failure::Usage(format!("cannot read {}: {error}", file.display())))?;
        client_authorities.push('\n');
        client_authorities.push_str(&more);
    }
    let tls = authority
        .server_config_for(&client_authorities)
        .map_err(|error| Failure::Work(error.to_string()))?;
    let host = if address.ip().is_unspecified() {
        "127.0.0.1".to_owned()
    } else {
        address.ip().to_string()
    };
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host
    };
    let url = format!("https://{host}:{}", address.port());
    private::write_file(
        &args.kubeconfig,
        kubeconfig(&url, &authority.ca_certificate, token),
    )
    .map_err(|error| {
        Failure::Work(format!(
            "cannot write {}: {error}",
            args.kubeconfig.display()
        ))
    })?;
    let mut out = std::io::stdout();
    writeln!(out, "✔ serving the Kubernetes API on {url}")?;
    writeln!(
        out,
        "► kubectl --kubeconfig {} get namespaces",
        args.kubeconfig.display()
    )?;
    out.flush()?;
    serve(server, Arc::new(NoFaults), listener, tls, stop_signal()).await?;
    writeln!(out, "✔ stopped")?;
    Ok(())
}

/// Serves a cluster that runs in this process on a free port of this machine, and writes how to
/// reach it.
pub async fn open(
    server: &ApiServer,
    token: &str,
    file: &Path,
) -> Result<tokio::task::JoinHandle<()>, Failure> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("https://127.0.0.1:{}", listener.local_addr()?.port());
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let failed = |error: everflow_cluster::server::TlsError| Failure::Work(error.to_string());
    let authority = Authority::generate(&names).map_err(failed)?;
    let tls = authority.server_config().map_err(failed)?;
    let text = kubeconfig(&url, &authority.ca_certificate, token);
    private::write_file(file, &text)
        .map_err(|error| Failure::Work(format!("cannot write {}: {error}", file.display())))?;
    let server = server.clone();
    Ok(tokio::spawn(async move {
        // It ends with the program.
        let _ = serve(
            server,
            Arc::new(NoFaults),
            listener,
            tls,
            std::future::pending(),
        )
        .await;
    }))
}

/// Done when the program is asked to stop.
pub(crate) async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
