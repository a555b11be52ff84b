//! Serves the store over HTTP. It needs no leadership: every replica serves what it or another one has.

use std::convert::Infallible;
use std::future::Future;
use std::io::{Read, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use ::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use everflow_env::disk::{EntryKind, FileReader};
use everflow_env::{BoxFuture, Disk, Env, Stream, run_blocking};
pub use everflow_serve::Limits as ServerLimits;
use everflow_serve::{Connection, Port, RequestBody};
use http_body::{Body, Frame, SizeHint};
use hyper::service::service_fn;
use tokio::net::TcpListener;

use super::peers::FROM_PEER;
use super::{Storage, UNFINISHED, gone};
use crate::temporary::TEMPORARY;

/// Answers posts that come to the port of the artifacts: others may share it.
pub trait Posts: Send + Sync + std::fmt::Debug {
    /// Answers one.
    fn answer(&self, request: Request<RequestBody>) -> BoxFuture<'static, Response<Bytes>>;
}

/// Knows which artifacts there are.
pub trait NamedArtifacts: Send + Sync + std::fmt::Debug {
    /// The digest of the artifact with this path, if a status names it.
    fn digest(&self, path: &str) -> Option<String>;
}

/// The server.
#[derive(Debug, Clone)]
pub struct FileServer {
    env: Env,
    port: Port,
    posts: Option<Arc<dyn Posts>>,
    peers: Option<(Storage, Arc<dyn NamedArtifacts>)>,
}

/// A file is sent in pieces of this size.
const PIECE: usize = 64 * 1024;

impl FileServer {
    /// A server of the files on the disk.
    pub fn new(env: &Env, limits: ServerLimits) -> Self {
        FileServer {
            env: env.clone(),
            port: Port::new(env.clock.clone(), limits),
            posts: None,
            peers: None,
        }
    }

    /// Serves what other replicas hold as well: it is brought from there when it is asked for.
    #[must_use]
    pub fn with_peers(mut self, storage: Storage, named: Arc<dyn NamedArtifacts>) -> Self {
        self.peers = Some((storage, named));
        self
    }

    /// Hands posts to somebody else instead of refusing them.
    #[must_use]
    pub fn with_posts(mut self, posts: Arc<dyn Posts>) -> Self {
        self.posts = Some(posts);
        self
    }

    /// Serves one connection to its end.
    pub async fn serve(&self, stream: impl Stream + 'static) {
        self.port
            .serve(stream, |connection| self.clone().speak(connection))
            .await;
    }

    /// Serves all connections of a listener until told to stop; requests under way then have a moment to finish.
    pub async fn run(&self, listener: TcpListener, stop: impl Future<Output = ()>) {
        self.port
            .run(listener, stop, |connection| self.clone().speak(connection))
            .await;
    }

    async fn speak<S: Stream + 'static>(self, connection: Connection<S>) {
        let service = service_fn(move |request: Request<RequestBody>| {
            let server = self.clone();
            async move {
                let posts = server.posts.as_ref();
                if let Some(posts) = posts.filter(|_| request.method() == Method::POST) {
                    let answer = posts.answer(request).await;
                    return Ok::<_, Infallible>(answer.map(|text| FileBody::Text(Some(text))));
                }
                Ok(server.answer(&request).await)
            }
        });
        connection.http1(service).await;
    }

    async fn answer<B>(&self, request: &Request<B>) -> Response<FileBody> {
        let head = match *request.method() {
            Method::GET => false,
            Method::HEAD => true,
            _ => return plain(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed\n"),
        };
        if request.uri().path() == "/" {
            return plain(StatusCode::OK, "");
        }
        let Some(path) = safe_path(request.uri().path()) else {
            return plain(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        let mut opened = self.open(&path).await;
        if matches!(opened, Some(Ok(None)))
            && !request.headers().contains_key(FROM_PEER)
            && let Some((storage, named)) = &self.peers
            && let Some(digest) = named.digest(&path)
            && storage.bring(&path, &digest).await
        {
            opened = self.open(&path).await;
        }
        match opened {
            Some(Ok(Some(file))) => self.file(request.headers(), head, file),
            Some(Ok(None)) => plain(StatusCode::NOT_FOUND, "404 page not found\n"),
            _ => plain(StatusCode::INTERNAL_SERVER_ERROR, "500 the disk failed\n"),
        }
    }

    async fn open(&self, path: &str) -> Option<std::io::Result<Option<Opened>>> {
        let (disk, path) = (self.env.disk.clone(), path.to_owned());
        run_blocking(&*self.env.blocking, move || open(&*disk, &path)).await
    }

    fn file(&self, headers: &HeaderMap, head: bool, file: Opened) -> Response<FileBody> {
        let changed = file.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let tag = format!("\"{:x}-{:x}\"", changed.as_nanos(), file.size);
        let last = http_date(changed.as_secs());
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let builder = Response::builder()
            .header(header::ACCEPT_RANGES, "bytes")
            .header(header::ETAG, &tag)
            .header(header::LAST_MODIFIED, &last)
            // The names of versions of charts come again: ask each time, download only news.
            .header(header::CACHE_CONTROL, "no-cache")
            .header("x-content-type-options", "nosniff");
        let fresh = match text(header::IF_NONE_MATCH) {
            Some(tags) => tags.split(',').any(|one| matches!(one.trim().trim_start_matches("W/"), known if known == tag || known == "*")),
            None => text(header::IF_MODIFIED_SINCE) == Some(last.as_str()),
        };
        if fresh {
            return finish(builder.status(StatusCode::NOT_MODIFIED), FileBody::Empty);
        }
        let same = text(header::IF_RANGE).is_none_or(|known| known == tag || known == last);
        let range = text(header::RANGE)
            .filter(|_| same)
            .map_or(Range::All, |text| parse_range(text, file.size));
        let builder = builder.header(header::CONTENT_TYPE, file.kind);
        let (builder, start, length) = match range {
            Range::All => (builder.status(StatusCode::OK), 0, file.size),
            Range::Part(start, end) => {
                let shown = format!("bytes {start}-{}/{}", end - 1, file.size);
                let builder = builder
                    .status(StatusCode::PARTIAL_CONTENT)
                    .header(header::CONTENT_RANGE, shown);
                (builder, start, end - start)
            }
            Range::Impossible => {
                let shown = format!("bytes */{}", file.size);
                let builder = builder
                    .status(StatusCode::RANGE_NOT_SATISFIABLE)
                    .header(header::CONTENT_RANGE, shown);
                return finish(builder, FileBody::Empty);
            }
        };
        let builder = builder.header(header::CONTENT_LENGTH, length);
        let body = match head || length == 0 {
            true => FileBody::Empty,
            false => FileBody::File(Box::new(Sending {
                env: self.env.clone(),
                start: Some(start),
                left: length,
                reader: Some(file.reader),
                reading: None,
            })),
        };
        finish(builder, body)
    }
}

fn finish(builder: ::http::response::Builder, body: FileBody) -> Response<FileBody> {
    builder
        .body(body)
        .unwrap_or_else(|_| Response::new(FileBody::Empty))
}

fn plain(status: StatusCode, text: &'static str) -> Response<FileBody> {
    let mut response = Response::new(FileBody::Text(Some(Bytes::from_static(text.as_bytes()))));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// A path of the store: `kind/namespace/name/file`, and nothing of the temporary area.
fn safe_path(path: &str) -> Option<String> {
    let path = percent_decoded(path.strip_prefix('/')?)?;
    let parts: Vec<&str> = path.split('/').collect();
    let plain = |part: &&str| {
        !part.is_empty()
            && !part.starts_with('.')
            && !part.ends_with(UNFINISHED)
            && !part.contains(['\\', '\0'])
    };
    let fine = parts.len() == 4 && parts.iter().all(plain) && parts[0] != TEMPORARY;
    fine.then_some(path)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first != b'%' {
            bytes.push(*first);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

struct Opened {
    reader: Box<dyn FileReader>,
    size: u64,
    modified: SystemTime,
    kind: &'static str,
}

fn open(disk: &dyn Disk, path: &str) -> std::io::Result<Option<Opened>> {
    let entry = match disk.entry(path) {
        Ok(entry) if entry.kind != EntryKind::Directory => entry,
        Ok(_) => return Ok(None),
        Err(error) if gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let reader = match disk.open_contained(path) {
        Ok(reader) => reader,
        Err(error) if gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let kind = match path.rsplit('.').next() {
        Some("gz" | "tgz") => "application/x-gzip",
        Some("yaml" | "json") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    };
    Ok(Some(Opened {
        size: reader.len()?,
        modified: entry.modified,
        reader,
        kind,
    }))
}

#[derive(Debug, PartialEq, Eq)]
enum Range {
    All,
    /// From a byte up to, but not including, another.
    Part(u64, u64),
    Impossible,
}

/// One range; several, or what is no range, mean the whole file.
fn parse_range(text: &str, size: u64) -> Range {
    let Some(range) = text
        .strip_prefix("bytes=")
        .filter(|range| !range.contains(','))
    else {
        return Range::All;
    };
    let Some((first, last)) = range.trim().split_once('-') else {
        return Range::All;
    };
    let number = |text: &str| text.parse::<u64>();
    let (start, end) = match (first.is_empty(), number(first), number(last)) {
        (true, _, Ok(count)) => (size.saturating_sub(count), size),
        (false, Ok(start), Ok(last)) if last >= start => (start, last.saturating_add(1).min(size)),
        (false, Ok(start), Err(_)) if last.is_empty() => (start, size),
        _ => return Range::All,
    };
    match start < end {
        true => Range::Part(start, end),
        false => Range::Impossible,
    }
}

/// `Mon, 02 Jan 2006 15:04:05 GMT`.
fn http_date(seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let moment = everflow_time::Timestamp::from_seconds(i64::try_from(seconds).unwrap_or_default());
    let text = moment.to_string();
    let number = |range: std::ops::Range<usize>| text.get(range).unwrap_or("00").to_owned();
    let month = number(5..7).parse::<usize>().unwrap_or(1).clamp(1, 12);
    format!(
        "{}, {} {} {} {} GMT",
        DAYS[(seconds / 86_400 % 7) as usize],
        number(8..10),
        MONTHS[month - 1],
        number(0..4),
        number(11..19),
    )
}

/// What is sent.
enum FileBody {
    Empty,
    Text(Option<Bytes>),
    File(Box<Sending>),
}

type Piece = Option<std::io::Result<(Box<dyn FileReader>, Bytes)>>;

/// A file on its way out, one piece after the other.
struct Sending {
    env: Env,
    start: Option<u64>,
    left: u64,
    reader: Option<Box<dyn FileReader>>,
    reading: Option<BoxFuture<'static, Piece>>,
}

impl Sending {
    fn read(&mut self) -> Option<BoxFuture<'static, Piece>> {
        let mut reader = self.reader.take()?;
        let start = self.start.take();
        let count = usize::try_from(self.left).unwrap_or(PIECE).min(PIECE);
        let blocking = self.env.blocking.clone();
        Some(Box::pin(async move {
            run_blocking(&*blocking, move || {
                if let Some(start) = start {
                    reader.seek(SeekFrom::Start(start))?;
                }
                let mut buffer = vec![0; count];
                reader.read_exact(&mut buffer)?;
                Ok((reader, Bytes::from(buffer)))
            })
            .await
        }))
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
        let sending = match &mut *self {
            FileBody::Empty => return Poll::Ready(None),
            FileBody::Text(text) => {
                return Poll::Ready(text.take().map(|text| Ok(Frame::data(text))));
            }
            FileBody::File(sending) => sending,
        };
        if sending.left == 0 {
            return Poll::Ready(None);
        }
        if sending.reading.is_none() {
            sending.reading = sending.read();
        }
        let Some(reading) = &mut sending.reading else {
            return Poll::Ready(None);
        };
        let piece = std::task::ready!(reading.as_mut().poll(context));
        sending.reading = None;
        Poll::Ready(Some(match piece {
            Some(Ok((reader, bytes))) => {
                sending.reader = Some(reader);
                sending.left -= bytes.len() as u64;
                Ok(Frame::data(bytes))
            }
            Some(Err(error)) => Err(error),
            None => Err(std::io::ErrorKind::Other.into()),
        }))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            FileBody::Empty => true,
            FileBody::Text(text) => text.is_none(),
            FileBody::File(sending) => sending.left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            FileBody::Empty => 0,
            FileBody::Text(text) => text.as_ref().map_or(0, |text| text.len() as u64),
            FileBody::File(sending) => sending.left,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_artifacts_are_served() {
        for path in [
            "/gitrepository/ns/name/abc.tar.gz",
            "/ocirepository/ns/name/sha256:abc.tar.gz",
            "/helmchart/ns/name/a%2B1.tgz",
        ] {
            assert!(safe_path(path).is_some(), "{path}");
        }
        for path in [
            "/",
            "/tmp/a/b/c",
            "/gitrepository/ns/name",
            "/gitrepository/ns/../x",
            "/gitrepository/ns/%2e%2e/x",
            "/gitrepository/ns/name%2F..%2F..%2Fx/y",
            "//etc/passwd/x",
            "/a/b/c/.hidden",
            "/a/b/c/x.unfinished",
            "/a/b/c/x%00",
            "/a/b/c/%zz",
        ] {
            assert_eq!(safe_path(path), None, "{path}");
        }
    }

    #[test]
    fn ranges_are_read() {
        for (text, expected) in [
            ("bytes=0-4", Range::Part(0, 5)),
            ("bytes=5-", Range::Part(5, 10)),
            ("bytes=-3", Range::Part(7, 10)),
            ("bytes=-30", Range::Part(0, 10)),
            ("bytes=3-100", Range::Part(3, 10)),
            ("bytes=10-", Range::Impossible),
            ("bytes=-0", Range::Impossible),
            ("bytes=4-3", Range::All),
            ("bytes=0-1,3-4", Range::All),
            ("lines=1-2", Range::All),
            ("bytes=x-y", Range::All),
        ] {
            assert_eq!(parse_range(text, 10), expected, "{text}");
        }
        assert_eq!(http_date(1_767_225_600), "Thu, 01 Jan 2026 00:00:00 GMT");
    }
}
