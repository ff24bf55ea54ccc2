//! `astra flow`: workflows, in files and on a server.
//!
//! This file lists the verbs and starts runs; [`document`] reads and checks what is written, [`kept`]
//! finds and changes what a server keeps.

mod document;
mod kept;

use std::str::FromStr;
use std::time::Duration;

use client::Patience;
use protocol::rest::runs::{RunRef, StartRun};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};
use uuid::Uuid;

use self::document::{Document, is_file};
pub(crate) use self::kept::find;
use crate::commands::task::read_json;
use crate::config::{self, Flags, ServerFlags};
use crate::context::Context;
use crate::failure::{ExitCode, Failure, Result};
use crate::output::{Output, Show};
use crate::workflow_run::{self, Manner};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Run(RunArguments),
    /// Report all problems of workflows; exit 7 unless all are valid. Files need no server.
    Validate {
        /// JSON files (`-` for stdin), or saved workflows.
        #[arg(required = true, value_name = "FILE|ID")]
        workflows: Vec<String>,
        /// Ask the server, which also knows what it has.
        #[arg(long)]
        online: bool,
    },
    /// Create a file with a workflow of two nodes, ready to run.
    New {
        /// The file, which must not exist yet.
        file: String,
        /// The workflow's name.
        #[arg(long, default_value = "Hello")]
        name: String,
    },
    /// Save workflows. A file that differs from the newest version becomes a new version.
    Import {
        /// JSON files; `-` for stdin.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
        /// Fail unless this is still the newest version.
        #[arg(long, value_name = "N")]
        base_version: Option<u64>,
    },
    /// Write a workflow to stdout, as it was authored.
    Export {
        /// The workflow: its name, its id or the first letters of it.
        workflow: String,
        /// The version. Default: the newest.
        #[arg(long, value_name = "N")]
        version: Option<u64>,
    },
    /// List the saved workflows.
    List {
        /// Show at most this many.
        #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// List the versions of a workflow, newest first.
    Versions {
        /// The workflow: its name, its id or the first letters of it.
        workflow: String,
    },
    /// Compare two versions of a workflow.
    Diff {
        /// The workflow: its name, its id or the first letters of it.
        workflow: String,
        /// The older version. Default: the one before the newer.
        from: Option<u64>,
        /// The newer version. Default: the newest.
        to: Option<u64>,
    },
    /// Save an earlier version as a new version. No version is lost.
    Rollback {
        /// The workflow: its name, its id or the first letters of it.
        workflow: String,
        /// The version to restore.
        version: u64,
    },
    /// Delete workflows. Their runs stay.
    Rm {
        /// Names, ids or first letters of ids.
        #[arg(required = true, value_name = "WORKFLOW")]
        workflows: Vec<String>,
    },
}

pub(crate) async fn run(command: Command, flags: &Flags, output: Output) -> Result<ExitCode> {
    let context = || Context::new(&config::load(flags, ServerFlags::default())?, output);
    match command {
        // What needs no server works without one.
        Command::Validate { workflows, online } => {
            return document::validate(&workflows, online, context, output).await;
        }
        Command::New { file, name } => return document::begin(&file, &name, output),
        Command::Run(arguments) => return start_run(&arguments, &context()?).await,
        Command::Import { files, base_version } => {
            kept::import(&files, base_version, &context()?).await?;
        }
        Command::Export { workflow, version } => {
            kept::export(&workflow, version, &context()?).await?;
        }
        Command::List { limit } => kept::list(limit, &context()?).await?,
        Command::Versions { workflow } => kept::versions(&workflow, &context()?).await?,
        Command::Diff { workflow, from, to } => {
            kept::diff(&workflow, (from, to), &context()?).await?;
        }
        Command::Rollback { workflow, version } => {
            kept::rollback(&workflow, version, &context()?).await?;
        }
        Command::Rm { workflows } => kept::rm(&workflows, &context()?).await?,
    }
    Ok(ExitCode::Success)
}

/// A start that may have arrived is sent again for so long; its key makes it the same start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Run a workflow and watch its nodes; exit 1 unless it succeeded.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArguments {
    /// A JSON file (`-` for stdin), or a saved workflow: its name, its id or the first letters of it.
    #[arg(value_name = "FILE|ID")]
    workflow: String,
    /// An input; may be given several times. A value that is not JSON is a text.
    #[arg(short, long, value_name = "NAME=VALUE|@FILE")]
    input: Vec<Input>,
    /// A version of a saved workflow. Default: the newest.
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    /// Watch the nodes until the run ends. The default.
    #[arg(long, conflicts_with_all = ["detach", "wait"])]
    follow: bool,
    /// Print the run's number and return, without waiting for the run.
    #[arg(short, long, conflicts_with = "wait")]
    detach: bool,
    /// Wait for the end of the run without watching its nodes.
    #[arg(long)]
    wait: bool,
}

