//! Tasks out of a command and its flags.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use model::{RunName, ToolName};
use protocol::rest::tasks::{Requires, Retry, TaskToSubmit};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use worker::runner::command::COMMAND;

use super::flags::RunFlags;
use super::items::{self, Item};
use crate::duration::Span;
use crate::failure::{Failure, Result};

/// How much of each output the result keeps. The log has all of it; results are read by the
/// hundred.
const OUTPUT_KEPT_BYTES: usize = 16 * 1024;
/// If nothing is said about retries: a command that fails is not tried again, one whose worker is
/// lost is.
const LOSSES_SURVIVED: u32 = 2;
/// The variable that tells a command its item, and tells us later what a task was for.
const ITEM: &str = "ASTRA_ITEM";
const ITEM_NUMBER: &str = "ASTRA_ITEM_NUMBER";

/// What a worker of type `command` is told.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Parameters {
    pub(super) argv: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cwd: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stdin: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output_max_bytes: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_exit: Option<bool>,
}

impl Parameters {
    /// What a task was told; tasks of other submitters may look different.
    pub(super) fn of(parameters: &RawValue) -> Self {
        serde_json::from_str(parameters.get()).unwrap_or_default()
    }

    /// The program's name, without its folder.
    pub(super) fn title(&self) -> &str {
        title(&self.argv)
    }

    pub(super) fn item(&self) -> Option<&str> {
        self.env.get(ITEM).map(String::as_str)
    }

    pub(super) fn item_number(&self) -> Option<usize> {
        self.env.get(ITEM_NUMBER)?.parse().ok()
    }
}

/// What a run of this command is called for people.
pub(super) fn title(argv: &[String]) -> &str {
    let program = argv.first().map_or("?", String::as_str);
    Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or(program)
}

/// All tasks of a run.
pub(super) fn tasks(
    flags: &RunFlags,
    argv: &[String],
    name: &RunName,
) -> Result<Vec<TaskToSubmit>> {
    if flags.each.as_deref() == Some("-") && flags.stdin.as_deref() == Some("-") {
        let message = "--each - and --stdin - both want to read stdin";
        return Err(Failure::usage(message, "give one of them a file"));
    }
    let items = items::of(flags)?;
    let plan = Plan {
        flags,
        argv,
        name,
        cwd: folder(flags)?,
        stdin: flags.stdin.as_deref().map(read).transpose()?,
    };
    match items {
        None => Ok(vec![plan.task(None)]),
        Some(items) => Ok(items.iter().map(|item| plan.task(Some(item))).collect()),
    }
}

struct Plan<'a> {
    flags: &'a RunFlags,
    argv: &'a [String],
    name: &'a RunName,
    cwd: String,
    stdin: Option<String>,
}

impl Plan<'_> {
    fn task(&self, item: Option<&Item>) -> TaskToSubmit {
        let number = item.map_or(1, |item| item.number);
        let lane = self.flags.max_parallel.map(|lanes| {
            let lane = number as u64 % u64::from(lanes);
            format!("run-{}-{lane}", self.name)
        });
        TaskToSubmit {
            task_type: COMMAND.into(),
            parameters: Some(self.parameters(item)),
            queue: self.flags.queue.clone(),
            priority: self.flags.priority,
            not_before: None,
            after: Vec::new(),
            timeout_ms: None,
            lease_ttl_ms: None,
            retry: Some(Retry {
                max_attempts: Some(i64::from(self.flags.retries.unwrap_or(LOSSES_SURVIVED)) + 1),
                ..Retry::default()
            }),
            concurrency_key: lane.filter(|_| item.is_some()),
            run: Some(self.name.to_string()),
            requires: self.requires(),
            // So that a submit whose answer got lost can be sent again.
            idempotency_key: Some(format!("run-{}-{number}", self.name)),
        }
    }

    fn parameters(&self, item: Option<&Item>) -> Box<RawValue> {
        let fill = |text: &String| item.map_or_else(|| text.clone(), |item| item.fill(text));
        let mut env: BTreeMap<String, String> = self.flags.env.iter().cloned().collect();
        if let Some(item) = item {
            env.insert(ITEM.into(), item.text.clone());
            env.insert(ITEM_NUMBER.into(), item.number.to_string());
        }
        let parameters = Parameters {
            argv: self.argv.iter().map(fill).collect(),
            cwd: Some(self.cwd.clone()),
            env,
            stdin: self.stdin.clone(),
            timeout_ms: self.flags.timeout.map(Span::millis),
            output_max_bytes: Some(OUTPUT_KEPT_BYTES),
            // A command that fails here is not tried again either, unless somebody says so.
            retry_exit: self.flags.retries.is_none().then_some(false),
        };
        to_raw_value(&parameters).expect("plain values become JSON")
    }

    fn requires(&self) -> Option<Requires> {
        let mut tools = self.flags.needs_tool.clone();
        let program = self.argv.first().filter(|_| !self.flags.no_tool_check);
        // A path is looked for where it is, and a name that no tool can have is left to its fate.
        let is_tool = |name: &&String| !name.contains('/') && name.parse::<ToolName>().is_ok();
        tools.extend(program.filter(is_tool).cloned());
        tools.sort_unstable();
        tools.dedup();
        let tags = self.flags.on.iter().cloned().collect();
        let requires = Requires { tools, tags, package: None };
        (requires != Requires::default()).then_some(requires)
    }
}

