//! `astra task list`.

use protocol::rest::tasks::{State, Task, TaskPage};

use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::words;

const EXAMPLES: &str = "\
Examples:
  astra task list
  astra task list --state failed,dead --limit 100
  astra task list --type core.sleep -o quiet
";

const PAGE_MAX: usize = 100;
/// So many letters of an id tell recent tasks apart.
const ID_LETTERS: usize = 8;

/// List tasks, newest first.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Only these states: waiting, queued, retrying, running, succeeded, failed, dead, stopped.
    #[arg(long, value_delimiter = ',', value_parser = parse_state, value_name = "STATE")]
    state: Vec<State>,
    /// Only this type.
    #[arg(long = "type", value_name = "TYPE")]
    task_type: Option<String>,
    /// Only this queue.
    #[arg(long)]
    queue: Option<String>,
    /// At most so many.
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

fn parse_state(word: &str) -> std::result::Result<State, String> {
    let on_screen =
        || State::ALL.into_iter().find(|state| words::state(*state).eq_ignore_ascii_case(word));
    State::from_word(word).or_else(on_screen).ok_or_else(|| {
        let all: Vec<_> = State::ALL.into_iter().map(words::state).collect();
        format!("not one of {}", all.join(", ").to_lowercase())
    })
}

pub(crate) async fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let mut shown = TaskPage { tasks: Vec::new(), next_cursor: None };
    loop {
        let missing = arguments.limit.saturating_sub(shown.tasks.len());
        let path = path(&arguments, missing.min(PAGE_MAX), shown.next_cursor.as_deref());
        let page: TaskPage = context.ask(context.client.get(&path)).await?;
        shown.tasks.extend(page.tasks);
        shown.next_cursor = page.next_cursor;
        if shown.next_cursor.is_none() || shown.tasks.len() >= arguments.limit {
            break;
        }
    }
    let is_more = shown.next_cursor.is_some();
    context.output.show(&shown);
    if is_more {
        context.output.note("there are more; see them with a larger --limit");
    }
    Ok(ExitCode::Success)
}

fn path(arguments: &Arguments, limit: usize, cursor: Option<&str>) -> String {
    let states: Vec<_> = arguments.state.iter().map(|state| state.word()).collect();
    let mut path = format!("/api/v1/tasks?limit={}", limit.max(1));
    let fields = [
        ("state", (!states.is_empty()).then(|| states.join(","))),
        ("type", arguments.task_type.clone()),
        ("queue", arguments.queue.clone()),
        ("cursor", cursor.map(ToOwned::to_owned)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            words::push(&mut path, format_args!("&{name}={}", words::percent_encoded(&value)));
        }
    }
    path
}

impl Show for TaskPage {
    fn text(&self) -> String {
        if self.tasks.is_empty() {
            return "no tasks".into();
        }
        let header = ["ID", "TYPE", "QUEUE", "STATE", "ATTEMPTS", "SUBMITTED", "WORKER"];
        output::table(header, self.tasks.iter().map(row).collect())
    }

    fn quiet(&self) -> String {
        let ids: Vec<_> = self.tasks.iter().map(|task| task.task_id.as_str()).collect();
        ids.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.tasks.iter().map(output::json).collect()
    }
}

fn row(task: &Task) -> [String; 7] {
    let holder = task.lease.as_ref().map(|lease| lease.worker_id.clone());
    [
        task.task_id.chars().take(ID_LETTERS).collect(),
        task.task_type.clone(),
        task.queue.clone(),
        format!("{} {}", words::mark(task.state), words::state(task.state)),
        format!("{}/{}", task.attempt, task.max_attempts),
        words::ago(&task.created_at),
        holder.or_else(|| task.worker_id.clone()).unwrap_or_else(|| "-".into()),
    ]
}
