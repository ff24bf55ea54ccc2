//! The promises of the stores, on real files.

mod conformance;
mod damage;
mod full_disk;
mod keys;
mod keys_kill;
mod kill;
mod log_size;
mod mortal;
mod promises;
mod run_kill;
mod support;
#[path = "../../../../tests/waiting.rs"]
mod waiting;
