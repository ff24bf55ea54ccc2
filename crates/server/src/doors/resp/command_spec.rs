//! What is known of a command: its name, what it takes and what it does, and what carries it out;
//! and `COMMAND`, by which clients learn it.

use std::pin::Pin;

use bytes::Bytes;
use keyspace::Operation;
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;

use super::answers::{Answered, RespError};
use super::commands::{COMMANDS, find};
use super::connection::Connection;
use super::dispatch::{Class, Invocation};
use super::jobs::text_of;

/// The answer of a command that the door carries out itself.
pub(super) type Answering<'a> = Pin<Box<dyn Future<Output = Answered> + Send + 'a>>;

/// A function of the door that carries out a command.
pub(super) type Handler = for<'a> fn(&'a mut Connection, &'a Invocation) -> Answering<'a>;

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    /// In lower case, like `plan.submit`.
    pub name: &'static str,
    /// How many arguments it takes, its name included; below zero: at least so many.
    pub arity: i32,
    /// Redis' words about it, between spaces: `readonly`, `write`, `fast`, ...
    pub flags: &'static str,
    /// Where its first and its last key stand, counted from the name; below zero: from the end.
    /// Both are 0 if it has none.
    pub keys: (i32, i32),
    /// What it belongs to.
    pub group: &'static str,
    /// What it takes, without its name.
    pub syntax: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    pub(super) need: Need,
    pub(super) run: Run,
    /// What it is instead where its first key is a queue.
    pub(super) on_queue: Option<(Class, Need)>,
}

/// What carries a command out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Run {
    /// The keyspace, at once.
    Keys(Operation),
    /// The keyspace, perhaps after a wait.
    Wait(Operation),
    /// The submission of jobs, many at a time.
    Submit,
    /// The reports about jobs, many at a time.
    Update,
    /// The subscriptions of the connection, which write one reply for each name.
    Subscribe,
    /// A function of the door.
    Door(Handler),
}

/// What a client must be allowed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Anything: every client that proved who it is may send it.
    Nothing,
    /// To look at things.
    Look,
    /// To submit, stop, retry and pause.
    Submit,
    /// To take jobs and report them.
    Work,
    /// To keep values of its own.
    Keep,
}

impl CommandSpec {
    /// Whether it can be called with so many arguments, its name included.
    pub fn takes(&self, n_arguments: usize) -> bool {
        let least = usize::try_from(self.arity.unsigned_abs()).unwrap_or(usize::MAX);
        if self.arity < 0 { n_arguments >= least } else { n_arguments == least }
    }

    /// Whether it has a flag.
    pub fn is(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|one| one == flag)
    }

    /// What carries it out in the keyspace, if the keyspace does.
    pub fn operation(&self) -> Option<Operation> {
        match self.run {
            Run::Keys(operation) | Run::Wait(operation) => Some(operation),
            Run::Submit | Run::Update | Run::Subscribe | Run::Door(_) => None,
        }
    }

    /// The keys among these arguments, of which the first is the name.
    pub fn keys_in<'a>(&self, arguments: &'a [Bytes]) -> &'a [Bytes] {
        let (first, last) = self.keys;
        let end = if last < 0 {
            let from_end = usize::try_from(last.unsigned_abs()).unwrap_or(usize::MAX);
            (arguments.len() + 1).saturating_sub(from_end)
        } else {
            usize::try_from(last).unwrap_or_default() + 1
        };
        let start = usize::try_from(first).unwrap_or_default();
        let end = if start == 0 { 0 } else { end.min(arguments.len()) };
        arguments.get(start..end).unwrap_or_default()
    }
}

/// The version that all commands came with.
const SINCE: &str = "0.1.0";

