//! Every limit of the system, for people. Each constant stands in the file that enforces it.
//! The table is kept beside the doors, because only here may their constants be named.

use std::fmt::Display;
use std::time::Duration;

use shard::report_key::{CODE_CHARS_MAX, REASON_CHARS_MAX};

use super::http::convert::{self, reports};
use super::http::{actions, body, listener, run_nodes, schedules as schedules_door, stall};
use super::resp;
use super::ws::{listener as ws_listener, wire};
use crate::resp_workers::resp_worker;
use crate::wire_words::limits as shared;
use crate::wire_words::payload::PAYLOAD_DEPTH_MAX;
use crate::{
    auth, bulk, events, feedback, handle, metrics, plans, resources, runs, schedules, scratch,
    session_keys, updates, workflows,
};

/// One limit.
#[derive(Clone, Debug)]
pub(super) struct LimitRow {
    /// Its name in the code.
    pub(super) name: &'static str,
    /// Its value, with its unit.
    pub(super) value: String,
    /// What it bounds.
    pub(super) meaning: &'static str,
}

/// Every limit.
pub(super) fn all() -> Vec<LimitRow> {
    let mut rows = model_limits();
    rows.extend(coordinator_limits());
    rows.extend(request_limits());
    rows.extend(payload_limits());
    rows.extend(server_limits());
    rows.extend(feedback_limits());
    rows.extend(event_limits());
    rows.extend(session_limits());
    rows.extend(scratch_limits());
    rows.extend(resp_limits());
    rows.extend(job_limits());
    rows.extend(run_limits());
    rows.extend(definition_limits());
    rows.extend(expression_limits());
    rows.extend(schedule_limits());
    rows
}

fn model_limits() -> Vec<LimitRow> {
    vec![
        span("LEASE_TTL_MIN", model::LEASE_TTL_MIN, "The shortest lease that a task may ask for."),
        span("LEASE_TTL_MAX", model::LEASE_TTL_MAX, "The longest lease that a task may ask for."),
        span("TIMEOUT_MAX", model::TIMEOUT_MAX, "The longest that one attempt may be given."),
        span("BACKOFF_MAX", model::BACKOFF_MAX, "The longest pause before a retry."),
        count("AFTER_MAX", model::AFTER_MAX, "Tasks that one task may wait for."),
        count("ATTEMPTS_MAX", model::ATTEMPTS_MAX, "The most attempts that a task may ask for."),
        count(
            "PRIORITY_LIMIT",
            model::PRIORITY_LIMIT,
            "Priorities lie between minus and plus this.",
        ),
    ]
}

/// The limits of live state, per tenant.
fn coordinator_limits() -> Vec<LimitRow> {
    vec![
        count("LIVE_TASKS_MAX", coordinator::LIVE_TASKS_MAX, "Live tasks of one tenant."),
        bytes(
            "LIVE_BYTES_MAX",
            coordinator::LIVE_BYTES_MAX,
            "Parameters of its live tasks, and what they wait for.",
        ),
        count("DEMANDS_MAX", coordinator::DEMANDS_MAX, "Different demands among its live tasks."),
        count("WORKERS_MAX", coordinator::WORKERS_MAX, "Workers of one tenant."),
        count("PAUSES_MAX", coordinator::PAUSES_MAX, "Queues that are paused at the same time."),
        count(
            "VERIFIED_TOOLS_MAX",
            coordinator::VERIFIED_TOOLS_MAX,
            "Tools of all workers of a tenant that are remembered as verified.",
        ),
        count(
            "IDLE_KEYS_MAX",
            coordinator::IDLE_KEYS_MAX,
            "Affinity keys that are kept in mind although no live task has them.",
        ),
        count(
            "DRAINED_RUNS_MAX",
            coordinator::DRAINED_RUNS_MAX,
            "Runs that are kept from some workers at the same time.",
        ),
        count("RUN_DRAINS_MAX", coordinator::RUN_DRAINS_MAX, "Workers that one run is kept from."),
        count(
            "RUN_BINDINGS_MAX",
            coordinator::RUN_BINDINGS_MAX,
            "Packages of one run with a worker, before a person names another.",
        ),
        span(
            "RESOURCE_WAIT_MAX",
            flow::RESOURCE_WAIT_MAX,
            "How long a task waits for the worker that has its resource.",
        ),
        count("PEEK_MAX", coordinator::PEEK_MAX, "How far one look at the ready tasks reaches."),
        count("REQUESTS_MAX", coordinator::REQUESTS_MAX, "Requests that wait for a lease."),
        count("WATCHES_MAX", coordinator::WATCHES_MAX, "Requests that wait for a task's end."),
        count("LOSSES_MAX", coordinator::LOSSES_MAX, "Workers in a row that a task may lose."),
        span(
            "WORKER_FORGOTTEN_AFTER",
            coordinator::WORKER_FORGOTTEN_AFTER,
            "A silent worker without leases is forgotten after this.",
        ),
    ]
}

