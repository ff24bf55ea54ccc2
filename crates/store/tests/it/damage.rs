//! Folders and files that must be refused, or must be left alone.

use std::fs;
use std::path::Path;

use crate::conformance::{frame_opened, linked, node_ended, run_settled, run_started};
use model::RunId;
use store::{CommitError, RunKey, RunQuery, SqliteStore, Store, StoreError};

use crate::support::{block_on, claim, commit, commit_runs, folder, life, live, open, raw, submit};

fn refused(folder: &Path) -> StoreError {
    SqliteStore::open(folder).expect_err("must be refused")
}

fn damaged(folder: &Path, words: &str) {
    let StoreError::Damaged(why) = refused(folder) else { panic!("must be taken for damaged") };
    assert!(why.contains(words), "{why}");
    assert!(why.contains("astra.db"), "names the file: {why}");
}

/// A folder with one live task, closed.
fn used_folder() -> tempfile::TempDir {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        commit(&store, shard, vec![submit(shard, 0)]).await.expect("kept");
    });
    folder
}

fn still_has_its_task(folder: &Path) {
    let store = open(folder);
    block_on(async {
        let shard = claim(&store).await;
        assert_eq!(live(&store, shard).await, [0]);
    });
}

#[test]
fn a_folder_has_one_user_at_a_time() {
    let folder = used_folder();
    let store = open(folder.path());
    let StoreError::InUse(why) = refused(folder.path()) else { panic!("must be in use") };
    let path = folder.path().canonicalize().expect("exists");
    let pid = std::process::id();
    assert_eq!(why, format!("the data folder {} is in use by process {pid}", path.display()));
    drop(store);
    still_has_its_task(folder.path());
}

#[test]
fn a_missing_folder_is_made_for_its_owner_alone() {
    let parent = folder();
    let path = parent.path().join("a").join("b");
    drop(open(&path));
    #[cfg(unix)]
    {
        let mode = fs::metadata(&path).expect("exists").permissions();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o700);
    }
}

#[test]
fn migrations_are_taken_once() {
    let folder = used_folder();
    still_has_its_task(folder.path());
    let steps = "SELECT count(*), max(version) FROM migrations";
    let steps = raw(folder.path()).query_row(steps, [], |row| Ok((row.get(0)?, row.get(1)?)));
    let (n_steps, newest): (i64, i64) = steps.expect("a row");
    assert!(n_steps == newest && newest > 1, "{n_steps} steps up to {newest}");
}

#[test]
fn tables_of_another_form_are_refused() {
    let folder = used_folder();
    let digest = "SELECT digest FROM migrations WHERE version = 1";
    let digest: String = raw(folder.path()).query_row(digest, [], |row| row.get(0)).expect("a row");
    let tamper = "UPDATE migrations SET digest = 'x' WHERE version = 1";
    raw(folder.path()).execute(tamper, []).expect("tampers");
    damaged(folder.path(), "another form of step 0001_tables");
    let mend = "UPDATE migrations SET digest = ?1 WHERE version = 1";
    raw(folder.path()).execute(mend, [digest]).expect("mends");
    still_has_its_task(folder.path());
}

#[test]
fn tables_of_a_newer_version_are_refused() {
    let folder = used_folder();
    let newer = "INSERT INTO migrations VALUES (99, '0099_later', '')";
    raw(folder.path()).execute(newer, []).expect("tampers");
    damaged(folder.path(), "form 99");
    raw(folder.path()).execute("DELETE FROM migrations WHERE version = 99", []).expect("mends");
    still_has_its_task(folder.path());
}

#[test]
fn what_is_no_database_is_refused_and_left_alone() {
    let folder = folder();
    let path = folder.path().join("astra.db");
    for content in ["a letter to my aunt, which is longer than a header", "short"] {
        fs::write(&path, content).expect("writes");
        assert!(matches!(refused(folder.path()), StoreError::Damaged(_)));
        assert_eq!(fs::read_to_string(&path).expect("reads"), content);
    }
}

