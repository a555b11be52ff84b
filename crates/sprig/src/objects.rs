//! The Go types that functions give to templates, with their methods.

use std::any::Any;

use everflow_gotemplate::{
    Args, Context, FuncError, FuncResult, GoStr, GoType, Method, NamedType, Object, Signature,
    Value,
};
use everflow_semver::Version;

use crate::crypto::cert::Certificate;
use crate::time::{Duration, Time};

/// `time.Time`.
pub const TIME: GoType = GoType::Named(&TIME_TYPE);
/// `time.Duration`.
pub const DURATION: GoType = GoType::Named(&DURATION_TYPE);
pub(crate) const MONTH: GoType = GoType::Named(&MONTH_TYPE);
pub(crate) const WEEKDAY: GoType = GoType::Named(&WEEKDAY_TYPE);
pub(crate) const CERTIFICATE: GoType = GoType::Named(&CERTIFICATE_TYPE);
const VERSION: GoType = GoType::Named(&VERSION_TYPE);
/// `*semver.Version`.
pub(crate) const VERSION_POINTER: GoType = GoType::Pointer(&VERSION);

const STRING: GoType = GoType::String;

/// Shortens the tables of methods.
const fn method(
    name: &'static str,
    params: &'static [GoType],
    result: GoType,
    call: fn(&mut Context<'_>, &Value, Args<'_>) -> FuncResult,
) -> Method {
    Method {
        name,
        signature: Signature::new(params, result),
        call,
    }
}

fn wrong_receiver() -> FuncError {
    FuncError::new("method called on a value of another type")
}

/// A `time.Time` value.
#[derive(Debug, Clone)]
pub struct TimeObject(pub Time);

impl Object for TimeObject {
    fn go_type(&self) -> GoType {
        TIME
    }

