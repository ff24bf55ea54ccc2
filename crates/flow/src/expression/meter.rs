//! How much one expression may hold and do. The engine counts instructions, but one instruction
//! can be as large as what it is given: so values are weighed where they come into being.

use std::cell::Cell;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// What the values of one expression may weigh, each counted whenever it is looked up or made.
pub const HELD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What the operators of one expression may go through, all together.
pub const TOUCHED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How deep a value may nest that an expression makes.
pub(super) const NESTING_MAX: usize = 64;

/// What a value weighs besides its text.
pub(super) const VALUE_BYTES: usize = 32;

#[derive(Clone, Copy)]
struct Meter {
    held: usize,
    touched: usize,
}

thread_local! {
    static LEFT: Cell<Meter> = const { Cell::new(Meter { held: 0, touched: 0 }) };
}

/// Begins anew. Each operation may go through all that is held, therefore many of them may hold
/// less.
pub(super) fn start(operations: usize) {
    let held = HELD_BYTES_MAX.min(TOUCHED_BYTES_MAX / (operations + 1));
    LEFT.set(Meter { held, touched: TOUCHED_BYTES_MAX });
}

/// Something of this weight comes into being.
pub(super) fn hold(bytes: usize) -> Result<(), Error> {
    let mut left = LEFT.get();
    left.held = left.held.checked_sub(bytes).ok_or_else(too_much)?;
    LEFT.set(left);
    Ok(())
}

/// Something of this weight is gone through.
pub(super) fn touch(bytes: usize) -> Result<(), Error> {
    let mut left = LEFT.get();
    left.touched = left.touched.checked_sub(bytes).ok_or_else(too_much)?;
    LEFT.set(left);
    Ok(())
}

fn too_much() -> Error {
    Error::new(ErrorKind::InvalidOperation, "the values in it grow too large")
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
            let pairs = value.as_object().and_then(minijinja::value::DynObject::try_iter_pairs);
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

pub(super) fn too_deep() -> Error {
    let reason = format!("the values in it nest more than {NESTING_MAX} levels deep");
    Error::new(ErrorKind::InvalidOperation, reason)
}
