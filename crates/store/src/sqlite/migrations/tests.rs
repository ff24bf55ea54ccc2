//! Folders of earlier versions open.

use coordinator::{TaskState, WaitReason};
use keyspace::{Keyspace, Kind, Limits};
use rusqlite::Connection;
use shard::DocumentKind;
use shard::documents::{ActionHead, Entry, HookHead, PlanHead, WorkflowHead};

use super::{CREATE_LIST, MIGRATIONS, digest, migrate, take_step};
use crate::sqlite::read::{load, tokens};
use crate::sqlite::restore::restore;
use crate::sqlite::{documents, keys};

#[test]
fn tables_of_an_older_version_are_taken_over() {
    let mut connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch(CREATE_LIST).expect("a list");
    for (version, migration) in (1_i64..).zip(&MIGRATIONS[..2]) {
        take_step(&connection, version, migration).expect("an older step");
    }
    let shard = model::ShardId::new(1).expect("fits");
    let task = shard.first_task();
    let row = "INSERT INTO tasks (id, type, queue, priority, created_at, state, attempt, epoch,
                                  losses, settled_at, failure_code, failure_reason)
               VALUES (?1, 'a', 'q', 0, 1, 'FAILED', 1, 1, 0, 2, 'E.OLD', 'it failed')";
    connection.execute(row, [task.to_integer()]).expect("an older row");
    let attempt = "INSERT INTO ended_attempts
                   VALUES (?1, 1, 'w', 2, 'FAILED', x'00112233445566778899aabbccddeeff', 'E', '')";
    connection.execute(attempt, [task.to_integer()]).expect("an older attempt");
    migrate(&mut connection).expect("the newer steps");
    let found = load(&connection, shard, vec![coordinator::LoadKey::Task(task)]).expect("reads");
    let coordinator::TaskState::Settled(end) = &found[0].1.progress.state else {
        panic!("it is settled: {found:?}")
    };
    assert_eq!(end.failure, Some(model::Failure::new("E.OLD", "it failed")));
    assert_eq!(found[0].1.ended_attempts.len(), 1);
}

#[test]
fn tokens_of_an_older_version_speak_for_any_worker() {
    let mut connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch(CREATE_LIST).expect("a list");
    for (version, migration) in (1_i64..).zip(&MIGRATIONS[..4]) {
        take_step(&connection, version, migration).expect("an older step");
    }
    let row = "INSERT INTO tokens (token_id, tenant, role, digest, created_at)
               VALUES ('t1', 'acme', 'admin', zeroblob(32), 1)";
    connection.execute(row, []).expect("an older token");
    migrate(&mut connection).expect("the newer steps");
    assert_eq!(tokens(&connection).expect("reads")[0].worker, None);
    let bound = connection.execute("UPDATE tokens SET worker = 'w1'", []);
    assert!(bound.is_err(), "only a worker's token speaks for one worker");
}

#[test]
fn tasks_of_an_older_version_belong_to_no_run() {
    let mut connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch(CREATE_LIST).expect("a list");
    for (version, migration) in (1_i64..).zip(&MIGRATIONS[..5]) {
        take_step(&connection, version, migration).expect("an older step");
    }
    let shard = model::ShardId::new(1).expect("fits");
    let task = |number| model::TaskId::of(shard, number);
    connection
        .execute_batch(&format!(
            "INSERT INTO tasks (id, type, queue, priority, created_at, state, wait_until,
                                attempt, epoch, losses, run, after_tasks)
             VALUES ({0}, 'a', 'q', 0, 1, 'WAITING', 9, 0, 0, 0, 'old', NULL),
                    ({1}, 'a', 'q', 0, 1, 'WAITING', 9, 0, 0, 0, 'old', '[{0}]');
             INSERT INTO tasks (id, type, queue, priority, created_at, state, attempt, epoch,
                                losses, settled_at, result)
             VALUES ({2}, 'a', 'q', 0, 1, 'COMPLETED', 1, 1, 0, 2, '7')",
            task(0).to_integer(),
            task(1).to_integer(),
            task(2).to_integer(),
        ))
        .expect("older rows");
    migrate(&mut connection).expect("the newer steps");

    let restored = restore(&connection, shard).expect("restores");
    let reasons: Vec<_> = restored.tasks.iter().map(|task| &task.progress.state).collect();
    let until = model::Timestamp::from_integer(9);
    let waiting = |why| TaskState::Waiting { until, why };
    assert_eq!(reasons, [&waiting(WaitReason::Scheduled), &waiting(WaitReason::After)]);
    assert!(restored.tasks.iter().all(|task| task.link.is_none() && task.pin.is_none()));
    assert_eq!((restored.runs, restored.next_run), (Vec::new(), 1));
    let key = coordinator::LoadKey::Task(task(2));
    let found = load(&connection, shard, vec![key]).expect("reads");
    let TaskState::Settled(end) = &found[0].1.progress.state else { panic!("settled") };
    assert_eq!((end.result.as_deref(), &end.extra), (Some(&b"7"[..]), &None));
}

