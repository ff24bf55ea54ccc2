//! What a definition becomes, and what is told about it.

mod containers;
mod fitting;
mod problems;
mod programs;
mod schema_file;
mod seed_003;
mod size;
mod telling;
