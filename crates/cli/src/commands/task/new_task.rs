//! Tasks out of flags, or out of a file: JSON objects one after another, or an array of them.

use std::collections::BTreeMap;
use std::io::Read;

use protocol::rest::tasks::{Package, Requires, Retry, TaskToSubmit};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::duration::{Moment, Span};
use crate::failure::{Failure, Result};

/// What the task asks for.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Task")]
pub(crate) struct TaskFlags {
    /// The task's parameters: JSON, `@file` or `-` for stdin. Default `{}`.
    #[arg(short, long, value_name = "JSON|@FILE|-")]
    pub(crate) parameters: Option<String>,
    /// The task's queue. Default `default`.
    #[arg(long)]
    pub(crate) queue: Option<String>,
    /// From -1000 to 1000, higher first.
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) priority: Option<i64>,
    /// Start not before this moment (RFC 3339), or after this duration.
    #[arg(long, value_name = "MOMENT|DURATION")]
    pub(crate) not_before: Option<Moment>,
    /// How long one attempt may take.
    #[arg(long, value_name = "DURATION")]
    pub(crate) timeout: Option<Span>,
    /// How long a lease lasts without a heartbeat. Default 30s.
    #[arg(long, value_name = "DURATION")]
    pub(crate) lease_ttl: Option<Span>,
    /// The number of attempts, including the first. Default 3.
    #[arg(long, value_name = "N")]
    pub(crate) max_attempts: Option<i64>,
    /// The delay before the second attempt; it doubles with each further attempt. Default 1s.
    #[arg(long, value_name = "DURATION")]
    pub(crate) backoff: Option<Span>,
    /// An idempotency key: submitting the same key again makes no second task.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// At most one task with the same key runs at a time.
    #[arg(long, value_name = "KEY")]
    pub(crate) concurrency_key: Option<String>,
    /// A tool that the worker must have; may be given several times.
    #[arg(long, value_name = "TOOL")]
    pub(crate) needs_tool: Vec<String>,
    /// A tag that the worker must carry; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_tag)]
    pub(crate) needs_tag: Vec<(String, String)>,
    /// A package that the worker must have installed.
    #[arg(long, value_name = "NAME@VERSION", value_parser = parse_package)]
    pub(crate) needs_package: Option<Package>,
}

pub(crate) fn parse_tag(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("not a tag like gpu=true".into()),
    }
}

pub(crate) fn parse_package(text: &str) -> std::result::Result<Package, String> {
    match text.rsplit_once('@') {
        Some((name, version)) if !name.is_empty() && !version.is_empty() => {
            Ok(Package { name: name.into(), version: version.into() })
        }
        _ => Err("not a package like media@2.1.0".into()),
    }
}

impl TaskFlags {
    /// `count` tasks of this type. Several with a key get the key and their number.
    pub(crate) fn tasks(&self, task_type: &str, count: usize) -> Result<Vec<TaskToSubmit>> {
        let parameters = self.parameters.as_deref().map(parameters).transpose()?;
        let task = |number: usize| TaskToSubmit {
            task_type: task_type.into(),
            parameters: parameters.clone(),
            queue: self.queue.clone(),
            priority: self.priority,
            not_before: self.not_before.map(|moment| moment.0.to_string()),
            after: Vec::new(),
            timeout_ms: self.timeout.map(Span::millis),
            lease_ttl_ms: self.lease_ttl.map(Span::millis),
            retry: self.retry(),
            concurrency_key: self.concurrency_key.clone(),
            run: None,
            requires: self.requires(),
            idempotency_key: self.key.as_ref().map(|key| match count {
                1 => key.clone(),
                _ => format!("{key}-{number}"),
            }),
        };
        Ok((1..=count).map(task).collect())
    }

    fn retry(&self) -> Option<Retry> {
        let retry = Retry {
            max_attempts: self.max_attempts,
            backoff_ms: self.backoff.map(Span::millis),
            // A first pause that is longer than the longest one makes no sense to the server.
            backoff_max_ms: self.backoff.map(Span::millis).filter(|backoff| *backoff > 60_000),
        };
        (retry != Retry::default()).then_some(retry)
    }

    fn requires(&self) -> Option<Requires> {
        let requires = Requires {
            tools: self.needs_tool.clone(),
            tags: self.needs_tag.iter().cloned().collect::<BTreeMap<_, _>>(),
            package: self.needs_package.clone(),
        };
        (requires != Requires::default()).then_some(requires)
    }
}

