//! `astra plan`: pipelines of Unix tools that the server keeps.

use protocol::plan::PlanTask;
use protocol::rest::plans::{DeletedPlan, Plan, PlanSummary, Plans};
use serde_json::value::RawValue;

use super::task::read_file;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{self, Show};
use crate::words;

const SUBMIT_EXAMPLES: &str = "\
Examples:
  astra plan submit dedupe.json
  echo '{\"plan_id\":\"dedupe\",\"tasks\":[{\"task_number\":1,\"command\":\"sort\"},
    {\"task_number\":2,\"command\":\"uniq\",\"input_from_task\":1}]}' | astra plan submit -
";
const LIST_EXAMPLES: &str = "\
Examples:
  astra plan list
  astra plan list --pattern 'nightly-*' -o quiet
";
const SHOW_EXAMPLES: &str = "\
Examples:
  astra plan show dedupe
  astra plan show dedupe -o json
";
const RM_EXAMPLES: &str = "\
Examples:
  astra plan rm dedupe
  astra plan list --pattern 'test-*' -o quiet | xargs astra plan rm
";
const PLAN_HINT: &str = "a plan is an object like {\"plan_id\":\"p1\",\"tasks\":\
                         [{\"task_number\":1,\"command\":\"sort\"}]}";
/// So many come in one answer.
const PAGE_MAX: usize = 500;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Have a plan kept. The same plan again changes nothing.
    #[command(before_help = SUBMIT_EXAMPLES)]
    Submit {
        /// A JSON file; `-` for stdin.
        file: String,
    },
    /// List plans, by name.
    #[command(before_help = LIST_EXAMPLES)]
    List {
        /// Only names like this; `*` and `?` stand for any letters and any letter.
        #[arg(long)]
        pattern: Option<String>,
        /// At most so many.
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Show a plan's steps.
    #[command(before_help = SHOW_EXAMPLES)]
    Show {
        /// Its name.
        plan: String,
    },
    /// Forget plans. Those with open jobs stay; jobs that are over keep their own copy.
    #[command(before_help = RM_EXAMPLES)]
    Rm {
        /// Their names.
        #[arg(required = true)]
        plans: Vec<String>,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<ExitCode> {
    match command {
        Command::Submit { file } => submit(&file, context).await?,
        Command::List { pattern, limit } => list(pattern.as_deref(), limit, context).await?,
        Command::Show { plan } => {
            context.output.show(&context.ask(context.client.get::<Plan>(&path(&plan))).await?);
        }
        Command::Rm { plans } => {
            for plan in plans {
                let path = path(&plan);
                let gone = context.client.delete::<DeletedPlan>(&path);
                context.output.show(&context.ask(gone).await?);
            }
        }
    }
    Ok(ExitCode::Success)
}

fn path(plan: &str) -> String {
    format!("/api/v1/plans/{}", words::percent_encoded(plan))
}

/// JSON from a file, as it stands there.
pub(super) fn json_file(file: &str, hint: &str) -> Result<Box<RawValue>> {
    serde_json::from_str(&read_file(file)?)
        .map_err(|error| Failure::usage(format!("{file} is not JSON: {error}"), hint))
}

async fn submit(file: &str, context: &Context) -> Result<()> {
    let body = json_file(file, PLAN_HINT)?;
    let plan: Plan = context.ask(context.client.post("/api/v1/plans", &body)).await?;
    if !context.output.is_for_people() {
        context.output.show(&plan);
        return Ok(());
    }
    let programs: Vec<_> = plan.tasks.iter().map(|step| step.command.as_str()).collect();
    context.output.line(&format!("plan {} is kept: {}", plan.plan_id, programs.join(", ")));
    context.output.note(format!(
        "make jobs of it: echo '{{\"action_id\":\"a1\",\"plan_id\":\"{}\",\"inputs\":[\"...\"]}}' | \
         astra action submit - --follow",
        plan.plan_id
    ));
    Ok(())
}

async fn list(pattern: Option<&str>, limit: usize, context: &Context) -> Result<()> {
    let mut shown = Plans { plans: Vec::new(), total: 0 };
    loop {
        let missing = limit.saturating_sub(shown.plans.len()).clamp(1, PAGE_MAX);
        let mut path = format!("/api/v1/plans?limit={missing}&offset={}", shown.plans.len());
        if let Some(pattern) = pattern {
            words::push(&mut path, format_args!("&pattern={}", words::percent_encoded(pattern)));
        }
        let page: Plans = context.ask(context.client.get(&path)).await?;
        let is_last = page.plans.len() < missing;
        shown.total = page.total;
        shown.plans.extend(page.plans);
        if is_last || shown.plans.len() >= limit {
            break;
        }
    }
    context.output.show(&shown);
    if shown.plans.len() < usize::try_from(shown.total).unwrap_or(usize::MAX) {
        let total = words::thousands(shown.total);
        context.output.note(format!("of {total}; see more with a larger --limit"));
    }
    Ok(())
}

impl Show for Plan {
    fn text(&self) -> String {
        let about = self.plan_description.as_ref().map_or_else(String::new, |d| format!("  {d}"));
        let made = words::ago(&self.created_at);
        let rows = self.tasks.iter().map(|step| {
            let input = step.input_from_task.map_or("the job's".into(), |n| format!("step {n}"));
            let timeout = step.timeout_secs.unwrap_or(protocol::plan::check::TIMEOUT_SECONDS);
            [step.task_number.to_string(), command_line(step), input, format!("{timeout}s")]
        });
        let steps = output::table(["STEP", "COMMAND", "INPUT", "TIMEOUT"], rows.collect());
        format!("{}{about}  (made {made})\n\n{steps}", self.plan_id)
    }

    fn quiet(&self) -> String {
        self.plan_id.clone()
    }
}

fn command_line(step: &PlanTask) -> String {
    let words = std::iter::once(&step.command).chain(&step.args);
    let quoted = words.map(|word| {
        if word.is_empty() || word.contains(char::is_whitespace) {
            format!("'{word}'")
        } else {
            word.clone()
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

impl Show for Plans {
    fn text(&self) -> String {
        if self.plans.is_empty() {
            return "no plans; have one kept with `astra plan submit FILE`".into();
        }
        let row = |plan: &PlanSummary| {
            let about = plan.plan_description.clone().unwrap_or_else(|| "-".into());
            let made = words::ago(&plan.created_at);
            [plan.plan_id.clone(), plan.task_count.to_string(), made, about]
        };
        output::table(["PLAN", "STEPS", "MADE", "ABOUT"], self.plans.iter().map(row).collect())
    }

    fn quiet(&self) -> String {
        let names: Vec<_> = self.plans.iter().map(|plan| plan.plan_id.as_str()).collect();
        names.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.plans.iter().map(output::json).collect()
    }
}

impl Show for DeletedPlan {
    fn text(&self) -> String {
        format!("plan {} is forgotten; jobs that were made of it keep their steps", self.plan_id)
    }

    fn quiet(&self) -> String {
        self.plan_id.clone()
    }
}
