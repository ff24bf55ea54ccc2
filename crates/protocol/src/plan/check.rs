//! What makes a plan: limits, numbers and text that every worker survives.
//!
//! There are two levels. [`Rules::Strict`] is for what is submitted, because an AGX worker that
//! pops a job with a word that it refuses ends its process, and so does the next one. Workers of
//! ours start programs without a shell, so most of these words are harmless data to them; they ask
//! for [`Rules::Direct`] only.

use std::collections::BTreeMap;

use super::{Plan, PlanJob, PlanTask};

/// The longest name of a plan, a job or an action.
pub const ID_CHARS_MAX: usize = 64;
/// The most steps.
pub const TASKS_MAX: usize = 100;
/// The longest name or path of a program.
pub const COMMAND_BYTES_MAX: usize = 256;
/// The most arguments of a step.
pub const ARGUMENTS_MAX: usize = 256;
/// The longest argument.
pub const ARGUMENT_CHARS_MAX: usize = 4096;
/// How long a step may take if nobody says.
pub const TIMEOUT_SECONDS: u32 = 300;
/// The longest that a step may be given.
pub const TIMEOUT_SECONDS_MAX: u32 = 86_400;
/// The most variables.
pub const VARIABLES_MAX: usize = 256;
/// The longest value of a variable.
pub const VARIABLE_BYTES_MAX: usize = 65_536;

/// What a shell, or a filter against shells, acts upon.
const SHELL_WORDS: [char; 5] = ['&', '|', ';', '$', '`'];

/// How much is asked of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// What AGX workers survive: commands and arguments without `& | ; $` and backticks, without
    /// line breaks and other control characters, without `../`, `..\` and a leading `..`, and
    /// without characters that are not seen.
    #[default]
    Strict,
    /// What can be executed without a shell: arguments are any text without NUL. The program is as
    /// under `Strict`, for its name is looked for and shown.
    Direct,
}

/// The first thing that is wrong with a plan: one sentence that begins with the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {fault}")]
pub struct PlanProblem {
    /// Where, as a path into the JSON, like `tasks[2].args[0]`.
    pub field: String,
    /// What, and what is allowed.
    pub fault: Fault,
}

/// What can be wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No name.
    #[error("it wants 1 to {ID_CHARS_MAX} characters of A-Z a-z 0-9 - _")]
    Id,
    /// No steps, or too many.
    #[error("there are {0} tasks; a plan has 1 to {TASKS_MAX}")]
    TaskCount(usize),
    /// A gap, or a number twice.
    #[error("it is {found} where {wanted} is next; tasks are numbered from 1 without gaps")]
    TaskNumber {
        /// What stands there.
        found: u32,
        /// What should.
        wanted: u32,
    },
    /// No program, or a long one.
    #[error("it has {0} bytes; a program has 1 to {COMMAND_BYTES_MAX}")]
    CommandLength(usize),
    /// A path that leads upwards or nowhere, or an option.
    #[error(
        "it is no program; allowed are a name, and a path that ends in a name, has no .. in it \
         and does not begin with -"
    )]
    CommandPath,
    /// Too many arguments.
    #[error("there are {0} arguments; a task has at most {ARGUMENTS_MAX}")]
    ArgumentCount(usize),
    /// A long argument.
    #[error("it has {0} characters; an argument has at most {ARGUMENT_CHARS_MAX}")]
    ArgumentLength(usize),
    /// A character that has no place there.
    #[error("it contains {}, which is not allowed there", named(*.0))]
    Character(char),
    /// A way out of a folder.
    #[error("it leads upwards; ../ and ..\\ and a leading .. are not allowed there")]
    Upwards,
    /// No time, or too much.
    #[error("it is {0}; it wants 1 to {TIMEOUT_SECONDS_MAX}")]
    Timeout(u32),
    /// A step that comes later, the step itself or none.
    #[error("it is {0}, which is no earlier task; only the output of a task before it can be read")]
    NotEarlier(u32),
    /// Too many variables.
    #[error("there are {0} variables; a job has at most {VARIABLES_MAX}")]
    VariableCount(usize),
    /// A name that no variable has.
    #[error("it wants names of A-Z a-z 0-9 _ that do not begin with a digit")]
    VariableName,
    /// A long value.
    #[error("it has {0} bytes; a value has at most {VARIABLE_BYTES_MAX}")]
    VariableLength(usize),
}

impl Plan {
    /// Checks what is submitted, by [`Rules::Strict`].
    pub fn check(&self) -> Result<(), PlanProblem> {
        check_id("plan_id", &self.plan_id)?;
        check_tasks(&self.tasks, Rules::Strict)
    }
}

impl PlanJob {
    /// Checks what is submitted, by [`Rules::Strict`].
    pub fn check(&self) -> Result<(), PlanProblem> {
        self.check_by(Rules::Strict)
    }

    /// Checks by these rules.
    pub fn check_by(&self, rules: Rules) -> Result<(), PlanProblem> {
        check_id("plan_id", &self.plan_id)?;
        for (field, id) in [("job_id", &self.job_id), ("action_id", &self.action_id)] {
            id.as_deref().map_or(Ok(()), |id| check_id(field, id))?;
        }
        check_tasks(&self.tasks, rules)?;
        check_variables(&self.env)
    }
}

