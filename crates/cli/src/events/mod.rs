//! Events of the server, as they happen.
//!
//! Reading order: `frame` (lines become events), `reader` (once each, however often the way to the
//! server is cut).

mod frame;
mod reader;

pub(crate) use reader::{EventReader, Heard};
