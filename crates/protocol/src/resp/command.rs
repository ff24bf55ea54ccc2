//! Every command that clients may send: how it is called, and what it is for.
//!
//! Reading order: this file says what is known of a command, `table` says it of each, `docs`
//! tells it to clients.

pub mod argument;
mod docs;
mod index;
mod table;

use bytes::Bytes;

use super::reply::Reply;
use argument::ArgumentSpec;

/// The version that all commands came with.
const SINCE: &str = "0.1.0";

/// Between the name of a command and that of a subcommand.
const SUBCOMMAND_MARK: u8 = b'|';

/// What is known of a command.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    /// In small letters, like `plan.submit`; a subcommand has its command in front, like
    /// `config|get`.
    pub name: &'static str,
    /// How many arguments it takes, its name included; below zero: at least so many.
    pub arity: i32,
    /// What clients may want to know, in Redis' words: `readonly`, `write`, `fast`, ...
    pub flags: &'static [&'static str],
    /// Where its first key stands, counted from the name; 0 if it has none.
    pub first_key: i32,
    /// Where its last key stands; below zero: counted from the end.
    pub last_key: i32,
    /// How far its keys stand apart.
    pub step: i32,
    /// What it belongs to.
    pub group: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// The version that it came with.
    pub since: &'static str,
    /// How its time grows.
    pub complexity: &'static str,
    /// What it takes, without its name.
    pub arguments: &'static [ArgumentSpec],
    /// What it can be told to do, if it does several things.
    pub subcommands: &'static [CommandSpec],
}

/// Finds a command; case does not matter.
pub fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    index::find(name)
}

/// Finds a command or a subcommand like `config|get`.
pub fn find_with_subcommands(name: &[u8]) -> Option<&'static CommandSpec> {
    match name.iter().position(|byte| *byte == SUBCOMMAND_MARK) {
        None => find(name),
        Some(mark) => find(&name[..mark])?.subcommand(&name[mark + 1..]),
    }
}

/// All commands, those of a group next to each other.
pub fn all() -> &'static [&'static CommandSpec] {
    &table::ALL
}

/// The value of `COMMAND DOCS` for a command: what it does and takes, for people.
pub fn docs_reply(spec: &CommandSpec) -> Reply {
    docs::docs_reply(spec)
}

/// The item of `COMMAND INFO` for a command: how it is called, for programs.
pub fn info_reply(spec: &CommandSpec) -> Reply {
    docs::info_reply(spec)
}

impl CommandSpec {
    /// Finds what this command can be told to do; case does not matter.
    pub fn subcommand(&self, name: &[u8]) -> Option<&'static Self> {
        self.subcommands.iter().find(|spec| spec.own_name().eq_ignore_ascii_case(name))
    }

    /// Whether it can be called with so many arguments, its name included.
    pub fn takes(&self, n_arguments: usize) -> bool {
        let least = usize::try_from(self.arity.unsigned_abs()).unwrap_or(usize::MAX);
        if self.arity < 0 { n_arguments >= least } else { n_arguments == least }
    }

    /// What is answered when [`CommandSpec::takes`] says no.
    pub fn wrong_arity(&self) -> Reply {
        Reply::error(format!("ERR wrong number of arguments for '{}' command", self.name))
    }

    /// Whether it has a flag.
    pub fn is(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }

    /// The keys among these arguments, of which the first is the name.
    pub fn keys<'a>(&self, arguments: &'a [Bytes]) -> impl Iterator<Item = &'a Bytes> + use<'a> {
        let end = if self.last_key < 0 {
            let from_end = usize::try_from(self.last_key.unsigned_abs()).unwrap_or(usize::MAX);
            (arguments.len() + 1).saturating_sub(from_end)
        } else {
            usize::try_from(self.last_key).unwrap_or_default() + 1
        };
        let start = usize::try_from(self.first_key).unwrap_or_default();
        let end = if start == 0 { 0 } else { end.min(arguments.len()) };
        let step = usize::try_from(self.step).unwrap_or_default().max(1);
        arguments.get(start..end).unwrap_or_default().iter().step_by(step)
    }

    /// The name without the command in front.
    fn own_name(&self) -> &'static [u8] {
        let name = self.name.as_bytes();
        let start =
            name.iter().position(|byte| *byte == SUBCOMMAND_MARK).map_or(0, |mark| mark + 1);
        &name[start..]
    }
}

/// How the tables are written.
impl CommandSpec {
    const fn new(name: &'static str, arity: i32, group: &'static str) -> Self {
        Self {
            name,
            arity,
            flags: &[],
            first_key: 0,
            last_key: 0,
            step: 0,
            group,
            summary: "",
            since: SINCE,
            complexity: "",
            arguments: &[],
            subcommands: &[],
        }
    }

    const fn flags(mut self, flags: &'static [&'static str]) -> Self {
        self.flags = flags;
        self
    }

    const fn key_places(mut self, first: i32, last: i32, step: i32) -> Self {
        self.first_key = first;
        self.last_key = last;
        self.step = step;
        self
    }

    const fn summary(mut self, summary: &'static str, complexity: &'static str) -> Self {
        self.summary = summary;
        self.complexity = complexity;
        self
    }

    const fn arguments(mut self, arguments: &'static [ArgumentSpec]) -> Self {
        self.arguments = arguments;
        self
    }

    const fn subcommands(mut self, subcommands: &'static [Self]) -> Self {
        self.subcommands = subcommands;
        self
    }
}
