//! What a job asks of the worker that gets it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::TIMEOUT_SECONDS;
use super::{PlanJob, PlanTask};

/// The fields of an object that hold its text, the first that is there counts.
const TEXT_FIELDS: [&str; 2] = ["text", "stdin"];

impl PlanJob {
    /// The programs that a worker must have, by name. A program that is given by its path is not
    /// among them: workers tell names, and a path may lead anywhere.
    pub fn tools(&self) -> BTreeSet<String> {
        let commands = self.tasks.iter().map(|task| &task.command);
        commands.filter(|command| !command.contains('/')).cloned().collect()
    }

    /// Whether a worker can execute it that knows single steps only: no input, nothing to put in,
    /// no variables.
    pub fn is_single_step(&self) -> bool {
        let [task] = &self.tasks[..] else { return false };
        let has_input = self.input.as_ref().is_some_and(|input| input.get() != "null");
        let is_plain = task.input_from_task.is_none() && self.env.is_empty();
        let has_braces = task.args.iter().chain([&task.command]).any(|text| text.contains("{{"));
        is_plain && !has_input && !has_braces
    }

    /// The input as a value; `null` if there is none. Fails for one that is nested too deeply to
    /// be read.
    pub fn input_value(&self) -> Result<Value, serde_json::Error> {
        self.input.as_ref().map_or(Ok(Value::Null), |input| serde_json::from_str(input.get()))
    }
}

impl PlanTask {
    /// How long it may take, in seconds.
    pub fn timeout_seconds(&self) -> u32 {
        self.timeout_secs.unwrap_or(TIMEOUT_SECONDS)
    }
}

/// The text of an input, which programs read: a string, or the field `text` or `stdin` of an
/// object.
pub fn text_of(input: &Value) -> Option<&str> {
    match input {
        Value::String(text) => Some(text),
        Value::Object(fields) => {
            TEXT_FIELDS.iter().find_map(|field| fields.get(*field).and_then(Value::as_str))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_that_are_names_are_demanded() {
        let commands = ["sort", "/usr/bin/uniq", "./own", "sort", "wc"];
        let tasks: Vec<_> = (1..)
            .zip(commands)
            .map(|(number, command)| json!({"task_number": number, "command": command}))
            .collect();
        let tools = job(&json!({"plan_id": "p", "tasks": tasks})).tools();
        assert_eq!(tools.into_iter().collect::<Vec<_>>(), ["sort", "wc"]);
    }

    #[test]
    fn a_single_step_needs_nothing_but_itself() {
        let job_with = |extra: Value| {
            let mut whole =
                json!({"plan_id": "p", "tasks": [{"task_number": 1, "command": "date"}]});
            whole
                .as_object_mut()
                .expect("object")
                .extend(extra.as_object().expect("object").clone());
            job(&whole)
        };
        assert!(job_with(json!({})).is_single_step());
        assert!(job_with(json!({"input": null})).is_single_step());
        let step = |args: Value| json!({"task_number": 1, "command": "a", "args": args});
        assert!(job_with(json!({"tasks": [step(json!(["{input.x}"]))]})).is_single_step());
        for other in [
            json!({"input": "x"}),
            json!({"input": {}}),
            json!({"env": {"A": "b"}}),
            json!({"tasks": [step(json!(["{{input.x}}"]))]}),
            json!({"tasks": [step(json!([])), {"task_number": 2, "command": "b"}]}),
            json!({"tasks": []}),
        ] {
            assert!(!job_with(other.clone()).is_single_step(), "{other}");
        }
    }

    #[test]
    fn an_input_has_text_in_known_places_only() {
        assert_eq!(text_of(&json!("a")), Some("a"));
        assert_eq!(text_of(&json!({"stdin": "b", "x": "c"})), Some("b"));
        assert_eq!(text_of(&json!({"stdin": "b", "text": "a"})), Some("a"));
        assert_eq!(text_of(&json!({"stdin": "b", "text": 1})), Some("b"));
        for other in [json!({"x": "c"}), json!(["a"]), json!(1), json!(null)] {
            assert_eq!(text_of(&other), None, "{other}");
        }
    }

    fn job(json: &Value) -> PlanJob {
        serde_json::from_str(&json.to_string()).expect("a job")
    }
}
