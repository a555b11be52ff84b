//! Which form of an answer a client takes.

use everflow_json::json;

use crate::rest::Call;
use crate::rest::request::Request;
use crate::status::{ApiError, ApiResult};

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf.
    Protobuf,
}

/// What of an object is shown, with the version of `meta.k8s.io` asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The object itself.
    Whole,
    /// A table.
    Table(&'static str),
    /// The metadata of one object.
    Partial(&'static str),
    /// The metadata of a list of objects.
    PartialList(&'static str),
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// How it is written.
    pub media: Media,
    /// What it shows.
    pub shape: Shape,
    /// Whether JSON would do as well.
    pub json_too: bool,
}

impl Form {
    /// The object itself as JSON.
    pub const JSON: Form = Form {
        media: Media::Json,
        shape: Shape::Whole,
        json_too: true,
    };

    /// The media type of a stream of this form.
    pub fn stream_media_type(&self) -> &'static str {
        match self.media {
            Media::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            _ => "application/json",
        }
    }

    /// Whether the object itself is asked for as JSON.
    pub fn is_plain_json(&self) -> bool {
        self.media == Media::Json && self.shape == Shape::Whole
    }
}

/// One entry of an Accept header.
#[derive(Debug)]
struct Accepted {
    media: String,
    params: Vec<(String, String)>,
}

impl Accepted {
    fn param(&self, name: &str) -> &str {
        self.params
            .iter()
            .find(|(key, _)| key == name)
            .map_or("", |(_, value)| value.as_str())
    }

    /// How an answer to this entry is written; `None` when nothing of the kind is served.
    fn served(&self) -> Option<Media> {
        match self.media.as_str() {
            "application/json" | "*/*" | "application/*" => Some(Media::Json),
            "application/yaml" => Some(Media::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Media::Protobuf),
            _ => None,
        }
    }
}

fn parse_accept(request: &Request) -> Vec<Accepted> {
    let header = request.all_headers("accept").join(",");
    let mut entries: Vec<(f64, Accepted)> = header
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            let mut pieces = part.split(';').map(str::trim);
            let media = pieces.next().unwrap_or_default().to_ascii_lowercase();
            let params: Vec<(String, String)> = pieces
                .filter_map(|piece| piece.split_once('='))
                .map(|(key, value)| (key.to_ascii_lowercase(), value.trim_matches('"').to_owned()))
                .collect();
            let weight = params
                .iter()
                .find(|(key, _)| key == "q")
                .and_then(|(_, value)| value.parse().ok())
                .unwrap_or(1.0);
            (weight, Accepted { media, params })
        })
        .collect();
    entries.sort_by(|left, right| right.0.total_cmp(&left.0));
    entries.into_iter().map(|(_, entry)| entry).collect()
}

/// What is offered for objects and lists.
pub const ACCEPTED: &str =
    "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// What is offered for watches.
pub const ACCEPTED_STREAM: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// No media type of the client is served at all.
pub fn no_representation(accepted: &str) -> Box<ApiError> {
    ApiError::new(
        406,
        "NotAcceptable",
        format!("406: Not Acceptable\n\nAvailable representations: {accepted}"),
    )
    .with_details(json!({}))
}

fn not_acceptable(accepted: &str) -> Box<ApiError> {
    ApiError::new(
        406,
        "NotAcceptable",
        format!("only the following media types are accepted: {accepted}"),
    )
}

/// How a Status is written for a client, whatever it asked for.
pub fn status_media(request: &Request) -> Media {
    // A client that wants a table or metadata takes failures as JSON.
    parse_accept(request)
        .iter()
        .find(|entry| entry.served().is_some() && entry.param("as").is_empty())
        .and_then(Accepted::served)
        .unwrap_or(Media::Json)
}

/// Whether a client takes JSON at all.
pub fn takes_json(request: &Request) -> bool {
    parse_accept(request)
        .iter()
        .any(|entry| entry.served() == Some(Media::Json))
}

/// A list is no object and an object no list: whoever asks for the metadata of the other is told so.
fn check_metadata_form(call: &Call<'_>, wanted: &str, is_list: bool) -> ApiResult<()> {
    let go_kind = format!(
        "*{}.{}",
        crate::kinds::go_group(&call.resource.group),
        call.resource.kind
    );
    let why = match wanted {
        "PartialObjectMetadata" if is_list => format!(
            "you requested PartialObjectMetadata, but the requested object is a list ({go_kind}List)"
        ),
        "PartialObjectMetadataList" if !is_list => format!(
            "you requested PartialObjectMetadataList, but the requested object is not a list ({go_kind})"
        ),
        _ => return Ok(()),
    };
    Err(ApiError::new(406, "NotAcceptable", why))
}

/// Chooses the form of an answer. `is_list` decides which metadata-only form fits.
pub fn choose(call: &Call<'_>, is_list: bool, accepted: &str) -> ApiResult<Form> {
    // What nearly everybody sends needs no parsing.
    let mut headers = call
        .request
        .headers
        .iter()
        .filter(|(name, _)| name == "accept");
    match (headers.next(), headers.next()) {
        (None, _) => return Ok(Form::JSON),
        (Some((_, value)), None) if value == "application/json" || value == "*/*" => {
            return Ok(Form::JSON);
        }
        _ => {}
    }
    let entries = parse_accept(call.request);
    if entries.is_empty() {
        return Ok(Form::JSON);
    }
    if !entries.iter().any(|entry| entry.served().is_some()) {
        return Err(no_representation(accepted));
    }
    let json_too = |shape: Shape| {
        entries.iter().any(|entry| {
            entry.served() == Some(Media::Json)
                && (shape == Shape::Whole) == entry.param("as").is_empty()
        })
    };
    for entry in &entries {
        let Some(media) = entry.served() else {
            continue;
        };
        let version = match entry.param("v") {
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            _ => "",
        };
        let wanted = entry.param("as");
        let transformable = entry.param("g") == "meta.k8s.io" && !version.is_empty();
        let shape = match wanted {
            // Custom resources have no protobuf form.
            "" if media == Media::Protobuf && call.resource.is_custom() => None,
            "" => Some(Shape::Whole),
            _ if !transformable || media == Media::Yaml => None,
            "Table" if media != Media::Protobuf => Some(Shape::Table(version)),
            "PartialObjectMetadata" if !is_list => Some(Shape::Partial(version)),
            "PartialObjectMetadataList" if is_list => Some(Shape::PartialList(version)),
            _ => None,
        };
        match shape {
            Some(shape) => {
                return Ok(Form {
                    media,
                    shape,
                    json_too: json_too(shape),
                });
            }
            None => check_metadata_form(call, wanted, is_list)?,
        }
    }
    Err(not_acceptable(accepted))
}
