//! The doors: where bytes from outside become commands, and answers become bytes.
//!
//! All doors have the same file names: `listener` accepts, `convert` translates words. No door
//! imports another one: what they share is in `crate::wire_words`.

pub mod http;
pub(crate) mod resp;
pub(crate) mod tls;
pub(crate) mod ws;
