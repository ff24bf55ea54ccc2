//! The table of commands, and what clients are told of it.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};

use protocol::resp::command::argument::{ArgumentKind, ArgumentSpec};
use protocol::resp::command::{
    CommandSpec, all, docs_reply, find, find_with_subcommands, info_reply,
};
use protocol::resp::reply::{Reply, Version};

#[test]
fn each_command_is_found_by_its_name_in_any_case() {
    for spec in all() {
        for name in [spec.name.to_owned(), spec.name.to_uppercase()] {
            assert_eq!(find(name.as_bytes()).map(|found| found.name), Some(spec.name));
        }
        assert!(find(format!("{}_", spec.name).as_bytes()).is_none());
        assert!(find(&spec.name.as_bytes()[1..]).is_none_or(|found| found.name != spec.name));
    }
    for nothing in [&b""[..], b"\0", b"\xff\xfe", b"flushall", b"eval", b"config|get"] {
        assert!(find(nothing).is_none());
    }
}

#[test]
fn subcommands_are_found_with_and_without_their_command() {
    let config = find(b"CONFIG").unwrap();
    assert_eq!(config.subcommand(b"Get").unwrap().name, "config|get");
    assert_eq!(find_with_subcommands(b"CONFIG|GET").unwrap().name, "config|get");
    assert_eq!(find_with_subcommands(b"get").unwrap().name, "get");
    assert!(find_with_subcommands(b"config|set").is_none());
    assert!(find_with_subcommands(b"|get").is_none());
}

#[test]
fn every_command_is_described() {
    let mut names = BTreeSet::new();
    for spec in all().iter().copied().chain(all().iter().flat_map(|spec| spec.subcommands)) {
        assert!(names.insert(spec.name), "{} stands twice", spec.name);
        assert_eq!(spec.name, spec.name.to_lowercase());
        assert!(!spec.summary.is_empty() && spec.summary.len() < 90, "{}", spec.name);
        assert!(!spec.complexity.is_empty() && !spec.group.is_empty(), "{}", spec.name);
        assert_eq!(spec.since, "0.1.0");
        assert_ne!(spec.arity, 0);
        assert!(!(spec.is("write") && spec.is("readonly")), "{}", spec.name);
    }
}

#[test]
fn arity_and_arguments_agree() {
    for spec in all().iter().copied().filter(|spec| spec.subcommands.is_empty()) {
        let least: usize = 1 + spec.arguments.iter().map(words_at_least).sum::<usize>();
        let is_open =
            spec.arguments.iter().any(|argument| argument.is_optional || argument.is_multiple);
        // It takes what comes, as in Redis: who leaves is not corrected.
        if spec.name == "quit" {
            continue;
        }
        assert_eq!(spec.arity.unsigned_abs() as usize, least, "{}", spec.name);
        assert_eq!(spec.arity < 0, is_open, "{}", spec.name);
        assert!(spec.takes(least) && !spec.takes(least - 1), "{}", spec.name);
        assert_eq!(spec.takes(least + 1), spec.arity < 0, "{}", spec.name);
    }
    let text = encode(&find(b"get").unwrap().wrong_arity(), Version::Two);
    assert_eq!(text, "-ERR wrong number of arguments for 'get' command\r\n");
}

#[test]
fn keys_are_picked_out() {
    check_keys(&["GET", "a"], &["a"]);
    check_keys(&["MGET", "a", "b", "c"], &["a", "b", "c"]);
    check_keys(&["MSET", "a", "1", "b", "2"], &["a", "b"]);
    check_keys(&["BLPOP", "a", "b", "5"], &["a", "b"]);
    check_keys(&["BRPOPLPUSH", "a", "b", "5"], &["a", "b"]);
    check_keys(&["SINTERSTORE", "a", "b", "c"], &["a", "b", "c"]);
    check_keys(&["QUEUE.PEEK", "queue:ready", "5"], &["queue:ready"]);
    check_keys(&["QUEUE.STATS"], &[]);
    check_keys(&["PING", "a"], &[]);
    check_keys(&["JOB.GET", "a"], &[]);
    // Fewer than there must be.
    check_keys(&["GET"], &[]);
    check_keys(&["BLPOP"], &[]);
    check_keys(&["BLPOP", "5"], &[]);
}

