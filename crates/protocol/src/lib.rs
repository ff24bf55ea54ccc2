//! What is said on the wire: typed messages and error codes. No sockets, no decisions.
//!
//! Reading order: [`error_code`], then [`rest`], file by file.

pub mod error_code;
pub mod plan;
pub mod resp;
pub mod rest;
pub mod session;
