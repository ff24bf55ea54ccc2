//! The doors: where bytes from outside become commands, and answers become bytes.
//!
//! All doors have the same file names: `listener` accepts, `convert` translates words. No door
//! imports another one: what they share is in `crate::wire_words`. `reference` and `limits` describe
//! all of them for people.

pub mod http;
mod limits;
pub mod reference;
pub(crate) mod resp;
pub(crate) mod tls;
pub(crate) mod ws;