fn check_id(field: &str, id: &str) -> Result<(), PlanProblem> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_good = (1..=ID_CHARS_MAX).contains(&id.len()) && id.chars().all(is_plain);
    good_or(is_good, field, || Fault::Id)
}

fn check_tasks(tasks: &[PlanTask], rules: Rules) -> Result<(), PlanProblem> {
    let n_tasks = tasks.len();
    good_or((1..=TASKS_MAX).contains(&n_tasks), "tasks", || Fault::TaskCount(n_tasks))?;
    for (wanted, task) in (1..).zip(tasks) {
        check_task(task, wanted, rules).map_err(|problem| PlanProblem {
            field: format!("tasks[{}].{}", wanted - 1, problem.field),
            ..problem
        })?;
    }
    Ok(())
}

fn check_task(task: &PlanTask, wanted: u32, rules: Rules) -> Result<(), PlanProblem> {
    let found = task.task_number;
    good_or(found == wanted, "task_number", || Fault::TaskNumber { found, wanted })?;
    check_command(&task.command)?;
    let n_arguments = task.args.len();
    good_or(n_arguments <= ARGUMENTS_MAX, "args", || Fault::ArgumentCount(n_arguments))?;
    for (idx, argument) in task.args.iter().enumerate() {
        check_argument(argument, rules)
            .map_err(|fault| PlanProblem { field: format!("args[{idx}]"), fault })?;
    }
    if let Some(seconds) = task.timeout_secs {
        let is_good = (1..=TIMEOUT_SECONDS_MAX).contains(&seconds);
        good_or(is_good, "timeout_secs", || Fault::Timeout(seconds))?;
    }
    if let Some(earlier) = task.input_from_task {
        let is_good = (1..wanted).contains(&earlier);
        good_or(is_good, "input_from_task", || Fault::NotEarlier(earlier))?;
    }
    Ok(())
}

fn check_command(command: &str) -> Result<(), PlanProblem> {
    let n_bytes = command.len();
    let fits = (1..=COMMAND_BYTES_MAX).contains(&n_bytes);
    good_or(fits, "command", || Fault::CommandLength(n_bytes))?;
    check_text(command).map_err(|fault| PlanProblem { field: "command".into(), fault })?;
    let name = command.rsplit('/').next().unwrap_or_default();
    let is_path = !["", "."].contains(&name) && command.split('/').all(|part| part != "..");
    // AGX workers hand the command to another program, which would take it for an option.
    let is_good = is_path && !command.starts_with('-');
    good_or(is_good, "command", || Fault::CommandPath)
}

fn check_argument(argument: &str, rules: Rules) -> Result<(), Fault> {
    let n_chars = argument.chars().count();
    if n_chars > ARGUMENT_CHARS_MAX {
        return Err(Fault::ArgumentLength(n_chars));
    }
    match rules {
        Rules::Strict => check_text(argument),
        Rules::Direct if argument.contains('\0') => Err(Fault::Character('\0')),
        Rules::Direct => Ok(()),
    }
}

/// What AGX workers refuse, and end because of it.
fn check_text(text: &str) -> Result<(), Fault> {
    let is_bad = |c: char| SHELL_WORDS.contains(&c) || c.is_control() || is_unseen(c);
    if let Some(bad) = text.chars().find(|c| is_bad(*c)) {
        return Err(Fault::Character(bad));
    }
    let is_upwards = text.starts_with("..") || text.contains("../") || text.contains("..\\");
    if is_upwards { Err(Fault::Upwards) } else { Ok(()) }
}

/// Whether a character changes the direction of text or has no width, so that what is read is not
/// what is there.
const fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{FEFF}'
        | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}')
}

fn check_variables(variables: &BTreeMap<String, String>) -> Result<(), PlanProblem> {
    let n_variables = variables.len();
    good_or(n_variables <= VARIABLES_MAX, "env", || Fault::VariableCount(n_variables))?;
    for (name, value) in variables {
        let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let is_digit = name.starts_with(|c: char| c.is_ascii_digit());
        let fits = (1..=COMMAND_BYTES_MAX).contains(&name.len());
        good_or(fits && is_word && !is_digit, "env", || Fault::VariableName)?;
        let field = format!("env.{name}");
        let fits = value.len() <= VARIABLE_BYTES_MAX;
        good_or(fits, &field, || Fault::VariableLength(value.len()))?;
        good_or(!value.contains('\0'), &field, || Fault::Character('\0'))?;
    }
    Ok(())
}

fn good_or(is_good: bool, field: &str, fault: impl FnOnce() -> Fault) -> Result<(), PlanProblem> {
    if is_good { Ok(()) } else { Err(PlanProblem { field: field.into(), fault: fault() }) }
}

/// A character, so that it is seen.
fn named(c: char) -> String {
    match c {
        '\0' => "a NUL".to_owned(),
        '\r' | '\n' => "a line break".to_owned(),
        c if c.is_control() || is_unseen(c) => format!("the character U+{:04X}", u32::from(c)),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests;