/// A run in the middle of a list, as the version before the numbers stored it.
#[test]
fn the_facts_of_an_older_run_are_numbered_once() {
    let mut connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch(CREATE_LIST).expect("a list");
    for (version, migration) in (1_i64..).zip(&MIGRATIONS[..9]) {
        take_step(&connection, version, migration).expect("an older step");
    }
    let shard = model::ShardId::new(1).expect("fits");
    connection.execute_batch(&older_run(shard)).expect("older rows");
    migrate(&mut connection).expect("the newer steps");

    let (mut first, numbered) = restart(&connection, shard);
    assert_eq!(numbered.len(), 1, "the first restart numbers the facts");
    let before = first.run_states();
    assert_eq!(before.len(), 1);
    write_runs(&connection, shard, numbered);
    let stored = restore(&connection, shard).expect("restores");
    let facts = &stored.runs[0].parts.tasks[0].facts;
    assert!(facts.begun.is_some() && facts.begun < facts.granted, "{facts:?}");
    assert!(facts.granted < facts.settled, "{facts:?}");
    assert_eq!(stored.runs[0].parts.lists[0].length, 3);

    let (second, numbered) = restart(&connection, shard);
    assert_eq!(numbered, [], "the second restart replays by the numbers");
    assert_eq!(second.run_states(), before);
    first.check_invariants();
    assert!(first.tick(NOW).runs.is_empty(), "nothing is numbered twice");
}

const NOW: coordinator::Moment = coordinator::Moment {
    now: model::Timestamp::from_millis(1_000),
    wall: model::Timestamp::from_millis(1_000),
    entropy: 0,
};

fn older_run(shard: model::ShardId) -> String {
    let run = model::RunId::of(shard, 1);
    let id = |node: u128| uuid::Uuid::from_u128(node);
    let definition = format!(
        r#"{{"id":"{0}","schemaVersion":"2025-10","metadata":{{"name":"old"}},"nodes":[
        {{"id":"{1}","type":"t","alias":"a","label":"a"}},
        {{"id":"{2}","type":"t","alias":"each","label":"each",
          "map":{{"over":"{{{{ nodes.a.results.list }}}}","maxParallel":1}}}}],"edges":[]}}"#,
        id(1),
        id(2),
        id(3)
    );
    let link = |node: u32, item: &str, step: u128| {
        format!(r#"{{"run":{},"node":{node}{item},"step_id":"{}"}}"#, run.to_integer(), id(step))
    };
    let task = |number| model::TaskId::of(shard, number).to_integer();
    format!(
        "INSERT INTO runs (id, name, workflow_id, definition_hash, started_by, nodes, created_at,
                           began_at)
         VALUES ({run_id}, 'old', 'f', 'h', 'ada', 2, 1, 1);
         INSERT INTO run_definitions VALUES ({run_id}, '{{}}', '{definition}');
         INSERT INTO tasks (id, type, queue, priority, created_at, state, attempt, epoch, losses,
                            settled_at, held_since, result, run, link)
         VALUES ({0}, 't', 'default', 0, 1, 'COMPLETED', 1, 1, 0, 1, 1, '{{\"list\":[7,8,9]}}',
                 '{run}', '{a}'),
                ({1}, 't', 'default', 0, 1, 'COMPLETED', 1, 1, 0, 1, 1, '{{}}',
                 '{run}', '{first}');
         INSERT INTO tasks (id, type, queue, priority, created_at, state, attempt, epoch, losses,
                            run, link)
         VALUES ({2}, 't', 'default', 0, 1, 'QUEUED', 0, 0, 0, '{run}', '{second}');",
        task(0),
        task(1),
        task(2),
        run_id = run.to_integer(),
        a = link(0, "", 2),
        first = link(1, ",\"item\":0", 3),
        second = link(1, ",\"item\":1", 3),
    )
}

