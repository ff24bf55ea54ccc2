//! `astra task`: submit tasks, look at them, stop them.
//!
//! [`new_task`] builds tasks out of flags and files.

mod new_task;

pub(crate) use new_task::{parse_package, parse_tag, read_file, read_json};

use std::time::Duration;

use model::TaskId;
use protocol::rest::tasks::{
    EndedAttempt, State, SubmitTasks, SubmittedTask, SubmittedTasks, Task, TaskPage, TaskToSubmit,
};

use self::new_task::TaskFlags;
use crate::context::Context;
use crate::duration::Span;
use crate::failure::{ExitCode, Failure, Result};
use crate::format;
use crate::output::{self, Columns, Show};
use crate::pages::Pages;
use crate::run::interrupted;
use crate::selector;

/// So many tasks go in one request.
pub(crate) const BATCH: usize = 500;
/// More ids than this are not listed one by one for people.
const LISTED_MAX: usize = 20;
/// So many letters of an id tell recent tasks apart.
const ID_LETTERS: usize = 8;
/// How long one question waits at the server.
const POLL: Duration = Duration::from_secs(20);
/// Beginnings of ids are looked for among so many recent tasks.
const SEARCHED_MAX: usize = 2_000;
/// Shorter beginnings are guesses.
const PREFIX_MIN: usize = 2;
/// A full id that names no task here is not the beginning of another one.
const UUID_LETTERS: usize = 36;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Submit(Box<SubmitArguments>),
    /// Show a task; with `--wait`, once it has ended.
    Show {
        /// The task: its id, the first letters of it, or `last`.
        task: String,
        /// Wait for the task's end; exit 1 unless it succeeded.
        #[arg(long)]
        wait: bool,
        /// Give up waiting after this time, with exit code 124.
        #[arg(long, value_name = "DURATION", requires = "wait")]
        timeout_wait: Option<Span>,
    },
    List(ListArguments),
    /// Stop tasks: queued tasks do not start, and running tasks are told to stop.
    Cancel {
        /// The tasks: ids, first letters of ids, or `last`.
        #[arg(required = true)]
        tasks: Vec<String>,
    },
    /// Requeue failed or dead tasks, with fresh attempts.
    Requeue {
        /// The tasks: ids, first letters of ids, or `last`.
        #[arg(required = true)]
        tasks: Vec<String>,
    },
}

/// Submit tasks. Accepted tasks survive a crash of the server.
#[derive(Debug, clap::Args)]
pub(crate) struct SubmitArguments {
    /// The task's type. Builtin types are core.echo, core.sleep, core.fail and core.noop.
    #[arg(value_name = "TYPE", required_unless_present = "file")]
    task_type: Option<String>,
    /// Read tasks from a JSON or JSON-lines file instead; `-` for stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["task_type", "TaskFlags", "count"])]
    file: Option<String>,
    /// Submit the task this many times.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Wait for the end and print the results; exit 1 unless all succeeded.
    #[arg(long)]
    wait: bool,
    /// Give up waiting after this time, with exit code 124.
    #[arg(long, value_name = "DURATION", requires = "wait")]
    timeout_wait: Option<Span>,
    #[command(flatten)]
    flags: TaskFlags,
}

/// List tasks, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Only these states: waiting, queued, retrying, running, succeeded, failed, dead, stopped.
    #[arg(long, value_delimiter = ',', value_parser = parse_state, value_name = "STATE")]
    state: Vec<State>,
    /// Only this type.
    #[arg(long = "type", value_name = "TYPE")]
    task_type: Option<String>,
    /// Only this queue.
    #[arg(long)]
    queue: Option<String>,
    /// Show at most this many.
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

