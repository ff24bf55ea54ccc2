//! What a definition becomes.

mod problems;
mod schema_file;
mod seed_003;
mod size;
mod telling;