fn request_limits() -> Vec<LimitRow> {
    vec![
        count("TASKS_PER_SUBMIT_MAX", shared::TASKS_PER_SUBMIT_MAX, "Tasks in one submit."),
        count("LEASES_PER_REQUEST_MAX", convert::LEASES_PER_REQUEST_MAX, "Leases in one request."),
        count("REPORTS_PER_CALL_MAX", reports::REPORTS_PER_CALL_MAX, "Reports in one call."),
        count("PAGE_TASKS_MAX", convert::PAGE_TASKS_MAX, "Tasks on a page."),
        count("PAGE_ACTIONS_MAX", actions::PAGE_ACTIONS_MAX, "Actions on a page."),
        count(
            "TASKS_PER_CALL_MAX",
            bulk::TASKS_PER_CALL_MAX,
            "Tasks that one requeue or purge changes.",
        ),
        count(
            "ROWS_PER_LIST_MAX",
            store::ROWS_PER_LIST_MAX,
            "Rows that one page of a filtered list looks at.",
        ),
        bytes(
            "PAGE_BYTES_MAX",
            store::PAGE_BYTES_MAX,
            "Payloads on a page; the first task always fits.",
        ),
        bytes(
            "SUMMARY_RESULT_BYTES_MAX",
            store::SUMMARY_RESULT_BYTES_MAX,
            "A result, or details of a failure, in a list of jobs; longer ones are left out.",
        ),
        count("WAIT_MS_MAX", convert::WAIT_MS_MAX, "How long a request may wait, in ms."),
        count("CONFIRM_MS_MAX", convert::CONFIRM_MS_MAX, "How long to confirm a lease, in ms."),
        count(
            "DEMAND_ENTRIES_MAX",
            shared::DEMAND_ENTRIES_MAX,
            "Tools, and tags, that a task may demand.",
        ),
        count(
            "OFFER_ENTRIES_MAX",
            convert::OFFER_ENTRIES_MAX,
            "Types, queues, tools, tags and packages that a worker may offer, of each.",
        ),
    ]
}

fn payload_limits() -> Vec<LimitRow> {
    vec![
        bytes("BODY_BYTES_MAX", body::BODY_BYTES_MAX, "The body of one request."),
        bytes("PARAMETERS_BYTES_MAX", shared::PARAMETERS_BYTES_MAX, "The parameters of one task."),
        bytes("RESULT_BYTES_MAX", shared::RESULT_BYTES_MAX, "The result of one attempt."),
        count("REASON_CHARS_MAX", REASON_CHARS_MAX, "Why an attempt failed, characters."),
        count("CODE_CHARS_MAX", CODE_CHARS_MAX, "The code of a failure, characters."),
        count("REPORT_ID_CHARS_MAX", reports::REPORT_ID_CHARS_MAX, "A report's id, characters."),
        count("TOKEN_NAME_CHARS_MAX", auth::TOKEN_NAME_CHARS_MAX, "A token's note, characters."),
        count("PAYLOAD_DEPTH_MAX", PAYLOAD_DEPTH_MAX, "How deep parameters and results may nest."),
    ]
}

