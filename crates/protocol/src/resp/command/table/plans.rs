//! What can be executed.

use super::super::CommandSpec;
use super::super::argument::{integer, string};

const GROUP: &str = "plan";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("plan.delete", 2, GROUP)
        .flags(&["write"])
        .summary("Removes a plan that no job needs any more.", "O(1)")
        .arguments(&[string("plan_id")]),
    CommandSpec::new("plan.get", 2, GROUP)
        .flags(&["readonly", "fast"])
        .summary("Gives a plan as JSON.", "O(1)")
        .arguments(&[string("plan_id")]),
    CommandSpec::new("plan.list", -1, GROUP)
        .flags(&["readonly"])
        .summary("Lists plans, newest first, one JSON each.", "O(N) for N plans given")
        .arguments(&[integer("offset").optional(), integer("limit").optional()]),
    CommandSpec::new("plan.submit", 2, GROUP)
        .flags(&["write"])
        .summary("Keeps a plan and gives its id.", "O(N) for N tasks")
        .arguments(&[string("plan_json")]),
];
