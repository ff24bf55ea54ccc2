//! Who executes.

use super::super::CommandSpec;
use super::super::argument::string;

const GROUP: &str = "worker";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("capability.search", -1, GROUP)
        .flags(&["readonly"])
        .summary(
            "Finds tools and units of living workers by words in names and descriptions.",
            "O(N) for N capabilities of all workers",
        )
        .arguments(&[string("word").optional().multiple()]),
    CommandSpec::new("worker.heartbeat", -2, GROUP)
        .flags(&["write", "fast"])
        .summary("Is a sign of life of a worker, with its load if it likes.", "O(1)")
        .arguments(&[string("worker_id"), string("stats-json").optional()]),
    CommandSpec::new("worker.register", 2, GROUP)
        .flags(&["write", "fast"])
        .summary("Makes a worker known, with what it can do.", "O(1)")
        .arguments(&[string("worker_json")]),
    CommandSpec::new("worker.unregister", 2, GROUP)
        .flags(&["write", "fast"])
        .summary(
            "Lets a worker leave; its jobs go back into their queues.",
            "O(N) for N jobs it holds",
        )
        .arguments(&[string("worker_id")]),
    CommandSpec::new("worker.verify", -3, GROUP)
        .flags(&["write"])
        .summary("Asks a worker to prove that it has a tool.", "O(1)")
        .arguments(&[
            string("worker_id").optional(),
            string("capability"),
            string("challenge-json"),
        ]),
    CommandSpec::new("workers.list", 1, GROUP)
        .flags(&["readonly"])
        .summary("Lists the workers, those seen last first.", "O(N) for N workers"),
];
