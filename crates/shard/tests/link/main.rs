//! Links and the table of sessions, with real workers' machines at the other end of the wire.

mod business;
mod races;
mod world;
