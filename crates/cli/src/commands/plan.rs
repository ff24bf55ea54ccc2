//! `astra plan`: pipelines of Unix tools that the server keeps.

use protocol::plan::PlanTask;
use protocol::rest::plans::{DeletedPlan, Plan, Plans};
use serde_json::value::RawValue;

use super::task::read_json;
use crate::context::Context;
use crate::failure::{ExitCode, Result};
use crate::output::{self, Columns, Show};
use crate::{format, pages};

const PLAN_HINT: &str = "a plan is an object like {\"plan_id\":\"p1\",\"tasks\":\
                         [{\"task_number\":1,\"command\":\"sort\"}]}";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Save a plan. Submitting the same plan again changes nothing.
    Submit {
        /// A JSON file; `-` for stdin.
        file: String,
    },
    /// List plans, by name.
    List {
        /// Only names that match this pattern of `*` and `?`.
        #[arg(long)]
        pattern: Option<String>,
        /// Show at most this many.
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Show a plan's steps.
    Show {
        /// The plan's name.
        plan: String,
    },
    /// Delete plans. A plan with open jobs is kept; ended jobs keep their own copy.
    Rm {
        /// The plans' names.
        #[arg(required = true)]
        plans: Vec<String>,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<ExitCode> {
    match command {
        Command::Submit { file } => submit(&file, context).await?,
        Command::List { pattern, limit } => list(pattern.as_deref(), limit, context).await?,
        Command::Show { plan } => {
            context.output.show(&context.get::<Plan>(&path(&plan)).await?);
        }
        Command::Rm { plans } => {
            for plan in plans {
                let path = path(&plan);
                let gone: DeletedPlan = context.delete(&path).await?;
                let kept = "jobs that were made of it keep their steps";
                let text = format!("plan {} is deleted; {kept}", gone.plan_id);
                context.output.answer(&gone, text, &gone.plan_id);
            }
        }
    }
    Ok(ExitCode::Success)
}

fn path(plan: &str) -> String {
    format!("/api/v1/plans/{}", format::percent_encoded(plan))
}

async fn submit(file: &str, context: &Context) -> Result<()> {
    let body: Box<RawValue> = read_json(file, PLAN_HINT)?;
    let plan: Plan = context.post("/api/v1/plans", &body).await?;
    if !context.output.is_for_people() {
        context.output.show(&plan);
        return Ok(());
    }
    let programs: Vec<_> = plan.tasks.iter().map(|step| step.command.as_str()).collect();
    context.output.line(&format!("plan {} is saved: {}", plan.plan_id, programs.join(", ")));
    context.output.note(format!(
        "make jobs of it: echo '{{\"action_id\":\"a1\",\"plan_id\":\"{}\",\"inputs\":[\"...\"]}}' | \
         astra action submit - --follow",
        plan.plan_id
    ));
    Ok(())
}

async fn list(pattern: Option<&str>, limit: usize, context: &Context) -> Result<()> {
    let path = format::query("/api/v1/plans", &[("pattern", pattern)]);
    let split = |page: Plans| (page.plans, page.total);
    let (plans, total) = pages::by_offset(context, &path, limit, split).await?;
    let shown = Plans { plans, total };
    context.output.list(
        &shown,
        &shown.plans,
        &Columns {
            none: "no plans; save one with `astra plan submit FILE`",
            id: |plan| plan.plan_id.clone(),
            header: ["PLAN", "STEPS", "MADE", "ABOUT"],
            row: |plan| {
                let about = format::or_dash(plan.plan_description.clone());
                let made = format::ago(&plan.created_at);
                [plan.plan_id.clone(), plan.task_count.to_string(), made, about]
            },
        },
    );
    pages::note_rest(shown.plans.len(), total, context);
    Ok(())
}

impl Show for Plan {
    fn text(&self) -> String {
        let about = self.plan_description.as_ref().map_or_else(String::new, |d| format!("  {d}"));
        let made = format::ago(&self.created_at);
        let rows = self.tasks.iter().map(|step| {
            let input = step.input_from_task.map_or("the job's".into(), |n| format!("step {n}"));
            let timeout = step.timeout_secs.unwrap_or(protocol::plan::check::TIMEOUT_SECONDS);
            [step.task_number.to_string(), command_line(step), input, format!("{timeout}s")]
        });
        let steps = output::table(["STEP", "COMMAND", "INPUT", "TIMEOUT"], rows);
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
