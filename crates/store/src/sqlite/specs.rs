//! Specs of tasks: a row for each, which all tasks that ask for the same share.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::TaskSpec;
use rusqlite::{CachedStatement, Connection, OptionalExtension};

use super::record::text;
use crate::contract::StoreError;
use crate::stored_json;

const FIND: &str = "SELECT id FROM task_specs WHERE json = ?1";
const INSERT: &str = "INSERT INTO task_specs (json) VALUES (?1)";
const SELECT: &str = "SELECT json FROM task_specs WHERE id = ?1";

/// Specs whose rows are known without a look-up.
const SPECS_KNOWN_MAX: usize = 1_024;

/// The rows of specs that were written or found before, so that a spec becomes JSON once and not
/// with each of its tasks.
#[derive(Debug, Default)]
pub(super) struct SpecRows {
    known: BTreeMap<Arc<TaskSpec>, i64>,
    /// Neighbours often share theirs: it is found without a comparison.
    last: Option<(Arc<TaskSpec>, i64)>,
}

impl SpecRows {
    /// The row of a spec, which is made if it is missing.
    pub(super) fn id(
        &mut self,
        connection: &Connection,
        spec: &Arc<TaskSpec>,
    ) -> Result<i64, rusqlite::Error> {
        if let Some((last, id)) = &self.last
            && Arc::ptr_eq(last, spec)
        {
            return Ok(*id);
        }
        let id = match self.known.get(spec) {
            Some(id) => *id,
            None => self.find_or_insert(connection, spec)?,
        };
        self.last = Some((Arc::clone(spec), id));
        Ok(id)
    }

    fn find_or_insert(
        &mut self,
        connection: &Connection,
        spec: &Arc<TaskSpec>,
    ) -> Result<i64, rusqlite::Error> {
        let json = stored_json::write(&**spec);
        let found = connection.prepare_cached(FIND)?.query_row([&json], |row| row.get(0));
        let id = match found.optional()? {
            Some(id) => id,
            None => connection.prepare_cached(INSERT)?.insert([&json])?,
        };
        if self.known.len() == SPECS_KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(Arc::clone(spec), id);
        Ok(id)
    }
}

/// Specs that were read before; a million tasks of one kind share one.
pub(super) struct SpecReader<'c> {
    select: CachedStatement<'c>,
    known: HashMap<i64, Arc<TaskSpec>, foldhash::fast::RandomState>,
}

impl<'c> SpecReader<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self, StoreError> {
        Ok(Self { select: connection.prepare_cached(SELECT)?, known: HashMap::default() })
    }

    /// The spec in a row.
    pub(super) fn get(&mut self, id: i64) -> Result<Arc<TaskSpec>, StoreError> {
        if let Some(spec) = self.known.get(&id) {
            return Ok(Arc::clone(spec));
        }
        let mut rows = self.select.query([id])?;
        let missing = || StoreError::Damaged(format!("its spec {id} is missing"));
        let spec: TaskSpec =
            stored_json::read("spec", text(rows.next()?.ok_or_else(missing)?, 0)?)?;
        let spec = Arc::new(spec);
        self.known.insert(id, Arc::clone(&spec));
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{Demand, LEASE_TTL_DEFAULT, RetryPolicy};

    use super::super::migrations::migrate;
    use super::*;

    #[test]
    fn tasks_that_ask_for_the_same_share_a_row() {
        let connection = tables();
        let mut rows = SpecRows::default();
        let first = rows.id(&connection, &spec(0)).expect("written");
        assert_eq!(rows.id(&connection, &spec(0)).expect("known"), first);
        let second = rows.id(&connection, &spec(1)).expect("written");
        assert_ne!(first, second, "another priority is another spec");
        assert_eq!(SpecRows::default().id(&connection, &spec(0)).expect("found"), first);
        let mut reader = SpecReader::new(&connection).expect("reads");
        assert_eq!(reader.get(second).expect("there"), spec(1));
        let shared = [reader.get(first).expect("there"), reader.get(first).expect("there")];
        assert!(Arc::ptr_eq(&shared[0], &shared[1]));
        assert!(reader.get(9).is_err(), "there is no such row");
    }

    /// The row of a version that has other defaults.
    #[test]
    fn a_row_means_what_it_says_whatever_the_defaults_are() {
        let connection = tables();
        let id = SpecRows::default().id(&connection, &spec(0)).expect("written");
        let other = "UPDATE task_specs
            SET json = replace(replace(json, ':30000', ':45000'), '_attempts\":3', '_attempts\":5')";
        assert_eq!(connection.execute(other, []).expect("replaced"), 1);
        let read = SpecReader::new(&connection).expect("reads").get(id).expect("there");
        assert_eq!((read.lease_ttl, read.retry.max_attempts), (Duration::from_secs(45), 5));
    }

    #[test]
    fn more_specs_than_are_known_keep_their_rows() {
        let connection = tables();
        let mut rows = SpecRows::default();
        let n_specs = i16::try_from(SPECS_KNOWN_MAX).expect("fits") + 1;
        let mut ids = || -> Vec<i64> {
            let id = |priority| rows.id(&connection, &spec(priority)).expect("written");
            (0..n_specs).map(id).collect()
        };
        assert_eq!(ids(), ids());
        assert!(rows.known.len() <= SPECS_KNOWN_MAX);
    }

    fn tables() -> Connection {
        let mut connection = Connection::open_in_memory().expect("memory");
        migrate(&mut connection).expect("tables");
        connection
    }

    fn spec(priority: i16) -> Arc<TaskSpec> {
        Arc::new(TaskSpec {
            demand: Demand {
                queue: "q".parse().expect("valid"),
                task_type: "t".parse().expect("valid"),
                tools: [].into(),
                tags: [].into(),
                package: None,
            },
            priority,
            lease_ttl: LEASE_TTL_DEFAULT,
            timeout: None,
            retry: RetryPolicy::default(),
        })
    }
}