/// A coordinator that knows what the tables hold, and the numbers that it wants kept.
fn restart(
    connection: &Connection,
    shard: model::ShardId,
) -> (coordinator::Coordinator, Vec<coordinator::RunChange>) {
    let found = restore(connection, shard).expect("restores");
    let mut restored =
        coordinator::Coordinator::restore(shard, found.next_number, found.tasks, NOW);
    restored.restore_runs(found.next_run, found.runs, NOW);
    let step = restored.tick(NOW);
    assert_eq!(step.changes, [], "one element at a time");
    (restored, step.runs)
}

fn write_runs(connection: &Connection, shard: model::ShardId, runs: Vec<coordinator::RunChange>) {
    let claim = shard::ClaimedShard { shard, epoch: 1 };
    let turn = shard::Turn { runs, ..shard::Turn::empty(claim) };
    let batch = crate::rows::Batch::fold(std::iter::once(&turn)).expect("a valid turn");
    let mut specs = crate::sqlite::specs::SpecRows::default();
    crate::sqlite::commit::write(connection, &batch, &mut specs).expect("written");
}

#[test]
fn pauses_and_drains_that_were_notes_are_in_force() {
    let mut connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch(CREATE_LIST).expect("a list");
    for (version, migration) in (1_i64..).zip(&MIGRATIONS[..9]) {
        take_step(&connection, version, migration).expect("an older step");
    }
    connection
        .execute_batch(
            r#"INSERT INTO shards (id, tenant, epoch) VALUES (7, 'acme', 3);
               INSERT INTO notes (kind, tenant, key, json) VALUES
               ('pause', 'acme', 'nightly', '{"by":"ada","at":"2026-01-31T12:00:00.250Z"}'),
               ('pause', 'acme', 'odd', '{"by":7,"at":"yesterday"}'),
               ('pause', 'acme', 'bare', '"text"'),
               ('pause', 'bolt', 'theirs', '{}'),
               ('drain', 'acme', 'w1', '{"reason":"new kernel","at":"2026-01-31T12:00:00.001Z"}'),
               ('drain', 'acme', 'w2', '{"reason":null}'),
               ('plan', 'acme', 'p', '{}')"#,
        )
        .expect("older rows");
    migrate(&mut connection).expect("the newer steps");

    let restored = |id| {
        let shard = model::ShardId::new(id).expect("fits");
        restore(&connection, shard).expect("restores").settings
    };
    let at = |text: &str| text.parse::<model::Timestamp>().expect("a moment");
    let pause = |by: &str, at| coordinator::Pause { by: by.to_owned(), at };
    let never = model::Timestamp::default();
    let acme = restored(7);
    let pauses: Vec<_> = acme.pauses.iter().map(|(key, pause)| (key.as_str(), pause)).collect();
    let someone = pause("someone", never);
    let ada = pause("ada", at("2026-01-31T12:00:00.250Z"));
    assert_eq!(pauses, [("bare", &someone), ("nightly", &ada), ("odd", &someone)]);
    let drains: Vec<_> = acme.drains.into_iter().map(|(key, one)| (key.to_string(), one)).collect();
    let drain = |at, reason: Option<&str>| coordinator::Drain {
        by: "someone".to_owned(),
        at,
        gone_by: None,
        reason: reason.map(ToOwned::to_owned),
    };
    let first = drain(at("2026-01-31T12:00:00.001Z"), Some("new kernel"));
    assert_eq!(drains, [("w1".to_owned(), first), ("w2".to_owned(), drain(never, None))]);
    // A tenant that had only notes has a shard, and its pause.
    let bolt = "SELECT id FROM shards WHERE tenant = 'bolt'";
    let id = connection.query_row(bolt, [], |row| row.get(0)).expect("a shard");
    assert_eq!(restored(id).pauses.len(), 1);
    let left = "SELECT group_concat(kind) FROM notes";
    let left: String = connection.query_row(left, [], |row| row.get(0)).expect("reads");
    assert_eq!(left, "plan");
}

