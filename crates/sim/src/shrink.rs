//! Makes a failing run smaller: the same seed with fewer kinds of fault and fewer tasks.

use crate::run::run;
use crate::world::RunConfig;

/// The smallest run that was found in which the same promise is broken.
///
/// Every kind of fault has its own dice and every task its own properties, so that what is left
/// after a removal goes on much as it did before.
pub fn shrink(config: &RunConfig) -> RunConfig {
    let Some(violation) = run(config).violation else { return config.clone() };
    let still_fails = |config: &RunConfig| {
        run(config).violation.is_some_and(|found| found.promise == violation.promise)
    };
    let mut smallest = config.clone();
    // What one removal makes superfluous is found in the next round.
    for _ in 0..3 {
        let before = smallest.clone();
        remove_faults(&mut smallest, &still_fails);
        remove_tasks(&mut smallest, &still_fails);
        remove_workflows(&mut smallest, &still_fails);
        if before.workflows == smallest.workflows
            && before.faults == smallest.faults
            && before.skip == smallest.skip
        {
            break;
        }
    }
    smallest
}

fn remove_faults(smallest: &mut RunConfig, still_fails: &impl Fn(&RunConfig) -> bool) {
    for fault in smallest.faults.iter() {
        let without = RunConfig { faults: smallest.faults.without(fault), ..smallest.clone() };
        if still_fails(&without) {
            *smallest = without;
        }
    }
}

/// The newest first: the others stay as they are.
fn remove_workflows(smallest: &mut RunConfig, still_fails: &impl Fn(&RunConfig) -> bool) {
    while let Some(workflows) = smallest.workflows.checked_sub(1) {
        let without = RunConfig { workflows, ..smallest.clone() };
        if !still_fails(&without) {
            return;
        }
        *smallest = without;
    }
}

/// Large groups first, then one by one.
fn remove_tasks(smallest: &mut RunConfig, still_fails: &impl Fn(&RunConfig) -> bool) {
    let mut group = smallest.tasks / 2;
    while group > 0 {
        for from in (0..smallest.tasks).step_by(usize::try_from(group).unwrap_or(1)) {
            let mut without = smallest.clone();
            without.skip.extend(from..smallest.tasks.min(from + group));
            if without.skip != smallest.skip && still_fails(&without) {
                *smallest = without;
            }
        }
        group /= 2;
    }
}