#[test]
fn a_cut_database_is_refused_and_left_alone() {
    let folder = used_folder();
    let path = folder.path().join("astra.db");
    let whole = fs::read(&path).expect("reads");
    for length in [100, 4096, whole.len() - 4096] {
        fs::write(&path, &whole[..length]).expect("cuts");
        assert!(matches!(refused(folder.path()), StoreError::Damaged(_)), "cut to {length} bytes");
        assert_eq!(fs::metadata(&path).expect("exists").len(), length as u64);
    }
    fs::write(&path, &whole).expect("mends");
    still_has_its_task(folder.path());
}

#[test]
fn another_programs_database_is_refused() {
    let folder = folder();
    raw(folder.path()).execute_batch("CREATE TABLE recipes (name TEXT)").expect("creates");
    damaged(folder.path(), "another program");
}

#[test]
fn a_log_without_its_database_is_refused_and_left_alone() {
    let folder = folder();
    let log = folder.path().join("astra.db-wal");
    fs::write(&log, "frames").expect("writes");
    damaged(folder.path(), "is missing");
    assert_eq!(fs::read_to_string(&log).expect("reads"), "frames");
}

#[test]
fn a_row_that_makes_no_sense_is_named() {
    let folder = used_folder();
    let connection = raw(folder.path());
    connection
        .execute_batch("PRAGMA ignore_check_constraints = ON; UPDATE tasks SET state = 'LOST'")
        .expect("tampers");
    drop(connection);
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        let error = store.restore(shard).await.expect_err("must be refused");
        let StoreError::Damaged(why) = error else { panic!("must be taken for damaged: {error}") };
        assert!(why.contains("LOST is no state of a task"), "{why}");
        assert!(why.contains(&shard.shard.first_task().to_string()), "{why}");
    });
}

#[test]
fn the_schema_refuses_nonsense() {
    let folder = used_folder();
    let connection = raw(folder.path());
    for nonsense in [
        "state = 'queued'",
        "state = 'RUNNING'",
        "state = 'COMPLETED'",
        "state = 'WAITING'",
        "settled_at = 1",
        "granted_at = 1, expires_at = 2",
        "attempt = 1",
        "report_key = x'00'",
        "result = '1'",
        "failure_code = 'E'",
        "wait_for = 'SIGNAL'",
        "skipped = 0",
        "artifacts = '[]'",
        "spec_id = NULL",
    ] {
        let changed = connection.execute(&format!("UPDATE tasks SET {nonsense}"), []);
        assert!(changed.is_err(), "{nonsense}");
    }
}

/// A folder with a live run, the frame and the node of an ended one, and a task of it, closed.
fn folder_with_runs() -> tempfile::TempDir {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        let run = |number| RunId::of(shard.shard, number);
        commit(&store, shard, vec![linked(submit(shard, 0), run(2), 7)]).await.expect("kept");
        let runs = vec![
            run_started(run(1)),
            run_started(run(2)),
            frame_opened(run(2), 1),
            node_ended(run(2), 0, 0),
            run_settled(run(2)),
        ];
        commit_runs(&store, shard, runs).await.expect("kept");
    });
    folder
}

#[test]
fn the_schema_refuses_runs_that_make_no_sense() {
    let folder = folder_with_runs();
    let connection = raw(folder.path());
    for nonsense in [
        "runs SET outcome = 'SUCCEEDED' WHERE ended_at IS NULL",
        "runs SET outcome = 'SKIPPED' WHERE ended_at IS NOT NULL",
        "runs SET outputs = '{}' WHERE ended_at IS NULL",
        "runs SET failure_code = 'E' WHERE ended_at IS NOT NULL",
        "runs SET failure_details = '{}' WHERE ended_at IS NOT NULL",
        "runs SET idempotency_key = 'k'",
        "run_frames SET outcome = 'SUCCEEDED'",
        "run_frames SET caller_task = 1",
        "run_nodes SET outcome = 'RUNNING'",
        "run_nodes SET failure_reason = 'r'",
    ] {
        let changed = connection.execute(&format!("UPDATE {nonsense}"), []);
        assert!(changed.is_err(), "{nonsense}");
    }
}

