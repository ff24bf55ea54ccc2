//! `astra events`.

use protocol::rest::events::{Envelope, EventKind};
use serde_json::Value;

use super::run as runs;
use crate::context::Context;
use crate::events::{EventReader, StreamEvent};
use crate::failure::{ExitCode, Failure, Result};
use crate::format;
use crate::output::{self, Format};

/// Longer values are cut for people.
const VALUE_CHARS_MAX: usize = 60;
/// What people read at a glance of an id.
const ID_LETTERS: usize = 8;
/// What is told of an event, in this order, and what stands before it; the rest is in the JSON.
const TOLD: [(&str, &str); 14] = [
    ("status", ""),
    ("number", "run "),
    ("nodeId", "node "),
    ("item", "item "),
    ("workerName", "worker "),
    ("runId", "of "),
    ("package", "package "),
    ("version", ""),
    ("message", ""),
    ("reason", ""),
    ("state", ""),
    ("error", ""),
    ("content", ""),
    ("payload", ""),
];

/// Watch events of runs, nodes and workers, one line each.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Follow until Ctrl-C. The default.
    #[arg(long)]
    follow: bool,
    /// Only events of this type, like `run.status` or `node.*`; may be given several times.
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Only events of this run of a workflow.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// Begin after the event with this id, as far back as the server keeps events.
    #[arg(long, value_name = "ID")]
    after: Option<u64>,
}

pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let query = query(&arguments, context).await?;
    let mut events = EventReader::new(context, &query, arguments.after).spawn();
    while let Some(heard) = events.recv().await {
        match heard? {
            StreamEvent::Open => {}
            StreamEvent::Event(frame) => match context.output.format() {
                Format::Text => context.output.line(&line(&frame.data)),
                Format::Json | Format::Jsonl => context.output.line(&frame.data),
                Format::Quiet => context.output.line(&frame.event),
            },
            StreamEvent::Away => output::warn("the server does not answer; waiting for it"),
            StreamEvent::Back => output::warn("the server is back"),
        }
    }
    Ok(ExitCode::Success)
}

async fn query(arguments: &Arguments, context: &Context) -> Result<String> {
    let mut pairs = Vec::new();
    if !arguments.types.is_empty() {
        pairs.push(format!("types={}", types(&arguments.types)?.join(",")));
    }
    if let Some(run) = &arguments.run {
        pairs.push(format!("runId={}", runs::workflow_run(context, run).await?.run_id));
    }
    Ok(pairs.join("&"))
}

/// The types that the patterns name.
fn types(patterns: &[String]) -> Result<Vec<&'static str>> {
    let mut found = Vec::new();
    for pattern in patterns {
        let matching = EventKind::ALL.into_iter().map(EventKind::word).filter(|name| match pattern
            .strip_suffix('*')
        {
            Some(beginning) => name.starts_with(beginning),
            None => name == pattern,
        });
        let before = found.len();
        found.extend(matching);
        if found.len() == before {
            let names: Vec<_> = EventKind::ALL.into_iter().map(EventKind::word).collect();
            let message = format!("there are no events of type {pattern}");
            return Err(Failure::usage(message, format!("types are {}", names.join(", "))));
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// When, what, and the values that people look for first.
fn line(data: &str) -> String {
    let Ok(event) = serde_json::from_str::<Envelope<'_, Value>>(data) else { return data.into() };
    let time = event.occurred_at.split_once('T').map_or(&*event.occurred_at, |(_, time)| time);
    let time: String = time.chars().take("00:00:00.000".len()).collect();
    let mut line = format!("{time}  {:<20}", event.r#type);
    for (key, name) in TOLD {
        match event.data.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => {
                format::push(&mut line, format_args!("  {name}{}", short(text)));
            }
            Some(other) => {
                format::push(&mut line, format_args!("  {name}{}", short(&other.to_string())));
            }
        }
    }
    line
}

/// Ids by their first letters, and the beginning of what is long.
fn short(text: &str) -> String {
    if uuid::Uuid::try_parse(text).is_ok() {
        return text.chars().take(ID_LETTERS).collect();
    }
    format::short(&format::one_line(text), VALUE_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_types() {
        let named = |patterns: &[&str]| {
            types(&patterns.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(named(&["run.*"]).ok(), Some(vec!["run.snapshot", "run.status"]));
        assert_eq!(named(&["run.status", "run.s*"]).map(|names| names.len()).ok(), Some(2));
        assert!(named(&["nothing"]).is_err());
    }

    #[test]
    fn an_event_is_one_line() {
        let data = r#"{"version":"v1","id":"7","type":"node.status",
            "occurredAt":"2026-01-01T10:20:30.123456Z","scope":{"tenant":"default"},
            "data":{"kind":"node.status","nodeId":"n1",
            "runId":"8968e823-b3df-8eb0-95ae-a072500d9bef","status":"running","attempt":1,"x":null}}"#;
        let expected = "10:20:30.123  node.status           running  node n1  of 8968e823";
        assert_eq!(line(data), expected);
        assert_eq!(line("nonsense"), "nonsense");
    }
}
