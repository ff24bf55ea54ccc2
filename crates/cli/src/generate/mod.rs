//! Files that are made from the code and checked in.
//!
//! Reading order: `write` (which files), `cli_page`, `config_page`, `redis_page`.

mod cli_page;
mod config_page;
mod redis_page;
mod write;

pub(crate) use write::write;
