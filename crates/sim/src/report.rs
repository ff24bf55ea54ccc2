//! What people read.

use crate::consequence::Counters;
use crate::faults::FaultSet;
use crate::run::run;
use crate::shrink::shrink;
use crate::sweep::SweepResult;
use crate::world::RunConfig;

/// Lines of a shortened schedule that are shown.
const FAULTS_SHOWN: usize = 60;

/// The table of faults and consequences, two columns.
pub fn table(counters: &Counters) -> String {
    let rows: Vec<String> =
        counters.rows().map(|(words, count)| format!("{words:<36}{count:>12}")).collect();
    let half = rows.len().div_ceil(2);
    let (left, right) = rows.split_at(half);
    let mut text = String::new();
    for (index, row) in left.iter().enumerate() {
        let other = right.get(index).map_or("", String::as_str);
        text.push_str(format!("{row}    {other}").trim_end());
        text.push('\n');
    }
    text
}

/// Seeds, tasks, steps and time, in a line.
pub fn figures(result: &SweepResult) -> String {
    let seeds = result.passed + result.failed.len() as u64;
    let seconds = result.took.as_secs_f64();
    let (tasks, steps) = (result.tasks, result.steps);
    format!("{seeds} seeds, {tasks} task lives, {steps} steps, {seconds:.1} s")
}

/// A failed run: what broke, the shortened schedule, and how to see it again.
pub fn failure(config: &RunConfig) -> String {
    let Some(violation) = run(config).violation else {
        return format!("seed {} passes\n", config.seed);
    };
    let mut smallest = shrink(config);
    smallest.is_verbose = true;
    let result = run(&smallest);
    let mut lines =
        vec![format!("seed {}: {}: {}", config.seed, violation.promise, violation.story)];
    if let Some(small) = &result.violation {
        let tasks = smallest.tasks - smallest.skip.len() as u64;
        lines.push(format!("shortened to {tasks} tasks: {}: {}", small.promise, small.story));
    }
    let faults = result.trace.faults();
    let last = faults.len().saturating_sub(FAULTS_SHOWN);
    lines.push(format!("the last {} of {} faults:", faults.len() - last, faults.len()));
    lines.extend(faults.iter().skip(last).map(|line| format!("  {line}")));
    lines.push("see it again:".into());
    lines.push(format!("  cargo xtask sim --seed {}", config.seed));
    lines.push(format!("  cargo xtask sim {}", arguments(&smallest)));
    lines.join("\n") + "\n"
}

/// The command line that runs exactly this.
fn arguments(config: &RunConfig) -> String {
    let RunConfig { seed, tasks, workflows, .. } = config;
    let mut words = vec![format!("--seed {seed} --tasks {tasks} --workflows {workflows}")];
    if config.faults != FaultSet::ALL {
        let faults: Vec<_> = config.faults.iter().map(|fault| fault.name().0).collect();
        words.push(format!(
            "--faults {}",
            if faults.is_empty() { "none".into() } else { faults.join(",") }
        ));
    }
    if !config.skip.is_empty() {
        let kept = (0..config.tasks).filter(|number| !config.skip.contains(number));
        let kept: Vec<String> = kept.map(|number| number.to_string()).collect();
        words.push(format!("--only-tasks {}", kept.join(",")));
    }
    words.push("--trace".into());
    words.join(" ")
}
