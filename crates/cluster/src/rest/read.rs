//! Get and list.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use everflow_json::{Value, json};

use super::Call;
use super::options::{ListOptions, list_options, parse_revision};
use super::request::Answer;
use crate::field::go_quote;
use crate::kinds::{convert, meta};
use crate::status::{ApiError, ApiResult};
use crate::store::Stored;

/// Answers a GET of one object.
pub fn get(call: &Call<'_>) -> ApiResult<Answer> {
    let asked = call.request.param("resourceVersion").unwrap_or_default();
    if !asked.is_empty() {
        let revision = parse_revision(asked).map_err(|why| {
            ApiError::internal_plain(format!(
                "resourceVersion: Invalid value: {}: {why}",
                go_quote(asked)
            ))
        })?;
        check_not_future(call, revision)?;
    }
    let held = call.server.held_at().filter(|_| !asked.is_empty());
    let current = match held {
        Some(revision) => {
            let store = call.server.store();
            let then = store.get_at(&call.resource.table, &call.key(), revision);
            then.map_err(|_| initializing())?
        }
        None => call.current(),
    };
    let Some(current) = current else {
        return Err(call.missing());
    };
    if super::request::wants_watch(call.request) {
        return super::watch::start(call);
    }
    if convert::is_storage(&call.resource) && crate::negotiate::wants_plain_json(call) {
        let text = || read_text(call, &current);
        return Ok(
            match crate::crd::is_read_as_stored(&call.resource, &current) {
                true => Answer::stored(call.request, 200, &current, text),
                false => Answer::new(200, "application/json", text()),
            },
        );
    }
    call.answer(200, &read_shared(call, &current))
}

/// The object as it is read: in the version asked for.
pub fn read_value(call: &Call<'_>, stored: &Arc<Stored>) -> Value {
    let value = convert::from_storage(&call.resource, stored.value.clone());
    crate::crd::on_read(&call.resource, value)
}

/// As [`read_value`], without a copy where the object is read as it is stored.
pub fn read_shared<'s>(call: &Call<'_>, stored: &'s Arc<Stored>) -> Cow<'s, Value> {
    if convert::is_storage(&call.resource) && crate::crd::is_read_as_stored(&call.resource, stored)
    {
        Cow::Borrowed(&stored.value)
    } else {
        Cow::Owned(read_value(call, stored))
    }
}

fn read_text(call: &Call<'_>, stored: &Arc<Stored>) -> bytes::Bytes {
    if crate::crd::reads_as_stored(&call.resource) {
        stored.line()
    } else if call.resource.is_custom() && crate::crd::is_read_as_stored(&call.resource, stored) {
        stored.sorted_line()
    } else {
        super::request::json_line(&read_shared(call, stored))
    }
}

/// A server that has lost touch with its storage asks to come again.
fn initializing() -> Box<ApiError> {
    let mut error = ApiError::new(429, "TooManyRequests", "storage is (re)initializing")
        .with_details(json!({"retryAfterSeconds": 1}));
    error.headers.push(("retry-after", "1".into()));
    error
}

/// A revision that this server has not seen is waited for in vain.
pub fn check_not_future(call: &Call<'_>, revision: u64) -> ApiResult<()> {
    check_seen(revision, call.server.shown_revision())
}

fn check_seen(revision: u64, current: u64) -> ApiResult<()> {
    if revision <= current {
        return Ok(());
    }
    let details = json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1});
    let mut error = ApiError::new(
        504,
        "Timeout",
        format!("Timeout: Too large resource version: {revision}, current: {current}"),
    )
    .with_details(details);
    error.headers.push(("retry-after", "1".into()));
    Err(error)
}

/// What a list found.
#[derive(Debug, Default)]
pub struct Listed {
    /// The objects.
    pub items: Vec<Arc<Stored>>,
    /// The revision of the list.
    pub revision: u64,
    /// Where the next page starts.
    pub continue_token: String,
    /// How many objects follow.
    pub remaining: Option<usize>,
}