fn server_limits() -> Vec<LimitRow> {
    vec![
        count("CONNECTIONS_MAX", listener::CONNECTIONS_MAX, "HTTP connections at the same time."),
        bytes("HEAD_BYTES_MAX", listener::HEAD_BYTES_MAX, "The head of one request."),
        count("HEADERS_MAX", listener::HEADERS_MAX, "Headers in one request."),
        span("HEAD_TIMEOUT", listener::HEAD_TIMEOUT, "Silence on a connection between requests."),
        span("HTTP_STALL_MAX", stall::HTTP_STALL_MAX, "How long a client may take nothing."),
        span("BODY_TIMEOUT", body::BODY_TIMEOUT, "How long a body may take to arrive."),
        bytes(
            "DISCARDED_BYTES_MAX",
            body::DISCARDED_BYTES_MAX,
            "So much of a body that is too large is taken in and thrown away.",
        ),
        span("STOP_GRACE", listener::STOP_GRACE, "How long requests may take after a stop."),
        count(
            "MESSAGES_PER_TURN_MAX",
            shard::MESSAGES_PER_TURN_MAX,
            "Commands that one turn of a coordinator takes up.",
        ),
        count(
            "TURNS_IN_FLIGHT_MAX",
            shard::TURNS_IN_FLIGHT_MAX,
            "Turns on their way to the store; beyond this, commands wait.",
        ),
        count("INBOX_MAX", handle::INBOX_MAX, "Questions that wait for one coordinator."),
        count("TOKENS_PER_TENANT_MAX", auth::TOKENS_PER_TENANT_MAX, "Tokens of one tenant."),
        count(
            "NODE_TYPES_PER_TENANT_MAX",
            metrics::NODE_TYPES_PER_TENANT_MAX,
            "Values of the label node_type per tenant; further types count as `other`.",
        ),
        count(
            "TRACKED_LEASES_PER_TENANT_MAX",
            metrics::TRACKED_LEASES_PER_TENANT_MAX,
            "Leases whose latency is measured at the same time.",
        ),
    ]
}

fn feedback_limits() -> Vec<LimitRow> {
    vec![
        bytes(
            "TASK_LOG_BYTES_MAX",
            feedback::TASK_LOG_BYTES_MAX,
            "The log of one task; its oldest part goes first.",
        ),
        bytes(
            "TOTAL_LOG_BYTES_MAX",
            feedback::TOTAL_LOG_BYTES_MAX,
            "All logs together; the oldest log goes first.",
        ),
        count("LOGS_MAX", feedback::LOGS_MAX, "Logs; the oldest one goes first."),
        bytes(
            "RECORD_BYTES_MAX",
            feedback::RECORD_BYTES_MAX,
            "One entry of a log; a longer chunk becomes several.",
        ),
        bytes("QUEUE_BYTES_MAX", feedback::QUEUE_BYTES_MAX, "Output that waits to be written."),
        span(
            "TAKE_WITHIN",
            feedback::TAKE_WITHIN,
            "How long a frame with output waits for a slow disk.",
        ),
        count("SNAPSHOTS_MAX", feedback::SNAPSHOTS_MAX, "Tasks whose progress is remembered."),
        bytes("SNAPSHOT_BYTES_MAX", feedback::SNAPSHOT_BYTES_MAX, "The same, in memory."),
    ]
}

fn event_limits() -> Vec<LimitRow> {
    vec![
        count(
            "RING_EVENTS_MAX",
            events::RING_EVENTS_MAX,
            "Events of a tenant that are kept for readers that come back; the oldest go first.",
        ),
        bytes("RING_BYTES_MAX", events::RING_BYTES_MAX, "The same, in memory."),
        count("READERS_MAX", events::READERS_MAX, "Connections of a tenant that read events."),
        count(
            "BEHIND_EVENTS",
            events::BEHIND_EVENTS,
            "A reader with more events before it hears the newest status of each node alone.",
        ),
        bytes(
            "EVENT_RESULT_BYTES_MAX",
            events::RESULT_BYTES_MAX,
            "A result that is told in an event; of a larger one, only that it is there.",
        ),
        span(
            "LOOK_EVERY",
            events::LOOK_EVERY,
            "How often a reader is sent something while much happens.",
        ),
        bytes(
            "SHARED_BYTES_MAX",
            events::SHARED_BYTES_MAX,
            "Events of a tenant that are held as they are sent, for readers that want the same.",
        ),
        span(
            "LINGER_FOR",
            events::LINGER_FOR,
            "Words of workers are told for so long after the last reader has left.",
        ),
        span("TICKET_LIFETIME", events::TICKET_LIFETIME, "How long a ticket may wait to be used."),
        count("TICKETS_MAX", events::TICKETS_MAX, "Tickets that wait to be used."),
    ]
}

