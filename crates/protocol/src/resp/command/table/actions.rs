//! A plan and the inputs that it is run for.

use super::super::CommandSpec;
use super::super::argument::{integer, string};

const GROUP: &str = "action";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("action.get", -2, GROUP)
        .flags(&["readonly"])
        .summary("Gives an action as JSON, with the ids of its jobs.", "O(N) for N jobs given")
        .arguments(&[
            string("action_id"),
            integer("offset").optional(),
            integer("limit").optional(),
        ]),
    CommandSpec::new("action.list", -1, GROUP)
        .flags(&["readonly"])
        .summary(
            "Lists actions, newest first, all or those in one state.",
            "O(N) for N actions given",
        )
        .arguments(&[
            string("status").optional(),
            integer("offset").optional(),
            integer("limit").optional(),
        ]),
    CommandSpec::new("action.status", 2, GROUP)
        .flags(&["readonly", "fast"])
        .summary("Counts the jobs of an action by their states.", "O(1)")
        .arguments(&[string("action_id")]),
    CommandSpec::new("action.submit", 2, GROUP)
        .flags(&["write"])
        .summary("Runs a plan once for each input.", "O(N) for N jobs made")
        .arguments(&[string("action_json")]),
];
