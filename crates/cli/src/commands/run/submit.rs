//! `astra run -- COMMAND`: makes tasks of a command and its flags, submits them, and stays with them.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use client::{ClientError, Patience};
use model::{RunName, ToolName};
use protocol::rest::tasks::{
    Requires, Retry, SubmitTasks, SubmittedTask, SubmittedTasks, TaskToSubmit,
};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_with::skip_serializing_none;
use uuid::Uuid;
use worker::runner::command::COMMAND;

use super::follow::{self, Attachment};
use super::glob;
use super::progress::{self, Many};
use super::run_output::RunOutput;
use crate::commands::task::parse_tag;
use crate::context::Context;
use crate::duration::Span;
use crate::failure::{ExitCode, Failure, Result};
use crate::output::{self, Show};

pub(super) async fn start(
    flags: RunFlags,
    argv: Vec<String>,
    context: &Context,
) -> Result<ExitCode> {
    let run_name = flags.name.clone().unwrap_or_else(fresh_name);
    let tasks = tasks(&flags, &argv, &run_name)?;
    let is_many = flags.each.is_some() || flags.array.is_some();
    let submitted = submit_all(context, tasks).await?;
    let run = run_name.to_string();
    let run_output = RunOutput::new(context.output, flags.quiet);
    if submitted.iter().all(|task| task.existed) {
        run_output.note(format!("run {run} exists already; this follows it"));
    }
    let title = title(&argv).to_owned();
    let task_ids: Vec<String> =
        submitted.into_iter().map(|task: SubmittedTask| task.task_id).collect();
    if flags.detach {
        context.output.show(&Detached { run, task_ids });
        return Ok(ExitCode::Success);
    }
    if is_many {
        let many = Many { run, title, task_ids, run_output };
        return progress::follow(many, context).await;
    }
    let task_id = task_ids.into_iter().next().expect("a command is one task");
    let propagates = flags.propagate;
    let attachment = Attachment { run, title, task_id, offset: 0, propagates, run_output };
    follow::follow_task(attachment, context).await
}

/// A run that was left alone.
#[derive(Serialize)]
struct Detached {
    run: String,
    task_ids: Vec<String>,
}

impl Show for Detached {
    fn text(&self) -> String {
        self.run.clone()
    }

    fn quiet(&self) -> String {
        self.run.clone()
    }

    fn json_lines(&self) -> String {
        let line = |task_id: &String| {
            let fields = BTreeMap::from([("run", &self.run), ("task_id", task_id)]);
            output::json(&fields)
        };
        output::lines(self.task_ids.iter().map(line))
    }
}

/// About the command and its run.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct RunFlags {
    /// The run's name: 1 to 64 letters, digits, `-` and `_`. Default: eight random letters. The
    /// same name with the same command is the same run, and is followed.
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<RunName>,
    /// Print the run's name and return, without waiting for the command.
    #[arg(short, long)]
    pub(super) detach: bool,
    /// Exit with the command's own code; 128 and the signal's number if a signal killed it.
    #[arg(long)]
    pub(super) propagate: bool,
    /// Print only the output of the command.
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Stop the command if it takes longer.
    #[arg(long, value_name = "DURATION")]
    pub(super) timeout: Option<Span>,
    /// Retry this many times if it fails or its worker is lost. Default: never if it fails, twice if
    /// its worker is lost.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=RETRIES_MAX))]
    pub(super) retries: Option<u32>,
    /// Set a variable of the command; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_variable)]
    pub(super) env: Vec<(String, String)>,
    /// The working folder, which must exist on the worker's machine. Default: this one.
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<PathBuf>,
    /// A file that the command reads; `-` for stdin.
    #[arg(long, value_name = "FILE|-")]
    pub(super) stdin: Option<String>,
    /// A tag that the worker must carry; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_tag)]
    pub(super) on: Vec<(String, String)>,
    /// A tool that the worker must have; may be given several times. The command itself is one.
    #[arg(long, value_name = "TOOL")]
    pub(super) needs_tool: Vec<String>,
    /// Also use workers that do not offer the command as a tool.
    #[arg(long)]
    pub(super) no_tool_check: bool,
    /// The task's queue. Default `default`.
    #[arg(long)]
    pub(super) queue: Option<String>,
    /// From -1000 to 1000, higher first.
    #[arg(long, allow_negative_numbers = true)]
    pub(super) priority: Option<i64>,
    /// Run it once for each file that matches, or for each line of stdin (`-`). `{}` becomes the
    /// item, `{name}` `{stem}` `{ext}` `{dir}` parts of its path, `{#}` its number.
    #[arg(long, value_name = "GLOB|-", conflicts_with = "array")]
    pub(super) each: Option<String>,
    /// Run it once for each number, like 1-100.
    #[arg(long, value_name = "FROM-TO")]
    pub(super) array: Option<Numbers>,
    /// Run at most this many at a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=PARALLEL_MAX))]
    pub(super) max_parallel: Option<u32>,
}