fn session_limits() -> Vec<LimitRow> {
    use protocol::session::{decode, outgoing, window};
    use shard::artifacts::{self, INLINE_BYTES_MAX};
    use shard::sessions::{PARKED_FOR, SESSION_KEPT_FOR, SESSIONS_MAX, TAKEOVERS_MAX};
    use shard::worker_link::session_leases::{self, calls};
    use shard::worker_link::{self, convert as ws_convert};
    vec![
        count("WS_CONNECTIONS_MAX", ws_listener::WS_CONNECTIONS_MAX, "Connected workers."),
        bytes("FRAME_BYTES_MAX", decode::FRAME_BYTES_MAX, "One frame, in either direction."),
        bytes("EARLY_FRAME_BYTES_MAX", wire::EARLY_FRAME_BYTES_MAX, "One before the handshake."),
        count("DEPTH_MAX", decode::DEPTH_MAX, "How deep a frame may nest."),
        count("WINDOW_FRAMES", window::WINDOW_FRAMES, "Unconfirmed frames in one direction."),
        bytes("SEND_BYTES_FULL", outgoing::SEND_BYTES_FULL, "Unconfirmed bytes to one worker."),
        span(
            "OPENING_WITHIN",
            worker_link::OPENING_WITHIN,
            "From the connection to its handshake.",
        ),
        span("REFUSAL_DELAY", worker_link::REFUSAL_DELAY, "How late a refusal is told."),
        span("WRITE_STALL_MAX", wire::WRITE_STALL_MAX, "How long a worker may not read."),
        span(
            "DISPATCH_CONFIRM_WITHIN",
            session_leases::DISPATCH_CONFIRM_WITHIN,
            "A dispatch without a sign of life is taken back after this.",
        ),
        count("TAKEOVERS_MAX", TAKEOVERS_MAX, "Takeovers of one worker per minute."),
        span("PARKED_FOR", PARKED_FOR, "How long a cut session keeps its frames."),
        count("SESSIONS_MAX", SESSIONS_MAX, "Workers remembered per tenant, at all doors."),
        span(
            "SESSION_KEPT_FOR",
            SESSION_KEPT_FOR,
            "A worker with a session but no connection is forgotten after this.",
        ),
        count(
            "SESSION_KEYS_MAX",
            session_keys::SESSION_KEYS_MAX,
            "Keys that verify session tokens.",
        ),
        count("SLOTS_MAX", ws_convert::SLOTS_MAX, "Tasks of one worker at the same time."),
        count(
            "REGISTER_ENTRIES_MAX",
            ws_convert::REGISTER_ENTRIES_MAX,
            "Features, packages, channels and limits that a worker may register, of each.",
        ),
        count("CALLS_PER_LEASE_MAX", calls::CALLS_PER_LEASE_MAX, "Open calls of one middleware."),
        count("ARTIFACTS_MAX", artifacts::ARTIFACTS_MAX, "Artifacts of one attempt."),
        bytes("INLINE_BYTES_MAX", INLINE_BYTES_MAX, "Inline artifacts of one attempt, in all."),
        count(
            "RESOURCES_PER_TENANT_MAX",
            resources::RESOURCES_PER_TENANT_MAX,
            "Resources of workers that are remembered, per tenant.",
        ),
        count(
            "PARTS_AHEAD_MAX",
            resources::PARTS_AHEAD_MAX,
            "Parts of 64 KiB that a download holds in memory.",
        ),
        count("LISTED_LEASES_MAX", ws_convert::LISTED_LEASES_MAX, "Leases in one heartbeat."),
        count(
            "REBOUND_TOLD_MAX",
            shard::projection::REBOUND_TOLD_MAX,
            "Packages that one worker is told of when a run is rebound.",
        ),
        count(
            "WORKERS_COUNTED_MAX",
            metrics::WORKERS_COUNTED_MAX,
            "Values of the label worker; further workers count as `other`.",
        ),
    ]
}

