//! What several tests need.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use keyspace::{
    Answer, Keyspace, Operation, Row, Write, hashes, keys, lists, sorted_sets, strings,
};
use model::Timestamp;

pub(crate) fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("64 bits")
}

/// A number from the environment, if it is set.
pub(crate) fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number in the environment"))
}

/// The commands with the numbers of their arguments, as the door's table has them.
pub(crate) const COMMANDS: &[(&str, i32, Operation)] = &[
    ("blpop", -3, lists::blpop),
    ("brpop", -3, lists::brpop),
    ("brpoplpush", 4, lists::brpoplpush),
    ("del", -2, keys::del),
    ("exists", -2, keys::exists),
    ("expire", -3, keys::expire),
    ("get", 2, strings::get),
    ("hdel", -3, hashes::hdel),
    ("hexists", 3, hashes::hexists),
    ("hget", 3, hashes::hget),
    ("hgetall", 2, hashes::hgetall),
    ("hincrby", 4, hashes::hincrby),
    ("hlen", 2, hashes::hlen),
    ("hset", -4, hashes::hset),
    ("incr", 2, strings::incr),
    ("incrby", 3, strings::incrby),
    ("keys", 2, keys::keys),
    ("llen", 2, lists::llen),
    ("lmove", 5, lists::lmove),
    ("lpop", -2, lists::lpop),
    ("lpush", -3, lists::lpush),
    ("lrange", 4, lists::lrange),
    ("lrem", 4, lists::lrem),
    ("mget", -2, strings::mget),
    ("rpop", -2, lists::rpop),
    ("rpoplpush", 3, lists::rpoplpush),
    ("rpush", -3, lists::rpush),
    ("scan", -2, keys::scan),
    ("set", -3, strings::set),
    ("ttl", 2, keys::ttl),
    ("type", 2, keys::type_of),
    ("zadd", -4, sorted_sets::zadd),
    ("zcard", 2, sorted_sets::zcard),
    ("zrange", -4, sorted_sets::zrange),
    ("zrangebyscore", -4, sorted_sets::zrangebyscore),
    ("zrem", -3, sorted_sets::zrem),
    ("zscore", 3, sorted_sets::zscore),
];

/// Carries out a command as the door does: the number of arguments is checked before.
pub(crate) fn execute(space: &mut Keyspace, now: Timestamp, arguments: &[Bytes]) -> Answer {
    let name = String::from_utf8_lossy(&arguments[0]).to_ascii_lowercase();
    let found = COMMANDS.iter().find(|(known, ..)| *known == name);
    let (_, arity, operation) = found.unwrap_or_else(|| panic!("{name} is no command"));
    let (n_arguments, wanted) = (arguments.len(), arity.unsigned_abs() as usize);
    let fits = if *arity < 0 { n_arguments >= wanted } else { n_arguments == wanted };
    if !fits {
        let text = format!("ERR wrong number of arguments for '{name}' command");
        return Answer::Error(text.into());
    }
    space.execute(now, *operation, arguments)
}

/// Executes a command of words.
pub(crate) fn run(space: &mut Keyspace, millis: u64, words: &str) -> Answer {
    let arguments: Vec<Bytes> = words
        .split(' ')
        .map(|word| Bytes::copy_from_slice(if word == "''" { b"" } else { word.as_bytes() }))
        .collect();
    execute(space, Timestamp::from_millis(millis), &arguments)
}

pub(crate) fn shown(arguments: &[Bytes]) -> String {
    let words: Vec<_> = arguments.iter().map(|one| format!("{one:?}")).collect();
    words.join(" ")
}

/// A plain table of rows, as a store would keep it.
#[derive(Default)]
pub(crate) struct RowTable {
    rows: BTreeMap<Bytes, Row>,
}

impl RowTable {
    /// Applies what one batch writes; each key is in it once.
    pub(crate) fn apply(&mut self, writes: Vec<Write>) {
        let mut keys: Vec<Bytes> = writes.iter().map(|write| write.key().clone()).collect();
        keys.sort();
        assert!(keys.is_sorted_by(|one, two| one < two), "a key is written twice: {keys:?}");
        for write in writes {
            match write {
                Write::Put(row) => self.rows.insert(row.key.clone(), row),
                Write::Delete(key) => self.rows.remove(&key),
            };
        }
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        self.rows.values().cloned().collect()
    }
}

/// The rows of a keyspace in the order of their keys.
pub(crate) fn rows_of(space: &Keyspace) -> Vec<Row> {
    let mut rows: Vec<Row> = space.rows().collect();
    rows.sort_by(|one, two| one.key.cmp(&two.key));
    rows
}
