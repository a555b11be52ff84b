//! Measures how much memory it takes to make an artifact of much content; see `bench/fetch.sh`.
//!
//! - `memory generate DIRECTORY MEGABYTES` makes files.
//! - `memory serve DIRECTORY` serves `DIRECTORY/layer.tar.gz` as the artifact `big/app:v1` of a
//!   registry and the repository `DIRECTORY/repository` at `/repository/.git`, and prints the port.
//! - `memory oci ADDRESS STORE` and `memory git URL STORE` fetch and print what it took.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use everflow_env::{Env, RealDisk};
use everflow_fetch::archive::{Algorithm, digest_of, digest_reader};
use everflow_fetch::oci::{OciClient, OciRef, PullOptions, Remote};
use everflow_fetch::storage::{Storage, StorageOptions};
use everflow_fetch::{Deadline, Url};
use everflow_git::{CheckoutOptions, GitClient, GitRef, Update, write_archive};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["generate", directory, size] => generate(Path::new(directory), size.parse().unwrap()),
        ["serve", directory] => serve(Path::new(directory)),
        [kind @ ("oci" | "git"), address, store] => fetch(kind, address, store),
        _ => println!("see the comment at the top of the source"),
    }
}

/// One large file, the rest in files of a megabyte. Little of it is noise, so that compression does
/// not take most of the time.
fn generate(directory: &Path, megabytes: usize) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut block = vec![0; 1 << 20];
    let large = megabytes / 5;
    for number in 0..=(megabytes - large) {
        let (path, count) = match number {
            0 => (directory.join("large.bin"), large),
            _ => (
                directory.join(format!("{:02}/{number}.txt", number % 40)),
                1,
            ),
        };
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = BufWriter::new(File::create(path).unwrap());
        for _ in 0..count {
            for piece in block.chunks_mut(4096) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                piece[..8].copy_from_slice(&state.to_le_bytes());
            }
            file.write_all(&block).unwrap();
        }
    }
}

struct Content {
    root: PathBuf,
    layer: String,
    manifest: Vec<u8>,
    digest: String,
}

fn serve(root: &Path) {
    let path = root.join("layer.tar.gz");
    let size = path.metadata().unwrap().len();
    let layer = digest_reader(Algorithm::Sha256, File::open(&path).unwrap()).unwrap();
    let manifest = format!(
        r#"{{"schemaVersion":2,"layers":[{{"mediaType":"application/vnd.cncf.flux.content.v1.tar+gzip","size":{size},"digest":"{layer}"}}]}}"#
    );
    let content = Arc::new(Content {
        root: root.to_owned(),
        layer: layer.to_string(),
        digest: digest_of(Algorithm::Sha256, manifest.as_bytes()).to_string(),
        manifest: manifest.into_bytes(),
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    for stream in listener.incoming() {
        let (stream, content) = (stream.unwrap(), content.clone());
        // A client that goes away is no reason to stop.
        std::thread::spawn(move || answer(stream, &content));
    }
}

/// One request; then the connection closes.
fn answer(stream: TcpStream, content: &Content) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut out = stream;
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader
            .read_line(&mut line)
            .ok()
            .filter(|count| *count > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |name: &str| {
        lines.iter().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    };
    let length = header("content-length").map_or(0, |text| text.parse().unwrap_or(0));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut words = lines.first()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let mut head = |extra: String| {
        write!(out, "HTTP/1.1 200 OK\r\nConnection: close\r\n{extra}\r\n").ok()?;
        Some(())
    };
    if target.contains("/manifests/") {
        let size = content.manifest.len();
        head(format!(
            "Content-Type: application/vnd.oci.image.manifest.v1+json\r\nContent-Length: {size}\r\nDocker-Content-Digest: {}\r\n",
            content.digest
        ))?;
        if method == "GET" {
            out.write_all(&content.manifest).ok()?;
        }
    } else if target.ends_with(&content.layer) {
        let mut file = File::open(content.root.join("layer.tar.gz")).ok()?;
        head(format!(
            "Content-Length: {}\r\n",
            file.metadata().ok()?.len()
        ))?;
        std::io::copy(&mut file, &mut out).ok()?;
    } else if target.starts_with("/repository/") {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut child = Command::new("git")
            .arg("http-backend")
            .env("GIT_PROJECT_ROOT", &content.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("PATH_INFO", path)
            .env("QUERY_STRING", query)
            .env("REQUEST_METHOD", method)
            .env("CONTENT_LENGTH", length.to_string())
            .env("CONTENT_TYPE", header("content-type").unwrap_or_default())
            .env("GIT_PROTOCOL", header("git-protocol").unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        child.stdin.take()?.write_all(&body).ok()?;
        write!(out, "HTTP/1.1 200 OK\r\nConnection: close\r\n").ok()?;
        std::io::copy(&mut child.stdout.take()?, &mut out).ok()?;
        child.wait().ok()?;
    } else {
        head("Content-Length: 2\r\n".to_owned())?;
        out.write_all(b"{}").ok()?;
    }
    Some(())
}

fn fetch(kind: &str, address: &str, store: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(2)
        .build()
        .unwrap();
    let start = Instant::now();
    let (digest, size) = runtime.block_on(async {
        let env = Env::system(RealDisk::new(Path::new(store)).unwrap());
        let _storage = Storage::open(&env, StorageOptions::default())
            .await
            .unwrap();
        let deadline = Deadline::after(&env.clock, Duration::from_secs(1800));
        match kind {
            "oci" => {
                let client = OciClient::new(&env, Remote::new(address)).unwrap();
                let wanted = OciRef {
                    tag: "v1".to_owned(),
                    ..OciRef::default()
                };
                let resolution = client.resolve(&wanted, "", &deadline).await.unwrap();
                let options = PullOptions::default();
                let pulled = client.pull(&resolution, &options, &deadline).await.unwrap();
                (pulled.digest.clone(), pulled.size)
            }
            _ => {
                let remote = everflow_git::Remote::new(Url::parse(address).unwrap());
                let client = GitClient::new(&env, remote).unwrap();
                let wanted = GitRef {
                    branch: "main".to_owned(),
                    ..GitRef::default()
                };
                let update = client
                    .update(&wanted, None, false, &deadline)
                    .await
                    .unwrap();
                let Update::Fetched(checkout) = update else {
                    panic!("nothing new");
                };
                let options = CheckoutOptions::default();
                let summary = write_archive(&env, *checkout, "tmp/archive", options)
                    .await
                    .unwrap();
                (summary.digest, summary.size)
            }
        }
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or("unknown");
    println!(
        "{kind}: {digest}, {} MB packed, {:.0} s, peak memory {}",
        size / 1_000_000,
        start.elapsed().as_secs_f64(),
        peak.trim()
    );
}
