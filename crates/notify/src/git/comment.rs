//! Comments on a pull request: one for each object, which is kept up to date.

use std::fmt::Debug;

use everflow_json::Value;

use super::flow::{Call, Flow, Following};
use crate::exchange::{Answer, GithubApp, Outcome, Request};
use crate::metadata::CHANGE_REQUEST;
use crate::provider::text::markdown;
use crate::{Event, Secret};

/// An API that keeps comments.
pub(crate) trait CommentApi: Debug + Send {
    /// The app whose credentials must be exchanged for a token first.
    fn app(&self) -> Option<GithubApp> {
        None
    }

    /// Takes that token.
    fn take_token(&mut self, _token: Secret<String>) {}

    /// A call that shows that the service is there.
    fn version_check(&self) -> Option<Call> {
        None
    }

    /// What an unreadable number is called in messages.
    fn number_parser(&self) -> &'static str {
        "strconv.Atoi"
    }

    /// How the marker of our comments begins.
    fn marker(&self) -> &'static str {
        "flux-pr-comment-key"
    }

    /// Asks who we are.
    fn current_user(&self) -> Call;

    /// Who that is.
    fn login<'a>(&self, user: &'a Value) -> Option<&'a str>;

    /// Asks for the first hundred comments: ours is among them, for it is made when the request is opened.
    fn list(&self, number: i64) -> Call;

    /// Who wrote a comment.
    fn author<'a>(&self, comment: &'a Value) -> Option<&'a str>;

    /// Makes a comment.
    fn create(&self, number: i64, body: &str) -> Call;

    /// Changes a comment.
    fn update(&self, number: i64, id: i64, body: &str) -> Call;

    /// What is wrong, in the words of the service.
    fn refusal(&self, request: &Request, answer: &Answer) -> String;

    /// Whether passing trouble of the service is waited out within the attempt.
    fn retries_soon(&self) -> bool {
        false
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Version,
    Asking,
    Listing,
    Writing,
}

/// Makes or changes a comment.
#[derive(Debug)]
pub(crate) struct Comment {
    api: Box<dyn CommentApi>,
    phase: Phase,
    /// The number of the pull request, or what is wrong with it.
    number: Result<i64, String>,
    marker: String,
    body: String,
    login: String,
}

impl Comment {
    pub(crate) fn new(
        api: Box<dyn CommentApi>,
        event: &Event,
        provider_uid: &str,
    ) -> Result<Self, String> {
        if provider_uid.is_empty() {
            return Err("provider UID cannot be empty".to_owned());
        }
        let marker = format!(
            "<!-- {}:{provider_uid}/{} -->",
            api.marker(),
            event.involved.path()
        );
        Ok(Comment {
            number: number(event, api.number_parser()),
            body: format!("{marker}\n\n{}", markdown(event)),
            marker,
            phase: Phase::Version,
            login: String::new(),
            api,
        })
    }

    fn ask(&mut self) -> Following {
        if !self.login.is_empty() {
            return self.list();
        }
        self.phase = Phase::Asking;
        Following::call(self.api.current_user())
    }

    fn list(&mut self) -> Following {
        self.phase = Phase::Listing;
        match &self.number {
            Ok(number) => Following::call(self.api.list(*number)),
            Err(why) => Following::failed(why.clone()),
        }
    }

    fn write(&mut self, comments: &Value) -> Following {
        self.phase = Phase::Writing;
        let Ok(number) = self.number else {
            return Following::failed("the pull request has no number");
        };
        let mut comments = comments.as_array().into_iter().flatten();
        let own = comments.find(|comment| {
            let is_marked = comment["body"]
                .as_str()
                .is_some_and(|body| body.contains(&self.marker));
            is_marked && self.api.author(comment) == Some(self.login.as_str())
        });
        Following::call(match own.and_then(|comment| comment["id"].as_i64()) {
            Some(id) => self.api.update(number, id, &self.body),
            None => self.api.create(number, &self.body),
        })
    }
}

fn number(event: &Event, parser: &str) -> Result<i64, String> {
    let Some(text) = event.metadata.get(CHANGE_REQUEST) else {
        return Err(format!("missing {CHANGE_REQUEST:?} metadata key"));
    };
    text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        format!(
            "invalid {CHANGE_REQUEST:?} metadata value {text:?}: {parser}: parsing {text:?}: {why}"
        )
    })
}

impl Flow for Comment {
    fn app(&self) -> Option<GithubApp> {
        self.api.app()
    }

    fn take_token(&mut self, token: Secret<String>, slug: Option<String>) {
        self.api.take_token(token);
        // Comments of an app are those of its bot.
        if let Some(slug) = slug {
            self.login = format!("{slug}[bot]");
        }
    }

    fn begin(&mut self) -> Following {
        match self.api.version_check() {
            Some(call) => Following::call(call),
            None => self.ask(),
        }
    }

    fn answered(&mut self, answer: &Answer) -> Following {
        match self.phase {
            Phase::Version => self.ask(),
            Phase::Asking => {
                let user = answer.json();
                self.login = self.api.login(&user).unwrap_or_default().to_owned();
                self.list()
            }
            Phase::Listing => self.write(&answer.json()),
            Phase::Writing => Following::Done(Outcome::Delivered),
        }
    }

    fn refusal(&self, request: &Request, answer: &Answer) -> String {
        self.api.refusal(request, answer)
    }

    fn retries_soon(&self) -> bool {
        self.api.retries_soon()
    }
}
