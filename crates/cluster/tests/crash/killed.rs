//! A program that really dies: this test runs itself again, writes, and is killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use everflow_cluster::env::SystemEnvironment;
use everflow_cluster::store::Store;
use everflow_cluster::store::disk::DiskJournal;
use everflow_cluster::{ApiServer, Options, Request};

use crate::Numbers;

const DIRECTORY: &str = "EVERFLOW_CRASH_DIRECTORY";

fn server(directory: &str) -> ApiServer {
    let file = std::path::Path::new(directory).join("objects.redb");
    let journal = DiskJournal::open(&file).unwrap();
    let store = Store::open(100, Box::new(journal)).unwrap();
    ApiServer::with_store(
        Arc::new(SystemEnvironment::new()),
        Options::default(),
        store,
    )
}

/// Applies a ConfigMap whose value counts up; true when it was acknowledged.
fn apply(server: &ApiServer, index: usize) -> bool {
    let name = format!("cm-{}", index % 7);
    let body = format!(
        r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}"}}, "data": {{"value": "{index}"}}}}"#
    );
    let path = format!("/api/v1/namespaces/default/configmaps/{name}?fieldManager=test");
    let request =
        Request::new("PATCH", &path, body).header("content-type", "application/apply-patch+yaml");
    server.handle(&request).status < 300
}

/// What runs in the program that is killed: it says every write that was acknowledged.
#[test]
fn the_program_that_is_killed() {
    let Ok(directory) = std::env::var(DIRECTORY) else {
        return;
    };
    let server = server(&directory);
    let from = newest(&server).map_or(0, |value| value + 1);
    for index in from.. {
        assert!(apply(&server, index));
        let mut out = std::io::stdout().lock();
        writeln!(out, "acknowledged {index}").unwrap();
        out.flush().unwrap();
    }
}

/// The largest value in the store.
fn newest(server: &ApiServer) -> Option<usize> {
    let all = server
        .store()
        .list("/configmaps", "default/", None, 0)
        .items;
    all.iter()
        .filter_map(|stored| stored.value.pointer("/data/value")?.as_str()?.parse().ok())
        .max()
}

#[test]
fn a_killed_program_keeps_what_it_acknowledged() {
    let directory = std::env::temp_dir().join(format!("everflow-crash-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let place = directory.to_str().unwrap();
    let mut numbers = Numbers(23);
    let mut last = None;
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "killed::the_program_that_is_killed",
                "--nocapture",
            ])
            .env(DIRECTORY, place)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let stop_after = 1 + numbers.below(40);
        let mut seen = 0;
        for line in lines.by_ref() {
            if let Some(index) = line.unwrap().split("acknowledged ").nth(1) {
                last = Some(index.parse::<usize>().unwrap());
                seen += 1;
                if seen == stop_after {
                    break;
                }
            }
        }
        // SIGKILL: the program can do nothing about it.
        child.kill().unwrap();
        child.wait().unwrap();
        for line in lines.map_while(Result::ok) {
            if let Some(index) = line
                .split("acknowledged ")
                .nth(1)
                .and_then(|text| text.parse().ok())
            {
                last = Some(index);
            }
        }
        let found = newest(&server(place));
        assert!(
            found == last || found == last.map(|value| value + 1),
            "round {round}: acknowledged {last:?}, found {found:?}"
        );
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