/// The limits of keys and values, per tenant.
fn scratch_limits() -> Vec<LimitRow> {
    vec![
        bytes(
            "SCRATCH_BYTES_MAX",
            scratch::SCRATCH_BYTES_MAX,
            "Keys and values of one tenant, with what it costs to keep them.",
        ),
        count("SCRATCH_KEYS_MAX", scratch::SCRATCH_KEYS_MAX, "Keys of one tenant."),
        bytes(
            "SCRATCH_VALUE_BYTES_MAX",
            scratch::SCRATCH_VALUE_BYTES_MAX,
            "One value, element or name of a key.",
        ),
        count(
            "SCRATCH_ELEMENTS_MAX",
            scratch::SCRATCH_ELEMENTS_MAX,
            "Elements of one list, hash or set.",
        ),
        count("SCRATCH_WAITERS_MAX", scratch::SCRATCH_WAITERS_MAX, "Pops that wait for a list."),
        bytes(
            "SCRATCH_PENDING_BYTES_MAX",
            scratch::SCRATCH_PENDING_BYTES_MAX,
            "Changes of keys that are not durable yet; beyond this, commands are refused.",
        ),
        count(
            "SCRATCH_BATCHES_IN_FLIGHT_MAX",
            scratch::SCRATCH_BATCHES_IN_FLIGHT_MAX,
            "Batches of such changes on their way to the store.",
        ),
    ]
}

fn resp_limits() -> Vec<LimitRow> {
    use resp::{
        capabilities, connection, gate, jobs, listener, pops, pubsub, queues, wire, workers,
    };
    use shard::sessions::{DEAD_AFTER, MEMBER_KEPT_FOR};
    vec![
        count("RESP_CONNECTIONS_MAX", listener::RESP_CONNECTIONS_MAX, "Redis clients."),
        count(
            "EARLY_PER_ADDRESS_MAX",
            listener::EARLY_PER_ADDRESS_MAX,
            "Redis clients of one address that have shown no key.",
        ),
        span("AUTH_WITHIN", listener::AUTH_WITHIN, "From the connection to its key."),
        bytes("EARLY_BYTES_IN_MAX", wire::EARLY_BYTES_IN_MAX, "What is read before the key."),
        bytes("EARLY_BYTES_OUT_MAX", wire::EARLY_BYTES_OUT_MAX, "What is sent before the key."),
        count(
            "AUTH_FAILURES_MAX",
            gate::AUTH_FAILURES_MAX,
            "Wrong keys of an address in a minute.",
        ),
        count("ARGUMENTS_MAX", wire::ARGUMENTS_MAX, "Arguments of one command."),
        bytes("ARGUMENT_BYTES_MAX", wire::ARGUMENT_BYTES_MAX, "One argument of a command."),
        bytes("REQUEST_BYTES_MAX", wire::REQUEST_BYTES_MAX, "One command."),
        span("IDLE_MAX", connection::IDLE_MAX, "How long a Redis client may say nothing."),
        count("SUBSCRIPTIONS_MAX", pubsub::SUBSCRIPTIONS_MAX, "Channels of one connection."),
        count(
            "UPDATES_BEHIND_MAX",
            updates::UPDATES_BEHIND_MAX,
            "Messages that a subscriber may be behind.",
        ),
        count(
            "TIMED_OUT_WORKERS_MAX",
            updates::TIMED_OUT_WORKERS_MAX,
            "Workers of a tenant whose timed-out jobs are counted.",
        ),
        count("TAKEN_MAX", pops::TAKEN_MAX, "Leases of a connection that its end looks after."),
        count("LISTED_JOBS_MAX", jobs::LISTED_JOBS_MAX, "Jobs that one list shows."),
        bytes(
            "SEARCHED_BYTES_MAX",
            jobs::SEARCHED_BYTES_MAX,
            "Payloads that one `JOBS.SEARCH` looks through, newest first.",
        ),
        count("PEEKED_JOBS_MAX", queues::PEEKED_JOBS_MAX, "Jobs that one look at a queue shows."),
        bytes("STATS_BYTES_MAX", workers::STATS_BYTES_MAX, "The numbers of a heartbeat."),
        count("TOOLS_LISTED_MAX", workers::TOOLS_LISTED_MAX, "Tools of a worker in WORKERS.LIST."),
        count("FOUND_MAX", capabilities::FOUND_MAX, "Capabilities that one search gives."),
        span("MEMBER_KEPT_FOR", MEMBER_KEPT_FOR, "A silent Redis worker is forgotten after this."),
        span("DEAD_AFTER", DEAD_AFTER, "A silent Redis worker is dead after this."),
        count(
            "HELD_REMEMBERED_MAX",
            resp_worker::HELD_REMEMBERED_MAX,
            "Jobs of a Redis worker whose leases are found without the store.",
        ),
    ]
}

