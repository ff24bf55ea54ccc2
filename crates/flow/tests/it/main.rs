//! What a definition becomes.

mod problems;
mod seed_003;
mod telling;
