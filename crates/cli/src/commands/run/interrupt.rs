//! Ctrl-C while a run of commands is followed.

use super::stop;
use super::voice::Voice;
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::interrupts::Interrupts;

/// After the first one.
pub(super) async fn leave(
    mut interrupts: Interrupts,
    run: &str,
    voice: Voice,
    context: &Context,
) -> Result<ExitCode> {
    voice.break_line();
    voice.note(format!(
        "left run {run}, which goes on; follow it with `astra run follow {run}`, stop it with \
         `astra run stop {run}` or Ctrl-C again"
    ));
    if interrupts.is_repeated().await {
        let stopped = stop::all(context, run).await?;
        voice.note(format!("■ run {run} was stopped ({})", stopped.in_words()));
    }
    Ok(ExitCode::Interrupted)
}
