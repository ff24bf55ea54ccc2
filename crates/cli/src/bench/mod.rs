//! Measurements with real processes over loopback, on a real disk.
//!
//! Reading order: `plan` (what is asked), `report` (what is printed), then one file per
//! measurement: `throughput`, `latency`, `queued` (memory and restart), `grants`, `sessions`, `flows`. `load` is what
//! runs in the processes that make the load, `ws` the same over sessions, `resp`
//! over the Redis protocol; `figures` turns samples into numbers.

mod figures;
mod flows;
mod grants;
mod latency;
pub(crate) mod load;
mod plan;
mod queued;
mod report;
mod resp;
mod sessions;
mod throughput;
mod ws;

pub(crate) use figures::resident_bytes;
pub(crate) use plan::{Door, Part, Plan, run};