/// The server's limit of attempts, less the first.
const RETRIES_MAX: i64 = model::ATTEMPTS_MAX as i64 - 1;
/// More at a time than any fleet has slots.
const PARALLEL_MAX: i64 = 100_000;

fn parse_variable(text: &str) -> std::result::Result<(String, String), String> {
    parse_tag(text).map_err(|_| "not a variable like NAME=value".into())
}

/// Numbers from one to another, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbers(pub(super) RangeInclusive<u64>);

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let ends = text.split_once('-').unwrap_or((text, text));
        match (ends.0.trim().parse(), ends.1.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self(first..=last)),
            _ => Err("not numbers like 1-100".into()),
        }
    }
}

/// One run has no more tasks.
pub(super) const ITEMS_MAX: usize = 100_000;

/// One thing to run the command for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// From 1.
    pub(super) number: usize,
    /// A path, a line or a number.
    pub(super) text: String,
}

/// All items, if the flags ask for any.
pub(super) fn items_of(flags: &RunFlags) -> Result<Option<Vec<Item>>> {
    let texts = match (&flags.each, &flags.array) {
        (None, None) => return Ok(None),
        (_, Some(numbers)) => {
            numbers.0.clone().take(ITEMS_MAX + 1).map(|number| number.to_string()).collect()
        }
        (Some(each), None) if each == "-" => lines()?,
        (Some(pattern), None) => files(pattern)?,
    };
    if texts.len() > ITEMS_MAX {
        let message = format!("there are more than {ITEMS_MAX} items");
        let hint = "split them over several runs";
        return Err(Failure::new(ExitCode::Validation, message, hint));
    }
    let items = texts.into_iter().zip(1..).map(|(text, number)| Item { number, text });
    Ok(Some(items.collect()))
}

fn files(pattern: &str) -> Result<Vec<String>> {
    let found = glob::expand(Path::new("."), pattern, ITEMS_MAX + 1)
        .map_err(|error| Failure::usage(format!("--each {pattern}: {error}"), "check the path"))?;
    if found.is_empty() {
        return Err(Failure::new(
            ExitCode::Validation,
            format!("no file matches {pattern}"),
            "it is looked for from this folder; quote the pattern, so that the shell leaves it \
             alone",
        ));
    }
    Ok(found)
}

fn lines() -> Result<Vec<String>> {
    let read: std::io::Result<Vec<String>> = std::io::stdin().lines().collect();
    let lines = read.map_err(|error| {
        Failure::usage(format!("cannot read items from stdin: {error}"), "give lines of text")
    })?;
    let lines: Vec<_> = lines.into_iter().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        let hint = "give one item per line: `ls | astra run --each - -- wc {}`";
        return Err(Failure::new(ExitCode::Validation, "stdin holds no item", hint));
    }
    Ok(lines)
}

impl Item {
    /// The argument, with the item in the place of its names. Other braces stay as they are.
    pub(super) fn fill(&self, argument: &str) -> String {
        let mut filled = String::with_capacity(argument.len());
        let mut rest = argument;
        while let Some(start) = rest.find('{') {
            filled.push_str(&rest[..start]);
            rest = &rest[start..];
            let end = rest.find('}').map_or(rest.len(), |end| end + 1);
            if let Some(part) = self.part(&rest[..end]) {
                filled.push_str(&part);
                rest = &rest[end..];
            } else {
                filled.push('{');
                rest = &rest[1..];
            }
        }
        filled.push_str(rest);
        filled
    }

    fn part(&self, name: &str) -> Option<String> {
        let path = Path::new(&self.text);
        let text = |part: Option<&std::ffi::OsStr>| {
            Some(part.unwrap_or_default().to_string_lossy().into_owned())
        };
        match name {
            "{}" => Some(self.text.clone()),
            "{n}" | "{#}" => Some(self.number.to_string()),
            "{name}" => text(path.file_name()),
            "{stem}" => text(path.file_stem()),
            "{ext}" => text(path.extension()),
            "{dir}" => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                Some(parent.map_or_else(|| ".".into(), |parent| parent.to_string_lossy().into()))
            }
            _ => None,
        }
    }
}

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
#[skip_serializing_none]
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Parameters {
    pub(super) argv: Vec<String>,
    pub(super) cwd: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) env: BTreeMap<String, String>,
    stdin: Option<String>,
    timeout_ms: Option<i64>,
    output_max_bytes: Option<usize>,
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
    let items = items_of(flags)?;
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

