//! `astra flow list`.

use protocol::rest::workflows::WorkflowSummary;
use serde::Serialize;

use super::selector;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::words;

const EXAMPLES: &str = "\
Examples:
  astra flow list
  astra flow list -n 500 -o json
  astra flow list -o quiet                    ids alone
";

/// List the workflows that the server keeps.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// At most so many.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    limit: usize,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let (workflows, is_more) = selector::all(context, arguments.limit).await?;
    context.output.show(&Workflows { workflows });
    if is_more {
        context.output.note("there are more; see them with a larger -n");
    }
    Ok(ExitCode::Success)
}

#[derive(Serialize)]
struct Workflows {
    workflows: Vec<WorkflowSummary>,
}

impl Show for Workflows {
    fn text(&self) -> String {
        if self.workflows.is_empty() {
            return "no workflows; keep one with `astra flow import FILE`".into();
        }
        let rows = self.workflows.iter().map(|one| {
            [
                selector::label(&one.name, &one.workflow_id),
                one.version.to_string(),
                words::ago(&one.updated_at),
                one.updated_by.clone(),
                one.workflow_id.clone(),
            ]
        });
        output::table(["NAME", "VERSION", "CHANGED", "BY", "ID"], rows.collect())
    }

    fn quiet(&self) -> String {
        let ids: Vec<_> = self.workflows.iter().map(|one| one.workflow_id.as_str()).collect();
        ids.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.workflows.iter().map(output::json).collect()
    }
}