/// Answers a GET of a collection.
pub fn list(call: &Call<'_>) -> ApiResult<Answer> {
    let listed = collect(call)?;
    answer_list(call, &listed)
}

/// How an object's field reads in a field selector.
pub fn field_value(call: &Call<'_>, object: &Value, field: &str) -> String {
    match field {
        "metadata.name" => meta::text(object, "name").to_owned(),
        "metadata.namespace" => meta::text(object, "namespace").to_owned(),
        other => {
            if let Some((_, read)) = call
                .resource
                .rules
                .selectable
                .iter()
                .find(|(name, _)| *name == other)
            {
                return read(object);
            }
            crate::crd::selectable(&call.resource, object, other).unwrap_or_default()
        }
    }
}

/// Refuses fields that cannot be selected on.
pub fn check_fields(call: &Call<'_>, options: &ListOptions) -> ApiResult<()> {
    for (field, _, _) in &options.fields.terms {
        let known = matches!(field.as_str(), "metadata.name" | "metadata.namespace")
            || call
                .resource
                .rules
                .selectable
                .iter()
                .any(|(name, _)| name == field)
            || crate::crd::is_selectable(&call.resource, field);
        if !known {
            return Err(ApiError::bad_request(crate::kinds::unknown_field_selector(
                &call.resource,
                field,
            )));
        }
    }
    Ok(())
}

fn prefix(call: &Call<'_>) -> String {
    if call.target.namespace.is_empty() || call.target.names_namespace {
        String::new()
    } else {
        format!("{}/", call.target.namespace)
    }
}

/// Finds what a list asks for.
pub fn collect(call: &Call<'_>) -> ApiResult<Listed> {
    let options = list_options(call.request, false)?;
    check_fields(call, &options)?;
    let store = call.server.store();
    let prefix = prefix(call);
    let table = &call.resource.table;
    let bad = |why: String| {
        ApiError::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {}: {why}",
            go_quote(&options.resource_version)
        ))
    };
    let asked = if options.resource_version.is_empty() {
        None
    } else {
        Some(parse_revision(&options.resource_version).map_err(bad)?)
    };
    let mut after = None;
    let mut exact = None;
    if !options.continue_token.is_empty() {
        if asked.is_some_and(|revision| revision != 0)
            || !options.resource_version.is_empty() && options.resource_version != "0"
        {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let (key, revision) = read_token(&options.continue_token)?;
        after = Some(format!("{prefix}{key}"));
        exact = (revision > 0).then_some(revision);
    } else if let Some(revision) = asked {
        if options.version_match == "Exact"
            || (options.version_match.is_empty() && options.limit > 0 && revision > 0)
        {
            exact = Some(revision);
            check_seen(revision, store.revision())?;
        } else {
            check_not_future(call, revision)?;
        }
    }
    let held = call.server.held_at().filter(|_| asked.is_some());
    // With resourceVersion=0 the real server answers from its cache and ignores the limit.
    let limit = if asked == Some(0) && options.version_match != "Exact" {
        0
    } else {
        options.limit
    };
    let selecting = !options.labels.is_everything() || !options.fields.is_everything();
    let mut listed = Listed::default();
    let mut cursor = after;
    loop {
        let page_limit = if limit == 0 {
            0
        } else {
            limit - listed.items.len()
        };
        let page = match exact {
            Some(revision) => {
                if revision < store.compacted() && options.continue_token.is_empty() {
                    return Err(too_old());
                }
                store
                    .list_at(table, &prefix, cursor.as_deref(), page_limit, revision)
                    .map_err(|_| too_old())?
            }
            None => match held {
                Some(revision) => store
                    .list_at(table, &prefix, cursor.as_deref(), page_limit, revision)
                    .map_err(|_| initializing())?,
                None => store.list(table, &prefix, cursor.as_deref(), page_limit),
            },
        };
        listed.revision = page.revision;
        exact = if limit > 0 {
            Some(page.revision)
        } else {
            exact
        };
        let matching = page.items.into_iter().filter(|item| {
            options.labels.matches(&item.value)
                && options
                    .fields
                    .matches(&|field| field_value(call, &item.value, field))
        });
        listed.items.extend(matching);
        match page.last_key {
            Some(last) if limit > 0 && listed.items.len() < limit => cursor = Some(last),
            Some(last) => {
                listed.continue_token = write_token(&last[prefix.len()..], page.revision);
                listed.remaining = (!selecting).then_some(page.remaining);
                break;
            }
            None => break,
        }
    }
    Ok(listed)
}

