//! `astra flow validate`.

use protocol::rest::workflows::Validation;
use serde::Serialize;

use super::document::{Document, Named};
use super::problems::Checked;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::{self, Output, Show};

const EXAMPLES: &str = "\
Examples:
  astra flow validate thumbnails.json
  astra flow validate examples/workflows/*.json -o quiet
  astra flow validate thumbnails.json --online      what the server says to it
";

/// Say everything that is wrong with workflows; exit 7 unless all can run. Files need no server.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// JSON files (`-` for stdin), or kept workflows.
    #[arg(required = true, value_name = "FILE|ID")]
    workflows: Vec<String>,
    /// Ask the server, which also knows what it has.
    #[arg(long)]
    online: bool,
}

pub(super) async fn run(
    arguments: &Arguments,
    context: impl Fn() -> Result<Context>,
    output: Output,
) -> Result<ExitCode> {
    let mut files = Vec::new();
    for named in arguments.workflows.iter().map(|text| Named::of(text)) {
        let document = match named {
            Named::File(file) => Document::of_file(&file)?,
            Named::Kept(text) => Document::kept(&text, None, &context()?).await?,
        };
        files.push(if arguments.online {
            ask(&document, &context()?).await?
        } else {
            Checked::here(&document)
        });
    }
    let is_good = files.iter().all(|file| file.valid);
    output.show(&Verdict { files });
    Ok(if is_good { ExitCode::Success } else { ExitCode::Validation })
}

async fn ask(document: &Document, context: &Context) -> Result<Checked> {
    let path = "/api/v1/workflows/validate";
    let said: Validation = context.ask(context.client.post(path, &document.raw()?)).await?;
    Ok(Checked::new(document, said.problems))
}

#[derive(Serialize)]
struct Verdict {
    files: Vec<Checked>,
}

impl Show for Verdict {
    fn text(&self) -> String {
        self.files.iter().map(Checked::text).collect::<Vec<_>>().join("\n")
    }

    /// Those that cannot run.
    fn quiet(&self) -> String {
        let bad = self.files.iter().filter(|file| !file.valid).map(|file| file.file.as_str());
        bad.collect::<Vec<_>>().join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.files.iter().map(output::json).collect()
    }
}
