//! `astra flow import`, `export` and `rm`.

use protocol::rest::workflows::SavedWorkflow;
use serde::Serialize;

use super::document::{Document, Named};
use super::problems::Checked;
use super::selector;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{self, Show};
use crate::words;

const IMPORT_EXAMPLES: &str = "\
Examples:
  astra flow import thumbnails.json
  astra flow import flows/*.json
  astra flow import thumbnails.json --base-version 3     only if nobody has changed it since
";
const EXPORT_EXAMPLES: &str = "\
Examples:
  astra flow export nightly > nightly.json
  astra flow export nightly --version 3
  astra flow export nightly | astra flow validate -
";
const RM_EXAMPLES: &str = "\
Examples:
  astra flow rm nightly
  astra flow rm 0ec2393a 5fe050f2
  astra flow list -o quiet | xargs astra flow rm
";

/// Have workflows kept. What differs from the newest version becomes a new one.
#[derive(Debug, clap::Args)]
#[command(before_help = IMPORT_EXAMPLES)]
pub(crate) struct ImportArguments {
    /// JSON files; `-` for stdin.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Refuse unless this is still the newest version.
    #[arg(long, value_name = "N")]
    base_version: Option<u64>,
}

/// Write a workflow to stdout, as it was authored.
#[derive(Debug, clap::Args)]
#[command(before_help = EXPORT_EXAMPLES)]
pub(crate) struct ExportArguments {
    /// Its name, its id or the first letters of it.
    workflow: String,
    /// This version. Default: the newest.
    #[arg(long, value_name = "N")]
    version: Option<u64>,
}

/// Forget workflows. Their runs stay.
#[derive(Debug, clap::Args)]
#[command(before_help = RM_EXAMPLES)]
pub(crate) struct RmArguments {
    /// Names, ids or first letters of ids.
    #[arg(required = true, value_name = "WORKFLOW")]
    workflows: Vec<String>,
}

pub(super) async fn import(arguments: &ImportArguments, context: &Context) -> Result<ExitCode> {
    for file in &arguments.files {
        let document = Document::of_file(file)?;
        let path = match arguments.base_version {
            Some(version) => format!("/api/v1/workflows?baseVersion={version}"),
            None => "/api/v1/workflows".into(),
        };
        let saved: SavedWorkflow =
            context.ask(context.client.post(&path, &document.raw()?)).await?;
        context.output.show(&saved);
        if !saved.problems.is_empty() {
            context.output.note(Checked::new(&document, saved.problems).text());
        }
    }
    Ok(ExitCode::Success)
}

pub(super) async fn export(arguments: &ExportArguments, context: &Context) -> Result<ExitCode> {
    if let Named::File(file) = Named::of(&arguments.workflow) {
        let hint = "name a workflow that the server keeps; see `astra flow list`";
        return Err(Failure::usage(format!("{file} is a file already"), hint));
    }
    let document = Document::kept(&arguments.workflow, arguments.version, context).await?;
    context.output.line(document.source.trim_end());
    Ok(ExitCode::Success)
}

pub(super) async fn rm(arguments: &RmArguments, context: &Context) -> Result<ExitCode> {
    for text in &arguments.workflows {
        let found = selector::workflow(context, text).await?;
        let path = format!("/api/v1/workflows/{}", words::percent_encoded(&found.workflow_id));
        context.ask(context.client.delete::<serde_json::Value>(&path)).await?;
        let name = selector::label(&found.name, &found.workflow_id);
        context.output.show(&Removed { workflow_id: found.workflow_id, name });
    }
    Ok(ExitCode::Success)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Removed {
    workflow_id: String,
    #[serde(skip)]
    name: String,
}

impl Show for Removed {
    fn text(&self) -> String {
        format!("workflow {} is forgotten", self.name)
    }

    fn quiet(&self) -> String {
        self.workflow_id.clone()
    }
}

impl Show for SavedWorkflow {
    fn text(&self) -> String {
        format!("workflow {} is kept as version {}", self.workflow_id, self.version)
    }

    fn quiet(&self) -> String {
        self.workflow_id.clone()
    }

    fn json_lines(&self) -> Vec<String> {
        vec![output::json(self)]
    }
}
