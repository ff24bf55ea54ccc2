//! What flows through a workflow, through the public door of the crate.

mod bombs;
mod chance;
mod fill;
mod lists;
mod meaning;
mod speed;
mod world;
