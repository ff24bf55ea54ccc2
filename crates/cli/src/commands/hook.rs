//! `astra hook`: workflows that are started by a call from outside.

use protocol::rest::schedules::{CreatedHook, Hook, HookPage, NewHook};
use serde_json::{Value, json};

use super::flow;
use crate::context::Context;
use crate::failure::{ExitCode, Result};
use crate::format;
use crate::output::Columns;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a webhook: an address that starts a workflow. It is shown once.
    Create {
        /// The workflow: its name, its id or the first letters of it.
        workflow: String,
        /// A note for people.
        #[arg(long)]
        name: Option<String>,
    },
    /// List webhooks, without their secrets.
    List,
    /// Delete webhooks; their addresses stop working at once.
    Rm {
        /// Their ids, as `astra hook list` shows them.
        #[arg(required = true)]
        hooks: Vec<String>,
    },
}

pub(crate) async fn run(command: Command, context: &Context) -> Result<ExitCode> {
    match command {
        Command::Create { workflow, name } => {
            let workflow_id = flow::find(context, &workflow).await?.workflow_id;
            let hook = NewHook { workflow_id, name };
            let mut made: CreatedHook = context.post("/api/v1/hooks", &hook).await?;
            if made.url.starts_with('/') {
                made.url = format!("{}{}", context.client.endpoint(), made.url);
            }
            let text = format!("webhook {}\n  curl -X POST {} -d '{{}}'", made.hook_id, made.url);
            context.output.answer(&made, text, &made.url);
            context.output.note("anyone with the address can start it; it is not shown again");
        }
        Command::List => {
            let page: HookPage = context.get("/api/v1/hooks").await?;
            context.output.list(&page, &page.items, &COLUMNS);
        }
        Command::Rm { hooks } => {
            for hook_id in hooks {
                let path = format!("/api/v1/hooks/{}", format::percent_encoded(&hook_id));
                context.delete::<Value>(&path).await?;
                let text = format!("webhook {hook_id} is deleted");
                context.output.answer(&json!({ "hookId": hook_id }), text, &hook_id);
            }
        }
    }
    Ok(ExitCode::Success)
}

const COLUMNS: Columns<'_, Hook, 5> = Columns {
    none: "no webhooks; make one with `astra hook create WORKFLOW`",
    id: |hook| hook.hook_id.clone(),
    header: ["HOOK", "NAME", "WORKFLOW", "MADE", "BY"],
    row: |hook| {
        [
            hook.hook_id.clone(),
            format::or_dash(hook.name.clone()),
            hook.workflow_id.clone(),
            format::ago(&hook.created_at),
            hook.created_by.clone(),
        ]
    },
};