fn parse_state(word: &str) -> std::result::Result<State, String> {
    let on_screen = || {
        State::ALL.into_iter().find(|state| format::look(*state).word.eq_ignore_ascii_case(word))
    };
    State::from_word(word).or_else(on_screen).ok_or_else(|| {
        let all: Vec<_> = State::ALL.into_iter().map(|state| format::look(state).word).collect();
        format!("not one of {}", all.join(", ").to_lowercase())
    })
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<ExitCode> {
    match command {
        Command::Submit(arguments) => submit(*arguments, context).await,
        Command::Show { task, wait, timeout_wait } => {
            show(&task, wait, timeout_wait, context).await
        }
        Command::List(arguments) => list(arguments, context).await,
        Command::Cancel { tasks } => change(tasks, "cancel", context).await,
        Command::Requeue { tasks } => change(tasks, "requeue", context).await,
    }
}

async fn submit(arguments: SubmitArguments, context: &Context) -> Result<ExitCode> {
    let tasks = match (&arguments.file, &arguments.task_type) {
        (Some(file), _) => new_task::read_tasks(file)?,
        (None, Some(task_type)) => arguments.flags.tasks(task_type, arguments.count as usize)?,
        (None, None) => unreachable!("clap asks for one of the two"),
    };
    let submitted = submit_all(context, tasks).await?;
    if !arguments.wait {
        context.output.show(&submitted);
        return Ok(ExitCode::Success);
    }
    let ids: Vec<String> = submitted.tasks.into_iter().map(|task| task.task_id).collect();
    let ended = until_all_ended(context, &ids, arguments.timeout_wait).await?;
    let exit = exit_code(&ended);
    show_results(context, ended);
    Ok(exit)
}

async fn submit_all(context: &Context, mut tasks: Vec<TaskToSubmit>) -> Result<SubmittedTasks> {
    let mut all = SubmittedTasks { tasks: Vec::with_capacity(tasks.len()) };
    while !tasks.is_empty() {
        let rest = tasks.split_off(tasks.len().min(BATCH));
        let batch = SubmitTasks { tasks };
        let answer = context.client.post::<SubmittedTasks>("/api/v1/tasks", &batch).await;
        match context.ask(async { answer }).await {
            Ok(submitted) => all.tasks.extend(submitted.tasks),
            Err(failure) => {
                if !all.tasks.is_empty() {
                    output::warn(format!("{} tasks were submitted before", all.tasks.len()));
                }
                return Err(failure);
            }
        }
        tasks = rest;
    }
    Ok(all)
}

/// For people: results on stdout, one line each, and how it went on stderr.
fn show_results(context: &Context, tasks: Vec<Task>) {
    if !context.output.is_for_people() {
        return list_all(tasks, context);
    }
    for task in tasks {
        let look = format::look(task.state);
        let headline = look.styled(look);
        let worker = task.worker_id.as_ref().map_or_else(String::new, |id| format!(" on {id}"));
        let why = task
            .error
            .as_ref()
            .map_or_else(String::new, |error| format!(": {} ({})", error.reason, error.code));
        let ended = task.settled_at.as_deref().unwrap_or(&task.created_at);
        let took = format::between(&task.created_at, ended).unwrap_or_else(|| "0ms".into());
        context.output.note(format!("{headline} in {took}{worker}{why}  {}", task.task_id));
        if let (State::Completed, Some(result)) = (task.state, &task.result) {
            context.output.line(result.get());
        }
    }
}

impl Show for SubmittedTasks {
    fn text(&self) -> String {
        if self.tasks.len() > LISTED_MAX {
            let (first, last) = (&self.tasks[0], &self.tasks[self.tasks.len() - 1]);
            let amount = format::count(self.tasks.len(), "task");
            return format!("{amount} submitted, from {} to {}", first.task_id, last.task_id);
        }
        let lines: Vec<_> = self.tasks.iter().map(submitted_line).collect();
        lines.join("\n")
    }

    fn quiet(&self) -> String {
        output::lines(self.tasks.iter().map(|task| task.task_id.clone()))
    }

    fn json_lines(&self) -> String {
        output::lines(self.tasks.iter().map(output::json))
    }
}

fn submitted_line(task: &SubmittedTask) -> String {
    let existed = if task.existed { " (existed: the key was used before)" } else { "" };
    format!("{}  {}{existed}", task.task_id, format::look(task.state).word)
}

async fn show(
    task: &str,
    wait: bool,
    timeout: Option<Span>,
    context: &Context,
) -> Result<ExitCode> {
    let id = select(context, task).await?;
    if !wait {
        context.output.show(&context.get::<Task>(&format!("/api/v1/tasks/{id}")).await?);
        return Ok(ExitCode::Success);
    }
    let tasks = until_all_ended(context, &[id], timeout).await?;
    for task in &tasks {
        context.output.show(task);
    }
    Ok(exit_code(&tasks))
}

impl Show for Task {
    fn text(&self) -> String {
        let look = format::look(self.state);
        let headline = look.styled(look);
        let mut rows = vec![
            ("type", self.task_type.clone()),
            ("queue", format!("{} (priority {})", self.queue, self.priority)),
            ("submitted", format!("{} ({})", self.created_at, format::ago(&self.created_at))),
            ("attempts", format!("{} of at most {}", self.attempt, self.max_attempts)),
        ];
        rows.extend(when_and_who(self));
        rows.push(("parameters", self.parameters.get().to_owned()));
        rows.extend(self.result.as_ref().map(|result| ("result", result.get().to_owned())));
        rows.extend(self.error.as_ref().map(|e| ("error", format!("{}: {}", e.code, e.reason))));
        rows.extend(self.ended_attempts.iter().map(|ended| ("earlier", earlier(ended))));
        format!("{headline}  {}\n{}", self.task_id, output::facts(&rows))
    }

    fn quiet(&self) -> String {
        self.state.word().into()
    }
}

fn when_and_who(task: &Task) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    rows.extend(task.not_before.as_ref().map(|moment| ("not before", moment.clone())));
    rows.extend((!task.after.is_empty()).then(|| ("after", task.after.join(", "))));
    rows.extend(task.lease.as_ref().map(|lease| {
        let held = format!("{} for {}", lease.worker_id, format::ago(&lease.granted_at));
        ("held by", held.trim_end_matches(" ago").to_owned())
    }));
    rows.extend(task.settled_at.as_ref().map(|moment| {
        let took = format::between(&task.created_at, moment).unwrap_or_default();
        ("ended", format!("{moment} (after {took})"))
    }));
    rows.extend(task.worker_id.as_ref().map(|worker| ("by", worker.clone())));
    rows.extend(task.concurrency_key.as_ref().map(|key| ("one at a time", key.clone())));
    rows.extend(task.idempotency_key.as_ref().map(|key| ("key", key.clone())));
    rows
}

