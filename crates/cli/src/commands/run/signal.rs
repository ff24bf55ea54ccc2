//! `astra run signal`.

use protocol::rest::runs::{RunNode, SignalNode, Signalled};
use serde::Serialize;
use serde_json::value::RawValue;

use super::node_selector;
use super::selector;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Show;
use crate::workflow_run::{self, name_of};

const EXAMPLES: &str = "\
Examples:
  astra run signal last approve --approve
  astra run signal 41 approve --deny --payload '{\"why\":\"too dear\"}'
  astra run signal 41 parcel --event delivered --payload '{\"carrier\":\"post\"}'
";

/// Say a word to a node that waits for one.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The run: its number, its id, the first letters of it, `last` or `last~1`.
    run: String,
    /// The node: its alias, its label, its id or the first letters of it.
    node: String,
    /// Yes, for `core.approve`.
    #[arg(long, conflicts_with_all = ["deny", "event"])]
    approve: bool,
    /// No, for `core.approve`.
    #[arg(long, conflicts_with = "event")]
    deny: bool,
    /// What happened, for `core.wait_event`.
    #[arg(long, value_name = "NAME")]
    event: Option<String>,
    /// Any JSON; it becomes part of the node's result.
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Which subgraph, where the node waits in several: its number, from `astra run show -o json`.
    #[arg(long, value_name = "N")]
    frame: Option<u32>,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let signal = signal(arguments)?;
    let run = selector::workflow_run(context, &arguments.run).await?;
    let node: &RunNode = node_selector::node(&run, &arguments.node)?;
    let path = format!("{}/nodes/{}/signal", workflow_run::path(&run.run_id), node.node_id);
    let _: Signalled = context.ask(context.client.post(&path, &signal)).await?;
    context.output.show(&Heard { run: run.number, node: name_of(node) });
    Ok(ExitCode::Success)
}

fn signal(arguments: &Arguments) -> Result<SignalNode> {
    let approved = match (arguments.approve, arguments.deny) {
        (true, _) => Some(true),
        (_, true) => Some(false),
        (false, false) => None,
    };
    if approved.is_none() && arguments.event.is_none() {
        let hint = "say --approve or --deny, or --event NAME";
        return Err(Failure::usage("there is nothing to say to the node", hint));
    }
    let payload = arguments.payload.as_deref().map(serde_json::from_str::<Box<RawValue>>);
    let payload = payload.transpose().map_err(|error| {
        Failure::usage(format!("the payload is not JSON: {error}"), "a text stands in quotes")
    })?;
    Ok(SignalNode { event: arguments.event.clone(), approved, payload, frame: arguments.frame })
}

#[derive(Serialize)]
struct Heard {
    run: u64,
    node: String,
}

impl Show for Heard {
    fn text(&self) -> String {
        format!("run {}: {} has heard it", self.run, self.node)
    }

    fn quiet(&self) -> String {
        self.run.to_string()
    }
}