#[test]
fn sessions_and_registrations_that_were_notes_are_documents_of_their_tenant() {
    let mut connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch(CREATE_LIST).expect("a list");
    for (version, migration) in (1_i64..).zip(&MIGRATIONS[..11]) {
        take_step(&connection, version, migration).expect("an older step");
    }
    connection
        .execute_batch(
            r#"INSERT INTO shards (id, tenant, epoch) VALUES (7, 'acme', 3);
               INSERT INTO notes (kind, tenant, key, json) VALUES
               ('session', 'acme', 'i-1', '{"session_id":"s"}'),
               ('member', 'acme', 'w-1', '{"credential":"t"}'),
               ('session', 'bolt', 'i-1', '{}'),
               ('member', 'crew', 'w-1', '{}'),
               ('session_key', '', 'k', '{}'),
               ('plan', 'acme', 'p', '{}')"#,
        )
        .expect("older rows");
    migrate(&mut connection).expect("the newer steps");

    let restored = |id| {
        let shard = model::ShardId::new(id).expect("fits");
        restore(&connection, shard).expect("restores").documents
    };
    let kept = |kind, key: &str, json: &str| {
        let (key, json) = (key.to_owned(), Some(json.to_owned()));
        shard::Document { kind, key, json, body: None }
    };
    let session = |json| kept(shard::DocumentKind::Session, "i-1", json);
    let member = |json| kept(shard::DocumentKind::Member, "w-1", json);
    let of_acme = [member(r#"{"credential":"t"}"#), session(r#"{"session_id":"s"}"#)];
    assert_eq!(restored(7), of_acme);
    // A tenant that had only sessions or registrations has a shard, and them.
    for (tenant, documents) in [("bolt", session("{}")), ("crew", member("{}"))] {
        let id = "SELECT id FROM shards WHERE tenant = ?1";
        let id = connection.query_row(id, [tenant], |row| row.get(0)).expect("a shard");
        assert_eq!(restored(id), [documents]);
    }
    let left = "SELECT group_concat(kind) FROM (SELECT kind FROM notes ORDER BY kind)";
    let left: String = connection.query_row(left, [], |row| row.get(0)).expect("reads");
    assert_eq!(left, "plan,session_key");
}

#[test]
fn the_digest_is_fnv_1a() {
    assert_eq!(digest(""), "cbf29ce484222325");
    assert_eq!(digest("foobar"), "85944171f73967e8");
}

#[test]
fn schedules_that_were_notes_go_on_where_they_were() {
    let mut connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch(CREATE_LIST).expect("a list");
    for (version, migration) in (1_i64..).zip(&MIGRATIONS[..11]) {
        take_step(&connection, version, migration).expect("an older step");
    }
    connection.execute_batch(OLDER_SCHEDULES).expect("older notes");
    migrate(&mut connection).expect("the newer steps");
    let id = "SELECT id FROM shards WHERE tenant = 'acme'";
    let id = connection.query_row(id, [], |row| row.get(0)).expect("a shard");
    let shard = model::ShardId::new(id).expect("fits");
    let schedules = restore(&connection, shard).expect("restores").settings.schedules;
    let [first, second] = &schedules.into_values().collect::<Vec<_>>()[..] else {
        panic!("two of them can be read")
    };
    let moments = |moments: &[model::Timestamp]| -> Vec<u64> {
        moments.iter().map(|moment| moment.as_millis()).collect()
    };
    let progress = &first.progress;
    assert_eq!((first.spec.version, first.spec.name.as_deref()), (Some(3), Some("nightly")));
    assert_eq!(first.spec.inputs, br#"{"a":1}"#[..]);
    assert_eq!(first.spec.overlap, coordinator::Overlap::Queue);
    assert_eq!(progress.handled.as_millis(), 90, "what was being started is no new moment");
    assert_eq!(moments(&progress.waiting), [80, 90], "and its run is looked for");
    assert_eq!(moments(&progress.backfill), [20, 10]);
    let run = model::RunId::from_integer(1_099_511_627_777);
    assert_eq!(progress.newest_run, run);
    assert_eq!(progress.last.as_ref().and_then(|last| last.outcome.clone().ok()), run);
    assert!(second.spec.paused && second.progress.waiting.is_empty(), "it is paused");
    let problem = second.progress.last.as_ref().and_then(|last| last.outcome.clone().err());
    assert_eq!(problem.as_deref(), Some("run 1 still went on"));
    let left = "SELECT count(*) FROM notes";
    let left: i64 = connection.query_row(left, [], |row| row.get(0)).expect("reads");
    assert_eq!(left, 2, "what cannot be read stays");
}

const OLDER_SCHEDULES: &str = r#"
    INSERT INTO notes (kind, tenant, key, json) VALUES
    ('schedule', 'acme', '00000000-0000-7000-8000-000000000001',
     '{"name":"nightly","workflow_id":"w","version":3,"cron":"0 3 * * *",
       "timezone":"UTC","inputs":{"a":1},"overlap":"queue","paused":false,
       "created_ms":5,"created_by":"ada","handled_ms":70,"starting_ms":90,
       "waiting_ms":[80],"backfill_ms":[20,10],"newest_run":1099511627777,
       "last":{"due_ms":70,"run":1099511627777,"problem":null}}'),
    ('schedule', 'acme', '00000000-0000-7000-8000-000000000002',
     '{"name":null,"workflow_id":"w","version":null,"cron":"0 3 * * *",
       "timezone":"UTC","inputs":{},"overlap":"skip","paused":true,
       "created_ms":5,"created_by":"ada","handled_ms":70,"starting_ms":90,
       "last":{"due_ms":70,"run":null,"problem":"run 1 still went on"}}'),
    ('schedule', 'acme', '00000000-0000-7000-8000-000000000003', '{"cron":7}'),
    ('schedule', 'acme', 'not an id',
     '{"name":null,"workflow_id":"w","version":null,"cron":"0 3 * * *",
       "timezone":"UTC","inputs":{},"overlap":"skip","paused":true,
       "created_ms":5,"created_by":"ada","handled_ms":70}')"#;

#[test]
fn plans_actions_webhooks_and_workflows_become_documents_of_their_tenant() {
    let mut connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch(CREATE_LIST).expect("a list");
    for (version, migration) in (1_i64..).zip(&MIGRATIONS[..13]) {
        take_step(&connection, version, migration).expect("an older step");
    }
    connection.execute_batch(OLDER_DOCUMENTS).expect("older rows");
    migrate(&mut connection).expect("the newer steps");

    let shard = |tenant: &str| {
        let id = "SELECT id FROM shards WHERE tenant = ?1";
        let id = connection.query_row(id, [tenant], |row| row.get(0)).expect("a shard");
        model::ShardId::new(id).expect("fits")
    };
    let acme = shard("acme");
    let restored = restore(&connection, acme).expect("restores");
    // Registrations of workers become documents as well, one step later.
    let is_worker = |row: &&shard::Document| row.kind == DocumentKind::Member;
    let documents: Vec<_> = restored.documents.iter().filter(|row| !is_worker(row)).collect();
    let rows: Vec<_> = documents.iter().map(|row| (row.kind.name(), &*row.key)).collect();
    assert_eq!(rows, [("action", "a1"), ("hook", "d1"), ("plan", "p1"), ("workflow", "w1")]);
    let json = |idx: usize| documents[idx].json.as_deref().expect("a text");
    let action = Entry::<ActionHead>::read(json(0)).expect("reads");
    assert_eq!((action.at_ms, &*action.head.plan_id, action.head.jobs), (6, "p1", 3));
    let hook = Entry::<HookHead>::read(json(1)).expect("reads");
    assert_eq!((hook.at_ms, &*hook.by, hook.head.name), (7, "ada", None));
    assert_eq!((&*hook.head.hook_id, &*hook.head.workflow_id), ("h1", "w1"));
    let plan = Entry::<PlanHead>::read(json(2)).expect("reads");
    assert_eq!((plan.at_ms, plan.head.description.as_deref()), (5, Some("\"ß\"")));
    let body = plan.body.expect("in its row");
    let steps = r#"{"plan_id":"p1","plan_description":"\"ß\"","tasks":[{"task_number":1}]}"#;
    assert_eq!((plan.head.task_count, &body[..]), (1, steps.as_bytes()));

    let workflow = Entry::<WorkflowHead>::read(json(3)).expect("reads");
    assert_eq!((workflow.version, workflow.hidden_ms, &*workflow.hash), (2, Some(9), "h2"));
    let versions =
        documents::versions(&connection, (acme, DocumentKind::Workflow, "w1")).expect("lists");
    let read = |json: &str| Entry::<WorkflowHead>::read(json).expect("reads");
    let versions: Vec<_> = versions.iter().map(|one| read(&one.json)).collect();
    let [second, first] = &versions[..] else { panic!("two versions") };
    assert_eq!((second.version, first.version, first.hidden_ms), (2, 1, None));
    assert_eq!((&*first.by, first.at_ms, first.size), ("bob", 3, 6));
    assert_eq!((first.head.comment.as_deref(), &*first.head.name), (Some("new"), "Smoke"));
    let stored = documents::version(&connection, (acme, DocumentKind::Workflow, "w1"), Some(1));
    assert_eq!(&stored.expect("reads").expect("there").body[..], b"{\t1\n }", "as authored");

    // A tenant that had only these has a shard.
    let bolt = restore(&connection, shard("bolt")).expect("restores").documents;
    assert_eq!(bolt.iter().map(|row| &*row.key).collect::<Vec<_>>(), ["w1"]);
    let owner = documents::tenant_of_hook(&connection, "d1").expect("reads");
    assert_eq!(owner.map(|tenant| tenant.to_string()).as_deref(), Some("acme"));
    let left = "SELECT group_concat(kind || key) FROM (SELECT kind, key FROM notes ORDER BY 1, 2)";
    let left: String = connection.query_row(left, [], |row| row.get(0)).expect("reads");
    assert_eq!(left, "hookbroken", "what cannot be read stays");
}

const OLDER_DOCUMENTS: &str = r#"
    INSERT INTO shards (id, tenant, epoch) VALUES (7, 'acme', 3);
    INSERT INTO notes (kind, tenant, key, json) VALUES
    ('plan', 'acme', 'p1',
     '{"plan":{"plan_id":"p1","plan_description":"\"ß\"","tasks":[{"task_number":1}]},
       "created_ms":5}'),
    ('action', 'acme', 'a1', '{"plan_id":"p1","created_ms":6,"jobs":3}'),
    ('hook', 'acme', 'd1',
     '{"hook_id":"h1","name":null,"workflow_id":"w1","created_ms":7,"created_by":"ada"}'),
    ('hook', 'acme', 'broken', '{"hook_id":7}'),
    ('member', 'acme', 'm', '{}');
    INSERT INTO workflows (tenant, id, newest, deleted_at) VALUES
    ('acme', 'w1', 2, 9), ('bolt', 'w1', 1, NULL);
    INSERT INTO workflow_versions
        (tenant, id, version, name, hash, author, comment, saved_at, definition)
    VALUES
    ('acme', 'w1', 1, 'Smoke', 'h1', 'bob', 'new', 3, '{' || char(9) || '1' || char(10) || ' }'),
    ('acme', 'w1', 2, 'Smoke', 'h2', 'bob', NULL, 4, '{}'),
    ('bolt', 'w1', 1, '', 'h', '', NULL, 1, '{}')"#;

/// The defaults of then are in the texts; a later default must not change them.
#[test]
fn what_an_older_version_left_out_is_stated() {
    let mut connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch(CREATE_LIST).expect("a list");
    for (version, migration) in (1_i64..).zip(&MIGRATIONS[..15]) {
        take_step(&connection, version, migration).expect("an older step");
    }
    connection.execute_batch(OLDER_TEXTS).expect("older rows");
    migrate(&mut connection).expect("the newer steps");

    let texts = |sql: &str| -> Vec<String> {
        let mut select = connection.prepare(sql).expect("valid");
        let rows = select.query_map([], |row| row.get(0)).expect("reads");
        rows.collect::<Result<_, _>>().expect("texts")
    };
    assert_eq!(
        texts(
            "SELECT json FROM tasks JOIN task_specs ON task_specs.id = spec_id ORDER BY tasks.id"
        ),
        [
            r#"{"demand":{"queue":"q","task_type":"a","tools":[],"tags":{},"package":null},"priority":0,"lease_ttl_ms":30000,"timeout_ms":null,"retry":{"max_attempts":3,"backoff_ms":1000,"backoff_max_ms":60000}}"#,
            r#"{"demand":{"queue":"q","task_type":"a","tools":[],"tags":{},"package":null},"priority":0,"lease_ttl_ms":30000,"timeout_ms":null,"retry":{"max_attempts":7,"backoff_ms":1000,"backoff_max_ms":60000}}"#,
            r#"{"demand":{"queue":"q","task_type":"a","tools":["saw"],"tags":{"zone":"ü \"1\""},"package":{"name":"n","version":"1"}},"priority":-5,"lease_ttl_ms":5,"timeout_ms":7,"retry":{"max_attempts":3,"backoff_ms":0,"backoff_max_ms":60000}}"#,
            "broken",
            r#"{"demand":{"queue":"q","task_type":"a","tools":[],"tags":{},"package":null},"priority":0,"lease_ttl_ms":30000,"timeout_ms":null,"retry":{"max_attempts":3,"backoff_ms":1000,"backoff_max_ms":60000}}"#,
        ]
    );
    assert_eq!(
        texts(
            "SELECT concat_ws(' ', run_id, run_frame, run_node, run_item, run_level, hex(run_step),
                              run_call)
               FROM tasks WHERE run_id IS NOT NULL OR run_call IS NOT NULL ORDER BY id"
        ),
        [
            "5 0 3 0 00000000000000000000000000000007",
            r#"5 2 3 0 1 00000000000000000000000000000007 {"caller":{"task":9,"epoch":1},"request":"r \"1\""}"#,
            " broken",
        ]
    );
    assert_eq!(
        texts("SELECT pin FROM tasks WHERE pin IS NOT NULL ORDER BY id"),
        [
            r#"{"worker":{"worker":"w","is_hard":true,"wait_max_ms":null,"because":"b"}}"#,
            r#"{"key":{"key":"k","is_hard":false,"ttl_ms":90}}"#,
            "broken",
        ]
    );
    assert_eq!(
        texts("SELECT document FROM run_bindings ORDER BY run_id"),
        [
            r#"{"bound":[],"kept_from":[],"fact":null}"#,
            r#"{"bound":[{"package":"p","worker":null,"since":7,"moved_from":null},{"package":"q","worker":"w","since":8,"moved_from":"v"}],"kept_from":["w"],"fact":9}"#,
        ]
    );
    check_texts_are_as_written(&connection);
}

/// A text that is read and written again is the same, so what is submitted next shares the rows of
/// the specs.
fn check_texts_are_as_written(connection: &Connection) {
    let shard = model::ShardId::new(0).expect("fits");
    for number in [1, 2, 3, 5] {
        let key = coordinator::LoadKey::Task(model::TaskId::of(shard, number));
        let (_, task) = load(connection, shard, vec![key]).expect("reads").remove(0);
        let stored =
            "SELECT json, run_call, pin FROM tasks JOIN task_specs ON task_specs.id = spec_id
            WHERE tasks.id = ?1";
        let columns = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let stored = connection.query_row(stored, [task.id.to_integer()], columns).expect("there");
        let write = (
            crate::stored_json::write(&*task.spec),
            task.link
                .as_deref()
                .and_then(|link| link.call.as_deref())
                .map(crate::stored_json::write),
            task.pin.as_deref().map(crate::stored_json::write),
        );
        assert_eq!(stored, write);
    }
    let key = coordinator::LoadKey::Task(model::TaskId::of(shard, 4));
    assert!(load(connection, shard, vec![key]).is_err(), "what cannot be read stays, as it was");
}

const OLDER_TEXTS: &str = r#"
    INSERT INTO tasks (id, type, queue, priority, created_at, state, attempt, epoch, losses,
                       spec, link, pin)
    VALUES
    (1, 'a', 'q', 0, 1, 'QUEUED', 0, 0, 0, NULL, NULL, NULL),
    (2, 'a', 'q', 0, 1, 'QUEUED', 0, 0, 0,
     '{"retry":{"max_attempts":7}}',
     '{"run":5,"node":3,"step_id":"00000000-0000-0000-0000-000000000007"}',
     '{"worker":"w","hard":true,"because":"b"}'),
    (3, 'a', 'q', -5, 1, 'QUEUED', 0, 0, 0,
     '{"lease_ttl_ms":5,"timeout_ms":7,"retry":{"backoff_ms":0},"tools":["saw"],
       "tags":{"zone":"ü \"1\""},"package":{"name":"n","version":"1"}}',
     '{"run":5,"frame":2,"node":3,"item":0,"level":1,
       "step_id":"00000000-0000-0000-0000-000000000007",
       "call":{"task":9,"epoch":1,"request":"r \"1\""}}',
     '{"key":"k","hard":false,"ttl_ms":90}'),
    (4, 'a', 'q', 0, 1, 'QUEUED', 0, 0, 0, 'broken', 'broken', 'broken'),
    (5, 'a', 'q', 0, 1, 'QUEUED', 0, 0, 0, NULL, NULL, NULL);
    INSERT INTO run_bindings VALUES
    (1, '{}'),
    (2, '{"bound":[{"package":"p","since":7},
                   {"package":"q","worker":"w","since":8,"moved_from":"v"}],
          "kept_from":["w"],"fact":9}')"#;

