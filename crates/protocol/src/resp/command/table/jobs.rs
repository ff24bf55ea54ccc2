//! What is to be executed, and how it goes.

use super::super::CommandSpec;
use super::super::argument::{integer, string};

const GROUP: &str = "job";

pub(super) const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("job.cancel", 2, GROUP)
        .flags(&["write"])
        .summary("Ends a job that is not needed any more.", "O(1)")
        .arguments(&[string("job_id")]),
    CommandSpec::new("job.get", 2, GROUP)
        .flags(&["readonly", "fast"])
        .summary("Gives a job as JSON, with all that a worker needs.", "O(1)")
        .arguments(&[string("job_id")]),
    CommandSpec::new("job.list", -2, GROUP)
        .flags(&["readonly"])
        .summary("Lists the jobs of an action, all or those in one state.", "O(N) for N jobs given")
        .arguments(&[
            string("action_id"),
            string("status").optional(),
            integer("offset").optional(),
            integer("limit").optional(),
        ]),
    CommandSpec::new("job.retry", 2, GROUP)
        .flags(&["write"])
        .summary("Runs a job again that has failed.", "O(1)")
        .arguments(&[string("job_id")]),
    CommandSpec::new("job.status", 2, GROUP)
        .flags(&["readonly", "fast"])
        .summary("Status and per-task results of a job", "O(N) for N tasks")
        .arguments(&[string("job_id")]),
    CommandSpec::new("job.submit", 2, GROUP)
        .flags(&["write"])
        .summary("Runs a plan once.", "O(N) for N tasks")
        .arguments(&[string("job_json")]),
    CommandSpec::new("job.update", 3, GROUP)
        .flags(&["write"])
        .summary(
            "Reports how a job goes or how it ended; only its worker may.",
            "O(N) for N tasks reported",
        )
        .arguments(&[string("job_id"), string("update-json")]),
    CommandSpec::new("jobs.list", -1, GROUP)
        .flags(&["readonly"])
        .summary("Lists jobs, newest first.", "O(N) for N jobs given")
        .arguments(&[integer("offset").optional(), integer("limit").optional()]),
    CommandSpec::new("jobs.search", -2, GROUP)
        .flags(&["readonly"])
        .summary(
            "Finds jobs by words in the newest 64 MiB of payloads; also status:W, queue:Q, worker:W.",
            "O(N) for N bytes looked at",
        )
        .arguments(&[string("word").multiple()]),
];
