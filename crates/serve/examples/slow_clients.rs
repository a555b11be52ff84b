//! How a port fares under many slow clients: `cargo run --release -p everflow-serve --example slow_clients -- 10000 30`
//! opens so many connections for so many seconds, each of which sends a byte of a head every twelve seconds and comes
//! back when it is dropped. Meanwhile another client asks ten times a second. The port is served by a process of its
//! own, whose memory is shown.

#![allow(clippy::print_stdout)]

use std::convert::Infallible;
use std::io::{BufRead as _, Read as _, Write as _};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use everflow_env::SystemClock;
use everflow_serve::{Limits, Port, RequestBody, raise_open_files};
use http::{Request, Response};
use http_body_util::Full;
use hyper::service::service_fn;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    raise_open_files();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => runtime.block_on(serve()),
        [clients, seconds] => runtime.block_on(attack(clients.parse()?, seconds.parse()?)),
        _ => Err("give the number of clients and of seconds".into()),
    }
}

/// Serves on a free port until standard input ends.
async fn serve() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let port = Port::new(Arc::new(SystemClock::new()), Limits::default());
    let stop = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
    let stop = async { drop(stop.await) };
    port.run(listener, stop, |connection| {
        connection.http(service_fn(|_: Request<RequestBody>| async {
            let body = Full::new(Bytes::from_static(b"served"));
            Ok::<_, Infallible>(Response::new(body))
        }))
    })
    .await;
    Ok(())
}

async fn attack(clients: usize, seconds: u64) -> Result<(), Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let output = child.stdout.take().ok_or("no output")?;
    std::io::BufReader::new(output).read_line(&mut line)?;
    let address: SocketAddr = line.trim().parse()?;
    let before = resident(child.id());
    let begun = Instant::now();
    for number in 0..clients {
        tokio::spawn(slow_client(address));
        if number % 500 == 499 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    // On a thread of its own, for the slow clients keep those of the runtime busy.
    let server = child.id();
    let probing = tokio::task::spawn_blocking(move || {
        let (mut took, mut most) = (Vec::new(), before);
        while begun.elapsed() < Duration::from_secs(seconds) {
            let asked = Instant::now();
            ask(address)?;
            took.push(asked.elapsed());
            most = most.max(resident(server));
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok::<_, Failure>((took, most))
    });
    let (mut took, most) = probing.await??;
    took.sort();
    let at = |share: usize| took.get((took.len() - 1) * share / 100).copied();
    println!(
        "{clients} slow clients: {} answers, median {:?}, 99% {:?}, longest {:?}; memory of the server {} KiB before, at most {} KiB",
        took.len(),
        at(50).unwrap_or_default(),
        at(99).unwrap_or_default(),
        at(100).unwrap_or_default(),
        before >> 10,
        most >> 10,
    );
    std::io::stdout().flush()?;
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Sends a byte every twelve seconds, and comes back a second after it was dropped.
async fn slow_client(address: SocketAddr) {
    loop {
        if let Ok(mut stream) = TcpStream::connect(address).await {
            let _ = stream
                .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
                .await;
            let (mut reading, mut writing) = stream.split();
            let dribbling = async {
                loop {
                    tokio::time::sleep(Duration::from_secs(12)).await;
                    let _ = writing.write_all(b"a").await;
                }
            };
            tokio::select! {
                _ = reading.read_u8() => {}
                () = dribbling => {}
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn ask(address: SocketAddr) -> Result<(), Failure> {
    // A connection that was dropped before it was heard asks again, as clients do.
    for _ in 0..10 {
        let begun = Instant::now();
        let mut stream = std::net::TcpStream::connect(address)?;
        let connected = begun.elapsed();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        if stream.read_to_string(&mut answer).is_ok() && answer.ends_with("served") {
            if begun.elapsed() > Duration::from_millis(500) {
                println!(
                    "connected after {connected:?}, served after {:?}",
                    begun.elapsed()
                );
            }
            return Ok(());
        }
        println!("dropped");
    }
    Err("never served".into())
}

/// How many bytes of memory a process has.
fn resident(process: u32) -> usize {
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages: Option<usize> = statm.split(' ').nth(1).and_then(|text| text.parse().ok());
    pages.unwrap_or(0) * 4096
}
