//! The promises of the stores, on real files.

mod conformance;
mod damage;
mod full_disk;
mod kill;
mod log_size;
mod mortal;
mod run_kill;
mod scratch;
mod scratch_kill;
mod support;
#[path = "../../../../tests/waiting.rs"]
mod waiting;
