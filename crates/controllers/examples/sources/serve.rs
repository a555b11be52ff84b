//! A git server and a Helm repository on loopback. Answers of git are remembered by their question:
//! what is measured is the engine, not git.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// Target, protocol and body of a request.
type Question = (String, String, Vec<u8>);

struct Content {
    root: PathBuf,
    remembered: Mutex<BTreeMap<Question, Vec<u8>>>,
}

/// Serves repositories at `/git/` and the files of `ROOT/charts` at `/charts/`; prints the port.
pub fn serve(root: &Path) {
    let content = Arc::new(Content {
        root: root.to_owned(),
        remembered: Mutex::default(),
    });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    for stream in listener.incoming().flatten() {
        let content = content.clone();
        // A client that goes away is no reason to stop.
        std::thread::spawn(move || {
            let _ = stream.set_nodelay(true);
            let mut reader = BufReader::new(stream.try_clone().ok()?);
            let mut out = stream;
            while answer(&mut reader, &mut out, &content).is_some() {}
            Some(())
        });
    }
}

fn answer(reader: &mut BufReader<TcpStream>, out: &mut TcpStream, content: &Content) -> Option<()> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).ok()?;
        match line.trim_end() {
            _ if read == 0 => return None,
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |name: &str| {
        let found = lines.iter().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        });
        found.unwrap_or_default()
    };
    let body = match header("transfer-encoding").as_str() {
        "chunked" => chunks(reader)?,
        _ => {
            let mut body = vec![0; header("content-length").parse().unwrap_or(0)];
            reader.read_exact(&mut body).ok()?;
            body
        }
    };
    let body = match header("content-encoding").as_str() {
        "gzip" => {
            let mut plain = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(body.as_slice());
            decoder.read_to_end(&mut plain).ok()?;
            plain
        }
        _ => body,
    };
    let mut words = lines.first()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let answer = match path.strip_prefix("/git/") {
        Some(_) => {
            let key = (target.to_owned(), header("git-protocol"), body);
            let known = content.remembered.lock().unwrap().get(&key).cloned();
            match known {
                Some(known) => known,
                None => {
                    let kind = header("content-type");
                    let made = git(&content.root, method, path, query, &kind, &key.1, &key.2)?;
                    let mut remembered = content.remembered.lock().unwrap();
                    remembered.insert(key, made.clone());
                    made
                }
            }
        }
        None => file(&content.root, path),
    };
    out.write_all(&answer).ok()
}

fn chunks(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let size = usize::from_str_radix(line.trim(), 16).ok()?;
        let start = body.len();
        body.resize(start + size + 2, 0);
        reader.read_exact(&mut body[start..]).ok()?;
        body.truncate(start + size);
        if size == 0 {
            return Some(body);
        }
    }
}

fn file(root: &Path, path: &str) -> Vec<u8> {
    let safe = path.trim_start_matches('/');
    let bytes = match safe.split('/').any(|part| part == "..") {
        true => None,
        false => std::fs::read(root.join(safe)).ok(),
    };
    let (status, bytes) = match bytes {
        Some(bytes) => ("200 OK", bytes),
        None => ("404 Not Found", Vec::new()),
    };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n",
        bytes.len()
    )
    .into_bytes();
    answer.extend(bytes);
    answer
}

/// Asks git, and gives its answer a length.
fn git(
    root: &Path,
    method: &str,
    path: &str,
    query: &str,
    kind: &str,
    protocol: &str,
    body: &[u8],
) -> Option<Vec<u8>> {
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", method)
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("CONTENT_TYPE", kind)
        .env("GIT_PROTOCOL", protocol)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    child.stdin.take()?.write_all(body).ok()?;
    let output = child.wait_with_output().ok()?.stdout;
    let end = output.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&output[..end]).ok()?;
    let content = &output[end + 4..];
    let status = head.lines().find_map(|line| line.strip_prefix("Status: "));
    let mut answer = format!(
        "HTTP/1.1 {}\r\n{head}\r\nContent-Length: {}\r\n\r\n",
        status.unwrap_or("200 OK"),
        content.len()
    )
    .into_bytes();
    answer.extend_from_slice(content);
    Some(answer)
}