    /// The hidden fields, which verbs for numbers print.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        let seconds = self.0.seconds.wrapping_sub(Time::zero().seconds);
        vec![
            ("wall", Value::Uint64(u64::from(self.0.nanos))),
            ("ext", Value::Int64(seconds)),
            (
                "loc",
                Value::object(LocationObject(self.0.zone.name().to_owned())),
            ),
        ]
    }

    fn text(&self) -> Option<GoStr> {
        Some(self.0.display().into())
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        other
            .as_any()
            .downcast_ref::<Self>()
            .map(|other| self.0 == other.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A `*time.Location`, seen only when the fields of a time are printed.
#[derive(Debug, Clone)]
struct LocationObject(String);

static LOCATION_TYPE: NamedType = NamedType {
    name: "time.Location",
    underlying: GoType::Struct,
    methods: &[],
};
static LOCATION: GoType = GoType::Named(&LOCATION_TYPE);

impl Object for LocationObject {
    fn go_type(&self) -> GoType {
        GoType::Pointer(&LOCATION)
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("name", Value::string(self.0.as_str())),
            ("zone", Value::list(Vec::new())),
            ("tx", Value::list(Vec::new())),
            ("extend", Value::string("")),
            ("cacheStart", Value::Int64(0)),
            ("cacheEnd", Value::Int64(0)),
            ("cacheZone", Value::NilPointer(GoType::Pointer(&LOCATION))),
        ]
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn time(value: &Value) -> Result<&Time, FuncError> {
    value
        .as_object::<TimeObject>()
        .map(|object| &object.0)
        .ok_or_else(wrong_receiver)
}

pub(crate) fn time_value(time: Time) -> Value {
    Value::object(TimeObject(time))
}

static TIME_TYPE: NamedType = NamedType {
    name: "time.Time",
    underlying: GoType::Struct,
    methods: &[
        method("Format", &[STRING], STRING, |_, this, args| {
            Ok(Value::string(time(this)?.format(args.text(0)?.as_bytes())))
        }),
        method("String", &[], STRING, |_, this, _| {
            Ok(Value::string(time(this)?.display()))
        }),
        method("Unix", &[], GoType::Int64, |_, this, _| {
            Ok(Value::Int64(time(this)?.seconds))
        }),
        method("UnixMilli", &[], GoType::Int64, |_, this, _| {
            let time = time(this)?;
            let millis = i64::from(time.nanos / 1_000_000);
            Ok(Value::Int64(
                time.seconds.wrapping_mul(1000).wrapping_add(millis),
            ))
        }),
        method("UnixMicro", &[], GoType::Int64, |_, this, _| {
            let time = time(this)?;
            let micros = i64::from(time.nanos / 1000);
            Ok(Value::Int64(
                time.seconds.wrapping_mul(1_000_000).wrapping_add(micros),
            ))
        }),
        method("UnixNano", &[], GoType::Int64, |_, this, _| {
            let time = time(this)?;
            let nanos = i64::from(time.nanos);
            Ok(Value::Int64(
                time.seconds.wrapping_mul(1_000_000_000).wrapping_add(nanos),
            ))
        }),
        method("Year", &[], GoType::Int, |_, this, _| {
            Ok(Value::Int(time(this)?.civil().year))
        }),
        method("Month", &[], GoType::Named(&MONTH_TYPE), |_, this, _| {
            let month = time(this)?.civil().month;
            Ok(Value::object(NamedNumber {
                go_type: MONTH,
                value: i64::from(month),
            }))
        }),
        method("Day", &[], GoType::Int, |_, this, _| {
            Ok(Value::Int(i64::from(time(this)?.civil().day)))
        }),
        method("Hour", &[], GoType::Int, |_, this, _| {
            Ok(Value::Int(i64::from(time(this)?.civil().hour)))
        }),
        method("Minute", &[], GoType::Int, |_, this, _| {
            Ok(Value::Int(i64::from(time(this)?.civil().minute)))
        }),
        method("Second", &[], GoType::Int, |_, this, _| {
            Ok(Value::Int(i64::from(time(this)?.civil().second)))
        }),
        method("Nanosecond", &[], GoType::Int, |_, this, _| {
            Ok(Value::Int(i64::from(time(this)?.nanos)))
        }),
        method(
            "Weekday",
            &[],
            GoType::Named(&WEEKDAY_TYPE),
            |_, this, _| {
                let weekday = time(this)?.civil().weekday;
                Ok(Value::object(NamedNumber {
                    go_type: WEEKDAY,
                    value: i64::from(weekday),
                }))
            },
        ),
        method("YearDay", &[], GoType::Int, |_, this, _| {
            Ok(Value::Int(i64::from(time(this)?.civil().year_day)))
        }),
        method("IsZero", &[], GoType::Bool, |_, this, _| {
            Ok(Value::Bool(time(this)?.is_zero()))
        }),
        method("UTC", &[], GoType::Named(&TIME_TYPE), |_, this, _| {
            Ok(time_value(time(this)?.in_zone(crate::time::Zone::utc())))
        }),
        method("Local", &[], GoType::Named(&TIME_TYPE), |_, this, _| {
            Ok(time_value(time(this)?.in_zone(crate::time::Zone::utc())))
        }),
        method(
            "Add",
            &[GoType::Named(&DURATION_TYPE)],
            GoType::Named(&TIME_TYPE),
            |_, this, args| Ok(time_value(time(this)?.add(duration(args.get(0))?))),
        ),
        method(
            "AddDate",
            &[GoType::Int, GoType::Int, GoType::Int],
            GoType::Named(&TIME_TYPE),
            |_, this, args| {
                Ok(time_value(time(this)?.add_date(
                    args.int(0)?,
                    args.int(1)?,
                    args.int(2)?,
                )))
            },
        ),
        method(
            "Sub",
            &[GoType::Named(&TIME_TYPE)],
            GoType::Named(&DURATION_TYPE),
            |_, this, args| Ok(duration_value(time(this)?.since(time(args.get(0))?))),
        ),
        method(
            "Before",
            &[GoType::Named(&TIME_TYPE)],
            GoType::Bool,
            |_, this, args| {
                let (this, other) = (time(this)?, time(args.get(0))?);
                Ok(Value::Bool(
                    (this.seconds, this.nanos) < (other.seconds, other.nanos),
                ))
            },
        ),
        method(
            "After",
            &[GoType::Named(&TIME_TYPE)],
            GoType::Bool,
            |_, this, args| {
                let (this, other) = (time(this)?, time(args.get(0))?);
                Ok(Value::Bool(
                    (this.seconds, this.nanos) > (other.seconds, other.nanos),
                ))
            },
        ),
        method(
            "Equal",
            &[GoType::Named(&TIME_TYPE)],
            GoType::Bool,
            |_, this, args| {
                let (this, other) = (time(this)?, time(args.get(0))?);
                Ok(Value::Bool(
                    (this.seconds, this.nanos) == (other.seconds, other.nanos),
                ))
            },
        ),
        method(
            "Compare",
            &[GoType::Named(&TIME_TYPE)],
            GoType::Int,
            |_, this, args| {
                let (this, other) = (time(this)?, time(args.get(0))?);
                let order = (this.seconds, this.nanos).cmp(&(other.seconds, other.nanos));
                Ok(Value::Int(order as i64))
            },
        ),
    ],
};

/// A `time.Duration` value.
#[derive(Debug, Clone, Copy)]
pub struct DurationObject(pub Duration);

impl Object for DurationObject {
    fn go_type(&self) -> GoType {
        DURATION
    }

    fn text(&self) -> Option<GoStr> {
        Some(self.0.to_string().into())
    }

    fn basic(&self) -> Option<Value> {
        Some(Value::Int64(self.0.0))
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        other
            .as_any()
            .downcast_ref::<Self>()
            .map(|other| self.0 == other.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn duration(value: &Value) -> Result<Duration, FuncError> {
    value
        .as_object::<DurationObject>()
        .map(|object| object.0)
        .ok_or_else(wrong_receiver)
}

pub(crate) fn duration_value(duration: Duration) -> Value {
    Value::object(DurationObject(duration))
}

static DURATION_TYPE: NamedType = NamedType {
    name: "time.Duration",
    underlying: GoType::Int64,
    methods: &[
        method("String", &[], STRING, |_, this, _| {
            Ok(Value::string(duration(this)?.to_string()))
        }),
        method("Hours", &[], GoType::Float64, |_, this, _| {
            Ok(Value::Float64(duration(this)?.in_units(3_600_000_000_000)))
        }),
        method("Minutes", &[], GoType::Float64, |_, this, _| {
            Ok(Value::Float64(duration(this)?.in_units(60_000_000_000)))
        }),
        method("Seconds", &[], GoType::Float64, |_, this, _| {
            Ok(Value::Float64(duration(this)?.in_units(1_000_000_000)))
        }),
        method("Milliseconds", &[], GoType::Int64, |_, this, _| {
            Ok(Value::Int64(duration(this)?.0 / 1_000_000))
        }),
        method("Microseconds", &[], GoType::Int64, |_, this, _| {
            Ok(Value::Int64(duration(this)?.0 / 1000))
        }),
        method("Nanoseconds", &[], GoType::Int64, |_, this, _| {
            Ok(Value::Int64(duration(this)?.0))
        }),
        method("Abs", &[], GoType::Named(&DURATION_TYPE), |_, this, _| {
            Ok(duration_value(Duration(duration(this)?.0.saturating_abs())))
        }),
        method(
            "Round",
            &[GoType::Named(&DURATION_TYPE)],
            GoType::Named(&DURATION_TYPE),
            |_, this, args| {
                Ok(duration_value(
                    duration(this)?.round(duration(args.get(0))?),
                ))
            },
        ),
        method(
            "Truncate",
            &[GoType::Named(&DURATION_TYPE)],
            GoType::Named(&DURATION_TYPE),
            |_, this, args| {
                Ok(duration_value(
                    duration(this)?.truncate(duration(args.get(0))?),
                ))
            },
        ),
    ],
};

/// A `time.Month` or a `time.Weekday`.
#[derive(Debug, Clone, Copy)]
struct NamedNumber {
    go_type: GoType,
    value: i64,
}

impl NamedNumber {
    fn name(&self) -> &'static str {
        let index = usize::try_from(self.value).unwrap_or_default();
        if self.go_type == MONTH {
            crate::time::MONTHS
                .get(index.wrapping_sub(1))
                .copied()
                .unwrap_or_default()
        } else {
            crate::time::WEEKDAYS
                .get(index)
                .copied()
                .unwrap_or_default()
        }
    }
}

impl Object for NamedNumber {
    fn go_type(&self) -> GoType {
        self.go_type
    }

    fn text(&self) -> Option<GoStr> {
        Some(self.name().into())
    }

    fn basic(&self) -> Option<Value> {
        Some(Value::Int(self.value))
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        other
            .as_any()
            .downcast_ref::<Self>()
            .map(|other| self.value == other.value)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn number_name(_: &mut Context<'_>, this: &Value, _: Args<'_>) -> FuncResult {
    let number = this.as_object::<NamedNumber>().ok_or_else(wrong_receiver)?;
    Ok(Value::string(number.name()))
}

static MONTH_TYPE: NamedType = NamedType {
    name: "time.Month",
    underlying: GoType::Int,
    methods: &[method("String", &[], STRING, number_name)],
};

static WEEKDAY_TYPE: NamedType = NamedType {
    name: "time.Weekday",
    underlying: GoType::Int,
    methods: &[method("String", &[], STRING, number_name)],
};

/// A `sprig.certificate`: a certificate with its key.
#[derive(Debug, Clone)]
pub(crate) struct CertificateObject(pub Certificate);

impl Object for CertificateObject {
    fn go_type(&self) -> GoType {
        CERTIFICATE
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("Cert", Value::string(self.0.cert.as_slice())),
            ("Key", Value::string(self.0.key.as_slice())),
        ]
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        other
            .as_any()
            .downcast_ref::<Self>()
            .map(|other| self.0 == other.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

static CERTIFICATE_TYPE: NamedType = NamedType {
    name: "sprig.certificate",
    underlying: GoType::Struct,
    methods: &[],
};

/// A `semver.Version` or a pointer to one.
#[derive(Debug, Clone)]
pub(crate) struct VersionObject {
    pub version: Version,
    pub pointer: bool,
}

impl Object for VersionObject {
    fn go_type(&self) -> GoType {
        if self.pointer {
            VERSION_POINTER
        } else {
            VERSION
        }
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("major", Value::Uint64(self.version.major())),
            ("minor", Value::Uint64(self.version.minor())),
            ("patch", Value::Uint64(self.version.patch())),
            ("pre", Value::string(self.version.prerelease())),
            ("metadata", Value::string(self.version.metadata())),
            ("original", Value::string(self.version.original())),
        ]
    }

    fn text(&self) -> Option<GoStr> {
        Some(self.version.to_string().into())
    }

    fn equals(&self, other: &dyn Object) -> Option<bool> {
        let other = other.as_any().downcast_ref::<Self>()?;
        // Pointers are equal only to themselves.
        Some(if self.pointer {
            std::ptr::eq(self, other)
        } else {
            self.version == other.version
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn version(value: &Value) -> Result<&Version, FuncError> {
    value
        .as_object::<VersionObject>()
        .map(|object| &object.version)
        .ok_or_else(wrong_receiver)
}

fn version_value(version: Version) -> Value {
    Value::object(VersionObject {
        version,
        pointer: false,
    })
}

/// A method that compares with another version.
macro_rules! comparison {
    ($name:literal, $test:ident) => {
        method($name, &VERSION_PARAM, GoType::Bool, |_, this, args| {
            Ok(Value::Bool(
                version(this)?.cmp_precedence(version(args.get(0))?).$test(),
            ))
        })
    };
}

/// A method that gives another version.
const fn derive(
    name: &'static str,
    params: &'static [GoType],
    call: fn(&mut Context<'_>, &Value, Args<'_>) -> FuncResult,
) -> Method {
    method(name, params, GoType::Named(&VERSION_TYPE), call)
}

/// A version with one part more, unless that part is at its end.
fn raised(next: Option<Version>, part: &str) -> FuncResult {
    let overflow = || FuncError::new(format!("{part} version increment would overflow uint64"));
    next.map(version_value).ok_or_else(overflow)
}

/// A version with another text in it.
fn changed<E: ToString>(next: Result<Version, E>) -> FuncResult {
    next.map(version_value)
        .map_err(|error| FuncError::new(error.to_string()))
}

static VERSION_STATIC: GoType = GoType::Named(&VERSION_TYPE);
static VERSION_PARAM: [GoType; 1] = [GoType::Pointer(&VERSION_STATIC)];

static VERSION_TYPE: NamedType = NamedType {
    name: "semver.Version",
    underlying: GoType::Struct,
    methods: &[
        method("Major", &[], GoType::Uint64, |_, this, _| {
            Ok(Value::Uint64(version(this)?.major()))
        }),
        method("Minor", &[], GoType::Uint64, |_, this, _| {
            Ok(Value::Uint64(version(this)?.minor()))
        }),
        method("Patch", &[], GoType::Uint64, |_, this, _| {
            Ok(Value::Uint64(version(this)?.patch()))
        }),
        method("Prerelease", &[], STRING, |_, this, _| {
            Ok(Value::string(version(this)?.prerelease()))
        }),
        method("Metadata", &[], STRING, |_, this, _| {
            Ok(Value::string(version(this)?.metadata()))
        }),
        method("Original", &[], STRING, |_, this, _| {
            Ok(Value::string(version(this)?.original()))
        }),
        method("String", &[], STRING, |_, this, _| {
            Ok(Value::string(version(this)?.to_string()))
        }),
        derive("IncMajor", &[], |_, this, _| {
            raised(version(this)?.next_major(), "major")
        }),
        derive("IncMinor", &[], |_, this, _| {
            raised(version(this)?.next_minor(), "minor")
        }),
        derive("IncPatch", &[], |_, this, _| {
            raised(version(this)?.next_patch(), "patch")
        }),
        derive("SetPrerelease", &[STRING], |_, this, args| {
            changed(version(this)?.with_prerelease(&args.text(0)?.to_str_lossy()))
        }),
        derive("SetMetadata", &[STRING], |_, this, args| {
            changed(version(this)?.with_metadata(&args.text(0)?.to_str_lossy()))
        }),
        method("Compare", &VERSION_PARAM, GoType::Int, |_, this, args| {
            Ok(Value::Int(
                version(this)?.cmp_precedence(version(args.get(0))?) as i64,
            ))
        }),
        comparison!("Equal", is_eq),
        comparison!("LessThan", is_lt),
        comparison!("LessThanEqual", is_le),
        comparison!("GreaterThan", is_gt),
        comparison!("GreaterThanEqual", is_ge),
    ],
};
