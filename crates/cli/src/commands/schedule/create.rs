//! `astra schedule create`.

use protocol::rest::schedules::{NewSchedule, Overlap, Schedule};

use crate::commands::flow::{self, Input, inputs_object};
use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::Result;

const EXAMPLES: &str = "\
Examples:
  astra schedule create nightly --cron '0 3 * * *' --timezone Europe/Berlin
  astra schedule create report --cron '*/15 * * * MON-FRI' -i size=256 --overlap queue
  astra schedule create nightly --cron '0 3 * * *' --paused --name draft
";

/// Start a kept workflow again and again, by the clock.
#[derive(Debug, clap::Args)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The workflow: its name, its id or the first letters of it.
    workflow: String,
    /// When: minute, hour, day of the month, month, day of the week; seconds may stand in front.
    #[arg(long, value_name = "TIMES")]
    cron: String,
    /// The time zone that the times are read in, like Europe/Berlin. Default `UTC`.
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// What each run is given; may be given several times.
    #[arg(short, long, value_name = "NAME=VALUE|@FILE")]
    input: Vec<Input>,
    /// If the run before still goes on: skip the time, queue behind it, allow both, or cancel it.
    #[arg(long, value_name = "skip|queue|allow|cancel", default_value = "skip", value_parser = parse_overlap)]
    overlap: Overlap,
    /// Always this version. Default: the newest at each time.
    #[arg(long, value_name = "N")]
    version: Option<u64>,
    /// Start nothing until it is resumed.
    #[arg(long)]
    paused: bool,
    /// A name for people.
    #[arg(long)]
    name: Option<String>,
}

fn parse_overlap(word: &str) -> std::result::Result<Overlap, String> {
    match word {
        "skip" => Ok(Overlap::Skip),
        "queue" => Ok(Overlap::Queue),
        "allow" => Ok(Overlap::Allow),
        "cancel" => Ok(Overlap::Cancel),
        _ => Err("not one of skip, queue, allow, cancel".into()),
    }
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<ExitCode> {
    let new = NewSchedule {
        workflow_id: flow::find(context, &arguments.workflow).await?.workflow_id,
        version: arguments.version,
        inputs: inputs_object(&arguments.input)?,
        cron: arguments.cron,
        timezone: arguments.timezone,
        overlap: arguments.overlap,
        paused: arguments.paused,
        name: arguments.name,
    };
    let made: Schedule = context.ask(context.client.post("/api/v1/schedules", &new)).await?;
    context.output.show(&made);
    Ok(ExitCode::Success)
}
