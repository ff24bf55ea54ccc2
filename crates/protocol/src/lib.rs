//! What is said on the wire: typed messages and error codes. No sockets, no decisions.
//!
//! Reading order: [`error_code`], then [`rest`], file by file.

// Tests may read files and measure time; what they test may not.
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

pub mod error_code;
pub mod plan;
pub mod resp;
pub mod rest;
pub mod session;
