//! `astra task submit`.

use protocol::rest::tasks::{State, SubmitTasks, SubmittedTasks, Task, TaskToSubmit};

use super::new_task::TaskFlags;
use super::show::{Tasks, took};
use super::{task_file, wait};
use crate::context::Context;
use crate::duration::Span;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::words;

const EXAMPLES: &str = "\
Examples:
  astra task submit core.echo -p '{\"hello\":\"world\"}' --wait
  astra task submit core.sleep -p '{\"seconds\":5}' --count 100 --queue slow
  astra task submit --file tasks.jsonl
";

/// So many tasks go in one request.
const BATCH: usize = 500;
/// More ids than this are not listed one by one for people.
const LISTED_MAX: usize = 20;

/// Submit tasks. What is answered survives a crash of the server.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// What kind of work; builtin are core.echo, core.sleep, core.fail and core.noop.
    #[arg(value_name = "TYPE", required_unless_present = "file")]
    task_type: Option<String>,
    /// Read tasks from a JSON or JSON-lines file instead; `-` for stdin.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["task_type", "TaskFlags", "count"])]
    file: Option<String>,
    /// Submit the same task so many times.
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

pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let tasks = match (&arguments.file, &arguments.task_type) {
        (Some(file), _) => task_file::read(file)?,
        (None, Some(task_type)) => arguments.flags.tasks(task_type, arguments.count as usize)?,
        (None, None) => unreachable!("clap asks for one of the two"),
    };
    let submitted = submit(context, tasks).await?;
    if !arguments.wait {
        context.output.show(&submitted);
        return Ok(ExitCode::Success);
    }
    let ids: Vec<String> = submitted.tasks.into_iter().map(|task| task.task_id).collect();
    let timeout = arguments.timeout_wait.map(|span| span.0);
    let ended = wait::until_ended(context, &ids, timeout).await?;
    let exit = wait::exit_code(&ended);
    show_results(context, ended);
    Ok(exit)
}

async fn submit(context: &Context, mut tasks: Vec<TaskToSubmit>) -> Result<SubmittedTasks> {
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
        context.output.show(&Tasks { tasks });
        return;
    }
    for task in tasks {
        let headline = format!("{} {}", words::mark(task.state), words::state(task.state));
        let headline = output::styled(words::style(task.state), headline);
        let worker = task.worker_id.as_ref().map_or_else(String::new, |id| format!(" on {id}"));
        let why = task
            .error
            .as_ref()
            .map_or_else(String::new, |error| format!(": {} ({})", error.reason, error.code));
        let took = took(&task);
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
            let amount = words::count(self.tasks.len(), "task");
            return format!("{amount} submitted, from {} to {}", first.task_id, last.task_id);
        }
        let lines: Vec<_> = self.tasks.iter().map(line).collect();
        lines.join("\n")
    }

    fn quiet(&self) -> String {
        let ids: Vec<_> = self.tasks.iter().map(|task| task.task_id.as_str()).collect();
        ids.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.tasks.iter().map(output::json).collect()
    }
}

fn line(task: &protocol::rest::tasks::SubmittedTask) -> String {
    let existed = if task.existed { " (existed: the key was used before)" } else { "" };
    format!("{}  {}{existed}", task.task_id, words::state(task.state))
}