impl Connection {
    pub(super) fn on_command(&mut self, request: &Request) -> Answered {
        let rest = &request.arguments[1..];
        let all = || Reply::Array(COMMANDS.iter().map(info).collect());
        let Some((verb, names)) = rest.split_first() else { return Ok(all()) };
        match text_of(verb)?.to_ascii_uppercase().as_str() {
            "COUNT" => Ok(COMMANDS.len().into()),
            "LIST" => Ok(Reply::array(COMMANDS.iter().map(|spec| spec.name))),
            "INFO" if names.is_empty() => Ok(all()),
            "INFO" => {
                let one = |name: &Bytes| find(name).map_or(Reply::NullArray, info);
                Ok(Reply::Array(names.iter().map(one).collect()))
            }
            "DOCS" => {
                // Only people's shells ask for it; they are answered in sentences.
                self.client.is_person = true;
                let known = names.iter().filter_map(|name| find(name));
                let docs = |spec: &CommandSpec| (spec.name.into(), docs(spec));
                Ok(Reply::Map(match names {
                    [] => COMMANDS.iter().map(docs).collect(),
                    [_, ..] => known.map(docs).collect(),
                }))
            }
            "GETKEYS" => keys(names),
            verb => Err(format!("unknown subcommand '{verb}'").into()),
        }
    }
}

fn keys(command: &[Bytes]) -> Answered {
    let spec = command.first().and_then(|name| find(name));
    match spec.map(|spec| spec.keys_in(command)) {
        None => Err(RespError::new("ERR Invalid command specified")),
        Some([]) => Err(RespError::new("ERR The command has no key arguments")),
        Some(keys) => Ok(Reply::array(keys.iter().cloned())),
    }
}

/// The value of `COMMAND DOCS`: what a command does and takes, for people. Its arguments are one,
/// so that `redis-cli` shows the syntax as it is.
fn docs(spec: &CommandSpec) -> Reply {
    let mut docs =
        vec![pair("summary", spec.summary), pair("since", SINCE), pair("group", spec.group)];
    if !spec.syntax.is_empty() {
        let syntax = ["name", "display_text"].map(|name| pair(name, spec.syntax));
        let argument = syntax.into_iter().chain([pair("type", "string")]).collect();
        docs.push(("arguments".into(), Reply::Array(vec![Reply::Map(argument)])));
    }
    Reply::Map(docs)
}

/// The item of `COMMAND INFO`, in the shape of Redis 7: how a command is called, for programs.
fn info(spec: &CommandSpec) -> Reply {
    let (first_key, last_key) = spec.keys;
    let none = || Reply::Set(Vec::new());
    Reply::Array(vec![
        spec.name.into(),
        i64::from(spec.arity).into(),
        words(spec.flags.split_whitespace()),
        i64::from(first_key).into(),
        i64::from(last_key).into(),
        i64::from(first_key.min(1)).into(),
        words(categories(spec)),
        // No tips, the keys as above, no subcommands.
        none(),
        none(),
        none(),
    ])
}

/// What an access list may name the command by, in Redis' order.
fn categories(spec: &CommandSpec) -> impl Iterator<Item = &'static str> {
    let is_fast = spec.is("fast");
    let categories = [
        (spec.group == "generic", "@keyspace"),
        (spec.is("readonly"), "@read"),
        (spec.is("write"), "@write"),
        (spec.group == "set", "@set"),
        (spec.group == "sorted-set", "@sortedset"),
        (spec.group == "list", "@list"),
        (spec.group == "hash", "@hash"),
        (spec.group == "string", "@string"),
        (spec.is("pubsub"), "@pubsub"),
        (is_fast, "@fast"),
        (!is_fast, "@slow"),
        (spec.is("blocking"), "@blocking"),
        (spec.group == "connection", "@connection"),
    ];
    categories.into_iter().filter_map(|(holds, category)| holds.then_some(category))
}

fn words(all: impl Iterator<Item = &'static str>) -> Reply {
    Reply::Set(all.map(Reply::simple).collect())
}

fn pair(name: &'static str, value: &'static str) -> (Reply, Reply) {
    (name.into(), value.into())
}
