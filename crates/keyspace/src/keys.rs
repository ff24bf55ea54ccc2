//! Commands of keys, whatever they hold.

use bytes::Bytes;
use model::Timestamp;

use crate::call::{Answer, Call, Failure, Outcome, SYNTAX, until_zero};
use crate::glob::Glob;
use crate::keyspace::Keyspace;

/// How many keys a portion of a scan looks at, unless the client says otherwise.
const COUNT_DEFAULT: usize = 10;
/// The most keys that a portion of a scan looks at.
const COUNT_MAX: usize = 100_000;

/// `DEL key [key ...]`
pub fn del(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut n_removed = 0;
    for key in call.from(1) {
        if let Some(index) = space.find(call, key) {
            space.remove_at(index);
            n_removed += 1;
        }
    }
    Ok(Answer::Integer(n_removed))
}

/// `EXISTS key [key ...]`
pub fn exists(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let found = call.from(1).iter().filter(|key| space.find(call, key).is_some());
    Ok(Answer::count(found.count()))
}

/// `TYPE key`
pub fn type_of(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let entry = space.entry(call, call.argument(1));
    Ok(Answer::Word(entry.map_or("none", |entry| entry.value.kind().word())))
}

/// `TTL key`: seconds, rounded to the nearest as Redis does.
pub fn ttl(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let Some(entry) = space.entry(call, call.argument(1)) else { return Ok(Answer::Integer(-2)) };
    Ok(Answer::Integer(entry.expires_at.map_or(-1, |end| {
        let millis = end.to_integer() - call.now.to_integer();
        (millis + 500) / 1_000
    })))
}

/// `EXPIRE key seconds`. Nothing ends after [`Timestamp::MAX`], the year 9999.
pub fn expire(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    if let Some(option) = call.arguments.get(3) {
        let option = String::from_utf8_lossy(until_zero(option));
        return Err(Failure::with(format!("ERR Unsupported option {option}")));
    }
    let millis = call.integer(2)?.checked_mul(1_000);
    let end = millis.and_then(|millis| millis.checked_add(call.now.to_integer()));
    let end = end.ok_or(Failure::new("ERR invalid expire time in 'expire' command"))?;
    space.admit(call, call.argument(1))?;
    let Some(index) = space.find(call, call.argument(1)) else { return Ok(Answer::Integer(0)) };
    if end <= call.now.to_integer() {
        space.remove_at(index);
    } else {
        space.set_expiry(index, Some(Timestamp::from_integer(end)));
    }
    Ok(Answer::Integer(1))
}

/// `KEYS pattern`
pub fn keys(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut glob = Glob::new(call.argument(1));
    let mut found = Vec::new();
    for (key, entry) in &space.keys {
        if !entry.is_expired_at(call.now) && glob.matches(key)? {
            found.push(Some(key));
        }
    }
    Ok(Answer::Array(space.limits.collect(found.into_iter())?))
}

/// What follows the cursor of a scan.
struct ScanOptions<'a> {
    count: usize,
    glob: Glob<'a>,
    kind: Option<&'a Bytes>,
}

impl<'a> ScanOptions<'a> {
    fn read(call: &Call<'a>) -> Result<Self, Failure> {
        let mut options = Self { count: COUNT_DEFAULT, glob: Glob::new(b"*"), kind: None };
        for position in (2..call.len()).step_by(2) {
            let value = call.arguments.get(position + 1).ok_or(SYNTAX)?;
            if call.is(position, "count") {
                let count = usize::try_from(call.integer(position + 1)?).ok();
                options.count = count.filter(|count| *count > 0).ok_or(SYNTAX)?;
            } else if call.is(position, "match") {
                options.glob = Glob::new(value);
            } else if call.is(position, "type") {
                options.kind = Some(value);
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
///
/// A cursor is the position below which the walk goes on. It goes from the back to the front: a
/// removal moves the last key forward, where the walk still comes by, so that a key that stays
/// during a whole walk is given at least once.
pub fn scan(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let cursor = cursor(call.argument(1))?;
    let mut options = ScanOptions::read(call)?;
    let end = match usize::try_from(cursor) {
        Ok(0) | Err(_) => space.len(),
        Ok(cursor) => cursor.min(space.len()),
    };
    let start = end.saturating_sub(options.count.min(COUNT_MAX));
    let mut found = Vec::new();
    for index in (start..end).rev() {
        let (key, entry) = space.keys.get_index(index).expect("a position of a key");
        let kind = entry.value.kind().word().as_bytes();
        let is_wanted = options.kind.is_none_or(|wanted| wanted.eq_ignore_ascii_case(kind));
        if is_wanted && !entry.is_expired_at(call.now) && options.glob.matches(key)? {
            found.push(Some(key));
        }
    }
    let found = space.limits.collect(found.into_iter())?;
    Ok(Answer::Array(vec![Answer::Bulk(start.to_string().into()), Answer::Array(found)]))
}

/// A cursor as C reads it: an unsigned number, of which a minus makes the complement. An empty
/// text is zero.
fn cursor(argument: &[u8]) -> Result<u64, Failure> {
    let argument = until_zero(argument);
    let unsigned = argument.strip_prefix(b"-").or(argument.strip_prefix(b"+")).unwrap_or(argument);
    let is_number = unsigned.iter().all(u8::is_ascii_digit);
    let number = match std::str::from_utf8(unsigned) {
        _ if argument.is_empty() => Some(0),
        Ok(digits) if is_number => digits.parse::<u64>().ok(),
        Ok(_) | Err(_) => None,
    };
    let number = number.ok_or(Failure::new("ERR invalid cursor"))?;
    Ok(if argument.starts_with(b"-") { number.wrapping_neg() } else { number })
}
