//! Ctrl-C while a run of a workflow is followed.

use protocol::rest::runs::RunRef;

use super::look;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::interrupts::Interrupts;

/// After the first one.
pub(super) async fn leave(
    mut interrupts: Interrupts,
    number: u64,
    context: &Context,
) -> Result<ExitCode> {
    context.output.note(format!(
        "left run {number}, which goes on; follow it with `astra run follow {number}`, stop it \
         with `astra run stop {number}` or Ctrl-C again"
    ));
    if interrupts.is_repeated().await {
        let path = format!("{}/cancel", look::path(&number.to_string()));
        let _: RunRef = context.ask(context.client.post(&path, &serde_json::json!({}))).await?;
        context.output.note(format!("■ run {number} was stopped"));
    }
    Ok(ExitCode::Interrupted)
}
