//! Schedules, shown.

use protocol::rest::schedules::{Overlap, Schedule, SchedulePage, ScheduledRun};

use crate::output::{self, Show};
use crate::words;

/// What people read at a glance of a workflow's id; it names the workflow everywhere else too.
const ID_LETTERS: usize = 8;

impl Show for Schedule {
    fn text(&self) -> String {
        let state = if self.paused { "■ Paused" } else { "▸ Active" };
        let name = self.name.as_deref().unwrap_or(&self.schedule_id);
        let version = self.version.map_or_else(|| "the newest".into(), |n| format!("version {n}"));
        let mut rows = vec![
            ("id", self.schedule_id.clone()),
            ("workflow", format!("{} ({version})", self.workflow_id)),
            ("times", format!("{} ({})", self.cron, self.timezone)),
            ("overlap", overlap(self.overlap).into()),
            ("made", format!("{} by {}", words::ago(&self.created_at), self.created_by)),
        ];
        if self.inputs.get() != "{}" {
            rows.push(("inputs", self.inputs.get().into()));
        }
        if self.waiting > 0 {
            rows.push(("waiting", words::count(self.waiting, "time")));
        }
        rows.extend(self.last_run.iter().map(|last| ("last", last_in_words(last))));
        rows.extend(self.next_runs.iter().map(|next| ("next", next.clone())));
        format!("{state}  schedule {name}\n{}", output::facts(&rows))
    }

    fn quiet(&self) -> String {
        self.schedule_id.clone()
    }
}

impl Show for SchedulePage {
    fn text(&self) -> String {
        if self.items.is_empty() {
            return "no schedules; make one with `astra schedule create WORKFLOW --cron '0 3 * * *'`"
                .into();
        }
        let rows = self.items.iter().map(|one| {
            [
                one.schedule_id.clone(),
                one.name.clone().unwrap_or_else(|| "-".into()),
                one.workflow_id.chars().take(ID_LETTERS).collect(),
                format!("{} ({})", one.cron, one.timezone),
                if one.paused { "■ Paused".into() } else { "▸ Active".into() },
                one.next_runs.first().cloned().unwrap_or_else(|| "-".into()),
                one.last_run.as_ref().map_or_else(|| "-".into(), last_in_words),
            ]
        });
        let header = ["SCHEDULE", "NAME", "WORKFLOW", "TIMES", "STATE", "NEXT", "LAST"];
        output::table(header, rows.collect())
    }

    fn quiet(&self) -> String {
        let ids: Vec<_> = self.items.iter().map(|one| one.schedule_id.as_str()).collect();
        ids.join("\n")
    }

    fn json_lines(&self) -> Vec<String> {
        self.items.iter().map(output::json).collect()
    }
}

fn overlap(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Skip => "skip the time while a run goes on",
        Overlap::Queue => "queue behind the run that goes on",
        Overlap::Allow => "allow runs side by side",
        Overlap::Cancel => "cancel the run that goes on",
    }
}

fn last_in_words(last: &ScheduledRun) -> String {
    let due = words::ago(&last.due_at);
    match (last.number, &last.problem) {
        (Some(number), _) => format!("run {number}, {due}"),
        (None, Some(problem)) => format!("no run {due}: {problem}"),
        (None, None) => due,
    }
}
