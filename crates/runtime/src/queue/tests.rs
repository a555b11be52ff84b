use std::collections::BTreeSet;

use proptest::prelude::*;
use smol_str::SmolStr;

use super::*;

const fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn key(kind: &str, namespace: &str, name: &str) -> Key {
    Key::new(kind, namespace, name)
}

fn run_order(queue: &mut Queue, now: Duration) -> Vec<String> {
    let mut order = Vec::new();
    while let Some(ticket) = queue.pop(now) {
        order.push(ticket.key.to_string());
        queue.finish(&ticket.key, &Due::After(seconds(1_000)), now, 0.0);
    }
    order
}

#[test]
fn higher_priority_first_and_no_object_twice() {
    let mut queue = Queue::new(QueueOptions::default());
    let now = seconds(1);
    queue.enqueue(&key("A", "n", "interval"), Priority::Interval, now);
    queue.enqueue(&key("A", "n", "spec"), Priority::Spec, now);
    queue.enqueue(&key("A", "n", "request"), Priority::Interval, now);
    queue.enqueue(&key("A", "n", "request"), Priority::Request, now);
    queue.enqueue(&key("A", "n", "request"), Priority::Interval, now);
    queue.enqueue(&key("A", "n", "dependency"), Priority::Dependency, now);
    assert_eq!(
        run_order(&mut queue, now),
        ["A/n/request", "A/n/spec", "A/n/dependency", "A/n/interval"]
    );
    assert_eq!(queue.check(), []);
    assert_eq!(queue.len(), 4);
}

#[test]
fn objects_missing_from_the_queue_are_found() {
    let mut queue = Queue::new(QueueOptions::default());
    for (kind, name) in [("A", "b"), ("B", "a"), ("B", "c"), ("B", "d"), ("C", "b")] {
        queue.enqueue(&key(kind, "n", name), Priority::Spec, seconds(1));
    }
    let names = |names: &[&'static str]| -> Vec<(SmolStr, SmolStr)> {
        let names = names.iter();
        names
            .map(|name| ("n".into(), SmolStr::new_static(name)))
            .collect()
    };
    let kind = SmolStr::new_static("B");
    assert_eq!(queue.missing(&kind, &names(&["a", "c", "d"])), []);
    assert_eq!(queue.missing(&kind, &names(&["d"])), []);
    let missing = [key("B", "n", "b"), key("B", "n", "e")];
    let found = queue.missing(&kind, &names(&["a", "b", "d", "e"]));
    assert_eq!(found, missing);
    let kind = SmolStr::new_static("D");
    assert_eq!(queue.missing(&kind, &names(&["a"])), [key("D", "n", "a")]);
}

#[test]
fn kinds_and_namespaces_take_turns() {
    let mut queue = Queue::new(QueueOptions {
        concurrency: 1,
        ..QueueOptions::default()
    });
    let now = seconds(1);
    for number in 0..6 {
        let name = number.to_string();
        queue.enqueue(&key("Big", "crowd", &name), Priority::Spec, now);
    }
    queue.enqueue(&key("Big", "lone", "x"), Priority::Spec, now);
    queue.enqueue(&key("Small", "crowd", "y"), Priority::Spec, now);
    let order = run_order(&mut queue, now);
    let place = |name: &str| order.iter().position(|other| other == name).unwrap();
    assert!(place("Big/lone/x") <= 2, "{order:?}");
    assert!(place("Small/crowd/y") <= 2, "{order:?}");
}

#[test]
fn one_attempt_at_a_time_and_requeued_after_a_change_during_it() {
    let mut queue = Queue::new(QueueOptions::default());
    let (toy, now) = (key("A", "n", "x"), seconds(1));
    queue.enqueue(&toy, Priority::Spec, now);
    let ticket = queue.pop(now).unwrap();
    assert!(!queue.enqueue(&toy, Priority::Interval, now));
    assert!(!queue.superseded(&toy));
    assert!(queue.enqueue(&toy, Priority::Spec, now));
    assert!(queue.superseded(&toy));
    assert_eq!(queue.pop(now), None);
    queue.finish(&ticket.key, &Due::After(seconds(60)), now, 0.0);
    let again = queue.pop(now).unwrap();
    assert_eq!((again.priority, again.serial), (Priority::Spec, 2));
    let next = queue.finish(&toy, &Due::After(seconds(60)), now, 0.0);
    assert_eq!(
        (next, queue.next_timer()),
        (Some(seconds(61)), Some(seconds(61)))
    );
    assert_eq!(queue.pop(seconds(60)), None);
    assert_eq!(queue.pop(seconds(61)).unwrap().priority, Priority::Interval);
}

