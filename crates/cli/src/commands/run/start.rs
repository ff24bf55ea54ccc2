//! `astra run -- COMMAND`: submits, and stays with it.

use std::collections::BTreeMap;

use protocol::rest::tasks::SubmittedTask;
use serde::Serialize;

use super::attach::{self, Attachment};
use super::flags::RunFlags;
use super::progress::{self, Many};
use super::voice::Voice;
use super::{name, plan, submit};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;
use crate::output::Show;

pub(super) async fn run(flags: RunFlags, argv: Vec<String>, context: &Context) -> Result<ExitCode> {
    let run_name = flags.name.clone().unwrap_or_else(name::fresh);
    let tasks = plan::tasks(&flags, &argv, &run_name)?;
    let is_many = flags.each.is_some() || flags.array.is_some();
    let submitted = submit::all(context, tasks).await?;
    let run = run_name.to_string();
    let voice = Voice::new(context.output, flags.quiet);
    if submitted.iter().all(|task| task.existed) {
        voice.note(format!("run {run} exists already; this follows it"));
    }
    let title = plan::title(&argv).to_owned();
    let task_ids: Vec<String> =
        submitted.into_iter().map(|task: SubmittedTask| task.task_id).collect();
    if flags.detach {
        context.output.show(&Detached { run, task_ids });
        return Ok(ExitCode::Success);
    }
    if is_many {
        let many = Many { run, title, task_ids, voice };
        return progress::follow(many, context).await;
    }
    let task_id = task_ids.into_iter().next().expect("a command is one task");
    let propagates = flags.propagate;
    let attachment = Attachment { run, title, task_id, offset: 0, propagates, voice };
    attach::follow(attachment, context).await
}

/// A run that was left alone.
#[derive(Serialize)]
struct Detached {
    run: String,
    task_ids: Vec<String>,
}

impl Show for Detached {
    fn text(&self) -> String {
        self.run.clone()
    }

    fn quiet(&self) -> String {
        self.run.clone()
    }

    fn json_lines(&self) -> Vec<String> {
        let line = |task_id: &String| {
            let fields = BTreeMap::from([("run", &self.run), ("task_id", task_id)]);
            crate::output::json(&fields)
        };
        self.task_ids.iter().map(line).collect()
    }
}
