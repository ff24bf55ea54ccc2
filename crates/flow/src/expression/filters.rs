//! What expressions may call: the engine's own filters and tests, weighed before and after; and
//! our own instead of those that can make much out of little.

mod own;

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters, tests};

use super::meter::{VALUE_BYTES, hold, touch, weigh};

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

/// Adds all filters, tests and functions to an engine that has none.
pub(super) fn add_all(engine: &mut Environment<'_>) {
    own::add_all(engine);
    for (name, makes, filter) in engine_filters() {
        engine.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            own::check(name, &args)?;
            guarded(&filter, makes, state, &args)
        });
    }
    for (name, test) in engine_tests() {
        engine.add_test(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            go_through(&args)?;
            test.call(state, &args)
        });
    }
    engine.add_function("range", own::range);
}

fn guarded(
    filter: &Value,
    makes: Makes,
    state: &mut State,
    args: &[Value],
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
    let made = settled(filter.call(state, args)?)?;
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

fn engine_filters() -> Vec<(&'static str, Makes, Value)> {
    use Makes::{AsMuch, List, Little};
    let default = Value::from_function(filters::default);
    let length = Value::from_function(filters::length);
    let escape = Value::from_function(filters::escape);
    vec![
        ("abs", Little, Value::from_function(filters::abs)),
        ("attr", Little, Value::from_function(filters::attr)),
        ("bool", Little, Value::from_function(filters::bool)),
        ("capitalize", AsMuch, Value::from_function(filters::capitalize)),
        ("count", Little, length.clone()),
        ("d", Little, default.clone()),
        ("default", Little, default),
        ("dictsort", List, Value::from_function(filters::dictsort)),
        ("e", AsMuch, escape.clone()),
        ("escape", AsMuch, escape),
        ("first", Little, Value::from_function(filters::first)),
        ("float", Little, Value::from_function(filters::float)),
        ("groupby", List, Value::from_function(filters::groupby)),
        ("int", Little, Value::from_function(filters::int)),
        ("items", List, Value::from_function(filters::items)),
        ("last", Little, Value::from_function(filters::last)),
        ("length", Little, length),
        ("list", List, Value::from_function(filters::list)),
        ("lower", AsMuch, Value::from_function(filters::lower)),
        ("map", List, Value::from_function(filters::map)),
        ("max", List, Value::from_function(filters::max)),
        ("min", List, Value::from_function(filters::min)),
        ("reject", List, Value::from_function(filters::reject)),
        ("rejectattr", List, Value::from_function(filters::rejectattr)),
        ("reverse", AsMuch, Value::from_function(filters::reverse)),
        ("round", Little, Value::from_function(filters::round)),
        ("select", List, Value::from_function(filters::select)),
        ("selectattr", List, Value::from_function(filters::selectattr)),
        ("sort", List, Value::from_function(filters::sort)),
        ("sum", List, Value::from_function(filters::sum)),
        ("title", AsMuch, Value::from_function(filters::title)),
        ("trim", AsMuch, Value::from_function(filters::trim)),
        ("unique", List, Value::from_function(filters::unique)),
        ("upper", AsMuch, Value::from_function(filters::upper)),
    ]
}

fn engine_tests() -> Vec<(&'static str, Value)> {
    let eq = Value::from_function(tests::is_eq);
    let ne = Value::from_function(tests::is_ne);
    let lt = Value::from_function(tests::is_lt);
    let le = Value::from_function(tests::is_le);
    let gt = Value::from_function(tests::is_gt);
    let ge = Value::from_function(tests::is_ge);
    vec![
        ("!=", ne.clone()),
        ("<", lt.clone()),
        ("<=", le.clone()),
        ("==", eq.clone()),
        (">", gt.clone()),
        (">=", ge.clone()),
        ("boolean", Value::from_function(tests::is_boolean)),
        ("defined", Value::from_function(tests::is_defined)),
        ("divisibleby", Value::from_function(own::is_divisible_by)),
        ("endingwith", Value::from_function(tests::is_endingwith)),
        ("eq", eq.clone()),
        ("equalto", eq),
        ("even", Value::from_function(tests::is_even)),
        ("false", Value::from_function(tests::is_false)),
        ("float", Value::from_function(tests::is_float)),
        ("ge", ge),
        ("gt", gt),
        ("in", Value::from_function(tests::is_in)),
        ("integer", Value::from_function(tests::is_integer)),
        ("iterable", Value::from_function(tests::is_iterable)),
        ("le", le),
        ("lower", Value::from_function(tests::is_lower)),
        ("lt", lt),
        ("mapping", Value::from_function(tests::is_mapping)),
        ("ne", ne),
        ("none", Value::from_function(tests::is_none)),
        ("number", Value::from_function(tests::is_number)),
        ("odd", Value::from_function(tests::is_odd)),
        ("sequence", Value::from_function(tests::is_sequence)),
        ("startingwith", Value::from_function(tests::is_startingwith)),
        ("string", Value::from_function(tests::is_string)),
        ("true", Value::from_function(tests::is_true)),
        ("undefined", Value::from_function(tests::is_undefined)),
        ("upper", Value::from_function(tests::is_upper)),
    ]
}
