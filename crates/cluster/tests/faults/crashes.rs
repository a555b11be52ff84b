//! Servers and clients that die, and what is left.

use super::*;
use everflow_cluster::faults::{FaultyJournal, Line, MemoryDisk, WriteFaults, WriteVerdict};
use everflow_cluster::store::Store;
use everflow_cluster::store::durable::Journal;

fn start(journal: Box<dyn Journal>) -> ApiServer {
    let env = ManualEnvironment::new(Timestamp::from_seconds(1_794_740_000), 21);
    let store = Store::open(1000, journal).unwrap();
    ApiServer::with_store(Arc::new(env), Options::default(), store)
}

async fn create(service: &ApiService, name: &str) -> Result<(u16, Value), String> {
    let map = json!({"metadata": {"name": name}}).to_string();
    send(service, "POST", MAPS, JSON, &map).await
}

fn kept(disk: &MemoryDisk) -> Vec<String> {
    let objects = disk.objects("/configmaps").into_iter();
    objects.map(|(key, _)| key).collect()
}

#[tokio::test]
async fn a_dead_server_answers_nothing_and_keeps_nothing() {
    let disk = MemoryDisk::new();
    let server = start(Box::new(disk.open()));
    let script = Arc::new(Script::default());
    let service = ApiService::new(server.clone()).with_faults(script.clone());
    let watch = format!("{MAPS}?watch=true&resourceVersion=0");
    let mut events = open(&service, "GET", &watch, "", "").await.into_body();
    create(&service, "a").await.unwrap();
    next_event(&mut events).await.unwrap();
    script.after.lock().unwrap().push(Verdict::Crash);
    assert!(
        create(&service, "b").await.is_err(),
        "kept, but not heard of"
    );
    assert!(create(&service, "c").await.is_err());
    assert!(server.is_crashed());
    let broken = events.frame().await.unwrap();
    assert!(broken.is_err(), "watches break, they do not end");
    // Something of the dead server is still at work.
    let stray = json!({"metadata": {"name": "d"}});
    assert!(
        server
            .store()
            .create("/configmaps", "default/d", stray)
            .is_err()
    );
    let next = ApiService::new(start(Box::new(disk.open())));
    let (_, list) = send(&next, "GET", MAPS, "", "").await.unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    assert_eq!(kept(&disk), ["default/a", "default/b"]);
}

#[tokio::test]
async fn new_server_on_the_same_disk_fences_the_previous_one() {
    let disk = MemoryDisk::new();
    let before = ApiService::new(start(Box::new(disk.open())));
    create(&before, "a").await.unwrap();
    let after = ApiService::new(start(Box::new(disk.open())));
    assert!(create(&before, "b").await.is_err(), "it dies of the try");
    assert_eq!(create(&after, "c").await.unwrap().0, 201);
    assert_eq!(kept(&disk), ["default/a", "default/c"]);
}

/// Judges one write of many.
struct Nth {
    left: Mutex<usize>,
    verdict: WriteVerdict,
}

impl WriteFaults for Nth {
    fn write(&self, table: &str, _: &str, _: u64, is_deletion: bool) -> WriteVerdict {
        let mut left = self.left.lock().unwrap();
        if table != "/configmaps" || !is_deletion {
            return WriteVerdict::Pass;
        }
        *left = left.wrapping_sub(1);
        match *left {
            0 => self.verdict,
            _ => WriteVerdict::Pass,
        }
    }
}

/// What is left of five objects when the deletion of all of them meets a fault at the third.
async fn third_deletion(verdict: WriteVerdict) -> (bool, Vec<String>) {
    let disk = MemoryDisk::new();
    let left = Mutex::new(3);
    let faults = Arc::new(Nth { left, verdict });
    let journal = FaultyJournal::new(Box::new(disk.open()), faults);
    let service = ApiService::new(start(Box::new(journal)));
    for name in ["a", "b", "c", "d", "e"] {
        create(&service, name).await.unwrap();
    }
    let answer = send(&service, "DELETE", MAPS, "", "").await;
    (answer.is_ok(), kept(&disk))
}

#[tokio::test]
async fn crash_between_two_writes_of_one_request_is_recovered() {
    let (heard, left) = third_deletion(WriteVerdict::CrashBefore).await;
    assert_eq!((heard, left), (false, ["c", "d", "e"].map(key).to_vec()));
    let (heard, left) = third_deletion(WriteVerdict::CrashAfter).await;
    assert_eq!((heard, left), (false, ["d", "e"].map(key).to_vec()));
    let (heard, left) = third_deletion(WriteVerdict::Fail).await;
    assert!(heard, "the server lives");
    assert!(left.contains(&key("c")));
}

fn key(name: &str) -> String {
    format!("default/{name}")
}

#[tokio::test]
async fn connection_of_one_client_can_be_cut() {
    let server = server(23);
    let line = Arc::new(Line::new());
    let cut = ApiService::new(server.clone()).with_line(line.clone());
    let other = ApiService::new(server);
    let watch = format!("{MAPS}?watch=true&resourceVersion=0");
    let mut events = open(&cut, "GET", &watch, "", "").await.into_body();
    let mut others = open(&other, "GET", &watch, "", "").await.into_body();
    line.cut();
    assert!(create(&cut, "a").await.is_err());
    assert!(events.frame().await.unwrap().is_err());
    assert_eq!(create(&other, "b").await.unwrap().0, 201);
    assert!(next_event(&mut others).await.is_some());
    line.mend();
    assert_eq!(create(&cut, "c").await.unwrap().0, 201);
    assert!(events.frame().await.is_none(), "what broke stays broken");
}

#[tokio::test(start_paused = true)]
async fn connection_cut_during_a_request_loses_the_answer() {
    let server = server(24);
    let (line, script) = (Arc::new(Line::new()), Arc::new(Script::default()));
    let slow = Verdict::Delay(Duration::from_secs(2));
    script.after.lock().unwrap().push(slow);
    let service = ApiService::new(server.clone())
        .with_line(line.clone())
        .with_faults(script);
    let (lost, ()) = tokio::join!(create(&service, "a"), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        line.cut();
        line.mend();
    });
    assert!(lost.is_err());
    assert!(server.store().get("/configmaps", "default/a").is_some());
}