fn folder(flags: &RunFlags) -> Result<String> {
    let folder = match &flags.cwd {
        Some(cwd) => std::path::absolute(cwd),
        None => std::env::current_dir(),
    };
    let folder = folder.map_err(|error| {
        Failure::usage(format!("cannot tell which folder this is: {error}"), "give one with --cwd")
    })?;
    folder.into_os_string().into_string().map_err(|folder| {
        let message = format!("the folder {} is no text", folder.display());
        Failure::usage(message, "give another one with --cwd")
    })
}

fn read(path: &str) -> Result<String> {
    let text = if path == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|error| {
        let message = format!("cannot read --stdin {path}: {error}");
        Failure::usage(message, "give a file of text, or `-` for stdin")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_becomes_a_task_that_names_its_tool() {
        let flags = RunFlags {
            cwd: Some("/tmp".into()),
            timeout: "2s".parse().ok(),
            retries: Some(2),
            on: vec![("gpu".into(), "true".into())],
            ..RunFlags::default()
        };
        let expected = r#"{"type":"command","parameters":{"argv":["sh","-c","x"],"cwd":"/tmp","timeout_ms":2000,"output_max_bytes":16384},"retry":{"max_attempts":3},"run":"r1","requires":{"tools":["sh"],"tags":{"gpu":"true"}},"idempotency_key":"run-r1-1"}"#;
        assert_eq!(check(&flags, &["sh", "-c", "x"]), [expected]);
    }

    #[test]
    fn a_path_is_no_tool_and_the_check_can_be_left_out() {
        let flags = RunFlags { cwd: Some("/".into()), ..RunFlags::default() };
        for program in ["/bin/sh", "./x", "[", "{name}"] {
            assert!(!check(&flags, &[program])[0].contains("requires"), "{program}");
        }
        let unchecked = RunFlags { no_tool_check: true, ..flags };
        assert!(!check(&unchecked, &["sh"])[0].contains("requires"));
    }

    #[test]
    fn items_take_turns_in_lanes() {
        let flags = RunFlags {
            cwd: Some("/".into()),
            array: "10-12".parse().ok(),
            max_parallel: Some(2),
            ..RunFlags::default()
        };
        let tasks = check(&flags, &["echo", "{}/{n}"]);
        assert_eq!(tasks.len(), 3);
        assert!(tasks[2].contains(r#""argv":["echo","12/3"]"#), "{}", tasks[2]);
        assert!(tasks[2].contains(r#""env":{"ASTRA_ITEM":"12","ASTRA_ITEM_NUMBER":"3"}"#));
        let lane = |task: &String| task.split("run-r1-").nth(1).map(|rest| rest[..1].to_owned());
        assert_eq!(tasks.iter().filter_map(lane).collect::<String>(), "101");
    }

    fn check(flags: &RunFlags, argv: &[&str]) -> Vec<String> {
        let argv: Vec<String> = argv.iter().map(ToString::to_string).collect();
        let tasks = tasks(flags, &argv, &"r1".parse().expect("a name")).expect("fits");
        tasks.iter().map(|task| serde_json::to_string(task).expect("JSON")).collect()
    }
}
