//! Several executors as one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::builtin::Builtin;
use crate::executor::{Assignment, Context, Executor, Outcome, TYPE_UNKNOWN, Work};
use crate::runner::command::CommandRunner;
use crate::runner::plan::PlanRunner;

/// Finds the executor of a type. Where two offer the same type, the later one has it.
#[derive(Clone, Default)]
pub struct Toolbox {
    by_type: BTreeMap<String, Arc<dyn Executor>>,
}

impl Toolbox {
    /// A toolbox of these executors.
    pub fn new(executors: impl IntoIterator<Item = Arc<dyn Executor>>) -> Self {
        let mut by_type = BTreeMap::new();
        for executor in executors {
            for name in executor.types() {
                by_type.insert(name, Arc::clone(&executor));
            }
        }
        Self { by_type }
    }

    /// What every worker with programs offers: the builtin types, commands, and plans of them.
    pub fn usual(commands: CommandRunner) -> Self {
        let plans = PlanRunner::new(commands.clone());
        let executors: [Arc<dyn Executor>; 3] =
            [Arc::new(Builtin::default()), Arc::new(commands), Arc::new(plans)];
        Self::new(executors)
    }
}

impl Executor for Toolbox {
    fn types(&self) -> Vec<String> {
        self.by_type.keys().cloned().collect()
    }

    fn execute(&self, assignment: Assignment, context: Context) -> Work {
        match self.by_type.get(&assignment.task_type) {
            Some(executor) => executor.execute(assignment, context),
            None => Box::pin(async move { unknown(&assignment.task_type) }),
        }
    }

    fn execute_at_once(&self, assignment: Assignment) -> Result<Outcome, Assignment> {
        match self.by_type.get(&assignment.task_type) {
            Some(executor) => executor.execute_at_once(assignment),
            None => Ok(unknown(&assignment.task_type)),
        }
    }
}

fn unknown(name: &str) -> Outcome {
    Outcome::hopeless(TYPE_UNKNOWN, format!("{name} is not offered here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_all_executors_are_offered_and_found() {
        let commands = CommandRunner::new(crate::runner::command::Options::default());
        let toolbox = Toolbox::usual(commands);
        let types = toolbox.types();
        for name in ["core.noop", "command", "plan", "plan.step"] {
            assert!(types.contains(&name.into()), "{types:?}");
        }
        assert!(matches!(at_once(&toolbox, "core.noop"), Ok(Outcome::Completed { .. })));
        assert!(matches!(at_once(&toolbox, "core.unheard_of"), Ok(Outcome::Failed { .. })));
        assert!(at_once(&toolbox, "command").is_err(), "a program takes its time");
        assert!(at_once(&toolbox, "plan").is_err(), "and so do several");
    }

    fn at_once(toolbox: &Toolbox, name: &str) -> Result<Outcome, Assignment> {
        let parameters = serde_json::value::to_raw_value(&()).expect("JSON");
        toolbox.execute_at_once(Assignment {
            lease_id: "l-1".into(),
            task_id: "l".into(),
            attempt: 1,
            task_type: name.into(),
            parameters,
        })
    }
}
