//! What clients are told of a command, in the shapes of Redis 7.

use super::argument::{ArgumentKind, ArgumentSpec};
use super::{CommandSpec, Reply};

pub(super) fn docs_reply(spec: &CommandSpec) -> Reply {
    let mut docs = vec![
        pair("summary", spec.summary),
        pair("since", spec.since),
        pair("group", spec.group),
        pair("complexity", spec.complexity),
    ];
    if !spec.arguments.is_empty() {
        docs.push(pair("arguments", arguments_reply(spec.arguments)));
    }
    if !spec.subcommands.is_empty() {
        let subcommands = spec.subcommands.iter().map(|sub| pair(sub.name, docs_reply(sub)));
        docs.push(pair("subcommands", Reply::Map(subcommands.collect())));
    }
    Reply::Map(docs)
}

fn arguments_reply(arguments: &[ArgumentSpec]) -> Reply {
    Reply::array(arguments.iter().map(argument_reply))
}

fn argument_reply(argument: &ArgumentSpec) -> Reply {
    let mut docs = vec![pair("name", argument.name), pair("type", argument.kind.name())];
    if !matches!(argument.kind, ArgumentKind::OneOf | ArgumentKind::Block) {
        docs.push(pair("display_text", argument.name));
    }
    if argument.kind == ArgumentKind::Key {
        // All keys of a command are one specification.
        docs.push(pair("key_spec_index", 0_i64));
    }
    if let Some(token) = argument.token {
        docs.push(pair("token", token));
    }
    let flags: Vec<&'static str> =
        [(argument.is_optional, "optional"), (argument.is_multiple, "multiple")]
            .into_iter()
            .filter_map(|(is_set, flag)| is_set.then_some(flag))
            .collect();
    if !flags.is_empty() {
        docs.push(pair("flags", words(flags)));
    }
    if !argument.parts.is_empty() {
        docs.push(pair("arguments", arguments_reply(argument.parts)));
    }
    Reply::Map(docs)
}

pub(super) fn info_reply(spec: &CommandSpec) -> Reply {
    let subcommands = if spec.subcommands.is_empty() {
        Reply::Set(Vec::new())
    } else {
        Reply::array(spec.subcommands.iter().map(info_reply))
    };
    let tips = Reply::Set(Vec::new());
    Reply::Array(vec![
        spec.name.into(),
        i64::from(spec.arity).into(),
        words(spec.flags.iter().copied()),
        i64::from(spec.first_key).into(),
        i64::from(spec.last_key).into(),
        i64::from(spec.step).into(),
        words(categories(spec)),
        tips,
        key_specs(spec),
        subcommands,
    ])
}

/// What an access list may name the command by, in Redis' order.
fn categories(spec: &CommandSpec) -> Vec<&'static str> {
    let is_fast = spec.is("fast");
    [
        (spec.group == "generic", "@keyspace"),
        (spec.is("readonly"), "@read"),
        (spec.is("write"), "@write"),
        (spec.group == "set", "@set"),
        (spec.group == "sorted-set", "@sortedset"),
        (spec.group == "list", "@list"),
        (spec.group == "hash", "@hash"),
        (spec.group == "string", "@string"),
        (spec.is("pubsub"), "@pubsub"),
        (spec.is("admin"), "@admin"),
        (is_fast, "@fast"),
        (!is_fast, "@slow"),
        (spec.is("blocking"), "@blocking"),
        (spec.is("admin"), "@dangerous"),
        (spec.group == "connection", "@connection"),
    ]
    .into_iter()
    .filter_map(|(holds, category)| holds.then_some(category))
    .collect()
}

/// Where keys stand, in the words that cluster clients look for.
fn key_specs(spec: &CommandSpec) -> Reply {
    if spec.first_key == 0 {
        return Reply::Set(Vec::new());
    }
    let access = if spec.is("write") { "RW" } else { "RO" };
    // Relative to the first key, unless it is counted from the end.
    let last = if spec.last_key < 0 { spec.last_key } else { spec.last_key - spec.first_key };
    let begin = Reply::Map(vec![pair("index", i64::from(spec.first_key))]);
    let range = Reply::Map(vec![
        pair("lastkey", i64::from(last)),
        pair("keystep", i64::from(spec.step)),
        pair("limit", 0_i64),
    ]);
    Reply::Set(vec![Reply::Map(vec![
        pair("flags", words([access, "access"])),
        pair("begin_search", Reply::Map(vec![pair("type", "index"), pair("spec", begin)])),
        pair("find_keys", Reply::Map(vec![pair("type", "range"), pair("spec", range)])),
    ])])
}

fn pair(name: &'static str, value: impl Into<Reply>) -> (Reply, Reply) {
    (name.into(), value.into())
}

fn words(words: impl IntoIterator<Item = &'static str>) -> Reply {
    Reply::Set(words.into_iter().map(Reply::simple).collect())
}
