//! What expressions may call: the engine's own filters and tests, weighed before and after; and
//! our own instead of those that can make much out of little, which weigh each piece before it is
//! put down.

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value, filters};

use super::value::{VALUE_BYTES, hold, invalid, to_json, touch, weigh};

/// The longest list that a range gives.
const RANGE_ITEMS_MAX: u64 = 100_000;

/// The most fields that a list is sorted by: each element gets a copy of all of them.
const SORT_FIELDS_MAX: usize = 8;

/// What a filter makes of what it is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Makes {
    /// One of the values in it, or a number.
    Little,
    /// About as much again.
    AsMuch,
    /// A list: of its elements, or of the characters of a text.
    List,
}

/// The engine's own filters, by what they make.
const ENGINE_FILTERS: [(Makes, &str); 3] = [
    (Makes::Little, "abs attr bool count d default first float int last length round"),
    (Makes::AsMuch, "capitalize e escape lower reverse title trim upper"),
    (
        Makes::List,
        "dictsort groupby items list map max min reject rejectattr select selectattr sort sum unique",
    ),
];

/// The engine's own tests, besides `divisibleby`.
const ENGINE_TESTS: &str = "!= < <= == > >= boolean defined endingwith eq equalto even false float \
    ge gt in integer iterable le lower lt mapping ne none number odd sequence startingwith string \
    true undefined upper";

thread_local! {
    /// An engine with all its filters and tests as they come. It evaluates no expressions.
    static UNWEIGHED: Environment<'static> = {
        let mut engine = Environment::new();
        engine.set_undefined_behavior(UndefinedBehavior::Strict);
        engine
    };
}

/// Adds all filters, tests and functions to an engine that has none.
pub(super) fn add_filters(engine: &mut Environment<'_>) {
    add_own(engine);
    for (makes, names) in ENGINE_FILTERS {
        for name in names.split_whitespace() {
            let filter = calls_others(name);
            engine.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
                let args = args.into_values();
                check(name, &args)?;
                weighed(makes, &args, || match &filter {
                    Some(filter) => filter.call(state, &args),
                    None => UNWEIGHED.with(|engine| engine.empty_state().apply_filter(name, &args)),
                })
            });
        }
    }
    for name in ENGINE_TESTS.split_whitespace() {
        engine.add_test(name, move |args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            go_through(&args)?;
            UNWEIGHED.with(|engine| engine.empty_state().perform_test(name, &args))
        });
    }
    engine.add_test("divisibleby", is_divisible_by);
    engine.add_function("range", range);
}

/// A filter that calls other filters or tests by their names: those must be the weighed ones.
fn calls_others(name: &str) -> Option<Value> {
    match name {
        "map" => Some(Value::from_function(filters::map)),
        "reject" => Some(Value::from_function(filters::reject)),
        "rejectattr" => Some(Value::from_function(filters::rejectattr)),
        "select" => Some(Value::from_function(filters::select)),
        "selectattr" => Some(Value::from_function(filters::selectattr)),
        _ => None,
    }
}

fn weighed(
    makes: Makes,
    args: &[Value],
    filter: impl FnOnce() -> Result<Value, Error>,
) -> Result<Value, Error> {
    go_through(args)?;
    if makes != Makes::Little {
        let (subject, others) = args.split_first().ok_or(ErrorKind::MissingArgument)?;
        let elements = subject.as_str().map(str::len).or_else(|| subject.len()).unwrap_or(0);
        if makes == Makes::List {
            hold(elements.saturating_mul(VALUE_BYTES))?;
        }
        // Each element may be held against all that comes with the filter.
        let others = others.iter().map(weigh).sum::<Result<usize, Error>>()?;
        touch(elements.saturating_mul(others))?;
    }
    let made = settled(filter()?)?;
    if makes != Makes::Little {
        hold(weigh(&made)?)?;
    }
    Ok(made)
}

fn go_through(args: &[Value]) -> Result<(), Error> {
    args.iter().try_for_each(|arg| touch(weigh(arg)?))
}

/// Makes a list of what would be worked out only when it is looked at: a chain of those is worked
/// out by as many calls within calls, for which there is not stack enough.
fn settled(value: Value) -> Result<Value, Error> {
    if value.kind() != ValueKind::Iterable {
        return Ok(value);
    }
    value.try_iter()?.checked().collect::<Result<Vec<Value>, Error>>().map(Value::from)
}

fn add_own(engine: &mut Environment<'_>) {
    engine.add_filter("_number", number);
    engine.add_filter("_text", text);
    engine.add_filter("join", |value: &Value, between: Option<&str>, kwargs: Kwargs| {
        let attribute = kwargs.get::<Option<&str>>("attribute")?;
        kwargs.assert_all_used()?;
        join(value, between, attribute)
    });
    engine.add_filter("lines", |text: &str| pieces(text.lines()));
    engine.add_filter("replace", replace);
    engine.add_filter("split", split);
    engine.add_filter("string", text);
    engine.add_filter("tojson", |value: Value| json(&value).map(Value::from));
}

