//! Commands of keys, whatever they hold.

#![expect(clippy::unnecessary_wraps, reason = "the table of commands has one type of function")]

use crate::answer::Answer;
use crate::budget::Budget;
use crate::call::{Call, own};
use crate::dice::Dice;
use crate::failure::{NO_SUCH_KEY, Outcome};
use crate::glob::Glob;
use crate::keyspace::Keyspace;
use crate::row::Kind;
use crate::strings::count;

/// Random picks that may hit a key that has ended, before those are counted out.
const PICKS_MAX: usize = 20;

pub(crate) fn del(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut n_removed = 0;
    for key in call.from(1) {
        if let Some(index) = space.find(call, key) {
            space.remove_at(index);
            n_removed += 1;
        }
    }
    Ok(Answer::Integer(n_removed))
}

pub(crate) fn exists(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let found = call.from(1).iter().filter(|key| space.find(call, key).is_some());
    Ok(count(found.count()))
}

/// How Redis calls a kind.
pub(crate) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::String => "string",
        Kind::List => "list",
        Kind::Hash => "hash",
        Kind::Set => "set",
        Kind::SortedSet => "zset",
    }
}

pub(crate) fn type_of(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let entry = space.entry(call, call.argument(1));
    Ok(Answer::Word(entry.map_or("none", |entry| word(entry.value.kind()))))
}

pub(crate) fn keys(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut glob = Glob::new(call.argument(1));
    let mut budget = Budget::new(&space.limits);
    let mut found = Vec::new();
    for (key, entry) in &space.keys {
        let matches = glob.is_everything() || glob.matches(key)?;
        if matches && !entry.is_expired_at(call.now()) {
            budget.spend(key.len())?;
            found.push(Answer::Bulk(key.clone()));
        }
    }
    Ok(Answer::Array(found))
}

pub(crate) fn rename(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    move_key(space, call, true)?;
    Ok(Answer::Ok)
}

pub(crate) fn renamenx(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    move_key(space, call, false)
}

fn move_key(space: &mut Keyspace, call: &Call<'_>, overwrites: bool) -> Outcome {
    let (source, destination) = (call.argument(1), call.argument(2));
    if space.find(call, source).is_none() {
        return Err(NO_SUCH_KEY);
    }
    let target = space.find(call, destination);
    if source == destination || target.is_some() && !overwrites {
        return Ok(Answer::Integer(0));
    }
    space.remove_found(target);
    let index = space.find(call, source).expect("it was just there");
    let entry = space.remove_at(index);
    let is_list = entry.value.kind() == Kind::List;
    let key = own(destination);
    if is_list {
        space.ledger.note_growth(&key);
    }
    space.insert(key, entry);
    Ok(Answer::Integer(1))
}

pub(crate) fn randomkey(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let mut dice = Dice::new(call.at.entropy);
    for _ in 0..PICKS_MAX.min(space.len()) {
        let picked = space.keys.get_index(dice.below(space.len()));
        if let Some((key, _)) = picked.filter(|(_, entry)| !entry.is_expired_at(call.now())) {
            return Ok(Answer::Bulk(key.clone()));
        }
    }
    let alive = space.keys.iter().find(|(_, entry)| !entry.is_expired_at(call.now()));
    Ok(alive.map_or(Answer::Null, |(key, _)| Answer::Bulk(key.clone())))
}

pub(crate) fn dbsize(space: &mut Keyspace, call: &Call<'_>) -> Outcome {
    let n_ended = space.expiries.iter().take_while(|(end, _)| *end <= call.now()).count();
    Ok(count(space.len() - n_ended))
}
