//! How commands are written: what the generator knows of each.

use keyspace::Kind;

/// A part of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// A key that mostly holds this kind.
    Key(Kind),
    AnyKey,
    /// A text that may be a number.
    Value,
    /// A member, a field or an element, of which there are few.
    Member,
    Integer,
    /// A small integer, or an extreme one.
    Index,
    Float,
    ScoreEnd,
    Timeout,
    Pattern,
    /// A portion of a scan that holds all.
    Count,
    /// When something ends: in seconds or milliseconds, from now or from 1970 on.
    Expiry {
        is_millis: bool,
        is_absolute: bool,
    },
    Word(&'static str),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One to many times these.
    Many(&'static [Part]),
    /// Perhaps these.
    Maybe(&'static [Part]),
    /// Some of these, in any order.
    Options(&'static [&'static [Part]]),
}

/// How the replies are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// One by one.
    Fixed,
    /// Redis says nothing of the order of elements.
    Free,
    /// A cursor, and elements in any order.
    Scan,
    /// A time, which passes while replies are under way.
    Near,
    /// In portions of our own: only the form is the same.
    Form,
    /// Inside a transaction, where nobody waits.
    Blocking,
}

use Kind::{Hash, List, SortedSet, String as Text};
use Part::{
    AnyKey, Count, Expiry, Float, Index, Integer, Key, Many, Maybe, Member, OneOf, Options,
    Pattern, ScoreEnd, Timeout, Value, Word,
};

const SECONDS: Part = Expiry { is_millis: false, is_absolute: false };
const MILLIS: Part = Expiry { is_millis: true, is_absolute: false };
const SECONDS_AT: Part = Expiry { is_millis: false, is_absolute: true };
const MILLIS_AT: Part = Expiry { is_millis: true, is_absolute: true };

const CLOCKS: [&[Part]; 4] = [
    &[Word("ex"), SECONDS],
    &[Word("px"), MILLIS],
    &[Word("exat"), SECONDS_AT],
    &[Word("pxat"), MILLIS_AT],
];

const SET_OPTIONS: &[&[Part]] =
    &[CLOCKS[0], CLOCKS[1], CLOCKS[2], CLOCKS[3], &[Word("nx")], &[Word("XX")], &[Word("persist")]];

const KEY_SCAN_OPTIONS: &[&[Part]] = &[
    &[Word("count"), Count],
    &[Word("MATCH"), Pattern],
    &[Word("type"), OneOf(&["string", "LIST", "hash", "zset", "stream"])],
];

const ZRANGE_OPTIONS: &[&[Part]] = &[&[Word("withscores")], &[Word("WithScores")], &[Value]];

const RANGE_OPTIONS: &[&[Part]] =
    &[&[Word("withscores")], &[Word("LIMIT"), Index, Index], &[Word("rev")]];

const ENDS: Part = OneOf(&["left", "RIGHT", "left", "right", "up"]);

type Line = (&'static str, Order, &'static [Part]);

/// Every command with its arguments.
pub(crate) const GRAMMAR: &[Line] = &[
    ("del", Order::Fixed, &[Many(&[AnyKey])]),
    ("exists", Order::Fixed, &[Many(&[AnyKey])]),
    ("type", Order::Fixed, &[AnyKey]),
    ("keys", Order::Free, &[Pattern]),
    ("scan", Order::Scan, &[Word("0"), Word("count"), Count, Options(KEY_SCAN_OPTIONS)]),
    ("scan", Order::Form, &[Value, Options(KEY_SCAN_OPTIONS)]),
    ("ttl", Order::Near, &[AnyKey]),
    ("expire", Order::Fixed, &[AnyKey, SECONDS]),
    ("expire", Order::Fixed, &[AnyKey, SECONDS, Value]),
    ("set", Order::Fixed, &[Key(Text), Value]),
    ("set", Order::Fixed, &[Key(Text), Value, Options(SET_OPTIONS)]),
    ("get", Order::Fixed, &[Key(Text)]),
    ("mget", Order::Fixed, &[Many(&[AnyKey])]),
    ("incr", Order::Fixed, &[Key(Text)]),
    ("incrby", Order::Fixed, &[Key(Text), Integer]),
    ("lpush", Order::Fixed, &[Key(List), Many(&[Member])]),
    ("rpush", Order::Fixed, &[Key(List), Many(&[Member])]),
    ("lpop", Order::Fixed, &[Key(List), Maybe(&[Index])]),
    ("rpop", Order::Fixed, &[Key(List), Maybe(&[Index])]),
    ("llen", Order::Fixed, &[Key(List)]),
    ("lrange", Order::Fixed, &[Key(List), Index, Index]),
    ("lrange", Order::Fixed, &[Key(List), Word("0"), Word("-1")]),
    ("lrem", Order::Fixed, &[Key(List), Index, Member]),
    ("lmove", Order::Fixed, &[Key(List), Key(List), ENDS, ENDS]),
    ("rpoplpush", Order::Fixed, &[Key(List), Key(List)]),
    ("blpop", Order::Blocking, &[Many(&[Key(List)]), Timeout]),
    ("brpop", Order::Blocking, &[Many(&[Key(List)]), Timeout]),
    ("brpoplpush", Order::Blocking, &[Key(List), Key(List), Timeout]),
    ("hset", Order::Fixed, &[Key(Hash), Many(&[Member, Value])]),
    ("hget", Order::Fixed, &[Key(Hash), Member]),
    ("hgetall", Order::Fixed, &[Key(Hash)]),
    ("hdel", Order::Fixed, &[Key(Hash), Many(&[Member])]),
    ("hexists", Order::Fixed, &[Key(Hash), Member]),
    ("hlen", Order::Fixed, &[Key(Hash)]),
    ("hincrby", Order::Fixed, &[Key(Hash), Member, Integer]),
    ("zadd", Order::Fixed, &[Key(SortedSet), Many(&[Float, Member])]),
    ("zadd", Order::Fixed, &[Key(SortedSet), Float, Member]),
    ("zrem", Order::Fixed, &[Key(SortedSet), Many(&[Member])]),
    ("zscore", Order::Fixed, &[Key(SortedSet), Member]),
    ("zcard", Order::Fixed, &[Key(SortedSet)]),
    ("zrange", Order::Fixed, &[Key(SortedSet), Index, Index]),
    ("zrange", Order::Fixed, &[Key(SortedSet), Index, Index, Options(ZRANGE_OPTIONS)]),
    ("zrangebyscore", Order::Fixed, &[Key(SortedSet), ScoreEnd, ScoreEnd]),
    ("zrangebyscore", Order::Fixed, &[Key(SortedSet), ScoreEnd, ScoreEnd, Options(RANGE_OPTIONS)]),
];
