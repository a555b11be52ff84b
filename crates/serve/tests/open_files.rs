//! A process that may open no more files. The limit counts for the whole process, so this test has one of its own.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::fs::File;
use std::time::Duration;

use everflow_serve::Limits;
use rustix::process::{Resource, getrlimit, setrlimit};
use support::{get_on, listen, must_be_served};
use tokio::net::TcpStream;

fn open_all() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// Processor time that the process has used.
fn used() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}

#[tokio::test]
async fn clients_are_served_again_when_files_can_be_opened_again() {
    let (address, serving) = listen(Limits::default()).await;
    must_be_served(address).await;
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(100);
    setrlimit(Resource::Nofile, limit).unwrap();

    // Nothing is left for the server, and it has nothing to give back.
    let (mut files, before) = (open_all(), used_with_room());
    files.pop();
    let mut client = TcpStream::connect(address).await.unwrap();
    let waiting = tokio::spawn(async move { get_on(&mut client, "/").await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiting.is_finished() && !serving.is_finished());
    files.clear();
    assert!(used() - before < Duration::from_millis(300), "it spins");
    let answer = tokio::time::timeout(Duration::from_secs(1), waiting).await;
    assert!(answer.unwrap().unwrap().unwrap().ends_with("0 bytes"));

    // Idle connections have taken all that is left: they are dropped.
    let mut idle = Vec::new();
    while let Ok(stream) = TcpStream::connect(address).await {
        idle.push(stream);
        tokio::task::yield_now().await;
        if idle.len() > 200 {
            break;
        }
    }
    let mut files = open_all();
    tokio::time::sleep(Duration::from_millis(600)).await;
    files.pop();
    drop(idle.pop());
    must_be_served(address).await;
    assert!(!serving.is_finished());
}

/// [`used`] needs a file, too.
fn used_with_room() -> Duration {
    let limit = getrlimit(Resource::Nofile);
    let mut more = limit;
    more.current = Some(200);
    setrlimit(Resource::Nofile, more).unwrap();
    let used = used();
    setrlimit(Resource::Nofile, limit).unwrap();
    used
}
