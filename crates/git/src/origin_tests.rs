//! Where credentials go, and what is shown of answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everflow_env::{Env, MemoryDialer};
use everflow_fetch::http::Auth;
use everflow_fetch::testing::{answer, serve};

use crate::{Deadline, GitAuth, GitClient, GitRef, Remote, Url};

/// What servers were asked, with the credentials that came along.
type Log = Arc<Mutex<Vec<String>>>;

/// A server that answers by path and notes who comes with credentials.
fn noting(
    dialer: &MemoryDialer,
    log: &Log,
    (host, port): (&'static str, u16),
    said: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
) {
    let log = log.clone();
    serve(dialer, host, port, move |seen| {
        let auth = seen.header("authorization").unwrap_or("none").to_owned();
        let body = String::from_utf8_lossy(&seen.body).into_owned();
        let secret = ["hunter2", "aHVudGVy", "dTpodW50ZXIy"];
        let shown = format!("{} {auth} {body}", seen.head);
        let leaked = secret.iter().any(|word| shown.contains(word));
        let method = seen.line().split(' ').next().unwrap_or_default().to_owned();
        let path = seen.line().split(' ').nth(1).unwrap_or_default().to_owned();
        let note = format!(
            "{host}:{port} {method} {}",
            if leaked { "with" } else { "without" }
        );
        log.lock().unwrap().push(note);
        said(&path)
    });
}

fn noted(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

fn login() -> Auth {
    Auth::Basic {
        username: "u".to_owned(),
        password: "hunter2".into(),
    }
}

fn moved(to: &str) -> Vec<u8> {
    answer("307 Moved", &format!("Location: {to}\r\n"), b"")
}

fn world() -> (MemoryDialer, Log, Env) {
    let dialer = MemoryDialer::new();
    (dialer.clone(), Log::default(), Env::simulated(3, dialer))
}

#[tokio::test(start_paused = true)]
async fn git_credentials_stay_with_their_server() {
    for target in [
        "http://a:8080/x.git",
        "http://b/x.git",
        "http://u:y@b/x.git",
    ] {
        let (dialer, log, env) = world();
        let location = format!("{target}/info/refs?service=git-upload-pack");
        noting(&dialer, &log, ("a", 80), move |_| moved(&location));
        for place in [("a", 8080), ("b", 80)] {
            noting(&dialer, &log, place, |path| {
                let greeting = "000eversion 2\n000cls-refs\n0000";
                match path.contains("info/refs") {
                    true => answer("200 OK", "", greeting.as_bytes()),
                    false => answer("401 No", "Content-Type: text/plain\r\n", b"inner words"),
                }
            });
        }
        let mut remote = Remote::new(Url::parse("http://a/x.git").unwrap());
        remote.auth = GitAuth::Http(login());
        let client = GitClient::new(&env, remote).unwrap();
        let deadline = Deadline::after(&env.clock, Duration::from_secs(60));
        let error = client
            .resolve(&GitRef::default(), &deadline)
            .await
            .unwrap_err();
        let seen = noted(&log);
        let (first, others) = seen.split_first().unwrap();
        assert_eq!(first, "a:80 GET with");
        assert!(
            others.iter().all(|one| one.ends_with("without")),
            "{seen:?}"
        );
        assert!(others.iter().any(|one| one.contains("POST")), "{seen:?}");
        assert!(
            error.to_string().contains("authentication required"),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn git_shows_nothing_of_servers_that_were_not_asked() {
    for said in [
        answer("401 No", "Content-Type: text/plain\r\n", b"inner words"),
        answer("403 No", "Content-Type: text/plain\r\n", b"inner words"),
        answer("200 OK", "", b"inner words"),
        answer("200 OK", "", b"0013ERR inner words"),
    ] {
        let (dialer, log, env) = world();
        let own = said.clone();
        noting(&dialer, &log, ("b", 80), move |_| said.clone());
        noting(&dialer, &log, ("a", 80), |_| moved("http://b/x/info/refs"));
        noting(&dialer, &log, ("c", 80), move |_| own.clone());
        let ask = async |host: &str| {
            let url = Url::parse(&format!("http://{host}/x")).unwrap();
            let client = GitClient::new(&env, Remote::new(url)).unwrap();
            let deadline = Deadline::after(&env.clock, Duration::from_secs(60));
            let resolved = client.resolve(&GitRef::default(), &deadline).await;
            resolved.unwrap_err().to_string()
        };
        let error = ask("a").await;
        assert!(
            !error.contains("inner") && error.contains("redirected"),
            "{error}"
        );
        // What the server that was asked says is shown.
        assert!(ask("c").await.contains("inner"));
    }
}