#[test]
fn failures_back_off_until_a_change() {
    let mut queue = Queue::new(QueueOptions::default());
    let (toy, mut now) = (key("A", "n", "x"), seconds(1));
    let due = Due::Backoff {
        cause: "Broken".into(),
        at_least: Duration::ZERO,
    };
    queue.enqueue(&toy, Priority::Spec, now);
    let mut pauses = Vec::new();
    for _ in 0..14 {
        queue.pop(now).unwrap();
        let next = queue.finish(&toy, &due, now, 1.0).unwrap();
        pauses.push((next - now).as_millis());
        now = next;
    }
    assert_eq!(pauses[..4], [750, 1_500, 3_000, 6_000]);
    assert_eq!(pauses[13], 900_000);
    queue.enqueue(&toy, Priority::Spec, now);
    queue.pop(now).unwrap();
    let next = queue.finish(&toy, &due, now, 1.0).unwrap();
    assert_eq!((next - now).as_millis(), 750);
    let at_least = Due::Backoff {
        cause: "Busy".into(),
        at_least: seconds(40),
    };
    queue.pop(next).unwrap();
    assert_eq!(
        queue.finish(&toy, &at_least, next, 0.5),
        Some(next + seconds(40))
    );
}

#[test]
fn a_host_that_hangs_holds_only_its_share() {
    let mut queue = Queue::new(QueueOptions {
        concurrency: 8,
        concurrency_per_host: 2,
        ..QueueOptions::default()
    });
    let now = seconds(1);
    for number in 0..20 {
        let slow = key("Git", "n", &format!("slow-{number:02}"));
        queue.enqueue(&slow, Priority::Spec, now);
        queue.set_host(&slow, Some("slow.example".into()));
    }
    for number in 0..3 {
        let quick = key("Git", "n", &format!("zz-{number}"));
        queue.enqueue(&quick, Priority::Interval, now);
        queue.set_host(&quick, Some("quick.example".into()));
    }
    let mut running = Vec::new();
    while let Some(ticket) = queue.pop(now) {
        running.push(ticket.key.name.to_string());
        assert_eq!(queue.check(), []);
    }
    assert_eq!(running, ["slow-00", "slow-01", "zz-0", "zz-1"]);
    let slow = key("Git", "n", "slow-00");
    queue.finish(&slow, &Due::After(seconds(60)), now, 0.0);
    assert_eq!(queue.check(), []);
    assert_eq!(queue.pop(now).unwrap().key.name, "slow-02");
    assert_eq!(queue.pop(now), None);
}

#[test]
fn kinds_have_limits_and_the_oldest_is_not_starved() {
    let mut queue = Queue::new(QueueOptions {
        concurrency: 4,
        concurrency_per_kind: [("A".into(), 1)].into(),
        ..QueueOptions::default()
    });
    queue.enqueue(&key("A", "n", "1"), Priority::Spec, seconds(1));
    queue.enqueue(&key("A", "n", "2"), Priority::Spec, seconds(1));
    queue.enqueue(&key("B", "n", "old"), Priority::Interval, seconds(1));
    let first = queue.pop(seconds(2)).unwrap();
    assert_eq!(first.key.to_string(), "A/n/1");
    for number in 0..100 {
        let name = number.to_string();
        queue.enqueue(&key("C", "n", &name), Priority::Request, seconds(2));
    }
    let mut turns = 0;
    loop {
        let ticket = queue.pop(seconds(2)).unwrap();
        turns += 1;
        if ticket.key.kind == "B" {
            break;
        }
        queue.finish(&ticket.key, &Due::After(seconds(9)), seconds(2), 0.0);
    }
    assert!(turns <= 5, "{turns}");
}

#[test]
fn woken_objects_are_not_starved_by_new_ones() {
    let mut queue = Queue::new(QueueOptions::default());
    for number in 0..1_000 {
        let name = number.to_string();
        queue.enqueue(&key("A", "n", &name), Priority::Spec, seconds(1));
    }
    for number in 0..10 {
        let name = format!("woken-{number}");
        queue.enqueue(&key("A", "n", &name), Priority::Dependency, seconds(2));
    }
    let mut woken = 0;
    for _ in 0..50 {
        let ticket = queue.pop(seconds(3)).unwrap();
        woken += u32::from(ticket.key.name.starts_with("woken"));
        queue.finish(&ticket.key, &Due::After(seconds(9)), seconds(3), 0.0);
    }
    assert_eq!(woken, 10);
}

