//! Files that are made from the code and checked in.
//!
//! Reading order: `write` (which files), `cli_page`, `config_page`.

mod cli_page;
mod config_page;
mod write;

pub(crate) use write::write;
