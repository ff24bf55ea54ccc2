//! The table of commands: what is answered on this port, and by what.
//!
//! The door carries commands out by it, `COMMAND` and `COMMAND DOCS` describe it to clients, and
//! `docs/reference/redis.md` is generated from it.

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
const BEFORE_AUTH: &str = "fast no_auth";

const CLIENT_SYNTAX: &str = "ID|GETNAME|SETNAME name|SETINFO LIB-NAME|LIB-VER value|INFO|LIST";
const COMMAND_SYNTAX: &str = "[COUNT|LIST|INFO [name ...]|DOCS [name ...]|GETKEYS name [arg ...]]";
const SET_SYNTAX: &str =
    "key value [NX|XX] [EX seconds|PX milliseconds|EXAT unix-seconds|PXAT unix-milliseconds]";

/// A function of the door as a [`Run`].
macro_rules! door {
    (|$connection:ident, $request:ident| $answer:expr) => {
        Run::Door(|$connection, $request| Box::pin(async move { $answer }))
    };
    ($method:ident) => {
        Run::Door(|connection, request| Box::pin(connection.$method(request)))
    };
}

/// The commands, those of a group next to each other.
pub static COMMANDS: [CommandSpec; 85] = [
    // ----- connection
    CommandSpec::new("auth", -2, "[username] key", door!(|c, r| Ok(c.on_auth(r).await)))
        .does("Says who the client is; a worker or a tool gives its key.", BEFORE_AUTH)
        .of("connection", Need::Nothing),
    CommandSpec::new("client", -2, CLIENT_SYNTAX, door!(|c, r| c.on_client(r)))
        .does("Asks about connections, or names this one.", "")
        .of("connection", Need::Nothing),
    CommandSpec::new("echo", 2, "message", door!(|_c, r| Ok(Reply::Bulk(r.arguments[1].clone()))))
        .does("Gives its argument back.", "fast")
        .of("connection", Need::Nothing),
    CommandSpec::new(
        "hello",
        -1,
        "[protover [AUTH username key] [SETNAME name]]",
        door!(|c, r| Ok(c.on_hello(r).await)),
    )
    .does("Chooses the version of the protocol, and may say who the client is.", BEFORE_AUTH)
    .of("connection", Need::Nothing),
    CommandSpec::new("ping", -1, "[message|worker_id]", door!(on_ping))
        .does("Answers PONG, or its argument; from a worker it is a sign of life.", "fast")
        .of("connection", Need::Nothing),
    CommandSpec::new(
        "quit",
        -1,
        "",
        door!(|c, _r| {
            c.is_leaving = true;
            Ok(Reply::ok())
        }),
    )
    .does("Answers OK and closes the connection.", BEFORE_AUTH)
    .of("connection", Need::Nothing),
    CommandSpec::new("reset", 1, "", door!(|c, _r| Ok(c.on_reset().await)))
        .does("Puts the connection back into the state it began with.", BEFORE_AUTH)
        .of("connection", Need::Nothing),
    CommandSpec::new("select", 2, "index", door!(|_c, r| super::info::on_select(r)))
        .does("Chooses a database; there is only number 0.", "fast")
        .of("connection", Need::Nothing),
    // ----- server
    CommandSpec::new("command", -1, COMMAND_SYNTAX, door!(|c, r| c.on_command(r)))
        .does("Describes all commands, or those that are asked for.", "")
        .of("server", Need::Nothing),
    CommandSpec::new(
        "config",
        -3,
        "GET parameter [parameter ...]",
        door!(|_c, r| super::info::on_config(r)),
    )
    .does("Gives the settings whose names fit a pattern.", "admin")
    .of("server", Need::Look),
    CommandSpec::new("dbsize", 1, "", door!(|c, _r| c.on_dbsize().await))
        .does("Counts the keys.", READ)
        .of("server", Need::Keep),
    CommandSpec::new("info", -1, "[section [section ...]]", door!(on_info))
        .does("Describes the server and its load, in sections.", "")
        .of("server", Need::Look),
    CommandSpec::new("metrics", 1, "", door!(|c, _r| c.on_metrics()))
        .does("Gives all metrics in the text format of Prometheus.", "")
        .of("server", Need::Look),
    CommandSpec::new("module", -2, "LIST", door!(|_c, _r| Ok(Reply::Array(Vec::new()))))
        .does("Lists modules, of which there are none.", "admin")
        .of("server", Need::Look),
    CommandSpec::new("time", 1, "", door!(|c, _r| Ok(c.on_time())))
        .does("Gives the server's clock: seconds since 1970, then microseconds.", "fast")
        .of("server", Need::Nothing),
    // ----- pubsub
    CommandSpec::new("psubscribe", -2, "pattern [pattern ...]", Run::Subscribe)
        .does("Listens to all channels whose names fit a pattern.", "pubsub")
        .of("pubsub", Need::Look),
    CommandSpec::new("punsubscribe", -1, "[pattern [pattern ...]]", Run::Subscribe)
        .does("Stops listening to patterns, or to all of them.", "pubsub")
        .of("pubsub", Need::Look),
    CommandSpec::new("subscribe", -2, "channel [channel ...]", Run::Subscribe)
        .does("Listens to channels.", "pubsub")
        .of("pubsub", Need::Look),
    CommandSpec::new("unsubscribe", -1, "[channel [channel ...]]", Run::Subscribe)
        .does("Stops listening to channels, or to all of them.", "pubsub")
        .of("pubsub", Need::Look),
    // ----- keys of any kind
    CommandSpec::new("del", -2, "key [key ...]", Run::Keys(keys::del))
        .does("Removes keys, and counts those that were there.", SHRINK_SLOW)
        .keys(ALL_KEYS)
        .of("generic", Need::Keep),
    CommandSpec::new("exists", -2, "key [key ...]", Run::Keys(keys::exists))
        .does("Counts how many of the keys are there; one named twice counts twice.", READ)
        .keys(ALL_KEYS)
        .of("generic", Need::Keep),
    CommandSpec::new("expire", -3, "key seconds", Run::Keys(keys::expire))
        .does("Lets a key live for so many seconds.", SHRINK)
        .keys(ONE_KEY)
        .of("generic", Need::Keep),
    CommandSpec::new("keys", 2, "pattern", door!(on_keys))
        .does("Lists all keys that fit a pattern.", READ_SLOW)
        .of("generic", Need::Keep),
    CommandSpec::new(
        "scan",
        -2,
        "cursor [MATCH pattern] [COUNT count] [TYPE type]",
        door!(on_scan),
    )
    .does("Goes through the keys, a part at a time.", READ_SLOW)
    .of("generic", Need::Keep),
    CommandSpec::new("ttl", 2, "key", Run::Keys(keys::ttl))
        .does("Gives the seconds that a key has left.", READ)
        .keys(ONE_KEY)
        .of("generic", Need::Keep),
    CommandSpec::new("type", 2, "key", Run::Keys(keys::type_of))
        .does("Says what kind of value a key holds.", READ)
        .keys(ONE_KEY)
        .of("generic", Need::Keep),
    // ----- strings
    CommandSpec::new("get", 2, "key", Run::Keys(strings::get))
        .does("Gives the value of a key.", READ)
        .keys(ONE_KEY)
        .of("string", Need::Keep),
    CommandSpec::new("incr", 2, "key", Run::Keys(strings::incr))
        .does("Adds one to a number.", WRITE)
        .keys(ONE_KEY)
        .of("string", Need::Keep),
    CommandSpec::new("incrby", 3, "key increment", Run::Keys(strings::incrby))
        .does("Adds to a number.", WRITE)
        .keys(ONE_KEY)
        .of("string", Need::Keep),
    CommandSpec::new("mget", -2, "key [key ...]", Run::Keys(strings::mget))
        .does("Gives the values of several keys.", READ)
        .keys(ALL_KEYS)
        .of("string", Need::Keep),
    CommandSpec::new("set", -3, SET_SYNTAX, Run::Keys(strings::set))
        .does("Writes a value, whatever the key held.", WRITE_SLOW)
        .keys(ONE_KEY)
        .of("string", Need::Keep),
    // ----- lists
    CommandSpec::new("blpop", -3, "key [key ...] timeout", Run::Wait(lists::blpop))
        .does("Takes an item from the head of the first list with one, and waits for it.", WAIT)
        .keys(KEYS_THEN_TIMEOUT)
        .of("list", Need::Keep)
        .on_queue(Class::Pop, Need::Work),
    CommandSpec::new("brpop", -3, "key [key ...] timeout", Run::Wait(lists::brpop))
        .does("Takes an item from the tail of the first list with one, and waits for it.", WAIT)
        .keys(KEYS_THEN_TIMEOUT)
        .of("list", Need::Keep)
        .on_queue(Class::Pop, Need::Work),
    CommandSpec::new("brpoplpush", 4, "source destination timeout", Run::Wait(lists::brpoplpush))
        .does("Moves an item from a tail to a head, and waits for one.", "write denyoom blocking")
        .keys(TWO_KEYS)
        .of("list", Need::Keep)
        .on_queue(Class::Pop, Need::Work),
    CommandSpec::new("llen", 2, "key", Run::Keys(lists::llen))
        .does("Counts the items.", READ)
        .keys(ONE_KEY)
        .of("list", Need::Keep),
    CommandSpec::new(
        "lmove",
        5,
        "source destination LEFT|RIGHT LEFT|RIGHT",
        Run::Keys(lists::lmove),
    )
    .does("Moves an item between the ends of two lists.", WRITE_SLOW)
    .keys(TWO_KEYS)
    .of("list", Need::Keep)
    .on_queue(Class::Pop, Need::Work),
    CommandSpec::new("lpop", -2, "key [count]", Run::Keys(lists::lpop))
        .does("Takes items from the head.", SHRINK)
        .keys(ONE_KEY)
        .of("list", Need::Keep)
        .on_queue(Class::Pop, Need::Work),
    CommandSpec::new("lpush", -3, "key element [element ...]", Run::Keys(lists::lpush))
        .does("Puts items at the head; on a queue, submits jobs.", WRITE)
        .keys(ONE_KEY)
        .of("list", Need::Keep)
        .on_queue(Class::Submit, Need::Submit),
    CommandSpec::new("lrange", 4, "key start stop", Run::Keys(lists::lrange))
        .does("Gives the items from one place to another.", READ_SLOW)
        .keys(ONE_KEY)
        .of("list", Need::Keep),
    CommandSpec::new("lrem", 4, "key count element", Run::Keys(lists::lrem))
        .does("Removes items that are equal to one.", SHRINK_SLOW)
        .keys(ONE_KEY)
        .of("list", Need::Keep)
        .on_queue(Class::Alone, Need::Work),
    CommandSpec::new("rpop", -2, "key [count]", Run::Keys(lists::rpop))
        .does("Takes items from the tail.", SHRINK)
        .keys(ONE_KEY)
        .of("list", Need::Keep)
        .on_queue(Class::Pop, Need::Work),
    CommandSpec::new("rpoplpush", 3, "source destination", Run::Keys(lists::rpoplpush))
        .does("Moves an item from the tail of a list to the head of another.", WRITE_SLOW)
        .keys(TWO_KEYS)
        .of("list", Need::Keep)
        .on_queue(Class::Pop, Need::Work),
    CommandSpec::new("rpush", -3, "key element [element ...]", Run::Keys(lists::rpush))
        .does("Puts items at the tail; on a queue, submits jobs.", WRITE)
        .keys(ONE_KEY)
        .of("list", Need::Keep)
        .on_queue(Class::Submit, Need::Submit),
    // ----- hashes
    CommandSpec::new("hdel", -3, "key field [field ...]", Run::Keys(hashes::hdel))
        .does("Removes fields, and counts those that were there.", SHRINK)
        .keys(ONE_KEY)
        .of("hash", Need::Keep),
    CommandSpec::new("hexists", 3, "key field", Run::Keys(hashes::hexists))
        .does("Says whether a field is there.", READ)
        .keys(ONE_KEY)
        .of("hash", Need::Keep),
    CommandSpec::new("hget", 3, "key field", Run::Keys(hashes::hget))
        .does("Gives the value of a field.", READ)
        .keys(ONE_KEY)
        .of("hash", Need::Keep),
    CommandSpec::new("hgetall", 2, "key", Run::Keys(hashes::hgetall))
        .does("Gives all fields with their values.", READ_SLOW)
        .keys(ONE_KEY)
        .of("hash", Need::Keep),
    CommandSpec::new("hincrby", 4, "key field increment", Run::Keys(hashes::hincrby))
        .does("Adds so much to the number in a field.", WRITE)
        .keys(ONE_KEY)
        .of("hash", Need::Keep),
    CommandSpec::new("hlen", 2, "key", Run::Keys(hashes::hlen))
        .does("Counts the fields.", READ)
        .keys(ONE_KEY)
        .of("hash", Need::Keep),
    CommandSpec::new("hset", -4, "key field value [field value ...]", Run::Keys(hashes::hset))
        .does("Writes fields, and counts the new ones.", WRITE)
        .keys(ONE_KEY)
        .of("hash", Need::Keep),
    // ----- sets, which are only views of the server
    CommandSpec::new("sismember", 3, "key member", door!(on_set_of_view))
        .does("Says whether a set that the server shows has a member.", READ)
        .keys(ONE_KEY)
        .of("set", Need::Look),
    CommandSpec::new("smembers", 2, "key", door!(on_set_of_view))
        .does("Gives the members of a set that the server shows.", READ_SLOW)
        .keys(ONE_KEY)
        .of("set", Need::Look),
    // ----- sorted sets
    CommandSpec::new(
        "zadd",
        -4,
        "key score member [score member ...]",
        Run::Keys(sorted_sets::zadd),
    )
    .does("Adds members with scores, or changes the scores of those there.", WRITE)
    .keys(ONE_KEY)
    .of("sorted-set", Need::Keep),
    CommandSpec::new("zcard", 2, "key", Run::Keys(sorted_sets::zcard))
        .does("Counts the members.", READ)
        .keys(ONE_KEY)
        .of("sorted-set", Need::Keep),
    CommandSpec::new("zrange", -4, "key start stop [WITHSCORES]", Run::Keys(sorted_sets::zrange))
        .does("Gives the members from one place to another, lowest score first.", READ_SLOW)
        .keys(ONE_KEY)
        .of("sorted-set", Need::Keep),
    CommandSpec::new(
        "zrangebyscore",
        -4,
        "key min max [WITHSCORES] [LIMIT offset count]",
        Run::Keys(sorted_sets::zrangebyscore),
    )
    .does("Gives the members between two scores, lowest first.", READ_SLOW)
    .keys(ONE_KEY)
    .of("sorted-set", Need::Keep),
    CommandSpec::new("zrem", -3, "key member [member ...]", Run::Keys(sorted_sets::zrem))
        .does("Removes members, and counts those that were there.", SHRINK)
        .keys(ONE_KEY)
        .of("sorted-set", Need::Keep),
    CommandSpec::new("zscore", 3, "key member", Run::Keys(sorted_sets::zscore))
        .does("Gives the score of a member.", READ)
        .keys(ONE_KEY)
        .of("sorted-set", Need::Keep),
    // ----- workers
    CommandSpec::new("capability.search", -1, "[word [word ...]]", door!(on_capability_search))
        .does("Finds tools and units of living workers by words in their descriptions.", READ_SLOW)
        .of("worker", Need::Look),
    CommandSpec::new("worker.heartbeat", -2, "worker_id [stats-json]", door!(on_worker_heartbeat))
        .does("Is a sign of life of a worker, with its load if it likes.", SHRINK)
        .of("worker", Need::Work),
    CommandSpec::new("worker.register", 2, "worker_json", door!(on_worker_register))
        .does("Makes a worker known, with what it can do.", SHRINK)
        .of("worker", Need::Work),
    CommandSpec::new("worker.unregister", 2, "worker_id", door!(on_worker_unregister))
        .does("Lets a worker leave; its jobs go back into their queues.", SHRINK)
        .of("worker", Need::Work),
    CommandSpec::new(
        "worker.verify",
        -3,
        "[worker_id] capability challenge-json",
        door!(on_worker_verify),
    )
    .does("Asks a worker to prove that it has a tool.", SHRINK_SLOW)
    .of("worker", Need::Submit),
    CommandSpec::new("workers.list", 1, "", door!(|c, _r| c.on_workers_list().await))
        .does("Lists the workers, those seen last first.", READ_SLOW)
        .of("worker", Need::Look),
    // ----- plans
    CommandSpec::new("plan.delete", 2, "plan_id", door!(on_plan_delete))
        .does("Removes a plan that no job needs any more.", SHRINK_SLOW)
        .of("plan", Need::Submit),
    CommandSpec::new("plan.get", 2, "plan_id", door!(on_plan_get))
        .does("Gives a plan as JSON.", READ)
        .of("plan", Need::Look),
    CommandSpec::new("plan.list", -1, "[offset] [limit]", door!(on_plan_list))
        .does("Lists plans, newest first, one JSON each.", READ_SLOW)
        .of("plan", Need::Look),
    CommandSpec::new("plan.submit", 2, "plan_json", door!(on_plan_submit))
        .does("Keeps a plan and gives its id.", SHRINK_SLOW)
        .of("plan", Need::Submit),
    // ----- actions
    CommandSpec::new("action.get", -2, "action_id [offset] [limit]", door!(on_action_get))
        .does("Gives an action as JSON, with the ids of its jobs.", READ_SLOW)
        .of("action", Need::Look),
    CommandSpec::new("action.list", -1, "[status] [offset] [limit]", door!(on_action_list))
        .does("Lists actions, newest first, all or those in one state.", READ_SLOW)
        .of("action", Need::Look),
    CommandSpec::new("action.status", 2, "action_id", door!(on_action_status))
        .does("Counts the jobs of an action by their states.", READ)
        .of("action", Need::Look),
    CommandSpec::new("action.submit", 2, "action_json", door!(on_action_submit))
        .does("Runs a plan once for each input.", SHRINK_SLOW)
        .of("action", Need::Submit),
    // ----- jobs
    CommandSpec::new("job.cancel", 2, "job_id", door!(on_job_cancel))
        .does("Ends a job that is not needed any more.", SHRINK_SLOW)
        .of("job", Need::Submit),
    CommandSpec::new("job.get", 2, "job_id", door!(on_job_get))
        .does("Gives a job as JSON, with all that a worker needs.", READ)
        .of("job", Need::Look),
    CommandSpec::new("job.list", -2, "action_id [status] [offset] [limit]", door!(on_job_list))
        .does("Lists the jobs of an action, all or those in one state.", READ_SLOW)
        .of("job", Need::Look),
    CommandSpec::new("job.retry", 2, "job_id", door!(on_job_retry))
        .does("Runs a job again that has failed.", SHRINK_SLOW)
        .of("job", Need::Submit),
    CommandSpec::new("job.status", 2, "job_id", door!(on_job_status))
        .does("Status and per-task results of a job", READ)
        .of("job", Need::Look),
    CommandSpec::new("job.submit", 2, "job_json", Run::Submit)
        .does("Runs a plan once.", SHRINK_SLOW)
        .of("job", Need::Submit),
    CommandSpec::new("job.update", 3, "job_id update-json", Run::Update)
        .does("Reports how a job goes or how it ended; only its worker may.", SHRINK_SLOW)
        .of("job", Need::Work),
    CommandSpec::new("jobs.list", -1, "[status] [offset] [limit]", door!(on_jobs_list))
        .does("Lists jobs, newest first.", READ_SLOW)
        .of("job", Need::Look),
    CommandSpec::new("jobs.search", -2, "word [word ...]", door!(on_jobs_search))
        .does(
            "Finds jobs by words in the newest payloads; also status:W, queue:Q, worker:W.",
            READ_SLOW,
        )
        .of("job", Need::Look),
    // ----- queues
    CommandSpec::new("queue.pause", 2, "queue", door!(|c, r| c.on_queue_pause(r, true).await))
        .does("Stops handing out the jobs of a queue.", SHRINK)
        .keys(ONE_KEY)
        .of("queue", Need::Submit),
    CommandSpec::new("queue.peek", -2, "queue [count]", door!(on_queue_peek))
        .does("Shows what waits in a queue, without taking it.", READ_SLOW)
        .keys(ONE_KEY)
        .of("queue", Need::Look),
    CommandSpec::new("queue.resume", 2, "queue", door!(|c, r| c.on_queue_pause(r, false).await))
        .does("Hands out the jobs of a queue again.", SHRINK)
        .keys(ONE_KEY)
        .of("queue", Need::Submit),
    CommandSpec::new("queue.stats", -1, "[queue]", door!(on_queue_stats))
        .does("Counts what waits and what runs, in all queues or in one.", READ)
        .keys(ONE_KEY)
        .of("queue", Need::Look),
];

