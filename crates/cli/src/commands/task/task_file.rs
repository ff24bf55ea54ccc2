//! Tasks out of a file: one JSON object, an array of them, `{"tasks": [...]}`, or one per line.

use protocol::rest::tasks::{SubmitTasks, TaskToSubmit};

use super::new_task::read_file;
use crate::failure::{Failure, Result};

const HINT: &str = "each task is an object like {\"type\":\"core.echo\",\"parameters\":{}}; \
                    docs/reference/rest.md lists the fields";

/// The tasks in a file; `-` is stdin.
pub(crate) fn read(path: &str) -> Result<Vec<TaskToSubmit>> {
    let tasks = parse(&read_file(path)?)
        .map_err(|message| Failure::usage(format!("{path}: {message}"), HINT))?;
    if tasks.is_empty() {
        return Err(Failure::usage(format!("{path} holds no task"), HINT));
    }
    Ok(tasks)
}

fn parse(text: &str) -> std::result::Result<Vec<TaskToSubmit>, String> {
    let said = |error: serde_json::Error| error.to_string();
    let start = text.trim_start();
    if start.starts_with('[') {
        return serde_json::from_str(text).map_err(said);
    }
    let first = start.lines().next().unwrap_or_default();
    if serde_json::from_str::<TaskToSubmit>(first).is_ok() {
        return lines(text);
    }
    if start.starts_with("{\"tasks\"") || start.split_whitespace().nth(1) == Some("\"tasks\":") {
        return serde_json::from_str::<SubmitTasks>(text).map(|all| all.tasks).map_err(said);
    }
    serde_json::from_str(text).map(|task| vec![task]).map_err(said)
}

fn lines(text: &str) -> std::result::Result<Vec<TaskToSubmit>, String> {
    let filled = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    filled
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_file_is_read() {
        check(r#"{"type":"a"}"#, "a");
        check("{\n  \"type\": \"a\",\n  \"queue\": \"q\"\n}\n", "a");
        check(r#"[{"type":"a"},{"type":"b"}]"#, "a b");
        check(r#"{"tasks":[{"type":"a"},{"type":"b"}]}"#, "a b");
        check("{\n \"tasks\": [\n {\"type\":\"a\"}]}", "a");
        check("{\"type\":\"a\"}\n\n{\"type\":\"b\"}\n", "a b");
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        check("{\"type\":\"a\"}\n{\"typ\":\"b\"}\n", "line 2: unknown field `typ`");
        check(r#"{"typ":"a"}"#, "unknown field `typ`");
        check("hello", "expected value");
    }

    fn check(text: &str, expected: &str) {
        let shown = match parse(text) {
            Ok(tasks) => {
                let types: Vec<_> = tasks.into_iter().map(|task| task.task_type).collect();
                types.join(" ")
            }
            Err(message) => message,
        };
        assert!(shown.starts_with(expected), "{text}: {shown}");
    }
}
