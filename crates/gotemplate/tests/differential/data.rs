//! Random data, in the form both sides build their values from, and the functions both have.

use std::any::Any;
use std::sync::Arc;

use everflow_gotemplate::{
    Args, Context, FuncError, FuncResult, Function, Functions, GoStr, GoType, List, Map, Method,
    NamedType, Object, Signature, Value, gofmt,
};
use everflow_json::{Value as Json, json};

use crate::Random;

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A value and how to build the same one in Go.
type Pair = (Value, Json);

struct Point {
    pointer: bool,
    x: i64,
    y: GoStr,
    any: Value,
    tags: Value,
}

const SUM: Method = Method {
    name: "Sum",
    signature: Signature::variadic(&[GoType::Int, GoType::Int], GoType::Int),
    call: |_, receiver, args| {
        let mut total = receiver.as_object::<Point>().map_or(0, |point| point.x);
        for index in 0..args.len() {
            total = total.wrapping_add(args.int(index)?);
        }
        Ok(Value::Int(total))
    },
};

const FAIL: Method = Method {
    name: "Fail",
    signature: Signature::new(&[GoType::String], GoType::String),
    call: |_, _, args| Err(FuncError::new(format!("failed: {}", args.text(0)?))),
};

const NAME: Method = Method {
    name: "Name",
    signature: Signature::new(&[], GoType::String),
    call: |_, receiver, _| {
        let name = receiver.as_object::<Point>().map(|point| point.y.clone());
        let name = [b"point ".as_slice(), name.unwrap_or_default().as_bytes()].concat();
        Ok(Value::string(name))
    },
};

static POINT: NamedType = NamedType {
    name: "main.Point",
    underlying: GoType::Struct,
    methods: &[SUM, FAIL],
};

static POINT_BY_ADDRESS_TYPE: GoType = GoType::Named(&POINT_BY_ADDRESS);

static POINT_BY_ADDRESS: NamedType = NamedType {
    name: "main.Point",
    underlying: GoType::Struct,
    methods: &[SUM, FAIL, NAME],
};