const PATH: &str = "/api/v1/tasks";
/// So many tasks go in one request.
const BATCH: usize = 500;
/// How long a server that restarts is waited for.
const PATIENCE: Patience = Patience { total: Duration::from_secs(15) };

/// All tasks, in order. They carry keys, so that sending them twice makes no second one.
pub(super) async fn submit_all(
    context: &Context,
    mut tasks: Vec<TaskToSubmit>,
) -> Result<Vec<SubmittedTask>> {
    let mut submitted = Vec::with_capacity(tasks.len());
    while !tasks.is_empty() {
        let rest = tasks.split_off(tasks.len().min(BATCH));
        let batch = SubmitTasks { tasks };
        let was_there = !submitted.is_empty();
        let made = context.ask(send(context, &batch, was_there)).await?;
        submitted.extend(made.tasks);
        tasks = rest;
    }
    Ok(submitted)
}

/// A server that never was there is told at once; the absence of one that was there passes.
async fn send(
    context: &Context,
    batch: &SubmitTasks,
    was_there: bool,
) -> std::result::Result<SubmittedTasks, ClientError> {
    match context.client.post(PATH, batch).await {
        Err(ClientError::Unreachable { endpoint, source }) if !was_there => {
            Err(ClientError::Unreachable { endpoint, source })
        }
        Err(error) if error.is_passing() => {
            context.client.post_patiently(PATH, batch, PATIENCE).await
        }
        answer => answer,
    }
}

/// RFC 4648, in lower case: no letter looks like a digit.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Forty bits: a thousand runs share no name with a chance of two million to one.
const LETTERS: usize = 8;

/// A name that no other run has.
pub(super) fn fresh_name() -> RunName {
    let random = Uuid::new_v4().as_u128();
    let letter = |place: usize| {
        let index = (random >> (5 * place)) & 31;
        char::from(ALPHABET[usize::try_from(index).expect("five bits")])
    };
    let name: String = (0..LETTERS).map(letter).collect();
    name.parse().expect("eight letters and digits")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_are_a_range_or_one() {
        assert_eq!("1-100".parse(), Ok(Numbers(1..=100)));
        assert_eq!("7".parse(), Ok(Numbers(7..=7)));
        for wrong in ["", "-", "3-1", "a-b", "1-2-3", "-1"] {
            assert!(wrong.parse::<Numbers>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_in_braces_become_the_item() {
        let item = Item { number: 7, text: "photos/a.b.jpg".into() };
        for (argument, expected) in [
            ("{}", "photos/a.b.jpg"),
            ("thumbs/{name}", "thumbs/a.b.jpg"),
            ("{dir}/{stem}-{n}.{ext}", "photos/a.b-7.jpg"),
            ("{{}}", "{photos/a.b.jpg}"),
            ("${HOME} {x} {", "${HOME} {x} {"),
            ("{ {#}", "{ 7"),
            ("awk '{print $1}' {}", "awk '{print $1}' photos/a.b.jpg"),
        ] {
            assert_eq!(item.fill(argument), expected, "{argument}");
        }
        let plain = Item { number: 1, text: "42".into() };
        assert_eq!(plain.fill("{dir}|{ext}|{stem}"), ".||42");
    }

    #[test]
    fn numbers_make_items() {
        let flags = RunFlags { array: "3-5".parse().ok(), ..RunFlags::default() };
        let items = items_of(&flags).expect("fits").expect("asked for");
        let shown: Vec<_> = items.iter().map(|item| (item.number, item.text.as_str())).collect();
        assert_eq!(shown, [(1, "3"), (2, "4"), (3, "5")]);
        let many = RunFlags { array: "1-99999999999".parse().ok(), ..RunFlags::default() };
        assert_eq!(items_of(&many).expect_err("too many").exit, ExitCode::Validation);
    }

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

    #[test]
    fn names_are_short_and_differ() {
        let names: BTreeSet<String> = (0..1_000).map(|_| fresh_name().to_string()).collect();
        assert_eq!(names.len(), 1_000);
        let is_plain = |name: &String| {
            name.len() == LETTERS && name.bytes().all(|byte| ALPHABET.contains(&byte))
        };
        assert!(names.iter().all(is_plain), "{names:?}");
    }
}
