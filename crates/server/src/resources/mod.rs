//! Resources of workers, as the server knows them, and how their bytes get through it.
//!
//! Reading order: `catalog` (what there is), `read` (one part, from the worker that has it),
//! `download` (the whole, as fast as its reader takes it).

mod catalog;
mod download;
mod read;

pub(crate) use catalog::{Catalog, Known, RESOURCES_PER_TENANT_MAX};
pub(crate) use download::{Download, PARTS_AHEAD_MAX};
pub(crate) use read::{ReadFailure, Source, Wanted};
