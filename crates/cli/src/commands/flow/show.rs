//! `astra flow show`.

use super::document::{Document, Named};
use super::outline::Outline;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  astra flow show thumbnails.json
  astra flow show nightly --version 3
  astra flow show nightly -o json
";

/// Show a workflow: its nodes, and what each waits for. A file needs no server.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A JSON file (`-` for stdin), or a kept workflow: its name, its id or the first letters of it.
    #[arg(value_name = "FILE|ID")]
    workflow: String,
    /// This version of a kept workflow. Default: the newest.
    #[arg(long, value_name = "N")]
    version: Option<u64>,
}

pub(super) async fn run(
    arguments: &Arguments,
    context: impl Fn() -> Result<Context>,
    output: Output,
) -> Result<ExitCode> {
    let document = match Named::of(&arguments.workflow) {
        Named::File(file) => Document::of_file(&file)?,
        Named::Kept(text) => Document::kept(&text, arguments.version, &context()?).await?,
    };
    document.raw()?;
    output.show(&Outline::of(&document));
    Ok(ExitCode::Success)
}
