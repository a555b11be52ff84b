//! Fetches an index from a server in the same process, loads it and looks for a chart in it; prints
//! the time of each step and the peak of the resident memory. See `bench/helm-index.sh`.
//!
//!     helm_index INDEX CHART VERSION

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use everflow_env::{Env, RealDisk};
use everflow_fetch::archive::Algorithm;
use everflow_fetch::helm::{HelmClient, Repository, versions_in};
use everflow_fetch::{Deadline, Url};
use everflow_helm::index::select_version;

type Failure = Box<dyn std::error::Error>;

/// Answers every request with the file, without ever holding much of it.
fn serve(path: String) -> io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || -> io::Result<()> {
        for stream in listener.incoming() {
            let mut stream = stream?;
            let mut lines = BufReader::new(stream.try_clone()?);
            let mut line = String::new();
            while lines.read_line(&mut line)? > 2 {
                line.clear();
            }
            let mut file = File::open(&path)?;
            let size = file.metadata()?.len();
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n")?;
            io::copy(&mut file, &mut stream)?;
        }
        Ok(())
    });
    Ok(port)
}

/// The peak of the resident memory in KiB.
fn peak() -> u64 {
    let mut status = String::new();
    let read =
        File::open("/proc/self/status").and_then(|mut file| file.read_to_string(&mut status));
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    match read {
        Ok(_) => number.and_then(|text| text.parse().ok()).unwrap_or(0),
        Err(_) => 0,
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || {
        arguments
            .next()
            .ok_or("usage: helm_index INDEX CHART VERSION")
    };
    let (index, chart, version) = (next()?, next()?, next()?);
    let directory = tempfile::tempdir()?;
    let env = Env::system(RealDisk::new(directory.path())?);
    let port = serve(index)?;
    let url = Url::parse(&format!("http://127.0.0.1:{port}/"))?;
    let client = HelmClient::new(&env, Repository::new(url))?;
    let deadline = Deadline::after(&env.clock, Duration::from_secs(300));
    println!("start: {} KiB", peak());

    let started = Instant::now();
    let fetched = client.fetch_index(Algorithm::Sha256, &deadline).await?;
    println!(
        "fetched {} bytes in {:?}, peak {} KiB",
        fetched.size,
        started.elapsed(),
        peak()
    );

    let started = Instant::now();
    let loaded = fetched.load(Algorithm::Sha256).await?;
    println!(
        "loaded {} charts with {} versions into {} bytes in {:?}, peak {} KiB",
        loaded.charts,
        loaded.versions,
        loaded.size,
        started.elapsed(),
        peak()
    );

    let started = Instant::now();
    let versions = versions_in(&env, &loaded.path(), &chart).await?;
    let versions = versions.ok_or("the index does not have the chart")?;
    let chosen = select_version(&chart, &versions, &version)?;
    println!(
        "chose {} in {:?}, peak {} KiB",
        chosen.version,
        started.elapsed(),
        peak()
    );
    Ok(())
}
