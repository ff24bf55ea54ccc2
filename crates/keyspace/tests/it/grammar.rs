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
    /// How many random elements; Redis tries to give as many as one asks for.
    Amount,
    Float,
    ScoreEnd,
    MemberEnd,
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
    /// A cursor, and elements in any order; pairs of them if so.
    Scan { of_pairs: bool },
    /// A time, which passes while replies are under way.
    Near,
    /// Chosen by chance: only the form is the same.
    Form,
    /// Inside a transaction, where nobody waits.
    Blocking,
}

use Kind::{Hash, List, Set, SortedSet, String as Text};
use Part::{
    Amount, AnyKey, Count, Expiry, Float, Index, Integer, Key, Many, Maybe, Member, MemberEnd,
    OneOf, Options, Pattern, ScoreEnd, Timeout, Value, Word,
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

const SET_OPTIONS: &[&[Part]] = &[
    CLOCKS[0],
    CLOCKS[1],
    CLOCKS[2],
    CLOCKS[3],
    &[Word("nx")],
    &[Word("XX")],
    &[Word("Get")],
    &[Word("keepttl")],
    &[Word("persist")],
];

const GETEX_OPTIONS: &[&[Part]] =
    &[CLOCKS[0], CLOCKS[1], CLOCKS[2], CLOCKS[3], &[Word("PERSIST")], &[Word("nx")]];

const EXPIRE_OPTIONS: &[&[Part]] =
    &[&[Word("nx")], &[Word("xx")], &[Word("gt")], &[Word("LT")], &[Value]];

const LPOS_OPTIONS: &[&[Part]] =
    &[&[Word("rank"), Index], &[Word("count"), Index], &[Word("MAXLEN"), Index], &[Word("rank")]];

const SCAN_OPTIONS: &[&[Part]] =
    &[&[Word("count"), Count], &[Word("match"), Pattern], &[Word("type"), Value]];

const KEY_SCAN_OPTIONS: &[&[Part]] = &[
    &[Word("count"), Count],
    &[Word("MATCH"), Pattern],
    &[Word("type"), OneOf(&["string", "LIST", "hash", "set", "zset", "stream"])],
];

const ZADD_OPTIONS: &[&[Part]] =
    &[&[Word("nx")], &[Word("xx")], &[Word("gt")], &[Word("lt")], &[Word("CH")], &[Word("incr")]];

const ZRANGE_OPTIONS: &[&[Part]] = &[
    &[Word("rev")],
    &[Word("withscores")],
    &[Word("limit"), Index, Index],
    &[Word("Byscore")],
    &[Word("bylex")],
];

const RANGE_OPTIONS: &[&[Part]] =
    &[&[Word("withscores")], &[Word("LIMIT"), Index, Index], &[Word("rev")]];

const ENDS: Part = OneOf(&["left", "RIGHT", "left", "right", "up"]);

const EQUAL_SCORES: Part = Word("equal");

type Line = (&'static str, Order, &'static [Part]);

/// Every command with its arguments.
pub(crate) const GRAMMAR: &[Line] = &[
    ("del", Order::Fixed, &[Many(&[AnyKey])]),
    ("unlink", Order::Fixed, &[AnyKey]),
    ("exists", Order::Fixed, &[Many(&[AnyKey])]),
    ("touch", Order::Fixed, &[Many(&[AnyKey])]),
    ("type", Order::Fixed, &[AnyKey]),
    ("keys", Order::Free, &[Pattern]),
    ("dbsize", Order::Fixed, &[]),
    ("randomkey", Order::Form, &[]),
    (
        "scan",
        Order::Scan { of_pairs: false },
        &[Word("0"), Word("count"), Count, Options(KEY_SCAN_OPTIONS)],
    ),
    ("scan", Order::Form, &[Value, Options(KEY_SCAN_OPTIONS)]),
    ("rename", Order::Fixed, &[AnyKey, AnyKey]),
    ("renamenx", Order::Fixed, &[AnyKey, AnyKey]),
    ("ttl", Order::Near, &[AnyKey]),
    ("pttl", Order::Near, &[AnyKey]),
    ("expiretime", Order::Near, &[AnyKey]),
    ("pexpiretime", Order::Near, &[AnyKey]),
    ("persist", Order::Fixed, &[AnyKey]),
    ("expire", Order::Fixed, &[AnyKey, SECONDS, Options(EXPIRE_OPTIONS)]),
    ("pexpire", Order::Fixed, &[AnyKey, MILLIS, Options(EXPIRE_OPTIONS)]),
    ("expireat", Order::Fixed, &[AnyKey, SECONDS_AT, Options(EXPIRE_OPTIONS)]),
    ("pexpireat", Order::Fixed, &[AnyKey, MILLIS_AT, Options(EXPIRE_OPTIONS)]),
    ("set", Order::Fixed, &[Key(Text), Value]),
    ("set", Order::Fixed, &[Key(Text), Value, Options(SET_OPTIONS)]),
    ("get", Order::Fixed, &[Key(Text)]),
    ("mget", Order::Fixed, &[Many(&[AnyKey])]),
    ("mset", Order::Fixed, &[Many(&[Key(Text), Value])]),
    ("msetnx", Order::Fixed, &[Many(&[Key(Text), Value])]),
    ("setnx", Order::Fixed, &[Key(Text), Value]),
    ("setex", Order::Fixed, &[Key(Text), SECONDS, Value]),
    ("psetex", Order::Fixed, &[Key(Text), MILLIS, Value]),
    ("getset", Order::Fixed, &[Key(Text), Value]),
    ("getdel", Order::Fixed, &[Key(Text)]),
    ("getex", Order::Fixed, &[Key(Text), Options(GETEX_OPTIONS)]),
    ("append", Order::Fixed, &[Key(Text), Value]),
    ("strlen", Order::Fixed, &[Key(Text)]),
    ("getrange", Order::Fixed, &[Key(Text), Index, Index]),
    ("setrange", Order::Fixed, &[Key(Text), Index, Value]),
    ("incr", Order::Fixed, &[Key(Text)]),
    ("decr", Order::Fixed, &[Key(Text)]),
    ("incrby", Order::Fixed, &[Key(Text), Integer]),
    ("decrby", Order::Fixed, &[Key(Text), Integer]),
    ("incrbyfloat", Order::Fixed, &[Key(Text), Float]),
    ("lpush", Order::Fixed, &[Key(List), Many(&[Member])]),
    ("rpush", Order::Fixed, &[Key(List), Many(&[Member])]),
    ("lpushx", Order::Fixed, &[Key(List), Many(&[Member])]),
    ("rpushx", Order::Fixed, &[Key(List), Many(&[Member])]),
    ("lpop", Order::Fixed, &[Key(List), Maybe(&[Index])]),
    ("rpop", Order::Fixed, &[Key(List), Maybe(&[Index])]),
    ("llen", Order::Fixed, &[Key(List)]),
    ("lrange", Order::Fixed, &[Key(List), Index, Index]),
    ("lrange", Order::Fixed, &[Key(List), Word("0"), Word("-1")]),
    ("lindex", Order::Fixed, &[Key(List), Index]),
    ("lset", Order::Fixed, &[Key(List), Index, Member]),
    (
        "linsert",
        Order::Fixed,
        &[Key(List), OneOf(&["before", "AFTER", "after", "at"]), Member, Member],
    ),
    ("lrem", Order::Fixed, &[Key(List), Index, Member]),
    ("ltrim", Order::Fixed, &[Key(List), Index, Index]),
    ("lpos", Order::Fixed, &[Key(List), Member, Options(LPOS_OPTIONS)]),
    ("lmove", Order::Fixed, &[Key(List), Key(List), ENDS, ENDS]),
    ("rpoplpush", Order::Fixed, &[Key(List), Key(List)]),
    ("blpop", Order::Blocking, &[Many(&[Key(List)]), Timeout]),
    ("brpop", Order::Blocking, &[Many(&[Key(List)]), Timeout]),
    ("blmove", Order::Blocking, &[Key(List), Key(List), ENDS, ENDS, Timeout]),
    ("brpoplpush", Order::Blocking, &[Key(List), Key(List), Timeout]),
    ("hset", Order::Fixed, &[Key(Hash), Many(&[Member, Value])]),
    ("hmset", Order::Fixed, &[Key(Hash), Many(&[Member, Value])]),
    ("hsetnx", Order::Fixed, &[Key(Hash), Member, Value]),
    ("hget", Order::Fixed, &[Key(Hash), Member]),
    ("hmget", Order::Fixed, &[Key(Hash), Many(&[Member])]),
    ("hgetall", Order::Fixed, &[Key(Hash)]),
    ("hdel", Order::Fixed, &[Key(Hash), Many(&[Member])]),
    ("hexists", Order::Fixed, &[Key(Hash), Member]),
    ("hlen", Order::Fixed, &[Key(Hash)]),
    ("hkeys", Order::Free, &[Key(Hash)]),
    ("hvals", Order::Free, &[Key(Hash)]),
    ("hstrlen", Order::Fixed, &[Key(Hash), Member]),
    ("hincrby", Order::Fixed, &[Key(Hash), Member, Integer]),
    ("hincrbyfloat", Order::Fixed, &[Key(Hash), Member, Float]),
    (
        "hscan",
        Order::Scan { of_pairs: true },
        &[Key(Hash), Word("0"), Word("count"), Count, Options(SCAN_OPTIONS)],
    ),
    ("hscan", Order::Form, &[Key(Hash), Value, Options(SCAN_OPTIONS)]),
    (
        "hrandfield",
        Order::Form,
        &[Key(Hash), Maybe(&[Amount, Maybe(&[OneOf(&["withvalues", "WITHVALUES", "values"])])])],
    ),
    ("sadd", Order::Fixed, &[Key(Set), Many(&[Member])]),
    ("srem", Order::Fixed, &[Key(Set), Many(&[Member])]),
    ("smembers", Order::Fixed, &[Key(Set)]),
    ("sismember", Order::Fixed, &[Key(Set), Member]),
    ("smismember", Order::Fixed, &[Key(Set), Many(&[Member])]),
    ("scard", Order::Fixed, &[Key(Set)]),
    ("spop", Order::Form, &[Key(Set), Maybe(&[Index])]),
    ("srandmember", Order::Form, &[Key(Set), Maybe(&[Amount])]),
    ("smove", Order::Fixed, &[Key(Set), Key(Set), Member]),
    ("sunion", Order::Fixed, &[Many(&[Key(Set)])]),
    ("sinter", Order::Fixed, &[Many(&[Key(Set)])]),
    ("sdiff", Order::Fixed, &[Many(&[Key(Set)])]),
    ("sunionstore", Order::Fixed, &[Key(Set), Many(&[Key(Set)])]),
    ("sinterstore", Order::Fixed, &[Key(Set), Many(&[Key(Set)])]),
    ("sdiffstore", Order::Fixed, &[Key(Set), Many(&[Key(Set)])]),
    (
        "sscan",
        Order::Scan { of_pairs: false },
        &[Key(Set), Word("0"), Word("count"), Count, Options(SCAN_OPTIONS)],
    ),
    ("sscan", Order::Form, &[Key(Set), Value, Options(SCAN_OPTIONS)]),
    ("zadd", Order::Fixed, &[Key(SortedSet), Many(&[Float, Member])]),
    ("zadd", Order::Fixed, &[Key(SortedSet), Options(ZADD_OPTIONS), Many(&[Float, Member])]),
    ("zadd", Order::Fixed, &[Key(SortedSet), Options(ZADD_OPTIONS), Float, Member]),
    (
        "zadd",
        Order::Fixed,
        &[
            Key(SortedSet),
            OneOf(&["nx", "xx", "gt", "lt", "ch"]),
            Word("incr"),
            OneOf(&["0", "1", "-1", "inf"]),
            Member,
        ],
    ),
    ("zincrby", Order::Fixed, &[Key(SortedSet), Float, Member]),
    ("zrem", Order::Fixed, &[Key(SortedSet), Many(&[Member])]),
    ("zscore", Order::Fixed, &[Key(SortedSet), Member]),
    ("zmscore", Order::Fixed, &[Key(SortedSet), Many(&[Member])]),
    ("zcard", Order::Fixed, &[Key(SortedSet)]),
    ("zcount", Order::Fixed, &[Key(SortedSet), ScoreEnd, ScoreEnd]),
    ("zrank", Order::Fixed, &[Key(SortedSet), Member]),
    ("zrevrank", Order::Fixed, &[Key(SortedSet), Member]),
    ("zrange", Order::Fixed, &[Key(SortedSet), Index, Index, Options(ZRANGE_OPTIONS)]),
    (
        "zrange",
        Order::Fixed,
        &[Key(SortedSet), ScoreEnd, ScoreEnd, Word("byscore"), Options(ZRANGE_OPTIONS)],
    ),
    // Ranges of members mean something among equal scores only, which this key alone has.
    ("zadd", Order::Fixed, &[EQUAL_SCORES, Many(&[Word("0"), Member])]),
    ("zrem", Order::Fixed, &[EQUAL_SCORES, Many(&[Member])]),
    (
        "zrange",
        Order::Fixed,
        &[EQUAL_SCORES, MemberEnd, MemberEnd, Word("bylex"), Options(ZRANGE_OPTIONS)],
    ),
    ("zrevrange", Order::Fixed, &[Key(SortedSet), Index, Index, Options(RANGE_OPTIONS)]),
    ("zrangebyscore", Order::Fixed, &[Key(SortedSet), ScoreEnd, ScoreEnd, Options(RANGE_OPTIONS)]),
    (
        "zrevrangebyscore",
        Order::Fixed,
        &[Key(SortedSet), ScoreEnd, ScoreEnd, Options(RANGE_OPTIONS)],
    ),
    ("zremrangebyrank", Order::Fixed, &[Key(SortedSet), Index, Index]),
    ("zremrangebyscore", Order::Fixed, &[Key(SortedSet), ScoreEnd, ScoreEnd]),
    ("zpopmin", Order::Fixed, &[Key(SortedSet), Maybe(&[Index])]),
    ("zpopmax", Order::Fixed, &[Key(SortedSet), Maybe(&[Index])]),
    (
        "zscan",
        Order::Scan { of_pairs: true },
        &[Key(SortedSet), Word("0"), Word("count"), Count, Options(SCAN_OPTIONS)],
    ),
    ("zscan", Order::Form, &[Key(SortedSet), Value, Options(SCAN_OPTIONS)]),
    ("nonsense", Order::Fixed, &[AnyKey, Value]),
];
