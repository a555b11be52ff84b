//! Reads an OTLP request, in the form in which the recordings have it.

use everflow_json::{Map, Value, json};

/// A field of a message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let length = varint(&mut bytes) as usize;
                Field::Bytes(take(&mut bytes, length))
            }
            5 => Field::Number(u64::from(u32::from_le_bytes(
                take(&mut bytes, 4).try_into().unwrap(),
            ))),
            other => panic!("wire type {other}"),
        };
        out.push((key >> 3, field));
    }
    out
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (first, rest) = bytes.split_at(count);
    *bytes = rest;
    first
}

fn messages(bytes: &[u8], number: u64) -> Vec<&[u8]> {
    let all = fields(bytes).into_iter();
    all.filter_map(|(found, field)| match field {
        Field::Bytes(bytes) if found == number => Some(bytes),
        _ => None,
    })
    .collect()
}

fn text(bytes: &[u8], number: u64) -> String {
    let found = messages(bytes, number);
    found
        .first()
        .map(|text| String::from_utf8(text.to_vec()).unwrap())
        .unwrap_or_default()
}

fn number(bytes: &[u8], wanted: u64) -> u64 {
    let all = fields(bytes).into_iter();
    all.filter_map(|(found, field)| match field {
        Field::Number(number) if found == wanted => Some(number),
        _ => None,
    })
    .next()
    .unwrap_or_default()
}

fn attributes(bytes: &[u8], number: u64) -> Vec<Value> {
    let all = messages(bytes, number).into_iter();
    all.map(|pair| {
        let value = messages(pair, 2);
        json!({"key": text(pair, 1), "value": text(value[0], 1)})
    })
    .collect()
}

fn hex(bytes: &[u8], number: u64) -> String {
    let found = messages(bytes, number);
    found
        .first()
        .map(|bytes| crate::symbols::hex(bytes))
        .unwrap_or_default()
}

pub fn decode(body: &[u8]) -> Value {
    let resources = messages(body, 1).into_iter().map(|spans| {
        let scopes = messages(spans, 2).into_iter().map(|scope| {
            let spans: Vec<Value> = messages(scope, 2).into_iter().map(span).collect();
            json!({"spans": spans, "scope": text(messages(scope, 1)[0], 1)})
        });
        let scopes: Vec<Value> = scopes.collect();
        json!({
            "resource": attributes(messages(spans, 1)[0], 1),
            "scopes": scopes,
            "schemaUrl": text(spans, 3),
        })
    });
    Value::Array(resources.collect())
}

fn span(bytes: &[u8]) -> Value {
    let status = messages(bytes, 15);
    let status = status.first().copied().unwrap_or_default();
    let mut out = Map::new();
    let mut set = |name: &str, value: Value| {
        out.insert(name.into(), value);
    };
    set("attributes", Value::Array(attributes(bytes, 9)));
    set("traceId", Value::from(hex(bytes, 1)));
    set("spanId", Value::from(hex(bytes, 2)));
    set("name", Value::from(text(bytes, 5)));
    set("kind", Value::from(number(bytes, 6)));
    set("startTimeUnixNano", Value::from(number(bytes, 7)));
    set("endTimeUnixNano", Value::from(number(bytes, 8).to_string()));
    set(
        "status",
        json!({"code": number(status, 3), "message": text(status, 2)}),
    );
    set("flags", Value::from(number(bytes, 16)));
    let parent = hex(bytes, 4);
    if !parent.is_empty() {
        set("parentSpanId", Value::from(parent));
    }
    Value::Object(out)
}