fn job_limits() -> Vec<LimitRow> {
    use plans::{action, job};
    use shard::documents;
    vec![
        count("PLANS_MAX", documents::PLANS_MAX, "Plans that a tenant keeps."),
        bytes("PLAN_BYTES_MAX", documents::PLAN_BYTES_MAX, "One plan."),
        count("ACTIONS_MAX", documents::ACTIONS_MAX, "Actions that are remembered."),
        count("INPUTS_MAX", action::INPUTS_MAX, "Inputs of one action."),
        count("NAME_CHARS_MAX", job::NAME_CHARS_MAX, "The name of a job, a plan or an action."),
        count("JOB_RETRIES_MAX", job::JOB_RETRIES_MAX, "Retries that a job may ask for."),
        span("JOB_TIMEOUT", job::JOB_TIMEOUT, "The longest attempt of a job, if it does not say."),
        span("JOB_LEASE_TTL", job::JOB_LEASE_TTL, "A job without a sign of life goes back."),
    ]
}

fn run_limits() -> Vec<LimitRow> {
    use runs::{programs, start};
    use workflows::{diff, save};
    vec![
        bytes(
            "DEFINITION_BODY_BYTES_MAX",
            body::DEFINITION_BODY_BYTES_MAX,
            "The body of a request that holds a workflow.",
        ),
        bytes("RUN_INPUTS_BYTES_MAX", start::RUN_INPUTS_BYTES_MAX, "What a run may be given."),
        count("CLIENT_ID_CHARS_MAX", start::CLIENT_ID_CHARS_MAX, "The name of a run's client."),
        count("EVENT_CHARS_MAX", run_nodes::EVENT_CHARS_MAX, "The name of an event for a node."),
        count("PAGE_RUNS_MAX", convert::PAGE_RUNS_MAX, "Runs, and workflows, on a page."),
        count(
            "COMPILES_AT_ONCE_MAX",
            programs::COMPILES_AT_ONCE_MAX,
            "Definitions that are compiled at the same time, one of each tenant; others wait.",
        ),
        count(
            "PROGRAMS_REMEMBERED_MAX",
            programs::PROGRAMS_REMEMBERED_MAX,
            "Definitions that are remembered in that form.",
        ),
        bytes("PROGRAMS_BYTES_MAX", programs::PROGRAMS_BYTES_MAX, "The same, as text."),
        count(
            "WORKFLOWS_MAX",
            shard::documents::WORKFLOWS_MAX,
            "Workflows that a tenant keeps, deleted ones included.",
        ),
        bytes(
            "BODY_IN_MEMORY_BYTES_MAX",
            shard::documents::BODY_IN_MEMORY_BYTES_MAX,
            "A plan that is kept in memory; a longer one is read when it is used.",
        ),
        count(
            "WORKFLOW_NAME_CHARS_MAX",
            save::WORKFLOW_NAME_CHARS_MAX,
            "A workflow's name in lists; the rest is cut off.",
        ),
        count("COMMENT_CHARS_MAX", save::COMMENT_CHARS_MAX, "A comment on a version."),
        count("DIFF_FIELDS_MAX", diff::DIFF_FIELDS_MAX, "Values that one comparison lists."),
    ]
}

