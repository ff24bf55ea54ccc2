//! Look-ups and pages, on connections of their own, beside the writer.

use std::sync::Arc;

use coordinator::{LoadKey, StateWord, TaskRecord};
use model::{QueueName, ShardId, TaskId, TenantId};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::commit::NO_PARAMETERS;
use super::open::DataFolder;
use super::record::{
    RecordReader, SELECT_SUMMARY, SELECT_TASK, all, damaged, moment, moment_if_any, parsed,
    parsed_if_any, text, text_if_any,
};
use crate::contract::{
    Detail, Note, NoteKind, PageQuery, SUMMARY_PARAMETERS_BYTES, SUMMARY_RESULT_BYTES_MAX,
    StoreError, StoreRead, TaskPage, TokenRow,
};
use crate::page::{PageFill, ROWS_PER_LIST_MAX, TextSearch, cut, page_size};

/// So many reads run at a time; the others wait.
const READERS_MAX: usize = 4;

/// A few connections, opened when they are needed.
#[derive(Debug)]
pub(super) struct Readers {
    folder: DataFolder,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

impl Readers {
    pub(super) fn new(folder: DataFolder) -> Self {
        Self { folder, idle: Mutex::default(), permits: Semaphore::new(READERS_MAX) }
    }

    /// Asks a question on a thread that may block.
    pub(super) fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        question: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> StoreRead<T> {
        let readers = Arc::clone(self);
        Box::pin(async move {
            let _permit = readers.permits.acquire().await.expect("never closed");
            let reading = Arc::clone(&readers);
            spawn_blocking(move || reading.read(question))
                .await
                .unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
        })
    }

    fn read<T>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self.idle.lock().pop();
        let connection = idle.map_or_else(|| self.folder.open_reader(), Ok)?;
        let answer = question(&connection)?;
        // A connection that failed is not kept: its next answer might be as wrong.
        self.idle.lock().push(connection);
        Ok(answer)
    }
}

pub(super) fn load(
    connection: &Connection,
    shard: ShardId,
    keys: Vec<LoadKey>,
) -> Result<Vec<(LoadKey, TaskRecord)>, StoreError> {
    let snapshot = connection.unchecked_transaction()?;
    let mut tasks = Tasks::new(&snapshot)?;
    let mut found = Vec::with_capacity(keys.len());
    for key in keys {
        let task = match &key {
            LoadKey::Task(task) => (task.shard() == shard).then_some(*task),
            LoadKey::Idempotency(key) => find_mark(&snapshot, shard, key.as_str())?,
        };
        let Some(task) = task else { continue };
        if let Some(record) = tasks.get(task)? {
            found.push((key, record));
        }
    }
    Ok(found)
}

fn find_mark(
    connection: &Connection,
    shard: ShardId,
    key: &str,
) -> Result<Option<TaskId>, StoreError> {
    let mut select = connection
        .prepare_cached("SELECT task_id FROM idempotency WHERE shard = ?1 AND key = ?2")?;
    let id: Option<i64> = select.query_row((shard.get(), key), |row| row.get(0)).optional()?;
    Ok(id.and_then(TaskId::from_integer))
}

/// Tasks by id.
struct Tasks<'c> {
    reader: RecordReader<'c>,
    select: rusqlite::CachedStatement<'c>,
    select_summary: rusqlite::CachedStatement<'c>,
}

impl<'c> Tasks<'c> {
    fn new(connection: &'c Connection) -> Result<Self, StoreError> {
        let select = connection.prepare_cached(&SELECT_TASK)?;
        let select_summary = connection.prepare_cached(&SELECT_SUMMARY)?;
        Ok(Self { reader: RecordReader::new(connection)?, select, select_summary })
    }

    fn get(&mut self, task: TaskId) -> Result<Option<TaskRecord>, StoreError> {
        let mut rows = self.select.query([task.to_integer()])?;
        rows.next()?.map(|row| self.reader.read(row)).transpose()
    }

    /// A task without its large payloads, which are not read at all.
    fn get_summary(
        &mut self,
        connection: &Connection,
        task: TaskId,
    ) -> Result<Option<TaskRecord>, StoreError> {
        let id = task.to_integer();
        let bytes_max = i64::try_from(SUMMARY_RESULT_BYTES_MAX).expect("a small number");
        let mut rows = self.select_summary.query((id, bytes_max))?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let mut record = self.reader.read(row)?;
        if row.get::<_, Option<bool>>("has_long_parameters")? == Some(true) {
            let blob = connection.blob_open("main", "parameters", "json", id, true)?;
            let mut head = vec![0; SUMMARY_PARAMETERS_BYTES];
            blob.read_at_exact(&mut head, 0)?;
            record.parameters = head.into();
        }
        Ok(Some(cut(record, Detail::Summary)))
    }
}

pub(super) fn list(
    connection: &Connection,
    shard: ShardId,
    query: &PageQuery,
) -> Result<TaskPage, StoreError> {
    let snapshot = connection.unchecked_transaction()?;
    let found = scan(&snapshot, shard, query)?;
    let mut tasks = Tasks::new(&snapshot)?;
    let (next_before, skipped) = (found.next_before, found.skipped);
    let mut page = TaskPage { tasks: Vec::with_capacity(found.ids.len()), next_before, skipped };
    let mut fill = PageFill::default();
    for id in found.ids {
        let record = match query.detail {
            Detail::Whole => tasks.get(id)?,
            Detail::Summary => tasks.get_summary(&snapshot, id)?,
        };
        let Some(record) = record else { continue };
        if !fill.takes(&record) {
            page.next_before = page.tasks.last().map(|last| last.id);
            break;
        }
        page.tasks.push(record);
    }
    Ok(page)
}