fn earlier(ended: &EndedAttempt) -> String {
    let said = ended.error.as_ref().map_or_else(String::new, |error| format!(": {}", error.reason));
    format!("{} on {} at {}{said}", ended.ending, ended.worker_id, ended.ended_at)
}

async fn list(arguments: ListArguments, context: &Context) -> Result<ExitCode> {
    let states: Vec<_> = arguments.state.iter().map(|state| state.word()).collect();
    let states = (!states.is_empty()).then(|| states.join(","));
    let parameters = [
        ("state", states.as_deref()),
        ("type", arguments.task_type.as_deref()),
        ("queue", arguments.queue.as_deref()),
    ];
    let path = format::query("/api/v1/tasks", &parameters);
    let (tasks, is_more) = Pages::<TaskPage>::of(path).take(context, arguments.limit).await?;
    list_all(tasks, context);
    if is_more {
        context.output.note("there are more; see them with a larger --limit");
    }
    Ok(ExitCode::Success)
}

fn list_all(tasks: Vec<Task>, context: &Context) {
    let page = TaskPage { tasks, next_cursor: None };
    let columns = Columns {
        none: "no tasks",
        id: |task: &Task| task.task_id.clone(),
        header: ["ID", "TYPE", "QUEUE", "STATE", "ATTEMPTS", "SUBMITTED", "WORKER"],
        row: |task| {
            let holder = task.lease.as_ref().map(|lease| lease.worker_id.clone());
            [
                task.task_id.chars().take(ID_LETTERS).collect(),
                task.task_type.clone(),
                task.queue.clone(),
                format::look(task.state).to_string(),
                format!("{}/{}", task.attempt, task.max_attempts),
                format::ago(&task.created_at),
                format::or_dash(holder.or_else(|| task.worker_id.clone())),
            ]
        },
    };
    context.output.list(&page, &page.tasks, &columns);
}