fn definition_limits() -> Vec<LimitRow> {
    use flow::limits as flow;
    vec![
        bytes("DEFINITION_BYTES_MAX", flow::DEFINITION_BYTES_MAX, "One workflow, as text."),
        count("NODES_MAX", flow::NODES_MAX, "Nodes of a workflow, with middlewares and subgraphs."),
        count("EDGES_MAX", flow::EDGES_MAX, "Edges of a workflow, subgraphs included."),
        count("OBJECTS_MAX", flow::OBJECTS_MAX, "Objects of any kind in a workflow."),
        count("WRONG_ELEMENTS_MAX", flow::WRONG_ELEMENTS_MAX, "Elements that are no objects."),
        count(
            "PROBLEMS_TOLD_MAX",
            flow::PROBLEMS_TOLD_MAX,
            "Problems of a workflow; the rest is counted.",
        ),
        count("SUBGRAPHS_NESTING_MAX", flow::SUBGRAPHS_NESTING_MAX, "Subgraphs within subgraphs."),
        count(
            "NODES_EXECUTED_MAX",
            flow::NODES_EXECUTED_MAX,
            "Nodes of a run, each subgraph as often as a container names it.",
        ),
        count("MIDDLEWARES_MAX", flow::MIDDLEWARES_MAX, "Middlewares around one node."),
        count("PORTS_MAX", flow::PORTS_MAX, "Ports of one side of a node."),
        count(
            "NODE_DEMAND_ENTRIES_MAX",
            flow::NODE_DEMAND_ENTRIES_MAX,
            "Tools, and labels, that a node asks for.",
        ),
        bytes("LABEL_BYTES_MAX", flow::LABEL_BYTES_MAX, "The label of a node."),
        bytes("ALIAS_BYTES_MAX", flow::ALIAS_BYTES_MAX, "The name of a node in expressions."),
        bytes("KEY_BYTES_MAX", flow::KEY_BYTES_MAX, "A key with its expressions."),
        count("PARALLEL_MAX", flow::PARALLEL_MAX, "The largest `maxParallel` of a list."),
        span("AFFINITY_TTL_MAX", flow::AFFINITY_TTL_MAX, "How long a worker may be kept in mind."),
        bytes(
            "SCHEMA_BYTES_MAX",
            flow::SCHEMA_BYTES_MAX,
            "The schema of one node; a larger one is passed over.",
        ),
        count("SCHEMA_DEPTH_MAX", flow::SCHEMA_DEPTH_MAX, "How deep a schema nests."),
        bytes("SCHEMAS_BYTES_MAX", flow::SCHEMAS_BYTES_MAX, "All different schemas of a workflow."),
        count("PATTERNS_MAX", flow::PATTERNS_MAX, "Patterns in the schemas of a workflow."),
        bytes("PATTERN_BYTES_MAX", flow::PATTERN_BYTES_MAX, "One pattern, ready for use."),
        count(
            "NODE_STEPS_MAX",
            flow::NODE_STEPS_MAX,
            "Steps of the check of one node by its schema.",
        ),
        count("ALL_STEPS_MAX", flow::ALL_STEPS_MAX, "The same, of all nodes together."),
        count("RESULT_SENTENCES_MAX", flow::RESULT_SENTENCES_MAX, "Warnings about one result."),
    ]
}

fn expression_limits() -> Vec<LimitRow> {
    use flow::limits as flow;
    vec![
        bytes("EXPRESSION_BYTES_MAX", flow::EXPRESSION_BYTES_MAX, "One expression."),
        count("OPERATIONS_MAX", flow::OPERATIONS_MAX, "Operators, filters and brackets in it."),
        count("SLICES_MAX", flow::SLICES_MAX, "Parts of lists that it takes."),
        count("FUEL_MAX", flow::FUEL_MAX, "Instructions that are carried out for it."),
        bytes("HELD_BYTES_MAX", flow::HELD_BYTES_MAX, "What it holds at a time."),
        bytes("TOUCHED_BYTES_MAX", flow::TOUCHED_BYTES_MAX, "What it looks at and makes in all."),
        bytes("OUTPUT_BYTES_MAX", flow::OUTPUT_BYTES_MAX, "What it gives."),
        bytes(
            "NODE_PARAMETERS_BYTES_MAX",
            flow::NODE_PARAMETERS_BYTES_MAX,
            "The parameters of a node, filled in.",
        ),
        count("NESTING_MAX", flow::NESTING_MAX, "How deep they nest."),
        count(
            "MAP_ITEMS_MAX",
            flow::MAP_ITEMS_MAX,
            "Elements of a list that a node is executed for.",
        ),
        bytes("LIST_BYTES_MAX", flow::LIST_BYTES_MAX, "That list, as text."),
        bytes("OUTPUTS_BYTES_MAX", flow::OUTPUTS_BYTES_MAX, "What a run, or a subgraph, gives."),
    ]
}

