//! The commands: their names, how many arguments they take, how they grow, and what runs them.

use std::fmt::Write as _;

use bytes::Bytes;

use crate::call::Call;
use crate::failure::{Failure, Outcome};
use crate::growth::Growth;
use crate::keyspace::Keyspace;
use crate::number;
use crate::{
    expiry, generic, hashes, list_ends, lists, scan, set_algebra, sets, sorted_ranges, sorted_sets,
    string_expiry, strings,
};

type Run = fn(&mut Keyspace, &Call<'_>) -> Outcome;

/// One command.
#[derive(Debug)]
pub(crate) struct Command {
    packed: u128,
    pub(crate) name: &'static str,
    /// How many arguments, with the name; if negative, at least so many.
    arity: i32,
    pub(crate) growth: Growth,
    pub(crate) run: Run,
}

impl Command {
    pub(crate) fn check_arity(&self, call: &Call<'_>) -> Result<(), Failure> {
        let wanted = self.arity.unsigned_abs() as usize;
        let fits = if self.arity < 0 { call.len() >= wanted } else { call.len() == wanted };
        if fits { Ok(()) } else { Err(call.wrong_arity()) }
    }
}

/// A name in lower case as one number, whose order is that of names. All names fit.
const fn pack(name: &[u8]) -> Option<u128> {
    const LENGTH_MAX: usize = size_of::<u128>();
    if name.len() > LENGTH_MAX {
        return None;
    }
    let mut bytes = [0; LENGTH_MAX];
    let mut at = 0;
    while at < name.len() {
        bytes[at] = name[at].to_ascii_lowercase();
        at += 1;
    }
    Some(u128::from_be_bytes(bytes))
}

const fn command(name: &'static str, arity: i32, growth: Growth, run: Run) -> Command {
    let packed = pack(name.as_bytes()).expect("the names of commands are short");
    Command { packed, name, arity, growth, run }
}

/// The command of this name, in any case.
pub(crate) fn find(name: &[u8]) -> Option<&'static Command> {
    let packed = pack(name)?;
    let index = COMMANDS.binary_search_by(|command| command.packed.cmp(&packed)).ok()?;
    // Zero bytes at the end of a name do not show in the number.
    Some(&COMMANDS[index]).filter(|command| command.name.len() == name.len())
}

/// Redis shows so many bytes of a name, and of all arguments together.
const SHOWN_BYTES_MAX: usize = 128;

/// What Redis says of a command that it does not know.
pub(crate) fn unknown(arguments: &[Bytes]) -> Failure {
    let shown = |bytes: &Bytes, at_most: usize| {
        let bytes = number::until_zero(&bytes[..bytes.len().min(at_most)]);
        String::from_utf8_lossy(bytes).into_owned()
    };
    let name = arguments.first().map(|name| shown(name, SHOWN_BYTES_MAX)).unwrap_or_default();
    let mut rest = String::new();
    for argument in arguments.iter().skip(1) {
        if rest.len() >= SHOWN_BYTES_MAX {
            break;
        }
        let argument = shown(argument, SHOWN_BYTES_MAX - rest.len());
        write!(rest, "'{argument}' ").expect("a string takes all");
    }
    Failure::with(format!("ERR unknown command '{name}', with args beginning with: {rest}"))
}

