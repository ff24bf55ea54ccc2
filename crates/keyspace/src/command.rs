//! The commands: their names, how many arguments they take, how they grow, and what runs them.

use std::fmt::Write as _;

use bytes::Bytes;

use crate::call::Call;
use crate::failure::{Failure, Outcome};
use crate::growth::Growth;
use crate::keyspace::Keyspace;
use crate::{expiry, list_ends, lists, string_expiry, strings};

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
    Some(&COMMANDS[index])
}

/// Redis shows so many bytes of a name, and of all arguments together.
const SHOWN_BYTES_MAX: usize = 128;

/// What Redis says of a command that it does not know.
pub(crate) fn unknown(arguments: &[Bytes]) -> Failure {
    let shown = |bytes: &Bytes, at_most: usize| {
        String::from_utf8_lossy(&bytes[..bytes.len().min(at_most)]).into_owned()
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
static COMMANDS: [Command; 49] = [
    command("append", 3, Growth::Key, strings::append),
    command("blmove", 6, Growth::Destination, list_ends::blmove),
    command("blpop", -3, Growth::Nothing, list_ends::blpop),
    command("brpop", -3, Growth::Nothing, list_ends::brpop),
    command("brpoplpush", 4, Growth::Destination, list_ends::brpoplpush),
    command("decr", 2, Growth::Key, strings::decr),
    command("decrby", 3, Growth::Key, strings::decrby),
    command("expire", -3, Growth::Elements, expiry::expire),
    command("expireat", -3, Growth::Elements, expiry::expireat),
    command("expiretime", 2, Growth::Nothing, expiry::expiretime),
    command("get", 2, Growth::Nothing, strings::get),
    command("getdel", 2, Growth::Nothing, strings::getdel),
    command("getex", -2, Growth::Elements, string_expiry::getex),
    command("getrange", 4, Growth::Nothing, strings::getrange),
    command("getset", 3, Growth::Key, strings::getset),
    command("incr", 2, Growth::Key, strings::incr),
    command("incrby", 3, Growth::Key, strings::incrby),
    command("incrbyfloat", 3, Growth::Key, strings::incrbyfloat),
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
    command("rpop", -2, Growth::Nothing, list_ends::rpop),
    command("rpoplpush", 3, Growth::Destination, list_ends::rpoplpush),
    command("rpush", -3, Growth::Key, list_ends::rpush),
    command("rpushx", -3, Growth::Elements, list_ends::rpushx),
    command("set", -3, Growth::Key, string_expiry::set),
    command("setex", 4, Growth::Key, string_expiry::setex),
    command("setnx", 3, Growth::Key, strings::setnx),
    command("setrange", 4, Growth::Key, strings::setrange),
    command("strlen", 2, Growth::Nothing, strings::strlen),
    command("ttl", 2, Growth::Nothing, expiry::ttl),
];
