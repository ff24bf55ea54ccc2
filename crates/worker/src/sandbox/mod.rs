//! Holds programs within bounds that the kernel enforces.
//!
//! A worker cannot confine a child between fork and exec without `unsafe`, and confining itself
//! would last. So it starts its own binary again as a launcher, a process of one thread that takes
//! its orders, binds itself and becomes the program. Reading order: [`cell`] holds the programs of
//! one attempt, in a folder of its own; [`profile`] is what is wanted; [`launch`] is the launcher, with
//! `confine` as its means.

pub mod cell;
mod confine;
pub mod launch;
pub mod profile;