async fn change(selectors: Vec<String>, verb: &str, context: &Context) -> Result<ExitCode> {
    let mut changed = Vec::new();
    for selector in selectors {
        let id = select(context, &selector).await?;
        let task: Task = context.command(&format!("/api/v1/tasks/{id}/{verb}")).await?;
        context.output.note(format!("{} is {}", task.task_id, format::look(task.state).word));
        changed.push(task);
    }
    if !context.output.is_for_people() {
        list_all(changed, context);
    }
    Ok(ExitCode::Success)
}

/// The tasks, in the order of `ids`, when all of them have ended.
async fn until_all_ended(
    context: &Context,
    ids: &[String],
    timeout: Option<Span>,
) -> Result<Vec<Task>> {
    let all = async {
        let mut tasks = Vec::with_capacity(ids.len());
        for id in ids {
            tasks.push(until_ended(context, id).await?);
        }
        Ok(tasks)
    };
    let first = ids.first().map_or("last", String::as_str);
    let limit = timeout.map_or(Duration::MAX, |timeout| timeout.0);
    tokio::select! {
        tasks = all => tasks,
        () = tokio::time::sleep(limit) => Err(Failure::new(
            ExitCode::WaitTimeout,
            "the wait is over, the work is not",
            format!("it goes on; ask why with `astra explain {first}`"),
        )),
        Ok(()) = tokio::signal::ctrl_c() => Err(interrupted(&format!(
            "the work goes on; look with `astra task show {first}`, stop it with \
             `astra task cancel {first}`"
        ))),
    }
}

/// A server that restarts meanwhile is waited for: what it accepted is not lost.
pub(crate) async fn until_ended(context: &Context, id: &str) -> Result<Task> {
    let path = format!("/api/v1/tasks/{id}?wait_ms={}", POLL.as_millis());
    loop {
        let look = || context.client.get_waiting::<Task>(&path, POLL);
        let task = context.ask_patiently(look).await?;
        if task.state.is_terminal() {
            return Ok(task);
        }
    }
}

/// Success only if all succeeded.
fn exit_code(tasks: &[Task]) -> ExitCode {
    let all_succeeded = tasks.iter().all(|task| task.state == State::Completed);
    if all_succeeded { ExitCode::Success } else { ExitCode::Failed }
}

/// The full id of what `text` selects.
pub(crate) async fn select(context: &Context, text: &str) -> Result<String> {
    if let Ok(id) = text.parse::<TaskId>() {
        return Ok(id.to_string());
    }
    if text == "last" {
        return newest(context).await;
    }
    let is_prefix = text.len() >= PREFIX_MIN
        && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if !is_prefix {
        let message = format!("`{text}` is not a task id");
        return Err(Failure::usage(message, "give an id, its first letters, or `last`"));
    }
    if text.len() == UUID_LETTERS {
        let message = format!("no task has the id {text}");
        return Err(Failure::new(ExitCode::NotFound, message, "look at `astra task list`"));
    }
    by_prefix(context, &text.to_ascii_lowercase()).await
}

async fn newest(context: &Context) -> Result<String> {
    let (tasks, _) = Pages::<TaskPage>::of("/api/v1/tasks").take(context, 1).await?;
    let newest = tasks.into_iter().next().map(|task| task.task_id);
    newest.ok_or_else(|| {
        let hint = "submit one: astra task submit core.echo -p '{\"hello\":\"world\"}'";
        Failure::new(ExitCode::NotFound, "there is no task yet", hint)
    })
}

async fn by_prefix(context: &Context, prefix: &str) -> Result<String> {
    let (tasks, _) = Pages::<TaskPage>::of("/api/v1/tasks").take(context, SEARCHED_MAX).await?;
    let ways: [selector::Way<'_, Task>; 1] = [&|task| task.task_id.starts_with(prefix)];
    let hint = "give the full id of an older task, or look at `astra task list`";
    let found = selector::choose(("task", prefix), &tasks, &ways, |task| &task.task_id, hint)?;
    Ok(found.task_id.clone())
}
