//! `astra flow versions` and `rollback`.

use protocol::rest::workflows::{RestoreWorkflow, SavedWorkflow, WorkflowVersions};

use super::selector;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::words;

const VERSIONS_EXAMPLES: &str = "\
Examples:
  astra flow versions nightly
  astra flow versions nightly -o json
  astra flow versions 0ec2393a -o quiet
";
const ROLLBACK_EXAMPLES: &str = "\
Examples:
  astra flow rollback nightly 3
  astra flow rollback 0ec2393a 1
  astra flow diff nightly 3 5                 look before you leap
";

/// List the versions of a workflow, newest first.
#[derive(Debug, clap::Args)]
#[command(before_help = VERSIONS_EXAMPLES)]
pub(crate) struct Arguments {
    /// Its name, its id or the first letters of it.
    workflow: String,
}

/// Make an earlier version the newest one. Nothing is lost: it becomes a version of its own.
#[derive(Debug, clap::Args)]
#[command(before_help = ROLLBACK_EXAMPLES)]
pub(crate) struct RollbackArguments {
    /// Its name, its id or the first letters of it.
    workflow: String,
    /// The version that comes back.
    version: u64,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let id = selector::workflow(context, &arguments.workflow).await?.workflow_id;
    let path = format!("/api/v1/workflows/{}/versions", words::percent_encoded(&id));
    let versions: WorkflowVersions = context.ask(context.client.get(&path)).await?;
    context.output.show(&versions);
    Ok(ExitCode::Success)
}

pub(super) async fn rollback(arguments: &RollbackArguments, context: &Context) -> Result<ExitCode> {
    let id = selector::workflow(context, &arguments.workflow).await?.workflow_id;
    let path = format!("/api/v1/workflows/{}/restore", words::percent_encoded(&id));
    let body = RestoreWorkflow { version: arguments.version };
    let saved: SavedWorkflow = context.ask(context.client.post(&path, &body)).await?;
    context.output.show(&saved);
    Ok(ExitCode::Success)
}

impl Show for WorkflowVersions {
    fn text(&self) -> String {
        let rows = self.items.iter().map(|one| {
            [
                one.version.to_string(),
                one.name.clone(),
                words::ago(&one.saved_at),
                one.author.clone(),
                one.comment.clone().unwrap_or_default(),
            ]
        });
        output::table(["VERSION", "NAME", "SAVED", "BY", "COMMENT"], rows.collect())
    }

    fn quiet(&self) -> String {
        let numbers: Vec<_> = self.items.iter().map(|one| one.version.to_string()).collect();
        numbers.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.items.iter().map(output::json).collect()
    }
}
