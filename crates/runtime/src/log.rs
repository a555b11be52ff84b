//! Logs with Flux's fields.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use everflow_env::Clock;
use everflow_json::Value;

/// How grave a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For those who look for trouble in the program itself.
    Trace,
    /// For those who look for trouble.
    Debug,
    /// What happens.
    Info,
    /// What goes wrong.
    Error,
}

impl Level {
    fn text(self) -> &'static str {
        match self {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Error => "error",
        }
    }
}

impl FromStr for Level {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "trace" => Ok(Level::Trace),
            "debug" => Ok(Level::Debug),
            "info" => Ok(Level::Info),
            "error" => Ok(Level::Error),
            _ => Err(format!(
                "unknown log level {text:?}: use trace, debug, info or error"
            )),
        }
    }
}

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// One JSON object for each line.
    Json,
    /// For people.
    Console,
}

impl FromStr for Encoding {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "json" => Ok(Encoding::Json),
            "console" => Ok(Encoding::Console),
            _ => Err(format!(
                "unknown log encoding {text:?}: use json or console"
            )),
        }
    }
}

type Sink = Arc<dyn Fn(&str) + Send + Sync>;

/// Writes lines of a log. Clones share where they go; each has its own fields.
#[derive(Clone)]
pub struct Logger {
    clock: Arc<dyn Clock>,
    level: Level,
    encoding: Encoding,
    sink: Option<Sink>,
    name: Arc<str>,
    fields: Arc<Vec<(String, Value)>>,
}

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logger")
            .field("level", &self.level)
            .field("encoding", &self.encoding)
            .finish_non_exhaustive()
    }
}

impl Logger {
    /// A logger that hands each line, without its end, to `sink`.
    pub fn new(
        clock: Arc<dyn Clock>,
        level: Level,
        encoding: Encoding,
        sink: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Logger {
            clock,
            level,
            encoding,
            sink: Some(Arc::new(sink)),
            name: "".into(),
            fields: Arc::default(),
        }
    }

    /// A logger to standard error.
    pub fn to_stderr(clock: Arc<dyn Clock>, level: Level, encoding: Encoding) -> Self {
        Logger::new(clock, level, encoding, |line| {
            use std::io::Write as _;
            // There is nowhere to say that the log cannot be written.
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        })
    }

    /// A logger that says nothing.
    pub fn silent(clock: Arc<dyn Clock>) -> Self {
        let mut logger = Logger::new(clock, Level::Error, Encoding::Json, |_| {});
        logger.sink = None;
        logger
    }

    /// The same logger under a name.
    #[must_use]
    pub fn named(&self, name: &str) -> Self {
        Logger {
            name: name.into(),
            ..self.clone()
        }
    }

    /// The same logger with more fields on each line.
    #[must_use]
    pub fn with(&self, fields: impl IntoIterator<Item = (String, Value)>) -> Self {
        if self.sink.is_none() {
            return self.clone();
        }
        let mut all = (*self.fields).clone();
        all.extend(fields);
        Logger {
            fields: Arc::new(all),
            ..self.clone()
        }
    }

    /// The same logger with the fields that Flux has for an attempt of an object.
    #[must_use]
    pub fn for_attempt(
        &self,
        controller: &str,
        group: &str,
        key: &crate::queue::Key,
        id: &str,
    ) -> Self {
        if self.sink.is_none() {
            return self.clone();
        }
        let object =
            everflow_json::json!({"name": key.name.as_str(), "namespace": key.namespace.as_str()});
        self.with([
            ("controller".to_owned(), controller.into()),
            ("controllerGroup".to_owned(), group.into()),
            ("controllerKind".to_owned(), key.kind.as_str().into()),
            (key.kind.to_string(), object),
            ("namespace".to_owned(), key.namespace.as_str().into()),
            ("name".to_owned(), key.name.as_str().into()),
            ("reconcileID".to_owned(), id.into()),
        ])
    }

    /// Says what happens.
    pub fn info(&self, message: &str, fields: &[(&str, &str)]) {
        self.line(Level::Info, message, fields);
    }

    /// Says what goes wrong.
    pub fn error(&self, message: &str, error: &str) {
        self.line(Level::Error, message, &[("error", error)]);
    }

