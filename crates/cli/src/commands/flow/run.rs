//! `astra flow run`.

use std::time::Duration;

use protocol::rest::runs::{RunRef, StartRun};
use uuid::Uuid;
use worker::client::Patience;

use super::document::{Document, Named};
use super::inputs::{self, Input};
use super::problems;
use super::selector;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::Show;
use crate::workflow_run::{self, Followed, Manner};

const EXAMPLES: &str = "\
Examples:
  astra flow run thumbnails.json -i folder=/data/in -i size=256
  astra flow run nightly -i @inputs.json
  astra flow run nightly -d -o quiet          its number alone; it runs on
";

/// A start that may have arrived is sent again for so long; its key makes it the same start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Run a workflow, and watch its nodes until its end; exit 1 unless it succeeded.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A JSON file (`-` for stdin), or a kept workflow: its name, its id or the first letters of it.
    #[arg(value_name = "FILE|ID")]
    workflow: String,
    /// What it is given; may be given several times. Values are JSON where they can be.
    #[arg(short, long, value_name = "NAME=VALUE|@FILE")]
    input: Vec<Input>,
    /// This version of a kept workflow. Default: the newest.
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    /// Watch its nodes until its end. The default.
    #[arg(long, conflicts_with_all = ["detach", "wait"])]
    follow: bool,
    /// Print the run's number and return; it runs on.
    #[arg(short, long, conflicts_with = "wait")]
    detach: bool,
    /// Wait for its end, and say nothing before.
    #[arg(long)]
    wait: bool,
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let (start, document) = start(arguments, context).await?;
    let key = Uuid::new_v4().to_string();
    let patience = Patience { total: PATIENCE };
    let started = context.client.post_with_key("/api/v1/runs", &start, &key, patience);
    let started: RunRef = context.ask(started).await.map_err(|failure| {
        match document.filter(|_| context.output.is_for_people()) {
            Some(document) => problems::tell(failure, &document, context.output),
            None => failure,
        }
    })?;
    for warning in &started.warnings {
        crate::output::warn(format!("{} (at {})", warning.message, warning.path));
    }
    if arguments.detach {
        context.output.show(&started);
        let number = started.number;
        context.output.note(format!("watch it with `astra run follow {number}`"));
        return Ok(ExitCode::Success);
    }
    let manner = if arguments.wait { Manner::EndAlone } else { Manner::Nodes };
    let followed = Followed { run_id: started.run_id, number: started.number };
    workflow_run::follow(followed, manner, context).await
}

/// What is asked for, and the workflow if it comes from here.
async fn start(arguments: &Arguments, context: &Context) -> Result<(StartRun, Option<Document>)> {
    let inputs = inputs::object(&arguments.input)?;
    match Named::of(&arguments.workflow) {
        Named::File(_) if arguments.version.is_some() => Err(Failure::usage(
            "a file has no versions",
            "leave --version out, or name a workflow that the server keeps",
        )),
        Named::File(file) => {
            let document = Document::of_file(&file)?;
            let workflow = Some(document.raw()?);
            Ok((StartRun { workflow, inputs, ..StartRun::default() }, Some(document)))
        }
        Named::Kept(text) => {
            let workflow_id = Some(selector::workflow(context, &text).await?.workflow_id);
            let version = arguments.version;
            Ok((StartRun { workflow_id, version, inputs, ..StartRun::default() }, None))
        }
    }
}

impl Show for RunRef {
    fn text(&self) -> String {
        format!("run {} ({})", self.number, self.run_id)
    }

    fn quiet(&self) -> String {
        self.number.to_string()
    }
}