fn schedule_limits() -> Vec<LimitRow> {
    use schedules::{backfill, hooks};
    use shard::documents;
    vec![
        count("SCHEDULES_MAX", coordinator::SCHEDULES_MAX, "Schedules of one tenant."),
        count(
            "SCHEDULE_NAME_CHARS_MAX",
            schedules_door::SCHEDULE_NAME_CHARS_MAX,
            "The name of a schedule or a webhook.",
        ),
        count("CRON_CHARS_MAX", coordinator::CRON_CHARS_MAX, "The rule of a schedule."),
        count("BACKFILL_RUNS_MAX", backfill::BACKFILL_RUNS_MAX, "Runs that one backfill starts."),
        count(
            "BACKFILL_AT_ONCE_MAX",
            backfill::BACKFILL_AT_ONCE_MAX,
            "Runs of a backfill that are being started at the same time, where runs may overlap.",
        ),
        count(
            "BACKFILL_WAITING_MAX",
            coordinator::BACKFILL_WAITING_MAX,
            "Times of a schedule that wait for their runs after backfills.",
        ),
        count(
            "WAITING_MOMENTS_MAX",
            coordinator::WAITING_MOMENTS_MAX,
            "Times of a schedule that wait for the run before.",
        ),
        count("HOOKS_MAX", documents::HOOKS_MAX, "Webhooks of one tenant."),
        bytes("HOOK_BODY_BYTES_MAX", hooks::HOOK_BODY_BYTES_MAX, "The body of a webhook's call."),
        count(
            "HOOK_CALLS_PER_MINUTE_MAX",
            hooks::HOOK_CALLS_PER_MINUTE_MAX,
            "Calls of one webhook in a minute.",
        ),
    ]
}

fn row(name: &'static str, value: String, meaning: &'static str) -> LimitRow {
    LimitRow { name, value, meaning }
}

fn count(name: &'static str, value: impl Display, meaning: &'static str) -> LimitRow {
    row(name, grouped(&value.to_string()), meaning)
}

/// `10000` as `10,000`.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn bytes(name: &'static str, value: usize, meaning: &'static str) -> LimitRow {
    const KIB: usize = 1024;
    let value = match value {
        whole if whole % (KIB * KIB * KIB) == 0 => format!("{} GiB", whole / KIB / KIB / KIB),
        whole if whole % (KIB * KIB) == 0 => format!("{} MiB", whole / KIB / KIB),
        whole if whole % KIB == 0 => format!("{} KiB", whole / KIB),
        odd => format!("{odd} bytes"),
    };
    row(name, value, meaning)
}

fn span(name: &'static str, value: Duration, meaning: &'static str) -> LimitRow {
    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;
    let seconds = value.as_secs();
    let value = match seconds {
        0 => format!("{} ms", value.as_millis()),
        whole if whole > DAY && whole % DAY == 0 => format!("{} days", whole / DAY),
        whole if whole % HOUR == 0 => format!("{} h", whole / HOUR),
        other => format!("{other} s"),
    };
    row(name, value, meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_units_and_one_name_each() {
        let mut names: Vec<_> = all().iter().map(|row| row.name).collect();
        names.sort_unstable();
        let n_rows = names.len();
        names.dedup();
        assert_eq!(names.len(), n_rows);
        let text = |name: &str| {
            all().into_iter().find(|row| row.name == name).map(|row| row.value).expect("a row")
        };
        assert_eq!(text("BODY_BYTES_MAX"), "16 MiB");
        assert_eq!(text("LEASE_TTL_MIN"), "100 ms");
        assert_eq!(text("TIMEOUT_MAX"), "30 days");
        assert_eq!(text("STOP_GRACE"), "3 s");
        assert_eq!(text("TASKS_PER_SUBMIT_MAX"), "10,000");
        assert_eq!(text("REASON_CHARS_MAX"), "4,096");
        assert_eq!(text("LEASE_TTL_MAX"), "24 h");
    }
}
