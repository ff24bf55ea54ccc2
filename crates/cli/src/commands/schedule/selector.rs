//! Which schedule is meant: its name, its id or the first letters of it.

use protocol::rest::schedules::{Schedule, SchedulePage};

use crate::context::Context;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::words;

/// Where a schedule is found.
pub(super) fn path(id: &str) -> String {
    format!("/api/v1/schedules/{}", words::percent_encoded(id))
}

/// The schedule that `text` selects.
pub(super) async fn schedule(context: &Context, text: &str) -> Result<Schedule> {
    let page: SchedulePage = context.ask(context.client.get("/api/v1/schedules")).await?;
    let id = choose(text, &page.items)?;
    context.ask(context.client.get(&path(&id))).await
}

fn choose(text: &str, all: &[Schedule]) -> Result<String> {
    let by_id = |one: &Schedule| one.schedule_id == text;
    let by_name = |one: &Schedule| one.name.as_deref() == Some(text);
    let by_prefix = |one: &Schedule| !text.is_empty() && one.schedule_id.starts_with(text);
    let ways: [&dyn Fn(&Schedule) -> bool; 3] = [&by_id, &by_name, &by_prefix];
    for is_it in ways {
        let found: Vec<_> = all.iter().filter(|one| is_it(one)).collect();
        match found.as_slice() {
            [] => {}
            [one] => return Ok(one.schedule_id.clone()),
            [one, other, ..] => {
                let hint = format!("give the id: {} or {}", one.schedule_id, other.schedule_id);
                return Err(Failure::usage(format!("several schedules go by {text}"), hint));
            }
        }
    }
    let message = format!("no schedule goes by {text}");
    Err(Failure::new(ExitCode::NotFound, message, "look at `astra schedule list`"))
}
