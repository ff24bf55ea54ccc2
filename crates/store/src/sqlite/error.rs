//! What SQLite's errors mean to the coordinator.

use rusqlite::ErrorCode;

use crate::contract::StoreError;
use crate::rows::Contradiction;

/// Why a transaction was not kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
    #[error("no free shard number was found")]
    ShardsFull,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let is_foreign = matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        );
        let is_misread = matches!(
            error,
            rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
                | rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::Utf8Error(..)
        );
        if is_foreign || is_misread {
            Self::Damaged(error.to_string())
        } else {
            // Everything else may pass: a full disk, a file that someone else has locked.
            Self::Unavailable(error.to_string())
        }
    }
}

impl From<WriteError> for StoreError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Sqlite(error) => error.into(),
            WriteError::Contradiction(_) | WriteError::ShardsFull => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}