fn parameters(text: &str) -> Result<Box<RawValue>> {
    let (origin, json) = match text.strip_prefix('@') {
        Some(path) => (path, read_file(path)?),
        None if text == "-" => ("stdin", read_stdin()?),
        None => ("--parameters", text.to_owned()),
    };
    let json = json.trim().to_owned();
    RawValue::from_string(json).map_err(|error| {
        let message = format!("{origin} is not JSON: {error}");
        Failure::usage(
            message,
            "like -p '{\"hello\":\"world\"}', with quotes around it in the shell",
        )
    })
}

pub(crate) fn read_file(path: &str) -> Result<String> {
    if path == "-" {
        return read_stdin();
    }
    std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {path}: {error}"), "check the path"))
}

/// JSON from a file; `-` is stdin.
pub(crate) fn read_json<T: DeserializeOwned>(path: &str, hint: &str) -> Result<T> {
    serde_json::from_str(&read_file(path)?)
        .map_err(|error| Failure::usage(format!("{path} cannot be read as JSON: {error}"), hint))
}

fn read_stdin() -> Result<String> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("cannot read stdin: {error}"), ""))?;
    Ok(text)
}

const TASK_HINT: &str = "each task is an object like {\"type\":\"core.echo\",\"parameters\":{}}; \
                    docs/reference/rest.md lists the fields";

/// The tasks in a file; `-` is stdin.
pub(super) fn read_tasks(path: &str) -> Result<Vec<TaskToSubmit>> {
    let tasks = parse(&read_file(path)?)
        .map_err(|error| Failure::usage(format!("{path}: {error}"), TASK_HINT))?;
    if tasks.is_empty() {
        return Err(Failure::usage(format!("{path} holds no task"), TASK_HINT));
    }
    Ok(tasks)
}

fn parse(text: &str) -> serde_json::Result<Vec<TaskToSubmit>> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text);
    }
    serde_json::Deserializer::from_str(text).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_a_task() {
        let flags = TaskFlags {
            parameters: Some(r#"{"a":1}"#.into()),
            backoff: Some("2m".parse().expect("a duration")),
            key: Some("k".into()),
            needs_tag: vec![parse_tag("gpu=true").expect("a tag")],
            needs_package: Some(parse_package("media@2.1.0").expect("a package")),
            ..TaskFlags::default()
        };
        let tasks = flags.tasks("core.echo", 2).expect("fits");
        let expected = r#"{"type":"core.echo","parameters":{"a":1},"retry":{"backoff_ms":120000,"backoff_max_ms":120000},"requires":{"tags":{"gpu":"true"},"package":{"name":"media","version":"2.1.0"}},"idempotency_key":"k-2"}"#;
        assert_eq!(serde_json::to_string(&tasks[1]).expect("JSON"), expected);
    }

    #[test]
    fn a_task_without_flags_says_nothing_but_its_type() {
        let tasks = TaskFlags::default().tasks("core.noop", 1).expect("fits");
        assert_eq!(serde_json::to_string(&tasks[0]).expect("JSON"), r#"{"type":"core.noop"}"#);
    }

    #[test]
    fn nonsense_is_refused_before_it_leaves() {
        let wrong_json = TaskFlags { parameters: Some("{a".into()), ..TaskFlags::default() };
        assert!(wrong_json.tasks("x", 1).is_err());
        assert!(parse_tag("gpu").is_err() && parse_package("media").is_err());
    }

    #[test]
    fn every_shape_of_file_is_read() {
        check(r#"{"type":"a"}"#, "a");
        check("{\n  \"type\": \"a\",\n  \"queue\": \"q\"\n}\n", "a");
        check(r#"[{"type":"a"},{"type":"b"}]"#, "a b");
        check("{\"type\":\"a\"}\n\n{\"type\":\"b\"}\n", "a b");
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        let second = check("{\"type\":\"a\"}\n{\"typ\":\"b\"}\n", "unknown field `typ`");
        assert!(second.ends_with("line 2 column 6"), "{second}");
        check(r#"{"typ":"a"}"#, "unknown field `typ`");
        check("hello", "expected value");
    }

    fn check(text: &str, expected: &str) -> String {
        let shown = match parse(text) {
            Ok(tasks) => {
                let types: Vec<_> = tasks.into_iter().map(|task| task.task_type).collect();
                types.join(" ")
            }
            Err(error) => error.to_string(),
        };
        assert!(shown.starts_with(expected), "{text}: {shown}");
        shown
    }
}
