//! Values of the engine: how many of them one expression may hold, and what they are as JSON.
//!
//! The engine counts instructions, but one instruction can be as large as what it is given: so
//! values are weighed where they come into being.

use std::borrow::Cow;
use std::cell::Cell;

use minijinja::value::{DynObject, ValueKind};
use minijinja::{Error, ErrorKind, Value};
use serde_json::{Map, Number, Value as Json};

use super::OUTPUT_BYTES_MAX;

/// Limit: what the values of one expression may weigh, each counted whenever it is looked up or
/// made.
const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Limit: what the operators of one expression may go through, all together.
const TOUCHED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Limit: how deep a value may nest that an expression makes.
const NESTING_MAX: usize = 64;

/// What a value weighs besides its text.
pub(super) const VALUE_BYTES: usize = 32;

thread_local! {
    static HELD_LEFT: Cell<usize> = const { Cell::new(0) };
    static TOUCHED_LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Begins anew. Each operation may go through all that is held, therefore many of them may hold
/// less.
pub(super) fn start(operations: usize) {
    HELD_LEFT.set(HELD_BYTES_MAX.min(TOUCHED_BYTES_MAX / (operations + 1)));
    TOUCHED_LEFT.set(TOUCHED_BYTES_MAX);
}

/// Something of this weight comes into being.
pub(super) fn hold(bytes: usize) -> Result<(), Error> {
    HELD_LEFT.set(HELD_LEFT.get().checked_sub(bytes).ok_or_else(too_much)?);
    Ok(())
}

/// Something of this weight is gone through.
pub(super) fn touch(bytes: usize) -> Result<(), Error> {
    TOUCHED_LEFT.set(TOUCHED_LEFT.get().checked_sub(bytes).ok_or_else(too_much)?);
    Ok(())
}

fn too_much() -> Error {
    invalid("the values in it grow too large")
}

/// What a value weighs, with all that is in it.
pub(super) fn weigh(value: &Value) -> Result<usize, Error> {
    weigh_within(value, NESTING_MAX)
}

fn weigh_within(value: &Value, depth: usize) -> Result<usize, Error> {
    let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
    let mut weight = VALUE_BYTES;
    match value.kind() {
        ValueKind::String => weight += value.as_str().map_or(0, str::len),
        ValueKind::Bytes => weight += value.as_bytes().map_or(0, <[u8]>::len),
        ValueKind::Seq | ValueKind::Iterable => {
            for item in value.try_iter()? {
                weight = grown(weight, weigh_within(&item, depth)?)?;
            }
        }
        ValueKind::Map => {
            let pairs = value.as_object().and_then(DynObject::try_iter_pairs);
            for (key, item) in pairs.into_iter().flatten() {
                let pair = weigh_within(&key, depth)? + weigh_within(&item, depth)?;
                weight = grown(weight, pair)?;
            }
        }
        _ => {}
    }
    Ok(weight)
}

/// What is too large is not weighed to its end.
fn grown(weight: usize, more: usize) -> Result<usize, Error> {
    let weight = weight + more;
    if weight > TOUCHED_BYTES_MAX { Err(too_much()) } else { Ok(weight) }
}

fn too_deep() -> Error {
    invalid(format!("the values in it nest more than {NESTING_MAX} levels deep"))
}

/// What a value from outside weighs in the engine.
pub(super) fn weight_of(json: &Json) -> usize {
    let below: usize = match json {
        Json::Null | Json::Bool(_) | Json::Number(_) => 0,
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(weight_of).sum(),
        Json::Object(fields) => {
            fields.iter().map(|(key, field)| VALUE_BYTES + key.len() + weight_of(field)).sum()
        }
    };
    VALUE_BYTES + below
}

/// What an expression gave, as JSON. No more than [`OUTPUT_BYTES_MAX`] of it.
pub(super) fn to_json(value: &Value) -> Result<Json, Error> {
    let mut room = OUTPUT_BYTES_MAX;
    take(value, NESTING_MAX, &mut room)
}

fn take(value: &Value, depth: usize, room: &mut usize) -> Result<Json, Error> {
    let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
    match value.kind() {
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        ValueKind::None => pay(4, room).map(|()| Json::Null),
        ValueKind::Bool => pay(4, room).map(|()| Json::Bool(value.is_true())),
        ValueKind::Number => pay(1, room).and_then(|()| number(value)),
        ValueKind::String => text(value, room).map(Json::String),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut items = Vec::new();
            for item in value.try_iter()?.checked() {
                items.push(take(&item?, depth, room)?);
                pay(1, room)?;
            }
            Ok(Json::Array(items))
        }
        ValueKind::Map => {
            let mut fields = Map::new();
            for key in value.try_iter()?.checked() {
                let key = key?;
                let field = take(&value.get_item(&key)?, depth, room)?;
                fields.insert(name(&key, room)?, field);
                pay(2, room)?;
            }
            Ok(Json::Object(fields))
        }
        kind => Err(invalid(format!("it gives {kind}, which is not JSON"))),
    }
}

/// The name of a field: a text, or what can be nothing else when it is written down.
fn name(key: &Value, room: &mut usize) -> Result<String, Error> {
    match key.kind() {
        ValueKind::String => text(key, room),
        ValueKind::Number | ValueKind::Bool | ValueKind::None => {
            take(key, 1, room).map(|key| key.to_string())
        }
        kind => Err(invalid(format!("a {kind} is not the name of a field"))),
    }
}

fn text(value: &Value, room: &mut usize) -> Result<String, Error> {
    let text = value.as_str().unwrap_or_default();
    pay(text.len() + 2, room).map(|()| text.to_owned())
}

fn pay(bytes: usize, room: &mut usize) -> Result<(), Error> {
    *room = room
        .checked_sub(bytes)
        .ok_or_else(|| invalid(format!("it gives more than {OUTPUT_BYTES_MAX} bytes")))?;
    Ok(())
}

fn number(value: &Value) -> Result<Json, Error> {
    if !value.is_integer() {
        let number = f64::try_from(value.clone())?;
        return Number::from_f64(number)
            .map(Json::Number)
            .ok_or_else(|| invalid(format!("it gives {number}, which is not a number in JSON")));
    }
    if let Ok(number) = i64::try_from(value.clone()) {
        return Ok(Json::from(number));
    }
    u64::try_from(value.clone())
        .map(Json::from)
        .map_err(|_| invalid(format!("it gives {value}, which is too large a number")))
}

/// What is said of an expression that cannot be worked out.
pub(super) fn invalid(reason: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}