impl Object for Point {
    fn go_type(&self) -> GoType {
        match self.pointer {
            true => GoType::Pointer(&POINT_BY_ADDRESS_TYPE),
            false => GoType::Named(&POINT),
        }
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("X", Value::Int(self.x)),
            ("Y", Value::String(self.y.clone())),
            ("Any", self.any.clone()),
            ("Tags", self.tags.clone()),
            ("hidden", Value::Int(7)),
        ]
    }

    fn interface_fields(&self) -> &'static [&'static str] {
        &["Any"]
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A named number, with or without a text of its own.
struct Named {
    go_type: &'static NamedType,
    basic: Value,
    text: Option<GoStr>,
}

static TEMPERATURE: NamedType = NamedType {
    name: "main.Temperature",
    underlying: GoType::Float64,
    methods: &[Method {
        name: "String",
        signature: Signature::new(&[], GoType::String),
        call: |_, receiver, _| {
            let text = receiver.as_object::<Named>().and_then(Object::text);
            Ok(Value::String(text.unwrap_or_default()))
        },
    }],
};

static LEVEL: NamedType = NamedType {
    name: "main.Level",
    underlying: GoType::Int,
    methods: &[],
};

impl Object for Named {
    fn go_type(&self) -> GoType {
        GoType::Named(self.go_type)
    }

    fn basic(&self) -> Option<Value> {
        Some(self.basic.clone())
    }

    fn text(&self) -> Option<GoStr> {
        self.text.clone()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

static LABELS: NamedType = NamedType {
    name: "main.Labels",
    underlying: GoType::ANY_MAP,
    methods: &[Method {
        name: "Find",
        signature: Signature::new(&[GoType::String], GoType::Any),
        call: |_, receiver, args| {
            let map = receiver.as_map();
            let found = map.and_then(|map| map.get(args.text(0).ok()?));
            Ok(found.unwrap_or_default())
        },
    }],
};

struct Version {
    pointer: bool,
    major: i64,
    minor: &'static str,
}

const VERSION_TEXT: Method = Method {
    name: "String",
    signature: Signature::new(&[], GoType::String),
    call: |_, receiver, _| {
        let text = receiver.as_object::<Version>();
        Ok(Value::String(
            text.and_then(Object::text_by_address).unwrap_or_default(),
        ))
    },
};

static VERSION_TYPE: GoType = GoType::Named(&VERSION);

static VERSION: NamedType = NamedType {
    name: "main.Version",
    underlying: GoType::Struct,
    methods: &[VERSION_TEXT],
};

impl Object for Version {
    fn go_type(&self) -> GoType {
        match self.pointer {
            true => GoType::Pointer(&VERSION_TYPE),
            false => GoType::Named(&VERSION),
        }
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("Major", Value::Int(self.major)),
            ("Minor", Value::string(self.minor)),
        ]
    }

    fn text(&self) -> Option<GoStr> {
        match self.pointer {
            true => self.text_by_address(),
            false => None,
        }
    }

    fn text_behind_pointer(&self) -> Option<GoStr> {
        None
    }

    fn text_by_address(&self) -> Option<GoStr> {
        Some(format!("v{}.{}", self.major, self.minor).into())
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        let other = other.as_any().downcast_ref::<Version>()?;
        Some(self.major == other.major && self.minor == other.minor)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct Release(i64);

static RELEASE_TYPE: GoType = GoType::Named(&RELEASE);

static RELEASE: NamedType = NamedType {
    name: "main.Release",
    underlying: GoType::Struct,
    methods: &[],
};

impl Object for Release {
    fn go_type(&self) -> GoType {
        GoType::Pointer(&RELEASE_TYPE)
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let version = |pointer, major, minor| {
            Value::object(Version {
                pointer,
                major,
                minor,
            })
        };
        vec![
            ("Version", version(false, self.0, "x")),
            ("Next", version(true, self.0 + 1, "y")),
        ]
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

const WORDS: &[&[u8]] = &[
    b"",
    b"a",
    b"hello",
    "h\u{e9}llo \u{4e16}\u{754c}".as_bytes(),
    b"<b>&'\"",
    b"tab\tnew\nline",
    b"\xff\xfe",
    b"x\xe4\xb8",
    b"42",
    b"%d",
    b"\x00\x7f\x1b",
    "\u{200b}\u{fffd}\u{1F600}".as_bytes(),
];

fn word(random: &mut Random) -> Pair {
    let bytes = *random.pick(WORDS);
    (
        Value::String(GoStr::from_bytes(bytes)),
        json!({"k": "string", "v": hex(bytes)}),
    )
}

const FLOATS: &[f64] = &[
    0.0,
    1.0,
    -1.0,
    1.5,
    1e6,
    1e21,
    1e20,
    123_456_789.0,
    1e-7,
    0.1,
    2.123_456_789_012_345_6,
    1e300,
    5e-324,
    -0.0,
    2.5,
    100_000.0,
    999_999.5,
];

const INTS: &[i64] = &[
    0,
    1,
    -1,
    2,
    3,
    7,
    42,
    -128,
    127,
    255,
    65,
    8364,
    1_000_000,
    i64::MAX,
    i64::MIN,
];

fn scalar(random: &mut Random) -> Pair {
    let n = *random.pick(INTS);
    let f = *random.pick(FLOATS);
    let text = json!(n.to_string());
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    match random.below(16) {
        0 => (Value::Nil, json!({"k": "nil"})),
        1 => (Value::Bool(true), json!({"k": "bool", "v": "true"})),
        2 => (Value::Bool(false), json!({"k": "bool", "v": "false"})),
        3 | 4 => (Value::Int(n), json!({"k": "int", "v": text})),
        5 => (Value::Int64(n), json!({"k": "int64", "v": text})),
        6 => (
            Value::Int8(n as i8),
            json!({"k": "int8", "v": (n as i8).to_string()}),
        ),
        7 => (
            Value::Int32(n as i32),
            json!({"k": "int32", "v": (n as i32).to_string()}),
        ),
        8 => (
            Value::Uint64(n as u64),
            json!({"k": "uint64", "v": (n as u64).to_string()}),
        ),
        9 => (
            Value::Uint8(n as u8),
            json!({"k": "uint8", "v": (n as u8).to_string()}),
        ),
        10 => (
            Value::Uint(n as u64),
            json!({"k": "uint", "v": (n as u64).to_string()}),
        ),
        11 => (
            Value::Float32(f as f32),
            json!({"k": "float32", "v": format!("{:e}", f as f32)}),
        ),
        12 | 13 => (
            Value::Float64(f),
            json!({"k": "float64", "v": format!("{f:e}")}),
        ),
        _ => word(random),
    }
}

pub fn value(random: &mut Random, depth: usize) -> Pair {
    if depth == 0 {
        return scalar(random);
    }
    match random.below(16) {
        0..=4 => scalar(random),
        5 | 6 => {
            let (values, specs) = pairs(random, depth);
            (Value::list(values), json!({"k": "list", "i": specs}))
        }
        7 => {
            let (values, specs): (Vec<_>, Vec<_>) =
                (0..random.below(4)).map(|_| word(random)).unzip();
            let list = List::typed(GoType::STRING_SLICE, values);
            (Value::List(list), json!({"k": "strings", "i": specs}))
        }
        8 => {
            let numbers: Vec<i64> = (0..random.below(4)).map(|_| *random.pick(INTS)).collect();
            let specs: Vec<Json> = numbers
                .iter()
                .map(|n| json!({"v": n.to_string()}))
                .collect();
            let items = numbers.into_iter().map(Value::Int).collect();
            let list = List::typed(GoType::INT_SLICE, items);
            (Value::List(list), json!({"k": "ints", "i": specs}))
        }
        9 => {
            let bytes = *random.pick(WORDS);
            (Value::bytes(bytes), json!({"k": "bytes", "v": hex(bytes)}))
        }
        10 | 11 => {
            let (map, spec) = any_map(random, depth);
            (Value::Map(map), json!({"k": "map", "m": spec}))
        }
        12 => {
            let (map, spec) = string_map(random);
            (Value::Map(map), json!({"k": "stringmap", "m": spec}))
        }
        13 => (
            Value::List(List::nil(GoType::ANY_SLICE)),
            json!({"k": "nillist"}),
        ),
        14 => (
            Value::Map(Map::nil(GoType::ANY_MAP)),
            json!({"k": "nilmap"}),
        ),
        _ => object(random, depth),
    }
}

fn pairs(random: &mut Random, depth: usize) -> (Vec<Value>, Vec<Json>) {
    (0..random.below(4))
        .map(|_| value(random, depth - 1))
        .unzip()
}

const KEYS: &[&str] = &["A", "b", "Key", "nested", "x_1", "\u{e9}", "with space"];

fn any_map(random: &mut Random, depth: usize) -> (Map, Json) {
    let map = Map::new();
    let mut specs = everflow_json::Map::new();
    for _ in 0..random.below(4) {
        let key = *random.pick(KEYS);
        let (value, spec) = value(random, depth - 1);
        map.insert(key, value).unwrap();
        specs.insert(hex(key.as_bytes()).into(), spec);
    }
    (map, Json::Object(specs))
}

fn string_map(random: &mut Random) -> (Map, Json) {
    let map = Map::typed(GoType::STRING_MAP, Default::default());
    let mut specs = everflow_json::Map::new();
    for _ in 0..random.below(4) {
        let key = *random.pick(KEYS);
        let (value, spec) = word(random);
        map.insert(key, value).unwrap();
        specs.insert(hex(key.as_bytes()).into(), spec);
    }
    (map, Json::Object(specs))
}

fn point(random: &mut Random, depth: usize, pointer: bool) -> Pair {
    let x = *random.pick(INTS);
    let (y, y_spec) = word(random);
    let (any, any_spec) = value(random, depth - 1);
    let (tags, tags_spec) = string_map(random);
    let kind = if pointer { "pointer" } else { "point" };
    let spec = json!({"k": kind, "v": x.to_string(), "i": [y_spec, any_spec, {"m": tags_spec}]});
    let y = y.as_text().cloned().unwrap_or_default();
    let tags = Value::Map(tags);
    let point = Point {
        pointer,
        x,
        y,
        any,
        tags,
    };
    (Value::object(point), spec)
}

fn object(random: &mut Random, depth: usize) -> Pair {
    match random.below(6) {
        0 => point(random, depth, false),
        1 => point(random, depth, true),
        2 => temperature(random),
        3 => level(random),
        4 => release(random),
        _ => {
            let (map, spec) = any_map(random, depth);
            let map = Map::typed(GoType::Named(&LABELS), map.snapshot().into_iter().collect());
            (Value::Map(map), json!({"k": "labels", "m": spec}))
        }
    }
}

fn temperature(random: &mut Random) -> Pair {
    let n = random.below(50);
    let named = Named {
        go_type: &TEMPERATURE,
        basic: Value::Float64(n as f64),
        text: Some(format!("{n} degrees").into()),
    };
    (
        Value::object(named),
        json!({"k": "temperature", "v": n.to_string()}),
    )
}

fn level(random: &mut Random) -> Pair {
    let n = random.below(5);
    let named = Named {
        go_type: &LEVEL,
        basic: Value::Int(n as i64),
        text: None,
    };
    (
        Value::object(named),
        json!({"k": "level", "v": n.to_string()}),
    )
}

fn release(random: &mut Random) -> Pair {
    let n = random.below(5) as i64;
    (
        Value::object(Release(n)),
        json!({"k": "release", "v": n.to_string()}),
    )
}

fn function_value() -> Pair {
    let signature = Signature::variadic(&[GoType::Int, GoType::String], GoType::String);
    let function = Function::new(signature, |_, args: Args<'_>| {
        let n = args.int(0)?;
        if n < 0 {
            return Err(FuncError::new("negative"));
        }
        let rest: Vec<String> = args
            .rest(1)
            .iter()
            .map(|v| v.as_text().unwrap().to_string())
            .collect();
        Ok(Value::string(format!("{n}{}", rest.join("+"))))
    });
    (Value::Func(function.into()), json!({"k": "func"}))
}

/// The data of a case: a map with one entry of each sort that templates ask for.
pub fn root(random: &mut Random) -> Pair {
    if random.below(40) == 0 {
        return value(random, 2);
    }
    let map = Map::new();
    let mut specs = everflow_json::Map::new();
    let mut add = |key: &str, pair: Pair| {
        map.insert(key, pair.0).unwrap();
        specs.insert(hex(key.as_bytes()).into(), pair.1);
    };
    for key in ["A", "B", "C"] {
        add(key, scalar(random));
    }
    for key in ["D", "E"] {
        add(key, value(random, 3));
    }
    let (values, items) = pairs(random, 2);
    add(
        "List",
        (Value::list(values), json!({"k": "list", "i": items})),
    );
    let (inner, spec) = any_map(random, 3);
    add("Map", (Value::Map(inner), json!({"k": "map", "m": spec})));
    add("Point", point(random, 2, false));
    add("Pointer", point(random, 2, true));
    add("Temp", temperature(random));
    add("Level", level(random));
    add("Release", release(random));
    add("Func", function_value());
    add("Nil", (Value::Nil, json!({"k": "nil"})));
    add("Str", word(random));
    let (labels, spec) = any_map(random, 2);
    let labels = Map::typed(
        GoType::Named(&LABELS),
        labels.snapshot().into_iter().collect(),
    );
    add(
        "Labels",
        (Value::Map(labels), json!({"k": "labels", "m": spec})),
    );
    (Value::Map(map), json!({"k": "map", "m": specs}))
}

fn same(_: &mut Context<'_>, args: Args<'_>) -> FuncResult {
    Ok(args.get(0).clone())
}

pub fn functions() -> Arc<Functions> {
    use GoType::{Any, Bool, Float32, Float64, Int, Int8, Int64, String, Uint8, Uint64};
    const ANY_MAP: GoType = GoType::ANY_MAP;
    let mut f = Functions::new();
    f.add("addInts", Signature::new(&[Int, Int], Int), |_, args| {
        Ok(Value::Int(args.int(0)?.wrapping_add(args.int(1)?)))
    });
    f.add(
        "joinAll",
        Signature::variadic(&[String, String], String),
        |_, args| {
            let parts: Vec<&[u8]> = args
                .rest(1)
                .iter()
                .map(|v| v.as_text().unwrap().as_bytes())
                .collect();
            Ok(Value::string(parts.join(args.text(0)?.as_bytes())))
        },
    );
    f.add("same", Signature::new(&[Any], Any), same);
    f.add("typeof", Signature::new(&[Any], String), |_, args| {
        Ok(Value::string(args.get(0).type_name()))
    });
    f.add("fails", Signature::new(&[String], String), |_, args| {
        Err(FuncError::new(args.text(0)?.to_string()))
    });
    f.add("sizeMap", Signature::new(&[ANY_MAP], Int), |_, args| {
        Ok(Value::Int(args.map(0)?.len() as i64))
    });
    f.add(
        "sizeAll",
        Signature::new(&[GoType::ANY_SLICE], Int),
        |_, args| Ok(Value::Int(args.list(0)?.len() as i64)),
    );
    f.add(
        "strs",
        Signature::new(&[GoType::STRING_SLICE], Int),
        |_, args| Ok(Value::Int(args.list(0)?.len() as i64)),
    );
    f.add("zero", Signature::new(&[], Int), |_, _| Ok(Value::Int(0)));
    f.add("nothing", Signature::new(&[], Any), |_, _| Ok(Value::Nil));
    f.add("half", Signature::new(&[Float64], Float64), |_, args| {
        Ok(Value::Float64(args.float(0)? / 2.0))
    });
    f.add("single", Signature::new(&[Float32], Float32), same);
    f.add("octet", Signature::new(&[Uint8], Uint8), same);
    f.add("wide", Signature::new(&[Int64], Int64), same);
    f.add("huge", Signature::new(&[Uint64], Uint64), same);
    f.add("tiny", Signature::new(&[Int8], Int8), same);
    f.add("flip", Signature::new(&[Bool], Bool), |_, args| {
        Ok(Value::Bool(!args.bool(0)?))
    });
    f.add("upper", Signature::new(&[String], String), |_, args| {
        let text = args.text(0)?;
        let mut out = std::string::String::new();
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let (rune, width) = gofmt::decode_rune(rest);
            out.push(char::from_u32(rune).unwrap_or('\u{fffd}'));
            rest = &rest[width..];
        }
        Ok(Value::string(out.to_uppercase()))
    });
    f.add(
        "list",
        Signature::variadic(&[Any], GoType::ANY_SLICE),
        |_, args| Ok(Value::list(args.all().to_vec())),
    );
    f.add(
        "dict",
        Signature::variadic(&[Any], ANY_MAP),
        |context, args| {
            if args.len() % 2 != 0 {
                return Err(FuncError::new("odd number of arguments"));
            }
            let map = Map::new();
            for pair in args.all().chunks(2) {
                map.insert(gofmt::sprint(&pair[..1], context.meter())?, pair[1].clone())?;
            }
            Ok(Value::Map(map))
        },
    );
    f.add(
        "put",
        Signature::new(&[ANY_MAP, String, Any], ANY_MAP),
        |_, args| {
            args.map(0)?
                .insert(args.text(1)?.clone(), args.get(2).clone())?;
            Ok(args.get(0).clone())
        },
    );
    Arc::new(f)
}
