//! Words that several doors share, or a door and a module below it. No door imports another one.
//!
//! Reading order: `problem` (how a refusal looks), `payload` (JSON that stays bytes, what every door
//! refuses of it, and where in it something is wrong).

pub(crate) mod payload;
pub(crate) mod problem;