    /// Says something to those who look for trouble.
    pub fn debug(&self, message: &str, fields: &[(&str, &str)]) {
        self.line(Level::Debug, message, fields);
    }

    /// Writes a line.
    pub fn line(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        let Some(sink) = self.sink.as_ref().filter(|_| level >= self.level) else {
            return;
        };
        let moment = self.clock.now();
        let millis = moment.nanos / 1_000_000;
        let seconds = moment.rfc3339();
        let stamp = format!("{}.{millis:03}Z", seconds.trim_end_matches('Z'));
        let line = match self.encoding {
            Encoding::Json => self.json(level, &stamp, message, fields),
            Encoding::Console => self.console(level, &stamp, message, fields),
        };
        sink(&line);
    }

    fn json(&self, level: Level, stamp: &str, message: &str, fields: &[(&str, &str)]) -> String {
        let mut line = String::from("{");
        let mut field = |name: &str, value: Value| {
            if line.len() > 1 {
                line.push(',');
            }
            line.push_str(&Value::from(name).to_string());
            line.push(':');
            line.push_str(&value.to_string());
        };
        field("level", level.text().into());
        field("ts", stamp.into());
        if !self.name.is_empty() {
            field("logger", (&*self.name).into());
        }
        field("msg", message.into());
        for (name, value) in self.fields.iter() {
            field(name, value.clone());
        }
        for (name, value) in fields {
            field(name, (*value).into());
        }
        line.push('}');
        line
    }

    fn console(&self, level: Level, stamp: &str, message: &str, fields: &[(&str, &str)]) -> String {
        let mut line = format!("{stamp}\t{}\t", level.text().to_uppercase());
        if !self.name.is_empty() {
            line.push_str(&self.name);
            line.push('\t');
        }
        line.push_str(message);
        let mut all: Vec<(String, Value)> = (*self.fields).clone();
        all.extend(
            fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).into())),
        );
        if !all.is_empty() {
            let text: Vec<String> = all
                .iter()
                .map(|(name, value)| format!("{}: {value}", Value::from(name.as_str())))
                .collect();
            line.push_str("\t{");
            line.push_str(&text.join(", "));
            line.push('}');
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Key;
    use everflow_env::SimulatedClock;
    use std::sync::Mutex;

    fn lines(encoding: Encoding, level: Level) -> Vec<String> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let clock = Arc::new(SimulatedClock::new());
        let logger = Logger::new(clock, level, encoding, move |line| {
            sink.lock().unwrap().push(line.to_owned());
        });
        let group = "source.toolkit.fluxcd.io";
        let key = Key::new("GitRepository", "apps", "site");
        let logger = logger.for_attempt("gitrepository", group, &key, "1-2");
        logger.info("stored artifact", &[("revision", "main@sha1:1")]);
        logger.debug("too fine", &[]);
        logger.named("runtime").error("broken", "no \"way\"");
        let lines = lines.lock().unwrap();
        lines.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn lines_have_fluxs_fields() {
        let json = lines(Encoding::Json, Level::Info);
        assert_eq!(
            json,
            [
                r#"{"level":"info","ts":"2026-01-01T00:00:00.000Z","msg":"stored artifact","controller":"gitrepository","controllerGroup":"source.toolkit.fluxcd.io","controllerKind":"GitRepository","GitRepository":{"name":"site","namespace":"apps"},"namespace":"apps","name":"site","reconcileID":"1-2","revision":"main@sha1:1"}"#,
                r#"{"level":"error","ts":"2026-01-01T00:00:00.000Z","logger":"runtime","msg":"broken","controller":"gitrepository","controllerGroup":"source.toolkit.fluxcd.io","controllerKind":"GitRepository","GitRepository":{"name":"site","namespace":"apps"},"namespace":"apps","name":"site","reconcileID":"1-2","error":"no \"way\""}"#,
            ]
        );
        let console = lines(Encoding::Console, Level::Debug);
        assert_eq!(console.len(), 3);
        assert!(console[0].starts_with("2026-01-01T00:00:00.000Z\tINFO\tstored artifact\t{"));
        assert_eq!(
            "loud".parse::<Level>(),
            Err("unknown log level \"loud\": use trace, debug, info or error".into())
        );
    }
}
