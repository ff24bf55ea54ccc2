//! Several commands on keys as one step.

use super::super::CommandSpec;

const GROUP: &str = "transactions";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("discard", 1, GROUP)
        .flags(&["fast"])
        .summary("Forgets the commands since MULTI.", "O(N) for N commands"),
    CommandSpec::new("exec", 1, GROUP)
        .summary("Carries out the commands since MULTI, all in one step.", "Depends on them"),
    CommandSpec::new("multi", 1, GROUP)
        .flags(&["fast"])
        .summary("Begins a step of several commands on keys.", "O(1)"),
];