/// In the order of their names, which the search needs.
static COMMANDS: [Command; 110] = [
    command("append", 3, Growth::Key, strings::append),
    command("blmove", 6, Growth::Destination, list_ends::blmove),
    command("blpop", -3, Growth::Nothing, list_ends::blpop),
    command("brpop", -3, Growth::Nothing, list_ends::brpop),
    command("brpoplpush", 4, Growth::Destination, list_ends::brpoplpush),
    command("dbsize", 1, Growth::Nothing, generic::dbsize),
    command("decr", 2, Growth::Key, strings::decr),
    command("decrby", 3, Growth::Key, strings::decrby),
    command("del", -2, Growth::Nothing, generic::del),
    command("exists", -2, Growth::Nothing, generic::exists),
    command("expire", -3, Growth::Elements, expiry::expire),
    command("expireat", -3, Growth::Elements, expiry::expireat),
    command("expiretime", 2, Growth::Nothing, expiry::expiretime),
    command("get", 2, Growth::Nothing, strings::get),
    command("getdel", 2, Growth::Nothing, strings::getdel),
    command("getex", -2, Growth::Elements, string_expiry::getex),
    command("getrange", 4, Growth::Nothing, strings::getrange),
    command("getset", 3, Growth::Key, strings::getset),
    command("hdel", -3, Growth::Nothing, hashes::hdel),
    command("hexists", 3, Growth::Nothing, hashes::hexists),
    command("hget", 3, Growth::Nothing, hashes::hget),
    command("hgetall", 2, Growth::Nothing, hashes::hgetall),
    command("hincrby", 4, Growth::Key, hashes::hincrby),
    command("hincrbyfloat", 4, Growth::Key, hashes::hincrbyfloat),
    command("hkeys", 2, Growth::Nothing, hashes::hkeys),
    command("hlen", 2, Growth::Nothing, hashes::hlen),
    command("hmget", -3, Growth::Nothing, hashes::hmget),
    command("hmset", -4, Growth::Key, hashes::hmset),
    command("hrandfield", -2, Growth::Nothing, hashes::hrandfield),
    command("hscan", -3, Growth::Nothing, scan::hscan),
    command("hset", -4, Growth::Key, hashes::hset),
    command("hsetnx", 4, Growth::Key, hashes::hsetnx),
    command("hstrlen", 3, Growth::Nothing, hashes::hstrlen),
    command("hvals", 2, Growth::Nothing, hashes::hvals),
    command("incr", 2, Growth::Key, strings::incr),
    command("incrby", 3, Growth::Key, strings::incrby),
    command("incrbyfloat", 3, Growth::Key, strings::incrbyfloat),
    command("keys", 2, Growth::Nothing, generic::keys),
    command("lindex", 3, Growth::Nothing, lists::lindex),
    command("linsert", 5, Growth::Elements, lists::linsert),
    command("llen", 2, Growth::Nothing, lists::llen),
    command("lmove", 5, Growth::Destination, list_ends::lmove),
    command("lpop", -2, Growth::Nothing, list_ends::lpop),
    command("lpos", -3, Growth::Nothing, lists::lpos),
    command("lpush", -3, Growth::Key, list_ends::lpush),
    command("lpushx", -3, Growth::Elements, list_ends::lpushx),
    command("lrange", 4, Growth::Nothing, lists::lrange),
    command("lrem", 4, Growth::Nothing, lists::lrem),
    command("lset", 4, Growth::Elements, lists::lset),
    command("ltrim", 4, Growth::Nothing, lists::ltrim),
    command("mget", -2, Growth::Nothing, strings::mget),
    command("mset", -3, Growth::Pairs, strings::mset),
    command("msetnx", -3, Growth::Pairs, strings::msetnx),
    command("persist", 2, Growth::Nothing, expiry::persist),
    command("pexpire", -3, Growth::Elements, expiry::pexpire),
    command("pexpireat", -3, Growth::Elements, expiry::pexpireat),
    command("pexpiretime", 2, Growth::Nothing, expiry::pexpiretime),
    command("psetex", 4, Growth::Key, string_expiry::psetex),
    command("pttl", 2, Growth::Nothing, expiry::pttl),
    command("randomkey", 1, Growth::Nothing, generic::randomkey),
    command("rename", 3, Growth::Elements, generic::rename),
    command("renamenx", 3, Growth::Elements, generic::renamenx),
    command("rpop", -2, Growth::Nothing, list_ends::rpop),
    command("rpoplpush", 3, Growth::Destination, list_ends::rpoplpush),
    command("rpush", -3, Growth::Key, list_ends::rpush),
    command("rpushx", -3, Growth::Elements, list_ends::rpushx),
    command("sadd", -3, Growth::Key, sets::sadd),
    command("scan", -2, Growth::Nothing, scan::scan),
    command("scard", 2, Growth::Nothing, sets::scard),
    command("sdiff", -2, Growth::Nothing, set_algebra::sdiff),
    command("sdiffstore", -3, Growth::Key, set_algebra::sdiffstore),
    command("set", -3, Growth::Key, string_expiry::set),
    command("setex", 4, Growth::Key, string_expiry::setex),
    command("setnx", 3, Growth::Key, strings::setnx),
    command("setrange", 4, Growth::Key, strings::setrange),
    command("sinter", -2, Growth::Nothing, set_algebra::sinter),
    command("sinterstore", -3, Growth::Key, set_algebra::sinterstore),
    command("sismember", 3, Growth::Nothing, sets::sismember),
    command("smembers", 2, Growth::Nothing, sets::smembers),
    command("smismember", -3, Growth::Nothing, sets::smismember),
    command("smove", 4, Growth::Destination, sets::smove),
    command("spop", -2, Growth::Nothing, sets::spop),
    command("srandmember", -2, Growth::Nothing, sets::srandmember),
    command("srem", -3, Growth::Nothing, sets::srem),
    command("sscan", -3, Growth::Nothing, scan::sscan),
    command("strlen", 2, Growth::Nothing, strings::strlen),
    command("sunion", -2, Growth::Nothing, set_algebra::sunion),
    command("sunionstore", -3, Growth::Key, set_algebra::sunionstore),
    command("touch", -2, Growth::Nothing, generic::exists),
    command("ttl", 2, Growth::Nothing, expiry::ttl),
    command("type", 2, Growth::Nothing, generic::type_of),
    command("unlink", -2, Growth::Nothing, generic::del),
    command("zadd", -4, Growth::Key, sorted_sets::zadd),
    command("zcard", 2, Growth::Nothing, sorted_sets::zcard),
    command("zcount", 4, Growth::Nothing, sorted_ranges::zcount),
    command("zincrby", 4, Growth::Key, sorted_sets::zincrby),
    command("zmscore", -3, Growth::Nothing, sorted_sets::zmscore),
    command("zpopmax", -2, Growth::Nothing, sorted_sets::zpopmax),
    command("zpopmin", -2, Growth::Nothing, sorted_sets::zpopmin),
    command("zrange", -4, Growth::Nothing, sorted_ranges::zrange),
    command("zrangebyscore", -4, Growth::Nothing, sorted_ranges::zrangebyscore),
    command("zrank", 3, Growth::Nothing, sorted_sets::zrank),
    command("zrem", -3, Growth::Nothing, sorted_sets::zrem),
    command("zremrangebyrank", 4, Growth::Nothing, sorted_ranges::zremrangebyrank),
    command("zremrangebyscore", 4, Growth::Nothing, sorted_ranges::zremrangebyscore),
    command("zrevrange", -4, Growth::Nothing, sorted_ranges::zrevrange),
    command("zrevrangebyscore", -4, Growth::Nothing, sorted_ranges::zrevrangebyscore),
    command("zrevrank", 3, Growth::Nothing, sorted_sets::zrevrank),
    command("zscan", -3, Growth::Nothing, scan::zscan),
    command("zscore", 3, Growth::Nothing, sorted_sets::zscore),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_that_the_search_needs() {
        assert!(COMMANDS.is_sorted_by(|one, two| one.packed < two.packed));
    }

    #[test]
    fn names_are_found_in_any_case() {
        for command in &COMMANDS {
            let found = find(command.name.to_ascii_uppercase().as_bytes());
            assert_eq!(found.map(|found| found.name), Some(command.name));
        }
        for name in ["", "ge", "gett", "zrangebyscorezrangebyscore", "get\0"] {
            assert!(find(name.as_bytes()).is_none(), "{name}");
        }
    }
}
