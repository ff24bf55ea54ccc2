//! The worker contract of seed 002: the verdict table (ADR 2), row by row.

mod cancelled;
mod committed;
mod heartbeats;
mod rejected;
mod repeated;
mod restarts;
