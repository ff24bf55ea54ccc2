//! The parameters of a command.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

/// The program and its arguments.
pub const ARGUMENTS_MAX: usize = 256;
/// One argument, the working folder, one variable. The kernel takes twice as much.
pub const ARGUMENT_BYTES_MAX: usize = 65_536;
/// How many variables a command sets.
pub const VARIABLES_MAX: usize = 256;
/// The longest that a command may be given.
pub const TIMEOUT_MAX: Duration = model::TIMEOUT_MAX;
/// How much is kept of each output if nobody says.
pub const OUTPUT_BYTES: usize = 1024 * 1024;
/// The most that may be kept of each output.
pub const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Parameters {
    pub(super) argv: Vec<String>,
    #[serde(default)]
    pub(super) cwd: Option<String>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) env_clear: bool,
    #[serde(default)]
    pub(super) stdin: Option<String>,
    #[serde(default)]
    pub(super) timeout_ms: Option<u64>,
    #[serde(default = "output_bytes")]
    pub(super) output_max_bytes: usize,
    /// Whether an end that is no success is worth another attempt, by the submitter's word. A
    /// worker that is lost, or gives the command back, has nothing to do with it.
    #[serde(default = "yes")]
    pub(super) retry_exit: bool,
}

fn yes() -> bool {
    true
}

fn output_bytes() -> usize {
    OUTPUT_BYTES
}

impl Parameters {
    /// The parameters, or a sentence about what is wrong with them.
    pub(super) fn parse(json: &str) -> Result<Self, String> {
        let parameters: Self = serde_json::from_str(json).map_err(|why| {
            format!(r#"a command wants {{"argv": ["program", "argument"]}}: {why}"#)
        })?;
        parameters.check_texts()?;
        parameters.check_variables()?;
        parameters.check_numbers()?;
        Ok(parameters)
    }

    fn check_texts(&self) -> Result<(), String> {
        let n_arguments = self.argv.len();
        if !(1..=ARGUMENTS_MAX).contains(&n_arguments) {
            let wanted = format!("it wants 1 to {ARGUMENTS_MAX}, the program first");
            return Err(format!("argv has {n_arguments} entries; {wanted}"));
        }
        for (idx, argument) in self.argv.iter().enumerate() {
            // An argument may well be empty; a program or a folder is not.
            check_text(argument, idx > 0, || format!("argv[{idx}]"))?;
        }
        match &self.cwd {
            Some(cwd) => check_text(cwd, false, || "cwd".into()),
            None => Ok(()),
        }
    }

    fn check_variables(&self) -> Result<(), String> {
        if self.env.len() > VARIABLES_MAX {
            let n_variables = self.env.len();
            return Err(format!(
                "env has {n_variables} entries; at most {VARIABLES_MAX} are taken"
            ));
        }
        for (name, value) in &self.env {
            if name.is_empty() || name.contains(['\0', '=']) {
                let wrong = "a name that is empty or contains a NUL or an equals sign";
                return Err(format!("env has {wrong}: {name:?}"));
            }
            check_text(name, false, || "a name in env".into())?;
            check_text(value, true, || format!("env {name}"))?;
        }
        Ok(())
    }

    fn check_numbers(&self) -> Result<(), String> {
        let longest = TIMEOUT_MAX.as_millis();
        if let Some(ms) = self.timeout_ms.filter(|ms| !(1..=longest).contains(&u128::from(*ms))) {
            return Err(format!("timeout_ms is {ms}; it wants 1 to {longest}"));
        }
        if self.output_max_bytes > OUTPUT_BYTES_MAX {
            let bytes = self.output_max_bytes;
            return Err(format!(
                "output_max_bytes is {bytes}; at most {OUTPUT_BYTES_MAX} are kept"
            ));
        }
        Ok(())
    }
}

fn check_text(text: &str, may_be_empty: bool, name: impl FnOnce() -> String) -> Result<(), String> {
    let is_good = (may_be_empty || !text.is_empty())
        && text.len() <= ARGUMENT_BYTES_MAX
        && !text.contains('\0');
    if is_good {
        return Ok(());
    }
    let name = name();
    Err(format!("{name} is empty, contains a NUL or is longer than {ARGUMENT_BYTES_MAX} bytes"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_smallest_command_is_a_program() {
        let parameters = Parameters::parse(r#"{"argv":["true"]}"#).expect("good");
        assert_eq!(parameters.output_max_bytes, OUTPUT_BYTES);
        assert!(!parameters.env_clear && parameters.stdin.is_none());
    }

    #[test]
    fn limits_are_inclusive() {
        let argv = vec!["x".repeat(ARGUMENT_BYTES_MAX); ARGUMENTS_MAX];
        Parameters::parse(&json!({ "argv": argv }).to_string()).expect("good");
        Parameters::parse(r#"{"argv":["a",""],"env":{"A":""},"timeout_ms":1}"#).expect("good");
    }

    #[test]
    fn what_makes_no_command_is_refused_with_a_sentence() {
        check(&json!({}), "missing field `argv`");
        check(&json!("ls -l"), "a command wants");
        check(&json!({"argv": "ls -l"}), "a command wants");
        check(&json!({"argv": ["ls"], "shell": true}), "unknown field `shell`");
        check(&json!({"argv": []}), "argv has 0 entries");
        check(&json!({"argv": vec!["x"; 257]}), "argv has 257 entries");
        check(&json!({"argv": [""]}), "argv[0] is empty");
        check(&json!({"argv": ["echo", "a\0b"]}), "argv[1] is empty, contains a NUL");
        check(&json!({"argv": ["echo", "x".repeat(65_537)]}), "longer than 65536 bytes");
        check(&json!({"argv": ["ls"], "cwd": ""}), "cwd is empty");
        check(&json!({"argv": ["ls"], "cwd": "/\0"}), "cwd is empty, contains a NUL");
        check(&json!({"argv": ["ls"], "env": {"A=B": "c"}}), "an equals sign");
        check(&json!({"argv": ["ls"], "env": {"A": "\0"}}), "env A is empty, contains a NUL");
        check(&json!({"argv": ["ls"], "timeout_ms": 0}), "timeout_ms is 0");
        check(&json!({"argv": ["ls"], "timeout_ms": u64::MAX}), "it wants 1 to");
        check(&json!({"argv": ["ls"], "output_max_bytes": 1 << 30}), "at most 4194304");
    }

    fn check(parameters: &serde_json::Value, expected: &str) {
        let error = Parameters::parse(&parameters.to_string()).expect_err("refused");
        assert!(error.contains(expected), "{parameters}: {error}");
    }
}