/// Keys as the versions before step 17 stored them: a row per element, and all bytes as blobs.
const OLDER_KEYS: &str = "
    INSERT INTO scratch_keys (shard, key, kind, expires_at, value) VALUES
        (1, x'61', 'string', 7, x'00ff'), (1, x'62', 'list', NULL, x''),
        (1, x'63', 'hash', NULL, x''), (1, x'64', 'zset', 9, x''),
        (1, x'65', 'set', 5, x''), (2, x'62', 'list', NULL, x'');
    INSERT INTO scratch_items (shard, key, item, value) VALUES
        (1, x'62', x'8000000000000001', x'32'), (1, x'62', x'7fffffffffffffff', x'31'),
        (1, x'63', x'6669656c64', x'ff'), (1, x'63', x'', x''),
        (1, x'64', x'6d', x'3ff0000000000000'),
        (1, x'65', x'78', x''), (1, x'65', x'79', x''), (2, x'62', x'8000000000000000', x'6f')";

fn with_older_keys(more: &str) -> Connection {
    let connection = Connection::open_in_memory().expect("memory");
    connection.execute_batch(CREATE_LIST).expect("a list");
    for (version, migration) in (1_i64..).zip(&MIGRATIONS[..16]) {
        take_step(&connection, version, migration).expect("an older step");
    }
    connection.execute_batch(OLDER_KEYS).expect("older rows");
    connection.execute_batch(more).expect("more older rows");
    connection
}

