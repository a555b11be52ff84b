//! Which of the objects that a Receiver names are woken by a request.

use everflow_api::Object;
use everflow_api::notification::{Receiver, ReceiverType};
use everflow_cel::check::Type;
use everflow_cel::{Value as Cel, Variables};
use everflow_json::{Map, Value};

use super::check::Valid;
use super::{Call, media_type};
use crate::cel::{Expression, with_doubles};
use crate::{Error, foreign};

/// Reads a filter of a Receiver.
pub(super) fn compile(text: &str, kind: ReceiverType) -> Result<Expression, String> {
    let variables: &[&str] = match kind {
        ReceiverType::GenericOidc => &["res", "req", "claims"],
        _ => &["res", "req"],
    };
    Expression::new(text, variables, Some(&Type::Bool))
}

/// The filters of a Receiver, with what they look at of a request.
#[derive(Debug, Default)]
pub struct Filters {
    /// That of all resources.
    whole: Option<Expression>,
    /// Those of single resources.
    single: Vec<Option<Expression>>,
    request: Value,
    claims: Option<Value>,
}

impl Filters {
    pub(super) fn new(
        receiver: &Object<Receiver>,
        call: &Call<'_>,
        valid: &Valid,
    ) -> Result<Self, String> {
        let spec = &receiver.spec;
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let whole = given(&spec.resource_filter);
        let single: Vec<_> = spec
            .resources
            .iter()
            .map(|resource| given(&resource.filter))
            .collect();
        if whole.is_none() && single.iter().all(Option::is_none) {
            return Ok(Filters::default());
        }
        let read = |text: Option<String>| {
            text.map(|text| compile(&text, spec.receiver_type))
                .transpose()
        };
        Ok(Filters {
            request: request(call, valid.body.as_deref())?,
            whole: read(whole)?,
            single: single.into_iter().map(read).collect::<Result<_, _>>()?,
            claims: valid.claims.clone(),
        })
    }

    /// Whether the metadata of the objects of a resource decides about them.
    pub fn looks_at(&self, resource: usize) -> bool {
        let single = self.single.get(resource).and_then(Option::as_ref);
        self.whole.is_some() || single.is_some()
    }

    /// What judges objects, for many at once: what is seen of the request is prepared once.
    pub fn evaluator(&self) -> Evaluator<'_> {
        let is_used = self.whole.is_some() || self.single.iter().any(Option::is_some);
        Evaluator {
            filters: self,
            request: is_used.then(|| with_doubles(&self.request)),
            claims: self.claims.as_ref().filter(|_| is_used).map(with_doubles),
        }
    }
}

/// Judges objects for one request. It stays in the thread that made it.
#[derive(Debug)]
pub struct Evaluator<'f> {
    filters: &'f Filters,
    request: Option<Cel>,
    claims: Option<Cel>,
}

impl Evaluator<'_> {
    /// Whether an object of the resource with this index is woken. Of the object its kind, version and metadata are seen.
    ///
    /// # Errors
    /// When a filter has no value: the object is not woken, and the answer is 500.
    pub fn admit(&self, resource: usize, object: &Value) -> Result<bool, Error> {
        let single = self.filters.single.get(resource).and_then(Option::as_ref);
        let filters: Vec<_> = self.filters.whole.iter().chain(single).collect();
        if filters.is_empty() {
            return Ok(true);
        }
        let variables = self.variables(object);
        for filter in filters {
            if !filter.boolean(&variables).map_err(Error::Expression)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn variables(&self, object: &Value) -> Variables {
        let seen = ["apiVersion", "kind", "metadata"].into_iter();
        let seen = seen
            .filter_map(|name| Some((everflow_json::Text::from(name), object.get(name)?.clone())));
        let resource = Value::Object(seen.collect::<Map>());
        let mut variables = Variables::new().with("res", with_doubles(&resource));
        if let Some(request) = &self.request {
            variables = variables.with("req", request.clone());
        }
        match &self.claims {
            Some(claims) => variables.with("claims", claims.clone()),
            None => variables,
        }
    }
}

/// The body as an object: empty when it is not said to be JSON.
fn request(call: &Call<'_>, body: Option<&[u8]>) -> Result<Value, String> {
    let nothing = Value::Object(Map::new());
    if !media_type::is_json(call.header("content-type")) {
        return Ok(nothing);
    }
    let wrong = |why: String| format!("failed to parse request body as JSON: {why}");
    let value = foreign::read_first(body.unwrap_or(call.body)).map_err(wrong)?;
    match value {
        Value::Null => Ok(nothing),
        Value::Object(_) => Ok(value),
        _ => Err(wrong("it is no object".to_owned())),
    }
}