/// A few times as many as there are commands, so that most names are found where they hash to.
const SLOTS: usize = 1024;
/// The place of no command.
const FREE: u16 = u16::MAX;
/// Places of commands in the table, each at the first free slot from its hash on; made by the
/// compiler.
static INDEX: [u16; SLOTS] = index();

/// Finds a command; case does not matter.
pub(super) fn find(name: &[u8]) -> Option<&'static CommandSpec> {
    let mut slot = hash(name);
    // There are fewer commands than slots, so that each search meets a free one.
    while INDEX[slot] != FREE {
        let spec = &COMMANDS[usize::from(INDEX[slot])];
        if spec.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(spec);
        }
        slot = (slot + 1) % SLOTS;
    }
    None
}

/// FNV-1a over the small letters, folded. It need not resist anybody: the table never grows.
const fn hash(name: &[u8]) -> usize {
    let mut sum: u32 = 0x811c_9dc5;
    let mut i = 0;
    while i < name.len() {
        sum = (sum ^ name[i].to_ascii_lowercase() as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    (sum ^ (sum >> 16)) as usize % SLOTS
}

const fn index() -> [u16; SLOTS] {
    let mut index = [FREE; SLOTS];
    let mut i: u16 = 0;
    while (i as usize) < COMMANDS.len() {
        let mut slot = hash(COMMANDS[i as usize].name.as_bytes());
        while index[slot] != FREE {
            slot = (slot + 1) % SLOTS;
        }
        index[slot] = i;
        i += 1;
    }
    index
}