/// The tasks that belong on a page.
#[derive(Default)]
struct Found {
    ids: Vec<TaskId>,
    next_before: Option<TaskId>,
    skipped: usize,
}

fn scan(connection: &Connection, shard: ShardId, query: &PageQuery) -> Result<Found, StoreError> {
    let before = query.before.map_or(i64::MAX, |before| before.to_integer() - 1);
    let last = before.min(shard.last_task().to_integer());
    let rows_max = i64::try_from(ROWS_PER_LIST_MAX).expect("a small number");
    let first = shard.first_task().to_integer();
    let mut select = connection.prepare_cached(scan_for(query))?;
    let mut rows = match &query.run {
        Some(run) => select.query((first, last, rows_max, run.as_str()))?,
        None => select.query((first, last, rows_max))?,
    };
    let mut text = connection.prepare_cached(include_str!("queries/select_text.sql"))?;
    let mut search = TextSearch::new(query);
    let mut found = Found::default();
    let mut n_looked_at = 0;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let word = row.get_ref(1)?.as_str().ok().and_then(StateWord::from_word);
        let (Some(task), Some(word)) = (TaskId::from_integer(id), word) else {
            return Err(StoreError::Damaged(format!("row {id} of tasks has no valid state")));
        };
        let task_type = row.get_ref(2)?.as_str().unwrap_or_default();
        let is_shown = query.admits(word, task_type, row.get_ref(3)?.as_str().unwrap_or_default())
            && (!search.is_asked() || has_text(&mut text, task, &mut search)?);
        if is_shown && found.skipped < query.skip {
            found.skipped += 1;
        } else if is_shown {
            found.ids.push(task);
        }
        n_looked_at += 1;
        let is_full = found.ids.len() == page_size(query.limit) || search.is_over();
        if is_full || n_looked_at == ROWS_PER_LIST_MAX {
            found.next_before = Some(task);
            break;
        }
    }
    Ok(found)
}

/// Looks for words where SQLite keeps the text, without a copy of it.
fn has_text(
    select: &mut rusqlite::CachedStatement<'_>,
    task: TaskId,
    search: &mut TextSearch<'_>,
) -> Result<bool, StoreError> {
    let mut rows = select.query([task.to_integer()])?;
    let Some(row) = rows.next()? else { return Ok(false) };
    let parameters = row.get_ref(1)?.as_bytes_or_null().map_err(damaged)?;
    Ok(search.admits(task, text_if_any(row, 0)?, parameters.unwrap_or(NO_PARAMETERS)))
}

/// The shortest way through the rows that may belong on the page.
fn scan_for(query: &PageQuery) -> &'static str {
    let only = |wanted: &[StateWord]| {
        !query.states.is_empty() && query.states.iter().all(|state| wanted.contains(state))
    };
    if query.run.is_some() {
        include_str!("queries/scan_run.sql")
    } else if only(&[StateWord::Dead, StateWord::Failed]) {
        include_str!("queries/scan_failed.sql")
    } else if only(&[
        StateWord::Waiting,
        StateWord::Queued,
        StateWord::Retrying,
        StateWord::Running,
    ]) {
        include_str!("queries/scan_live.sql")
    } else {
        include_str!("queries/scan_all.sql")
    }
}

pub(super) fn notes(connection: &Connection, kind: NoteKind) -> Result<Vec<Note>, StoreError> {
    let mut select = connection.prepare_cached(
        "SELECT tenant, key, json FROM notes WHERE kind = ?1 ORDER BY tenant, key",
    )?;
    all(&mut select, [kind.name()], |row| {
        Ok(Note { kind, tenant: row.get(0)?, key: row.get(1)?, json: Some(row.get(2)?) })
    })
}

pub(super) fn count_dead(
    connection: &Connection,
    shard: ShardId,
) -> Result<Vec<(QueueName, u64)>, StoreError> {
    let range = [shard.first_task().to_integer(), shard.last_task().to_integer()];
    let mut select = connection.prepare_cached(include_str!("queries/count_dead.sql"))?;
    all(&mut select, range, |row| {
        Ok((parsed(text(row, 0)?)?, row.get::<_, i64>(1)?.cast_unsigned()))
    })
}

pub(super) fn tenants(connection: &Connection) -> Result<Vec<TenantId>, StoreError> {
    let mut select = connection.prepare_cached(include_str!("queries/select_tenants.sql"))?;
    all(&mut select, [], |row| parsed(text(row, 0)?))
}

pub(super) fn tokens(connection: &Connection) -> Result<Vec<TokenRow>, StoreError> {
    let mut select = connection.prepare_cached(include_str!("queries/select_tokens.sql"))?;
    all(&mut select, [], |row| {
        Ok(TokenRow {
            token_id: row.get(0)?,
            tenant: parsed(text(row, 1)?)?,
            role: row.get(2)?,
            digest: row.get(3)?,
            name: row.get(4)?,
            created_at: moment(row, 5)?,
            expires_at: moment_if_any(row, 6)?,
            revoked_at: moment_if_any(row, 7)?,
            worker: parsed_if_any(row, 8)?,
        })
    })
}
