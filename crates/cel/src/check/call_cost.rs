//! What Kubernetes' own functions and the extensions it uses may cost.

use super::cost::SizeOf;
use super::range::Range;
use super::types::Type;
use crate::ast::Literal;

const TRAVERSAL: f64 = 0.1;
const REGEX: f64 = 0.25;
/// The longest pattern behind a named format.
const FORMAT_PATTERN: f64 = 128.0;
/// The longest name of a format.
const FORMAT_NAME: u64 = 64;

/// What a call costs, and the size of its result where that is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallCost {
    pub(super) cost: Range,
    pub(super) size: Option<Range>,
}

/// An argument or receiver of a call.
#[derive(Debug)]
pub(super) struct Operand<'t> {
    pub(super) path: Vec<String>,
    pub(super) ty: &'t Type,
    pub(super) size: Option<Range>,
    pub(super) literal: Option<&'t Literal>,
}

impl Operand<'_> {
    pub(super) fn size_or_any(&self) -> Range {
        self.size.unwrap_or(Range::ANY)
    }

    fn int(&self) -> Option<u64> {
        match self.literal {
            Some(Literal::Int(value)) => Some((*value).max(0) as u64),
            _ => None,
        }
    }
}

/// The cost of a call where it is special.
pub(super) fn call_cost(
    function: &str,
    overload: &str,
    target: Option<&Operand<'_>>,
    args: &[Operand<'_>],
    sizes: &dyn SizeOf,
) -> Option<CallCost> {
    extension(overload, target, args, sizes)
        .or_else(|| kubernetes(function, overload, target, args, sizes))
}

fn size(operand: &Operand<'_>, sizes: &dyn SizeOf) -> Range {
    operand
        .size
        .or_else(|| sizes.declared(&operand.path))
        .unwrap_or(Range::ANY)
}

fn cost(cost: Range) -> Option<CallCost> {
    Some(CallCost { cost, size: None })
}

fn sized(cost: Range, size: Range) -> Option<CallCost> {
    Some(CallCost {
        cost,
        size: Some(size),
    })
}

/// Calls that make a list.
fn allocating(factor: f64, list: Range) -> Option<CallCost> {
    sized(list.scaled(factor).plus(Range::exactly(11)), list)
}

fn extension(
    overload: &str,
    target: Option<&Operand<'_>>,
    args: &[Operand<'_>],
    sizes: &dyn SizeOf,
) -> Option<CallCost> {
    let squared = |list: Range, of_text: bool| {
        let factor = if of_text { 2.0 + TRAVERSAL } else { 2.0 };
        allocating(factor, list.times(list))
    };
    match (overload, target, args) {
        ("list_sets_contains_list" | "list_sets_intersects_list", _, [left, right]) => {
            cost(size(left, sizes).times(size(right, sizes)).plus(Range::ONE))
        }
        ("list_sets_equivalent_list", _, [left, right]) => cost(
            size(left, sizes)
                .times(size(right, sizes))
                .scaled(2.0)
                .plus(Range::ONE),
        ),
        ("list_slice", Some(list), [from, to]) => {
            let end = to.int().unwrap_or(size(list, sizes).max);
            let length = end.wrapping_sub(from.int().unwrap_or(0));
            allocating(1.0, Range::exactly(length))
        }
        ("list_flatten", Some(list), []) => allocating(1.0, size(list, sizes)),
        ("list_flatten_int", Some(list), [depth]) => {
            let depth = depth.int().unwrap_or(u64::MAX);
            allocating(depth as f64, size(list, sizes))
        }
        ("lists_range", _, [count]) => {
            allocating(1.0, Range::exactly(count.int().unwrap_or(u64::MAX)))
        }
        ("list_reverse", Some(list), []) => allocating(1.0, size(list, sizes)),
        ("list_distinct", Some(list), []) => squared(size(list, sizes), false),
        (sort, Some(list), []) if sort.ends_with("_sort") => squared(
            size(list, sizes),
            matches!(sort, "list_string_sort" | "list_bytes_sort"),
        ),
        (sort, Some(_), [keys]) if sort.ends_with("_sortByAssociatedKeys") => squared(
            size(keys, sizes),
            sort.starts_with("list_string_") || sort.starts_with("list_bytes_"),
        ),
        _ => None,
    }
}

fn kubernetes(
    function: &str,
    overload: &str,
    target: Option<&Operand<'_>>,
    args: &[Operand<'_>],
    sizes: &dyn SizeOf,
) -> Option<CallCost> {
    let first = args.first().map(|arg| size(arg, sizes));
    let receiver = target.map(|target| size(target, sizes));
    match function {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            let (target, whole) = (target?, receiver?);
            match target.ty {
                Type::List(item) => {
                    let mut each = Range::ONE;
                    if matches!(**item, Type::String | Type::Bytes) {
                        each = each.plus(item_size(target, sizes).scaled(TRAVERSAL));
                    }
                    cost(whole.times(each))
                }
                _ => cost(whole.scaled(TRAVERSAL)),
            }
        }
        "url" if args.len() == 1 => sized(first?.scaled(TRAVERSAL), first?),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => {
            sized(receiver?.scaled(TRAVERSAL), receiver?)
        }
        "replace" if args.len() >= 2 => replace(receiver?, first?, size(&args[1], sizes)),
        "split" => {
            let text = receiver?;
            let most = match args.get(1).and_then(|limit| limit.literal) {
                Some(Literal::Int(limit)) => *limit as u64,
                _ => text.max,
            };
            let result = Range { min: 0, max: most };
            sized(text.scaled(2.0 * TRAVERSAL), result)
        }
        "join" => join(target?, receiver?, first, sizes),
        "find" | "findAll" => {
            let text = receiver?;
            let pattern = first?.scaled(REGEX);
            let result = Range {
                min: 0,
                max: text.max,
            };
            sized(
                text.plus(Range::ONE).scaled(TRAVERSAL).times(pattern),
                result,
            )
        }
        "ip" if overload == "cidr_ip" => cost(Range::ONE),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            cost(first?.scaled(TRAVERSAL))
        }
        "ip.isCanonical" => cost(first?.scaled(2.0 * TRAVERSAL)),
        "containsIP" | "containsCIDR" => {
            let address = Range { min: 4, max: 16 };
            let mut total = address.plus(address).scaled(TRAVERSAL);
            if function == "containsCIDR" {
                total = total.plus(address.scaled(TRAVERSAL)).plus(Range::ONE);
            }
            if overload.ends_with("_string") {
                total = total.plus(first?.scaled(TRAVERSAL));
            }
            cost(total)
        }
        "validate" => cost(first?.scaled(TRAVERSAL).scaled(FORMAT_PATTERN * REGEX)),
        "masked"
        | "prefixLength"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "format.named"
        | "sign"
        | "asInteger"
        | "isInteger"
        | "asApproximateFloat"
        | "isGreaterThan"
        | "isLessThan"
        | "compareTo"
        | "add"
        | "sub"
        | "major"
        | "minor"
        | "patch"
        | "getScheme"
        | "getHostname"
        | "getHost"
        | "getPort"
        | "getEscapedPath"
        | "getQuery" => cost(Range::ONE),
        "_==_" => equality(args),
        _ => None,
    }
}

fn equality(args: &[Operand<'_>]) -> Option<CallCost> {
    let [left, right] = args else {
        return None;
    };
    if left.ty != right.ty {
        return None;
    }
    match left.ty {
        Type::Opaque(name, _) if matches!(&**name, "net.IP" | "net.CIDR") => cost(Range::ONE),
        Type::Object(object) => match &*object.name {
            "kubernetes.Quantity" | "kubernetes.Semver" => cost(Range::ONE),
            "kubernetes.NamedFormat" => cost(
                Range {
                    min: 1,
                    max: FORMAT_NAME,
                }
                .scaled(TRAVERSAL),
            ),
            "kubernetes.URL" => {
                let most = right.size.map_or(1, |size| size.max);
                cost(Range { min: 1, max: most }.scaled(TRAVERSAL))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The size of the items of a list, as its schema declares it.
fn item_size(list: &Operand<'_>, sizes: &dyn SizeOf) -> Range {
    if list.path.is_empty() {
        return Range::ANY;
    }
    let mut path = list.path.clone();
    path.push("@items".to_owned());
    sizes.declared(&path).unwrap_or(Range::ANY)
}

fn join(
    list: &Operand<'_>,
    count: Range,
    separator: Option<Range>,
    sizes: &dyn SizeOf,
) -> Option<CallCost> {
    let mut length = match list.ty {
        Type::List(_) => count.times(item_size(list, sizes)),
        _ => Range::ZERO,
    };
    if let Some(separator) = separator {
        let between = Range {
            min: count.min.saturating_sub(1),
            max: count.max.saturating_sub(1),
        };
        length = length.plus(separator.times(between));
    }
    sized(length.scaled(TRAVERSAL), length)
}

fn replace(text: Range, old: Range, new: Range) -> Option<CallCost> {
    let ceiling = |whole: u64, part: u64| (whole as f64 / part as f64).ceil() as u64;
    let (most_times, most_kept) = if old.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if new.max <= old.min {
        (0, text.max)
    } else {
        (ceiling(text.max, old.min), 0)
    };
    let (least_times, least_kept) = if old.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if old.max <= new.min {
        (0, text.min)
    } else {
        (ceiling(text.min, old.max), 0)
    };
    let times = Range {
        min: least_times,
        max: most_times,
    };
    let kept = Range {
        min: least_kept,
        max: most_kept,
    };
    sized(text.scaled(2.0 * TRAVERSAL), times.times(new).plus(kept))
}
