//! Keys and values, on a real store: durable before anyone hears of them, and nothing is lost.

mod drops;
mod expiry;
mod keys;
mod place;
mod trouble;
#[path = "../../../../tests/waiting.rs"]
mod waiting;
mod waits;
