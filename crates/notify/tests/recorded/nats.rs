//! A server that speaks as much of NATS as is needed.

use everflow_json::{Value, json};
use everflow_notify::exchange::{Reply, Unreachable};
use everflow_notify::provider::nats::{Progress, Publish};

use crate::symbols::NATS;

const NONCE: &str = "nonce";

/// Takes a message and notes what was said in the form of the recordings.
pub fn publish(publish: &Publish, requests: &mut Vec<Value>) -> Reply {
    let unreachable = |message: &str, is_final| {
        let message = message.to_owned();
        Reply::Unreachable(Unreachable { message, is_final })
    };
    let server = &publish.servers[0];
    if format!("{}:{}", server.host, server.port) != NATS {
        return unreachable("nats: no servers available for connection", false);
    }
    let mut session = publish.session(server);
    let mut said = format!("INFO {{\"nonce\":\"{NONCE}\",\"max_payload\":1048576}}\r\n");
    loop {
        match session.read(said.as_bytes()) {
            Progress::Done => return Reply::Published,
            Progress::Refused(why) => return unreachable(&why, true),
            Progress::Read | Progress::StartTls(_) => panic!("the session waits for nothing"),
            Progress::Write(bytes) => said = answer(bytes.reveal(), requests),
        }
    }
}

fn answer(written: &[u8], requests: &mut Vec<Value>) -> String {
    let text = String::from_utf8(written.to_vec()).unwrap();
    if let Some(rest) = text.strip_prefix("CONNECT ") {
        let (options, rest) = rest.split_once("\r\n").unwrap();
        assert_eq!(rest, "PING\r\n");
        let mut options: Value = everflow_json::from_str(options).unwrap();
        let is_bad = options["user"] == "bad";
        let map = options.as_object_mut().unwrap();
        for name in ["lang", "version"] {
            map.remove(name);
        }
        assert_eq!(map.remove("sig").is_some(), map.contains_key("nkey"));
        requests.push(json!({"protocol": "nats", "verb": "CONNECT", "options": options}));
        return match is_bad {
            true => "-ERR 'Authorization Violation'\r\n".to_owned(),
            false => "PONG\r\n".to_owned(),
        };
    }
    let (line, rest) = text
        .strip_prefix("PUB ")
        .unwrap()
        .split_once("\r\n")
        .unwrap();
    let (subject, length) = line.split_once(' ').unwrap();
    let length: usize = length.parse().unwrap();
    let payload = &rest[..length];
    assert_eq!(&rest[length..], "\r\nPING\r\n");
    requests.push(json!({
        "protocol": "nats", "verb": "PUB", "subject": subject, "text": payload,
        "body": everflow_json::from_str::<Value>(payload).unwrap(),
    }));
    "PONG\r\n".to_owned()
}