#[test]
fn the_keys_of_an_older_version_get_one_row_each() {
    let mut connection = with_older_keys("");
    migrate(&mut connection).expect("the newer step");
    let shard = |number| model::ShardId::new(number).expect("fits");
    let rows = keys::restore(&connection, shard(1)).expect("reads");
    let space = Keyspace::restore(Limits::default(), rows.clone()).expect("no damage");
    assert_eq!(space.len(), 4);
    let found: Vec<_> =
        rows.iter().map(|row| (&row.key[..], row.kind, row.expires_at, &row.value[..])).collect();
    let at = |millis| Some(model::Timestamp::from_integer(millis));
    assert_eq!(
        found,
        [
            (&b"a"[..], Kind::String, at(7), &b"\0\xff"[..]),
            (b"b", Kind::List, None, b"\0\0\0\x011\0\0\0\x012"),
            (b"c", Kind::Hash, None, b"\0\0\0\0\0\0\0\0\0\0\0\x05field\0\0\0\x01\xff"),
            (b"d", Kind::SortedSet, at(9), b"\0\0\0\x01m\x3f\xf0\0\0\0\0\0\0"),
        ]
    );
    assert_eq!(keys::restore(&connection, shard(2)).expect("reads")[0].value, "\0\0\0\x01o");
    let members: Vec<(Vec<u8>, Vec<u8>, Option<i64>)> = connection
        .prepare("SELECT key, member, expires_at FROM retired_sets ORDER BY key, member")
        .and_then(|mut select| {
            let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect()
        })
        .expect("reads");
    let set = |member: &[u8]| (b"e".to_vec(), member.to_vec(), Some(5));
    assert_eq!(members, [set(b"x"), set(b"y")], "a set is kept");
    let old = connection.prepare("SELECT * FROM scratch_keys");
    assert!(old.is_err(), "the old tables are gone");
}

#[test]
fn an_element_without_a_key_is_not_lost_silently() {
    let orphan = "INSERT INTO scratch_items (shard, key, item, value) VALUES (1, x'7a', x'', x'')";
    let refused = migrate(&mut with_older_keys(orphan)).expect_err("damage");
    assert!(refused.to_string().contains("an element of the key z has no key"), "{refused}");
}
