//! Jobs that wait for others.

use model::{NewTask, TaskId};

/// Makes a task wait for others.
pub(crate) fn wait_for(task: &mut NewTask, others: Vec<TaskId>) {
    task.after = others.into_iter().map(model::After::Task).collect();
}