#[test]
fn info_has_the_shape_of_redis_7() {
    let get = info_reply(find(b"get").unwrap());
    // Byte for byte what Redis 7.0 says.
    assert_eq!(
        encode(&get, Version::Three),
        "*10\r\n$3\r\nget\r\n:2\r\n~2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n\
         ~3\r\n+@read\r\n+@string\r\n+@fast\r\n~0\r\n\
         ~1\r\n%3\r\n$5\r\nflags\r\n~2\r\n+RO\r\n+access\r\n\
         $12\r\nbegin_search\r\n%2\r\n$4\r\ntype\r\n$5\r\nindex\r\n\
         $4\r\nspec\r\n%1\r\n$5\r\nindex\r\n:1\r\n\
         $9\r\nfind_keys\r\n%2\r\n$4\r\ntype\r\n$5\r\nrange\r\n\
         $4\r\nspec\r\n%3\r\n$7\r\nlastkey\r\n:0\r\n$7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:0\r\n\
         ~0\r\n",
    );
    assert!(encode(&get, Version::Two).starts_with(
        "*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*3\r\n+@read\r\n"
    ));
    let config = encode(&info_reply(find(b"config").unwrap()), Version::Two);
    assert!(config.ends_with(
        "*1\r\n*10\r\n$10\r\nconfig|get\r\n:-3\r\n*1\r\n+admin\r\n:0\r\n:0\r\n:0\r\n\
         *3\r\n+@admin\r\n+@slow\r\n+@dangerous\r\n*0\r\n*0\r\n*0\r\n"
    ));
}

#[test]
fn docs_have_the_shape_of_redis_7() {
    let status = encode(&docs_reply(find(b"job.status").unwrap()), Version::Three);
    assert_eq!(
        status,
        "%5\r\n$7\r\nsummary\r\n$36\r\n\
         Status and per-task results of a job\r\n\
         $5\r\nsince\r\n$5\r\n0.1.0\r\n$5\r\ngroup\r\n$3\r\njob\r\n\
         $10\r\ncomplexity\r\n$16\r\nO(N) for N tasks\r\n\
         $9\r\narguments\r\n*1\r\n%3\r\n$4\r\nname\r\n$6\r\njob_id\r\n$4\r\ntype\r\n$6\r\nstring\r\n\
         $12\r\ndisplay_text\r\n$6\r\njob_id\r\n",
    );
    let set = encode(&docs_reply(find(b"set").unwrap()), Version::Two);
    assert!(set.contains(
        "*8\r\n$4\r\nname\r\n$9\r\ncondition\r\n$4\r\ntype\r\n$5\r\noneof\r\n\
         $5\r\nflags\r\n*1\r\n+optional\r\n$9\r\narguments\r\n*2\r\n\
         *8\r\n$4\r\nname\r\n$2\r\nnx\r\n$4\r\ntype\r\n$10\r\npure-token\r\n\
         $12\r\ndisplay_text\r\n$2\r\nnx\r\n$5\r\ntoken\r\n$2\r\nNX\r\n"
    ));
    let config = encode(&docs_reply(find(b"config").unwrap()), Version::Three);
    assert!(config.contains("$11\r\nsubcommands\r\n%1\r\n$10\r\nconfig|get\r\n%5\r\n"));
}

/// The fewest words that an argument can be said in.
fn words_at_least(argument: &ArgumentSpec) -> usize {
    if argument.is_optional {
        return 0;
    }
    let token = usize::from(argument.token.is_some());
    match argument.kind {
        ArgumentKind::PureToken => 1,
        ArgumentKind::Block => token + argument.parts.iter().map(words_at_least).sum::<usize>(),
        ArgumentKind::OneOf => {
            token + argument.parts.iter().map(words_at_least).min().unwrap_or_default()
        }
        ArgumentKind::String
        | ArgumentKind::Integer
        | ArgumentKind::Double
        | ArgumentKind::Key
        | ArgumentKind::Pattern
        | ArgumentKind::UnixTime => token + 1,
    }
}

fn check_keys(words: &[&'static str], keys: &[&str]) {
    let spec: &CommandSpec = find(words[0].as_bytes()).expect("a command of the table");
    let arguments: Vec<Bytes> =
        words.iter().map(|word| Bytes::from_static(word.as_bytes())).collect();
    let found: Vec<&Bytes> = spec.keys(&arguments).collect();
    assert_eq!(found, keys, "{words:?}");
}

fn encode(reply: &Reply, version: Version) -> String {
    let mut out = BytesMut::new();
    reply.encode(version, &mut out);
    String::from_utf8(out.to_vec()).expect("the tables are text")
}