#[test]
fn removed_object_is_not_requeued_unless_recreated() {
    let mut queue = Queue::new(QueueOptions::default());
    let (toy, now) = (key("A", "n", "x"), seconds(1));
    queue.enqueue(&toy, Priority::Spec, now);
    queue.pop(now).unwrap();
    queue.remove(&toy);
    assert!(queue.superseded(&toy));
    assert_eq!(queue.finish(&toy, &Due::After(seconds(1)), now, 0.0), None);
    assert!(queue.is_empty());
    queue.enqueue(&toy, Priority::Spec, now);
    queue.pop(now).unwrap();
    queue.remove(&toy);
    queue.enqueue(&toy, Priority::Spec, now);
    assert_eq!(
        queue.finish(&toy, &Due::After(seconds(1)), now, 0.0),
        Some(now)
    );
    assert_eq!(queue.check(), []);
    assert_eq!(queue.len(), 1);
}

#[derive(Debug, Clone)]
enum Step {
    Enqueue(u8, u8),
    Remove(u8),
    Pop,
    Finish(u8, u8),
    Host(u8, u8),
    Pass(u16),
    Sooner(u8, u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..12_u8, 0..4_u8).prop_map(|(key, priority)| Step::Enqueue(key, priority)),
        1 => (0..12_u8).prop_map(Step::Remove),
        6 => Just(Step::Pop),
        4 => (any::<u8>(), 0..4_u8).prop_map(|(which, due)| Step::Finish(which, due)),
        1 => (0..12_u8, 0..3_u8).prop_map(|(key, host)| Step::Host(key, host)),
        2 => any::<u16>().prop_map(Step::Pass),
        1 => (0..12_u8, any::<u16>()).prop_map(|(key, span)| Step::Sooner(key, span)),
    ]
}

fn numbered(number: u8) -> Key {
    let (kind, space) = (number % 2, number % 3);
    key(
        &format!("K{kind}"),
        &format!("n{space}"),
        &number.to_string(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Whatever happens in whatever order: no object is lost, none runs twice at once, limits
    /// hold, and left alone everything has its turn.
    #[test]
    fn queue_never_loses_an_object(steps in prop::collection::vec(step(), 1..200)) {
        let mut queue = Queue::new(QueueOptions {
            concurrency: 3,
            concurrency_per_host: 1,
            concurrency_per_kind: [("K0".into(), 2)].into(),
            ..QueueOptions::default()
        });
        let mut now = seconds(1);
        let mut alive: BTreeSet<Key> = BTreeSet::new();
        let mut running: Vec<Key> = Vec::new();
        for step in steps {
            match step {
                Step::Enqueue(number, priority) => {
                    let priority = Priority::ALL[usize::from(priority)];
                    queue.enqueue(&numbered(number), priority, now);
                    alive.insert(numbered(number));
                }
                Step::Remove(number) => {
                    queue.remove(&numbered(number));
                    alive.remove(&numbered(number));
                }
                Step::Pop => {
                    if let Some(ticket) = queue.pop(now) {
                        prop_assert!(!running.contains(&ticket.key));
                        prop_assert!(alive.contains(&ticket.key));
                        running.push(ticket.key);
                    }
                }
                Step::Finish(which, due) if !running.is_empty() => {
                    let key = running.swap_remove(usize::from(which) % running.len());
                    let due = match due {
                        0 => Due::Now,
                        1 => Due::After(seconds(30)),
                        _ => Due::Backoff { cause: due.to_string().into(), at_least: Duration::ZERO },
                    };
                    let next = queue.finish(&key, &due, now, 0.5);
                    prop_assert_eq!(next.is_some(), alive.contains(&key));
                }
                Step::Finish(..) => {}
                Step::Host(number, host) => {
                    let host = (host > 0).then(|| format!("h{host}").into());
                    queue.set_host(&numbered(number), host);
                }
                Step::Pass(millis) => now += Duration::from_millis(u64::from(millis)),
                Step::Sooner(number, millis) => {
                    let moment = now + Duration::from_millis(u64::from(millis));
                    queue.no_later_than(&numbered(number), moment);
                }
            }
            prop_assert_eq!(queue.check(), vec![]);
            prop_assert!(running.len() <= 3);
            prop_assert!(running.iter().filter(|key| key.kind == "K0").count() <= 2);
            for key in &alive {
                prop_assert!(queue.contains(key), "{} is lost", key);
            }
        }
        for key in running.drain(..) {
            queue.finish(&key, &Due::After(seconds(1)), now, 0.0);
        }
        now += seconds(3_600);
        let mut served = BTreeSet::new();
        while let Some(ticket) = queue.pop(now) {
            served.insert(ticket.key.clone());
            queue.finish(&ticket.key, &Due::After(seconds(7_200)), now, 0.0);
        }
        prop_assert_eq!(served, alive);
        prop_assert_eq!(queue.check(), vec![]);
    }
}