/// A number as it is, and nothing else: what is multiplied is no text and no list.
fn number(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Number | ValueKind::Bool => Ok(value),
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        kind => Err(invalid(format!("one can calculate with numbers only, not with a {kind}"))),
    }
}

/// A text as it is, everything else as JSON.
fn text(value: Value) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => hold(text.len()).map(|()| value),
        None => json(&value).map(Value::from),
    }
}

fn json(value: &Value) -> Result<String, Error> {
    touch(weigh(value)?)?;
    let text = to_json(value)?.to_string();
    hold(text.len()).map(|()| text)
}

fn join(value: &Value, between: Option<&str>, attribute: Option<&str>) -> Result<Value, Error> {
    let between = between.unwrap_or_default();
    let mut joined = String::new();
    for (place, item) in value.try_iter()?.checked().enumerate() {
        let mut item = item?;
        if let Some(attribute) = attribute {
            touch(attribute.len())?;
            item = path_of(&item, attribute)?;
        }
        if place > 0 {
            push(&mut joined, between)?;
        }
        match item.as_str() {
            Some(text) => push(&mut joined, text)?,
            None => push(&mut joined, &json(&item)?)?,
        }
    }
    Ok(Value::from(joined))
}

fn path_of(item: &Value, path: &str) -> Result<Value, Error> {
    path.split('.').try_fold(item.clone(), |value, name| match name.parse::<usize>() {
        Ok(place) => value.get_item_by_index(place),
        Err(_) => value.get_attr(name),
    })
}

fn replace(value: &str, from: &str, to: &str) -> Result<Value, Error> {
    touch(value.len())?;
    let mut replaced = String::new();
    let mut rest = 0;
    for (at, found) in value.match_indices(from) {
        push(&mut replaced, &value[rest..at])?;
        push(&mut replaced, to)?;
        rest = at + found.len();
    }
    push(&mut replaced, &value[rest..])?;
    Ok(Value::from(replaced))
}

fn split(text: &str, separator: Option<&str>, times: Option<usize>) -> Result<Value, Error> {
    touch(text.len())?;
    match (separator, times) {
        (None, None) => pieces(text.split_whitespace()),
        (None, Some(_)) => Err(invalid("split at blanks has no limit")),
        (Some(separator), None) => pieces(text.split(separator)),
        (Some(separator), Some(times)) => pieces(text.splitn(times.saturating_add(1), separator)),
    }
}

/// A list of the pieces of a text.
fn pieces<'a>(pieces: impl Iterator<Item = &'a str>) -> Result<Value, Error> {
    let weighed = pieces.map(|piece| hold(VALUE_BYTES + piece.len()).map(|()| Value::from(piece)));
    weighed.collect::<Result<Vec<Value>, Error>>().map(Value::from)
}

fn range(first: i64, end: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
    let (first, end) = end.map_or((0, first), |end| (first, end));
    let step = step.unwrap_or(1);
    let distance = if (end > first) == (step > 0) { end.abs_diff(first) } else { 0 };
    if step == 0 || distance.div_ceil(step.unsigned_abs()) > RANGE_ITEMS_MAX {
        let reason = format!("a range has a step, and at most {RANGE_ITEMS_MAX} elements");
        return Err(invalid(reason));
    }
    let mut items = Vec::new();
    let mut next = first;
    while if step > 0 { next < end } else { next > end } {
        hold(VALUE_BYTES)?;
        items.push(Value::from(next));
        let Some(after) = next.checked_add(step) else { break };
        next = after;
    }
    Ok(Value::from(items))
}

/// The engine's own panics where one divides by zero.
fn is_divisible_by(value: &Value, by: &Value) -> Result<bool, Error> {
    touch(weigh(value)? + weigh(by)?)?;
    Ok(match (i128::try_from(value.clone()), i128::try_from(by.clone())) {
        (Ok(value), Ok(by)) => value.checked_rem(by) == Some(0),
        _ => false,
    })
}

/// Refuses what makes much out of little in filters of the engine.
fn check(filter: &str, args: &[Value]) -> Result<(), Error> {
    let given = |name| match args.last() {
        Some(kwargs) if kwargs.is_kwargs() => kwargs.get_attr(name),
        _ => Ok(Value::UNDEFINED),
    };
    if filter == "sort" {
        let fields = given("attribute")?;
        if fields.as_str().is_some_and(|fields| fields.split(',').count() > SORT_FIELDS_MAX) {
            return Err(invalid(format!("one can sort by at most {SORT_FIELDS_MAX} fields")));
        }
    }
    // With a list to begin with it would add lists.
    if filter == "sum" && (args.len() > 2 || !given("start")?.is_undefined()) {
        return Err(invalid("sum begins with 0"));
    }
    Ok(())
}

/// A text is weighed while it grows.
fn push(text: &mut String, piece: &str) -> Result<(), Error> {
    hold(piece.len())?;
    text.push_str(piece);
    Ok(())
}
