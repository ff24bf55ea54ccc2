//! Brings the tables to the form that this version knows.

mod keyspace_rows;

use rusqlite::{Connection, OptionalExtension, params};

use crate::contract::StoreError;

/// `AsFl` in ASCII: the mark in the file's header by which `file` and we know it.
pub(super) const APPLICATION_ID: i32 = 0x4173_466c;

/// A part of a step that is written in Rust.
type Then = fn(&Connection) -> Result<(), StoreError>;

/// One step. A released step never changes; what follows goes into a new one.
struct Migration {
    name: &'static str,
    sql: &'static str,
    /// What SQL cannot do; it runs after the statements, in the same transaction.
    then: Option<Then>,
}

macro_rules! migration {
    ($name:literal) => {
        Migration {
            name: $name,
            sql: include_str!(concat!("migrations/", $name, ".sql")),
            then: None,
        }
    };
}

/// Step n has version n, from 1.
const MIGRATIONS: &[Migration] = &[
    migration!("0001_tables"),
    migration!("0002_runs_and_notes"),
    migration!("0003_details_and_order"),
    migration!("0004_scratch"),
    migration!("0005_token_worker"),
    migration!("0006_runs"),
    migration!("0007_rebinds"),
    migration!("0008_moments"),
    migration!("0009_run_began"),
    migration!("0010_run_facts"),
    migration!("0011_settings"),
    migration!("0012_documents"),
    migration!("0013_schedules"),
    migration!("0014_documents_of_tenants"),
    migration!("0015_members"),
    migration!("0016_specs"),
    Migration { then: Some(keyspace_rows::move_rows), ..migration!("0017_keyspace") },
    migration!("0018_links"),
];

const CREATE_LIST: &str = "CREATE TABLE IF NOT EXISTS migrations (
    version INTEGER PRIMARY KEY,
    name    TEXT NOT NULL,
    digest  TEXT NOT NULL
) STRICT";

/// Takes every step that is missing, all or none.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Exclusive)?;
    transaction.execute_batch(CREATE_LIST)?;
    refuse_newer(&transaction)?;
    for (version, migration) in (1_i64..).zip(MIGRATIONS) {
        take_step(&transaction, version, migration)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", newest_known())?;
    transaction.commit()?;
    Ok(())
}

fn newest_known() -> i64 {
    i64::try_from(MIGRATIONS.len()).expect("a handful of steps")
}

fn refuse_newer(connection: &Connection) -> Result<(), StoreError> {
    let newest: Option<i64> =
        connection.query_row("SELECT max(version) FROM migrations", [], |row| row.get(0))?;
    let known = newest_known();
    match newest {
        Some(newest) if newest > known => Err(StoreError::Damaged(format!(
            "its tables have form {newest}, but this version of AstraFlow knows only forms up to \
             {known}: use the newer version that wrote them"
        ))),
        Some(_) | None => Ok(()),
    }
}

fn take_step(
    connection: &Connection,
    version: i64,
    migration: &Migration,
) -> Result<(), StoreError> {
    let Migration { name, sql, then } = migration;
    let digest = digest(sql);
    let applied: Option<String> = connection
        .query_row("SELECT digest FROM migrations WHERE version = ?1", [version], |row| row.get(0))
        .optional()?;
    match applied {
        Some(applied) if applied == digest => Ok(()),
        Some(applied) => Err(StoreError::Damaged(format!(
            "its tables were made by another form of step {name} (digest {applied}, expected \
             {digest}): open it with the version of AstraFlow that made it"
        ))),
        None => {
            connection.execute_batch(sql)?;
            if let Some(then) = then {
                then(connection)?;
            }
            connection.execute(
                "INSERT INTO migrations (version, name, digest) VALUES (?1, ?2, ?3)",
                params![version, name, digest],
            )?;
            Ok(())
        }
    }
}

/// FNV-1a, 64 bits: recognises an edited file. It need not withstand an attacker, who could as
/// well edit the table.
fn digest(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests;