fn too_old() -> Box<ApiError> {
    ApiError::new(
        410,
        "Expired",
        "The resourceVersion for the provided list is too old.",
    )
}

fn write_token(key: &str, revision: u64) -> String {
    // The next page starts right after the last key.
    let text =
        json!({"v": "meta.k8s.io/v1", "rv": revision, "start": format!("{key}\u{0}")}).to_string();
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
}

/// Go's decoder does not look at the bits behind the last byte.
fn lenient_base64() -> base64::engine::GeneralPurpose {
    use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
    let config = GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&base64::alphabet::URL_SAFE, config)
}

fn read_token(token: &str) -> ApiResult<(String, u64)> {
    let bad = |why: &str| {
        ApiError::bad_request(format!(
            "invalid continue token: continue key is not valid: {why}"
        ))
    };
    let bytes = lenient_base64()
        .decode(token.trim_end_matches('='))
        .map_err(|error| match error {
            base64::DecodeError::InvalidByte(at, _) => {
                bad(&format!("illegal base64 data at input byte {at}"))
            }
            _ => bad(&format!(
                "illegal base64 data at input byte {}",
                token.len() / 4 * 4
            )),
        })?;
    let tree = crate::codec::json::parse(&bytes)
        .map_err(|why| bad(&why))?
        .to_value();
    if tree.get("v").and_then(Value::as_str) != Some("meta.k8s.io/v1") {
        return Err(bad(&format!(
            "server does not recognize this encoded version {}",
            go_quote(tree.get("v").and_then(Value::as_str).unwrap_or_default())
        )));
    }
    let key = tree
        .get("start")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .trim_end_matches('\u{0}')
        .to_owned();
    Ok((
        key,
        tree.get("rv").and_then(Value::as_u64).unwrap_or_default(),
    ))
}

/// The answer to a list.
pub fn answer_list(call: &Call<'_>, listed: &Listed) -> ApiResult<Answer> {
    let mut metadata = everflow_json::Map::new();
    metadata.insert("resourceVersion".into(), listed.revision.to_string().into());
    if !listed.continue_token.is_empty() {
        metadata.insert("continue".into(), listed.continue_token.as_str().into());
    }
    if call.resource.is_custom() && crate::negotiate::wants_plain_list(call) {
        metadata.entry("continue").or_insert_with(|| "".into());
    }
    if let Some(remaining) = listed.remaining {
        metadata.insert("remainingItemCount".into(), remaining.into());
    }
    crate::negotiate::list(call, Value::Object(metadata), &listed.items)
}

/// The JSON text of a list, made from the texts of its items.
pub fn list_text(call: &Call<'_>, metadata: &Value, items: &[Arc<Stored>]) -> Vec<u8> {
    let resource = &call.resource;
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        json!(resource.list_kind),
        json!(resource.api_version())
    );
    let mut text = head.into_bytes();
    let shared = convert::is_storage(resource) && crate::crd::reads_as_stored(resource);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        if shared && resource.is_custom() {
            text.extend_from_slice(&item.text());
            continue;
        }
        if shared {
            text.push(b'{');
            text.extend_from_slice(item.untyped_text());
            text.push(b'}');
            continue;
        }
        // Items of built-in lists do not repeat their type.
        let mut value = read_shared(call, item);
        if !resource.is_custom()
            && let Some(map) = value.to_mut().as_object_mut()
        {
            map.remove("kind");
            map.remove("apiVersion");
        }
        everflow_json::text::write(&value, &mut text);
    }
    text.extend_from_slice(b"]}\n");
    text
}
