//! `astra run retry`.

use std::collections::BTreeMap;
use std::str::FromStr;

use protocol::rest::runs::{RetryRun, Run, RunRef};
use serde_json::{Map, Value};

use super::node_selector;
use super::selector;
use crate::commands::flow::{Input, inputs_object, value_of};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::workflow_run::{self, Followed, Manner};

const EXAMPLES: &str = "\
Examples:
  astra run retry last                        from the nodes that did not succeed
  astra run retry 41 --node transcode
  astra run retry 41 -p transcode.size=256 -d
";

/// Take a workflow's run up again, in a new run: what is done is reused, the rest is executed.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The run: its number, its id, the first letters of it, `last` or `last~1`.
    run: String,
    /// From the nodes that did not succeed. The default.
    #[arg(long, conflicts_with = "node")]
    from_failed: bool,
    /// From this node: it and everything behind it is executed again.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Another parameter for a node, which is executed again; may be given several times.
    #[arg(short, long = "parameter", value_name = "NODE.NAME=VALUE")]
    parameter: Vec<Parameter>,
    /// Other inputs than the run before; may be given several times.
    #[arg(short, long, value_name = "NAME=VALUE|@FILE")]
    input: Vec<Input>,
    /// Print the new run's number and return; it runs on.
    #[arg(short, long)]
    detach: bool,
}

/// `node.name=value`.
#[derive(Clone, Debug, PartialEq)]
struct Parameter {
    node: String,
    name: String,
    value: Value,
}

impl FromStr for Parameter {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || "not a parameter like node.name=value".to_owned();
        let (place, value) = text.split_once('=').ok_or_else(wrong)?;
        let (node, name) = place.split_once('.').ok_or_else(wrong)?;
        if node.is_empty() || name.is_empty() {
            return Err(wrong());
        }
        Ok(Self { node: node.into(), name: name.into(), value: value_of(value) })
    }
}

pub(super) async fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let before = selector::workflow_run(context, &arguments.run).await?;
    let retry = request(arguments, &before)?;
    let path = format!("{}/retry", workflow_run::path(&before.run_id));
    let started: RunRef = context.ask(context.client.post(&path, &retry)).await?;
    if arguments.detach {
        context.output.show(&started);
        return Ok(ExitCode::Success);
    }
    context.output.note(format!("run {} takes up run {}", started.number, before.number));
    let followed = Followed { run_id: started.run_id, number: started.number };
    workflow_run::follow(followed, Manner::Nodes, context).await
}

fn request(arguments: &Arguments, before: &Run) -> Result<RetryRun> {
    let id_of = |name: &String| -> Result<String> {
        Ok(node_selector::node(before, name)?.node_id.clone())
    };
    let mut parameters: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for parameter in &arguments.parameter {
        let fields = parameters.entry(id_of(&parameter.node)?).or_default();
        fields.insert(parameter.name.clone(), parameter.value.clone());
    }
    Ok(RetryRun {
        from_failed: arguments.from_failed.then_some(true),
        node_id: arguments.node.as_ref().map(id_of).transpose()?,
        parameters,
        inputs: inputs_object(&arguments.input)?,
        client_id: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_name_their_node() {
        let parameter = |text: &str| text.parse::<Parameter>();
        let size = Parameter { node: "copy".into(), name: "size".into(), value: json!(256) };
        assert_eq!(parameter("copy.size=256"), Ok(size));
        let url = parameter("get.url=http://a.b/?x=1").expect("fine");
        assert_eq!((url.name.as_str(), url.value), ("url", json!("http://a.b/?x=1")));
        for wrong in ["copy", "copy=1", ".x=1", "copy.=1"] {
            assert!(parameter(wrong).is_err(), "{wrong}");
        }
    }
}
