//! The table of commands: what is answered on this port, and by what.
//!
//! The door carries commands out by it, `COMMAND` and `COMMAND DOCS` describe it to clients, and
//! `docs/reference/redis.md` is generated from it.

use std::collections::HashMap;
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use keyspace::{hashes, keys, lists, sorted_sets, strings};
use protocol::resp::reply::Reply;

use super::command_spec::{CommandSpec, Need, Run};
use super::dispatch::Class;

const ONE_KEY: (i32, i32) = (1, 1);
const TWO_KEYS: (i32, i32) = (1, 2);
const ALL_KEYS: (i32, i32) = (1, -1);
const KEYS_THEN_TIMEOUT: (i32, i32) = (1, -2);

const READ: &str = "readonly fast";
const READ_SLOW: &str = "readonly";
const WRITE: &str = "write denyoom fast";
const WRITE_SLOW: &str = "write denyoom";
const SHRINK: &str = "write fast";
const SHRINK_SLOW: &str = "write";
const WAIT: &str = "write blocking";
const WAIT_AND_GROW: &str = "write denyoom blocking";
const BEFORE_AUTH: &str = "fast no_auth";

const CLIENT_SYNTAX: &str = "ID|GETNAME|SETNAME name|SETINFO LIB-NAME|LIB-VER value|INFO|LIST";
const COMMAND_SYNTAX: &str = "[COUNT|LIST|INFO [name ...]|DOCS [name ...]|GETKEYS name [arg ...]]";
const SET_SYNTAX: &str =
    "key value [NX|XX] [EX seconds|PX milliseconds|EXAT unix-seconds|PXAT unix-milliseconds]";

/// The table, in groups. A row is: name, arity (below zero: at least so many), syntax `=>` what
/// carries the command out, what a client must be allowed to, and what it is instead on a queue;
/// then its flags, where its keys stand, and what it does.
macro_rules! commands {
    ($($group:literal {$(
        $name:literal $arity:literal $syntax:expr => $run:ident $(($($what:tt)*))?, $need:ident
            $(, on queues $class:ident $queue_need:ident)?:
            $flags:tt $($keys:ident)? $summary:literal;
    )*})*) => {
        /// The commands, those of a group next to each other.
        pub static COMMANDS: &[CommandSpec] = &[$($(CommandSpec {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: commands!(@keys $($keys)?),
            group: $group,
            syntax: $syntax,
            summary: $summary,
            need: Need::$need,
            run: commands!(@run $run $($($what)*)?),
            on_queue: commands!(@queue $($class $queue_need)?),
        },)*)*];
    };
    (@keys) => { (0, 0) };
    (@keys $keys:ident) => { $keys };
    (@queue) => { None };
    (@queue $class:ident $need:ident) => { Some((Class::$class, Need::$need)) };
    (@run Door |$connection:ident, $request:ident| $answer:expr) => {
        Run::Door(|$connection, $request| Box::pin(async move { $answer }))
    };
    (@run Door $method:ident) => {
        Run::Door(|connection, request| Box::pin(connection.$method(request)))
    };
    (@run $run:ident) => { Run::$run };
    (@run $run:ident $operation:path) => { Run::$run($operation) };
}

