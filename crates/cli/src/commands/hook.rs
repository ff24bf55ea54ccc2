//! `astra hook`: workflows that are started by a call from outside.

use protocol::rest::hooks::{CreatedHook, HookPage, NewHook};
use serde::Serialize;

use super::flow;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Show};
use crate::words;

const CREATE_EXAMPLES: &str = "\
Examples:
  astra hook create nightly
  astra hook create nightly --name github
  curl -X POST \"$(astra hook create nightly -o quiet)\" -d '{\"x\":1}'
";
const LIST_EXAMPLES: &str = "\
Examples:
  astra hook list
  astra hook list -o json
  astra hook list -o quiet                    ids alone
";
const RM_EXAMPLES: &str = "\
Examples:
  astra hook rm 7f3kq2mx
  astra hook rm 7f3kq2mx 9abc2def
  astra hook list -o quiet | xargs astra hook rm
";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make an address that starts a workflow. It is shown once.
    #[command(before_help = CREATE_EXAMPLES)]
    Create {
        /// The workflow: its name, its id or the first letters of it.
        workflow: String,
        /// A note for people.
        #[arg(long)]
        name: Option<String>,
    },
    /// List webhooks, without their secrets.
    #[command(before_help = LIST_EXAMPLES)]
    List,
    /// End webhooks at once.
    #[command(before_help = RM_EXAMPLES)]
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
            let mut made: CreatedHook =
                context.ask(context.client.post("/api/v1/hooks", &hook)).await?;
            if made.url.starts_with('/') {
                made.url = format!("{}{}", context.client.endpoint(), made.url);
            }
            context.output.show(&made);
            context
                .output
                .note("whoever has the address may start the workflow; it is not shown again");
        }
        Command::List => {
            let page: HookPage = context.ask(context.client.get("/api/v1/hooks")).await?;
            context.output.show(&page);
        }
        Command::Rm { hooks } => {
            for hook_id in hooks {
                let path = format!("/api/v1/hooks/{}", words::percent_encoded(&hook_id));
                context.ask(context.client.delete::<serde_json::Value>(&path)).await?;
                context.output.show(&Removed { hook_id });
            }
        }
    }
    Ok(ExitCode::Success)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Removed {
    hook_id: String,
}

impl Show for Removed {
    fn text(&self) -> String {
        format!("webhook {} is gone", self.hook_id)
    }

    fn quiet(&self) -> String {
        self.hook_id.clone()
    }
}

impl Show for CreatedHook {
    fn text(&self) -> String {
        format!("webhook {}\n  curl -X POST {} -d '{{}}'", self.hook_id, self.url)
    }

    fn quiet(&self) -> String {
        self.url.clone()
    }
}

impl Show for HookPage {
    fn text(&self) -> String {
        if self.items.is_empty() {
            return "no webhooks; make one with `astra hook create WORKFLOW`".into();
        }
        let rows = self.items.iter().map(|hook| {
            [
                hook.hook_id.clone(),
                hook.name.clone().unwrap_or_else(|| "-".into()),
                hook.workflow_id.clone(),
                words::ago(&hook.created_at),
                hook.created_by.clone(),
            ]
        });
        output::table(["HOOK", "NAME", "WORKFLOW", "MADE", "BY"], rows.collect())
    }

    fn quiet(&self) -> String {
        let ids: Vec<_> = self.items.iter().map(|hook| hook.hook_id.as_str()).collect();
        ids.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.items.iter().map(output::json).collect()
    }
}
