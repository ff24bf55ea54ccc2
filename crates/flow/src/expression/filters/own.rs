//! Filters that stand in for those of the engine: each piece is weighed before it is put down.

use std::io;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};

use crate::expression::convert::to_json;
use crate::expression::meter::{hold, touch, weigh};

pub(super) fn add_all(engine: &mut Environment<'_>) {
    engine.add_filter("_number", number);
    engine.add_filter("_text", text);
    engine.add_filter("join", join);
    engine.add_filter("replace", replace);
    engine.add_filter("string", text);
    engine.add_filter("sum", sum);
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

fn join(value: &Value, joiner: Option<&str>, kwargs: Kwargs) -> Result<Value, Error> {
    let attribute = kwargs.get::<Option<&str>>("attribute")?;
    kwargs.assert_all_used()?;
    let joiner = joiner.unwrap_or_default();
    let mut joined = Text::default();
    for (place, item) in value.try_iter()?.checked().enumerate() {
        let mut item = item?;
        if let Some(attribute) = attribute {
            item = path_of(&item, attribute)?;
        }
        if place > 0 {
            joined.push(joiner)?;
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

/// The engine's own can begin with a list, and add lists to it; this one adds numbers.
fn sum(
    state: &State,
    values: Value,
    attribute: Option<&str>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    touch(weigh(&values)?)?;
    if kwargs.has("start") {
        return Err(invalid("sum begins with 0".to_owned()));
    }
    filters::sum(state, values, attribute, None, kwargs)
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