commands! {
    "connection" {
        "auth" -2 "[username] key" => Door(on_auth), Nothing:
            BEFORE_AUTH "Says who the client is; a worker or a tool gives its key.";
        "client" -2 CLIENT_SYNTAX => Door(|c, r| c.on_client(r)), Nothing:
            "" "Asks about connections, or names this one.";
        "echo" 2 "message" => Door(|_c, r| Ok(Reply::Bulk(r.arguments[1].clone()))), Nothing:
            "fast" "Gives its argument back.";
        "hello" -1 "[protover [AUTH username key] [SETNAME name]]" => Door(on_hello), Nothing:
            BEFORE_AUTH "Chooses the version of the protocol, and may say who the client is.";
        "ping" -1 "[message|worker_id]" => Door(on_ping), Nothing:
            "fast" "Answers PONG, or its argument; from a worker it is a sign of life.";
        "quit" -1 "" => Door(|c, _r| { c.is_leaving = true; Ok(Reply::ok()) }), Nothing:
            BEFORE_AUTH "Answers OK and closes the connection.";
        "reset" 1 "" => Door(|c, _r| Ok(c.on_reset().await)), Nothing:
            BEFORE_AUTH "Puts the connection back into the state it began with.";
        "select" 2 "index" => Door(|_c, r| super::info::on_select(r)), Nothing:
            "fast" "Chooses a database; there is only number 0.";
    }
    "server" {
        "command" -1 COMMAND_SYNTAX => Door(|c, r| c.on_command(r)), Nothing:
            "" "Describes all commands, or those that are asked for.";
        "config" -3 "GET parameter [parameter ...]" =>
            Door(|_c, r| super::info::on_config(r)), Look:
            "admin" "Gives the settings whose names fit a pattern.";
        "dbsize" 1 "" => Door(|c, _r| c.on_dbsize().await), Keep: READ "Counts the keys.";
        "info" -1 "[section [section ...]]" => Door(on_info), Look:
            "" "Describes the server and its load, in sections.";
        "metrics" 1 "" => Door(|c, _r| c.on_metrics()), Look:
            "" "Gives all metrics in the text format of Prometheus.";
        "module" -2 "LIST" => Door(|_c, _r| Ok(Reply::Array(Vec::new()))), Look:
            "admin" "Lists modules, of which there are none.";
        "time" 1 "" => Door(|c, _r| Ok(c.on_time())), Nothing:
            "fast" "Gives the server's clock: seconds since 1970, then microseconds.";
    }
    "pubsub" {
        "psubscribe" -2 "pattern [pattern ...]" => Subscribe, Look:
            "pubsub" "Listens to all channels whose names fit a pattern.";
        "punsubscribe" -1 "[pattern [pattern ...]]" => Subscribe, Look:
            "pubsub" "Stops listening to patterns, or to all of them.";
        "subscribe" -2 "channel [channel ...]" => Subscribe, Look: "pubsub" "Listens to channels.";
        "unsubscribe" -1 "[channel [channel ...]]" => Subscribe, Look:
            "pubsub" "Stops listening to channels, or to all of them.";
    }
    // Keys of any kind.
    "generic" {
        "del" -2 "key [key ...]" => Keys(keys::del), Keep:
            SHRINK_SLOW ALL_KEYS "Removes keys, and counts those that were there.";
        "exists" -2 "key [key ...]" => Keys(keys::exists), Keep:
            READ ALL_KEYS "Counts how many of the keys are there; one named twice counts twice.";
        "expire" -3 "key seconds" => Keys(keys::expire), Keep:
            SHRINK ONE_KEY "Lets a key live for so many seconds.";
        "keys" 2 "pattern" => Door(on_keys), Keep: READ_SLOW "Lists all keys that fit a pattern.";
        "scan" -2 "cursor [MATCH pattern] [COUNT count] [TYPE type]" => Door(on_scan), Keep:
            READ_SLOW "Goes through the keys, a part at a time.";
        "ttl" 2 "key" => Keys(keys::ttl), Keep:
            READ ONE_KEY "Gives the seconds that a key has left.";
        "type" 2 "key" => Keys(keys::type_of), Keep:
            READ ONE_KEY "Says what kind of value a key holds.";
    }
    "string" {
        "get" 2 "key" => Keys(strings::get), Keep: READ ONE_KEY "Gives the value of a key.";
        "incr" 2 "key" => Keys(strings::incr), Keep: WRITE ONE_KEY "Adds one to a number.";
        "incrby" 3 "key increment" => Keys(strings::incrby), Keep:
            WRITE ONE_KEY "Adds to a number.";
        "mget" -2 "key [key ...]" => Keys(strings::mget), Keep:
            READ ALL_KEYS "Gives the values of several keys.";
        "set" -3 SET_SYNTAX => Keys(strings::set), Keep:
            WRITE_SLOW ONE_KEY "Writes a value, whatever the key held.";
    }
    "list" {
        "blpop" -3 "key [key ...] timeout" => Wait(lists::blpop), Keep, on queues Pop Work:
            WAIT KEYS_THEN_TIMEOUT
            "Takes an item from the head of the first list with one, and waits for it.";
        "brpop" -3 "key [key ...] timeout" => Wait(lists::brpop), Keep, on queues Pop Work:
            WAIT KEYS_THEN_TIMEOUT
            "Takes an item from the tail of the first list with one, and waits for it.";
        "brpoplpush" 4 "source destination timeout" =>
            Wait(lists::brpoplpush), Keep, on queues Pop Work:
            WAIT_AND_GROW TWO_KEYS "Moves an item from a tail to a head, and waits for one.";
        "llen" 2 "key" => Keys(lists::llen), Keep: READ ONE_KEY "Counts the items.";
        "lmove" 5 "source destination LEFT|RIGHT LEFT|RIGHT" =>
            Keys(lists::lmove), Keep, on queues Pop Work:
            WRITE_SLOW TWO_KEYS "Moves an item between the ends of two lists.";
        "lpop" -2 "key [count]" => Keys(lists::lpop), Keep, on queues Pop Work:
            SHRINK ONE_KEY "Takes items from the head.";
        "lpush" -3 "key element [element ...]" => Keys(lists::lpush), Keep, on queues Submit Submit:
            WRITE ONE_KEY "Puts items at the head; on a queue, submits jobs.";
        "lrange" 4 "key start stop" => Keys(lists::lrange), Keep:
            READ_SLOW ONE_KEY "Gives the items from one place to another.";
        "lrem" 4 "key count element" => Keys(lists::lrem), Keep, on queues Alone Work:
            SHRINK_SLOW ONE_KEY "Removes items that are equal to one.";
        "rpop" -2 "key [count]" => Keys(lists::rpop), Keep, on queues Pop Work:
            SHRINK ONE_KEY "Takes items from the tail.";
        "rpoplpush" 3 "source destination" => Keys(lists::rpoplpush), Keep, on queues Pop Work:
            WRITE_SLOW TWO_KEYS "Moves an item from the tail of a list to the head of another.";
        "rpush" -3 "key element [element ...]" => Keys(lists::rpush), Keep, on queues Submit Submit:
            WRITE ONE_KEY "Puts items at the tail; on a queue, submits jobs.";
    }
    "hash" {
        "hdel" -3 "key field [field ...]" => Keys(hashes::hdel), Keep:
            SHRINK ONE_KEY "Removes fields, and counts those that were there.";
        "hexists" 3 "key field" => Keys(hashes::hexists), Keep:
            READ ONE_KEY "Says whether a field is there.";
        "hget" 3 "key field" => Keys(hashes::hget), Keep:
            READ ONE_KEY "Gives the value of a field.";
        "hgetall" 2 "key" => Keys(hashes::hgetall), Keep:
            READ_SLOW ONE_KEY "Gives all fields with their values.";
        "hincrby" 4 "key field increment" => Keys(hashes::hincrby), Keep:
            WRITE ONE_KEY "Adds so much to the number in a field.";
        "hlen" 2 "key" => Keys(hashes::hlen), Keep: READ ONE_KEY "Counts the fields.";
        "hset" -4 "key field value [field value ...]" => Keys(hashes::hset), Keep:
            WRITE ONE_KEY "Writes fields, and counts the new ones.";
    }
    // Only views of the server are sets.
    "set" {
        "sismember" 3 "key member" => Door(on_set_of_view), Look:
            READ ONE_KEY "Says whether a set that the server shows has a member.";
        "smembers" 2 "key" => Door(on_set_of_view), Look:
            READ_SLOW ONE_KEY "Gives the members of a set that the server shows.";
    }
    "sorted-set" {
        "zadd" -4 "key score member [score member ...]" => Keys(sorted_sets::zadd), Keep:
            WRITE ONE_KEY "Adds members with scores, or changes the scores of those there.";
        "zcard" 2 "key" => Keys(sorted_sets::zcard), Keep: READ ONE_KEY "Counts the members.";
        "zrange" -4 "key start stop [WITHSCORES]" => Keys(sorted_sets::zrange), Keep:
            READ_SLOW ONE_KEY "Gives the members from one place to another, lowest score first.";
        "zrangebyscore" -4 "key min max [WITHSCORES] [LIMIT offset count]" =>
            Keys(sorted_sets::zrangebyscore), Keep:
            READ_SLOW ONE_KEY "Gives the members between two scores, lowest first.";
        "zrem" -3 "key member [member ...]" => Keys(sorted_sets::zrem), Keep:
            SHRINK ONE_KEY "Removes members, and counts those that were there.";
        "zscore" 3 "key member" => Keys(sorted_sets::zscore), Keep:
            READ ONE_KEY "Gives the score of a member.";
    }
    "worker" {
        "capability.search" -1 "[word [word ...]]" => Door(on_capability_search), Look:
            READ_SLOW "Finds tools and units of living workers by words in their descriptions.";
        "worker.heartbeat" -2 "worker_id [stats-json]" => Door(on_worker_heartbeat), Work:
            SHRINK "Is a sign of life of a worker, with its load if it likes.";
        "worker.register" 2 "worker_json" => Door(on_worker_register), Work:
            SHRINK "Makes a worker known, with what it can do.";
        "worker.unregister" 2 "worker_id" => Door(on_worker_unregister), Work:
            SHRINK "Lets a worker leave; its jobs go back into their queues.";
        "worker.verify" -3 "[worker_id] capability challenge-json" =>
            Door(on_worker_verify), Submit:
            SHRINK_SLOW "Asks a worker to prove that it has a tool.";
        "workers.list" 1 "" => Door(|c, _r| c.on_workers_list().await), Look:
            READ_SLOW "Lists the workers, those seen last first.";
    }
    "plan" {
        "plan.delete" 2 "plan_id" => Door(on_plan_delete), Submit:
            SHRINK_SLOW "Removes a plan that no job needs any more.";
        "plan.get" 2 "plan_id" => Door(on_plan_get), Look: READ "Gives a plan as JSON.";
        "plan.list" -1 "[offset] [limit]" => Door(on_plan_list), Look:
            READ_SLOW "Lists plans, newest first, one JSON each.";
        "plan.submit" 2 "plan_json" => Door(on_plan_submit), Submit:
            SHRINK_SLOW "Keeps a plan and gives its id.";
    }
    "action" {
        "action.get" -2 "action_id [offset] [limit]" => Door(on_action_get), Look:
            READ_SLOW "Gives an action as JSON, with the ids of its jobs.";
        "action.list" -1 "[status] [offset] [limit]" => Door(on_action_list), Look:
            READ_SLOW "Lists actions, newest first, all or those in one state.";
        "action.status" 2 "action_id" => Door(on_action_status), Look:
            READ "Counts the jobs of an action by their states.";
        "action.submit" 2 "action_json" => Door(on_action_submit), Submit:
            SHRINK_SLOW "Runs a plan once for each input.";
    }
    "job" {
        "job.cancel" 2 "job_id" => Door(on_job_cancel), Submit:
            SHRINK_SLOW "Ends a job that is not needed any more.";
        "job.get" 2 "job_id" => Door(on_job_get), Look:
            READ "Gives a job as JSON, with all that a worker needs.";
        "job.list" -2 "action_id [status] [offset] [limit]" => Door(on_job_list), Look:
            READ_SLOW "Lists the jobs of an action, all or those in one state.";
        "job.retry" 2 "job_id" => Door(on_job_retry), Submit:
            SHRINK_SLOW "Runs a job again that has failed.";
        "job.status" 2 "job_id" => Door(on_job_status), Look:
            READ "Status and per-task results of a job";
        "job.submit" 2 "job_json" => Submit, Submit: SHRINK_SLOW "Runs a plan once.";
        "job.update" 3 "job_id update-json" => Update, Work:
            SHRINK_SLOW "Reports how a job goes or how it ended; only its worker may.";
        "jobs.list" -1 "[status] [offset] [limit]" => Door(on_jobs_list), Look:
            READ_SLOW "Lists jobs, newest first.";
        "jobs.search" -2 "word [word ...]" => Door(on_jobs_search), Look:
            READ_SLOW
            "Finds jobs by words in the newest payloads; also status:W, queue:Q, worker:W.";
    }
    "queue" {
        "queue.pause" 2 "queue" => Door(|c, r| c.on_queue_pause(r, true).await), Submit:
            SHRINK ONE_KEY "Stops handing out the jobs of a queue.";
        "queue.peek" -2 "queue [count]" => Door(on_queue_peek), Look:
            READ_SLOW ONE_KEY "Shows what waits in a queue, without taking it.";
        "queue.resume" 2 "queue" => Door(|c, r| c.on_queue_pause(r, false).await), Submit:
            SHRINK ONE_KEY "Hands out the jobs of a queue again.";
        "queue.stats" -1 "[queue]" => Door(on_queue_stats), Look:
            READ ONE_KEY "Counts what waits and what runs, in all queues or in one.";
    }
}

/// No name of a command is longer.
const NAME_BYTES_MAX: usize = 32;

/// Finds a command; case does not matter.
pub(super) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    static BY_NAME: LazyLock<HashMap<&[u8], &CommandSpec, RandomState>> =
        LazyLock::new(|| COMMANDS.iter().map(|spec| (spec.name.as_bytes(), spec)).collect());
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    BY_NAME.get(&*lower).copied()
}
