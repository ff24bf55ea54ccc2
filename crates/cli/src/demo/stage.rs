//! What the audience sees: a live bar on a terminal, plain lines elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::{self, Output};
use crate::words;

const BAR: &str = "  {bar:40.green/dim} {pos:>6}/{len} committed  {elapsed}";
/// Without a bar, progress is said at each of these shares.
const STEPS: u64 = 4;

pub(super) struct Stage {
    output: Output,
    bar: ProgressBar,
    total: u64,
    steps_said: u64,
}

impl Stage {
    pub(super) fn new(output: Output, total: usize) -> Self {
        let total = total as u64;
        let is_live = output.is_for_people() && output::stderr_is_terminal();
        let target =
            if is_live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        let style = ProgressStyle::with_template(BAR).expect("a template that parses");
        bar.set_style(style.progress_chars("█▓░"));
        if is_live {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Self { output, bar, total, steps_said: 0 }
    }

    /// A line of the story.
    pub(super) fn say(&self, text: &str) {
        self.bar.suspend(|| self.output.note(text));
    }

    pub(super) fn progress(&mut self, settled: u64) {
        self.bar.set_position(settled);
        let step = settled * STEPS / self.total.max(1);
        if self.bar.is_hidden() && step > self.steps_said {
            self.steps_said = step;
            let (settled, total) = (words::thousands(settled), words::thousands(self.total));
            self.output.note(format!("  {settled} of {total} committed"));
        }
    }

    pub(super) fn end(self) {
        self.bar.finish();
    }
}