async fn start_run(arguments: &RunArguments, context: &Context) -> Result<ExitCode> {
    let (start, document) = start(arguments, context).await?;
    let key = Uuid::new_v4().to_string();
    let patience = Patience { total: PATIENCE };
    let started = context.client.post_with_key("/api/v1/runs", &start, &key, patience);
    let started: RunRef = context.ask(started).await.map_err(|failure| {
        match document.filter(|_| context.output.is_for_people()) {
            Some(document) => document::tell_problems(failure, &document, context.output),
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
    workflow_run::follow(started.run_id, started.number, manner, context).await
}

/// What is asked for, and the workflow if it comes from here.
async fn start(
    arguments: &RunArguments,
    context: &Context,
) -> Result<(StartRun, Option<Document>)> {
    let inputs = inputs_object(&arguments.input)?;
    let (workflow, version) = (&arguments.workflow, arguments.version);
    if !is_file(workflow) {
        let workflow_id = Some(find(context, workflow).await?.workflow_id);
        return Ok((StartRun { workflow_id, version, inputs, ..StartRun::default() }, None));
    }
    if version.is_some() {
        let hint = "leave --version out, or name a workflow that the server keeps";
        return Err(Failure::usage("a file has no versions", hint));
    }
    let document = Document::of_file(workflow)?;
    let workflow = Some(document.raw()?);
    Ok((StartRun { workflow, inputs, ..StartRun::default() }, Some(document)))
}

impl Show for RunRef {
    fn text(&self) -> String {
        format!("run {} ({})", self.number, self.run_id)
    }

    fn quiet(&self) -> String {
        self.number.to_string()
    }
}

const HINT: &str = "give `-i name=value`, or `-i @file.json` with an object in it";

/// One `-i`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    /// A name and its value.
    Pair(String, Value),
    /// A file with an object in it.
    File(String),
}

impl FromStr for Input {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if let Some(file) = text.strip_prefix('@') {
            return Ok(Self::File(file.into()));
        }
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self::Pair(name.into(), value_of(value))),
            _ => Err("not an input like name=value or @file.json".into()),
        }
    }
}

/// JSON where it is JSON, and a text otherwise.
pub(crate) fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.into()))
}

/// All inputs together; later ones win. `None` without any.
pub(crate) fn inputs_object(inputs: &[Input]) -> Result<Option<Box<RawValue>>> {
    if inputs.is_empty() {
        return Ok(None);
    }
    let mut all = Map::new();
    for input in inputs {
        match input {
            Input::Pair(name, value) => {
                all.insert(name.clone(), value.clone());
            }
            Input::File(file) => all.extend(read_json::<Map<String, Value>>(file, HINT)?),
        }
    }
    Ok(Some(to_raw_value(&all).expect("plain values become JSON")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn inputs_are_json_where_they_can_be() {
        let texts = ["n=3", "name=Ann", "list=[1,2]", "sure=true", "empty=", "text=\"3\"", "a=b=c"];
        let inputs = texts.map(|text| text.parse::<Input>().expect("an input"));
        let object = inputs_object(&inputs).expect("fine").expect("some");
        let expected = json!({"n": 3, "name": "Ann", "list": [1, 2], "sure": true, "empty": "",
            "text": "3", "a": "b=c"});
        assert_eq!(serde_json::from_str::<Value>(object.get()).expect("JSON"), expected);
        assert!(super::inputs_object(&[]).expect("fine").is_none());
        for wrong in ["", "x", "=3"] {
            assert!(wrong.parse::<Input>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_may_hold_them_all_and_what_comes_later_wins() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("in.json");
        std::fs::write(&path, r#"{"a": 1, "b": 2}"#).expect("written");
        let file = Input::File(path.to_str().expect("text").into());
        let object =
            inputs_object(&[file.clone(), Input::Pair("b".into(), json!(3))]).expect("fine");
        assert_eq!(object.expect("some").get(), r#"{"a":1,"b":3}"#);
        std::fs::write(&path, "[1]").expect("written");
        assert!(super::inputs_object(&[file]).is_err());
    }
}