#[test]
fn a_run_that_makes_no_sense_is_named() {
    let folder = folder_with_runs();
    let connection = raw(folder.path());
    connection
        .execute_batch(
            "PRAGMA ignore_check_constraints = ON;
             UPDATE runs SET outcome = 'LOST' WHERE outcome IS NOT NULL;
             DELETE FROM run_definitions WHERE run_id & 1 = 1;
             UPDATE tasks SET run_call = '{}'",
        )
        .expect("tampers");
    drop(connection);
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        let query = RunQuery { limit: 10, ..RunQuery::default() };
        let listed = store.runs(shard.shard, query).await.map(|_| ());
        let read = store.restore(shard).await.map(|_| ());
        let key = RunKey::Id(RunId::of(shard.shard, 1));
        let found = store.run(shard.shard, key).await.map(|_| ());
        for (outcome, words) in [
            (listed, "LOST is no end of a run"),
            (read, "its call is not"),
            (found, "its definition is missing"),
        ] {
            let Err(StoreError::Damaged(why)) = outcome else { panic!("not damaged: {outcome:?}") };
            assert!(why.contains(words) && why.contains("row "), "{why}");
        }
    });
}

/// The fence stands in the transaction, not only in the memory of the process that owns the file.
#[test]
fn an_epoch_that_moved_in_the_database_fences() {
    let folder = folder();
    let store = open(folder.path());
    block_on(async {
        let shard = claim(&store).await;
        commit(&store, shard, life(shard, 0)).await.expect("kept");
        raw(folder.path()).execute("UPDATE shards SET epoch = epoch + 1", []).expect("moves");
        for changes in [vec![submit(shard, 1)], vec![], vec![submit(shard, 1)]] {
            assert_eq!(commit(&store, shard, changes).await, Err(CommitError::Fenced));
        }
        let shard = claim(&store).await;
        assert_eq!(live(&store, shard).await, [0_u64; 0]);
        commit(&store, shard, vec![submit(shard, 1)]).await.expect("kept");
    });
}

#[test]
fn the_file_tells_whose_it_is() {
    let folder = used_folder();
    let header = fs::read(folder.path().join("astra.db")).expect("reads");
    assert_eq!(&header[68..72], b"AsFl");
}

#[test]
fn people_can_read_the_overview_of_runs() {
    let folder = folder_with_runs();
    let connection = raw(folder.path());
    let rows = "SELECT tenant || ' ' || number || ' ' || name || ' ' || state || ' ' || created
                  FROM run_overview ORDER BY id";
    let mut select = connection.prepare(rows).expect("a view");
    let rows = select.query_map([], |row| row.get(0)).expect("rows");
    let rows: Vec<String> = rows.collect::<Result<_, _>>().expect("texts");
    let moment = "2026-09-21T14:13:20.000Z";
    let expected = ["1 nightly LIVE", "2 nightly SUCCEEDED"];
    assert_eq!(rows, expected.map(|run| format!("acme {run} {moment}")));
    let task = "SELECT run_number || ' ' || node FROM task_overview";
    let task: String = connection.query_row(task, [], |row| row.get(0)).expect("a row");
    assert_eq!(task, "2 00000000-0000-0000-0000-000000000007");
}

#[test]
fn people_can_read_the_overview() {
    let folder = used_folder();
    let row: (String, String, String) = raw(folder.path())
        .query_row("SELECT tenant, state, created FROM task_overview", [], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
        .expect("a row");
    assert_eq!(row, ("acme".into(), "QUEUED".into(), "2026-09-21T14:13:20.000Z".into()));
}
