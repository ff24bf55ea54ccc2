//! `astra flow new`.

use std::fs::OpenOptions;
use std::io::Write as _;

use serde::Serialize;
use uuid::Uuid;

use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::output::{Output, Show};

const EXAMPLES: &str = "\
Examples:
  astra flow new hello.json
  astra flow new nightly.json --name 'Nightly report'
  astra flow new hello.json && astra flow run hello.json -i name=Ann
";

/// Begin a workflow: a file with two nodes and an edge, ready to run.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The file; it must not be there yet.
    file: String,
    /// The workflow's name.
    #[arg(long, default_value = "Hello")]
    name: String,
}

pub(super) fn run(arguments: &Arguments, output: Output) -> Result<ExitCode> {
    let file = &arguments.file;
    let text = template(&arguments.name);
    let written = OpenOptions::new().write(true).create_new(true).open(file);
    let written = written.and_then(|mut open| open.write_all(text.as_bytes()));
    written.map_err(|error| {
        let hint = "give the name of a file that is not there yet";
        Failure::new(ExitCode::Failed, format!("cannot write {file}: {error}"), hint)
    })?;
    output.show(&Begun { file: file.clone() });
    output.note(format!("run it with `astra flow run {file} -i name=Ann`"));
    Ok(ExitCode::Success)
}

fn template(name: &str) -> String {
    let [workflow, first, second, edge] = [(); 4].map(|()| Uuid::new_v4());
    let name = serde_json::Value::from(name);
    format!(
        r#"{{
  "id": "{workflow}",
  "schemaVersion": "2025-10",
  "metadata": {{ "name": {name}, "description": "Two steps in a row." }},
  "nodes": [
    {{
      "id": "{first}",
      "alias": "greet",
      "type": "core.echo",
      "label": "Make a greeting",
      "position": {{ "x": 0, "y": 0 }},
      "parameters": {{ "text": "hello, {{{{ run.inputs.name | default('world') }}}}" }}
    }},
    {{
      "id": "{second}",
      "alias": "shout",
      "type": "core.echo",
      "label": "Make it loud",
      "position": {{ "x": 240, "y": 0 }},
      "parameters": {{ "text": "{{{{ nodes.greet.results.text | upper }}}}" }}
    }}
  ],
  "edges": [
    {{
      "id": "{edge}",
      "source": {{ "node": "{first}" }},
      "target": {{ "node": "{second}" }}
    }}
  ],
  "outputs": {{ "text": "{{{{ nodes.shout.results.text }}}}" }}
}}
"#
    )
}

#[derive(Serialize)]
struct Begun {
    file: String,
}

impl Show for Begun {
    fn text(&self) -> String {
        format!("{} is a workflow of two nodes", self.file)
    }

    fn quiet(&self) -> String {
        self.file.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_begun_can_run() {
        let compiled = flow::compile(template("A \"quoted\" name").into());
        let compiled = compiled.expect("no problems");
        assert_eq!(compiled.warnings, []);
        assert_eq!(compiled.program.graphs[0].nodes.len(), 2);
    }
}
