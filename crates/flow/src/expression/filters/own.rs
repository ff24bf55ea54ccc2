//! Filters that stand in for those of the engine: each piece is weighed before it is put down.

use std::io;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};

use crate::expression::convert::to_json;
use crate::expression::meter::{VALUE_BYTES, hold, touch, weigh};

/// The longest list that a range gives.
const RANGE_ITEMS_MAX: u64 = 100_000;

/// The most fields that a list is sorted by: each element gets a copy of all of them.
const SORT_FIELDS_MAX: usize = 8;

pub(super) fn add_all(engine: &mut Environment<'_>) {
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
    let mut text = Text::default();
    let json = to_json(value)?;
    serde_json::to_writer(&mut text, &json).map_err(|error| invalid(error.to_string()))?;
    String::from_utf8(text.0).map_err(|error| invalid(error.to_string()))
}

fn join(value: &Value, between: Option<&str>, attribute: Option<&str>) -> Result<Value, Error> {
    let between = between.unwrap_or_default();
    let mut joined = Text::default();
    for (place, item) in value.try_iter()?.checked().enumerate() {
        let mut item = item?;
        if let Some(attribute) = attribute {
            touch(attribute.len())?;
            item = path_of(&item, attribute)?;
        }
        if place > 0 {
            joined.push(between)?;
        }
        match item.as_str() {
            Some(text) => joined.push(text)?,
            None => joined.push(&json(&item)?)?,
        }
    }
    joined.finish()
}

fn path_of(item: &Value, path: &str) -> Result<Value, Error> {
    path.split('.').try_fold(item.clone(), |value, name| match name.parse::<usize>() {
        Ok(place) => value.get_item_by_index(place),
        Err(_) => value.get_attr(name),
    })
}

fn replace(value: &str, from: &str, to: &str) -> Result<Value, Error> {
    touch(value.len())?;
    let mut replaced = Text::default();
    let mut rest = 0;
    for (at, found) in value.match_indices(from) {
        replaced.push(&value[rest..at])?;
        replaced.push(to)?;
        rest = at + found.len();
    }
    replaced.push(&value[rest..])?;
    replaced.finish()
}

fn split(text: &str, separator: Option<&str>, times: Option<usize>) -> Result<Value, Error> {
    touch(text.len())?;
    match (separator, times) {
        (None, None) => pieces(text.split_whitespace()),
        (None, Some(_)) => Err(invalid("split at blanks has no limit".to_owned())),
        (Some(separator), None) => pieces(text.split(separator)),
        (Some(separator), Some(times)) => pieces(text.splitn(times.saturating_add(1), separator)),
    }
}

/// A list of the pieces of a text.
fn pieces<'a>(pieces: impl Iterator<Item = &'a str>) -> Result<Value, Error> {
    let weighed = pieces.map(|piece| hold(VALUE_BYTES + piece.len()).map(|()| Value::from(piece)));
    weighed.collect::<Result<Vec<Value>, Error>>().map(Value::from)
}

pub(super) fn range(first: i64, end: Option<i64>, step: Option<i64>) -> Result<Value, Error> {
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
pub(super) fn is_divisible_by(value: &Value, by: &Value) -> bool {
    match (i128::try_from(value.clone()), i128::try_from(by.clone())) {
        (Ok(value), Ok(by)) => value.checked_rem(by) == Some(0),
        _ => false,
    }
}

/// Refuses what makes much out of little in filters of the engine.
pub(super) fn check(filter: &str, args: &[Value]) -> Result<(), Error> {
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
        return Err(invalid("sum begins with 0".to_owned()));
    }
    Ok(())
}

/// A text that is weighed while it grows.
#[derive(Default)]
struct Text(Vec<u8>);

impl Text {
    fn push(&mut self, piece: &str) -> Result<(), Error> {
        hold(piece.len())?;
        self.0.extend_from_slice(piece.as_bytes());
        Ok(())
    }

    fn finish(self) -> Result<Value, Error> {
        String::from_utf8(self.0).map(Value::from).map_err(|error| invalid(error.to_string()))
    }
}

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        hold(bytes.len()).map_err(io::Error::other)?;
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn invalid(reason: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}
