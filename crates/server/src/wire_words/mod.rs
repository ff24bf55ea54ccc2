//! Words that several doors share, or a door and a module below it. No door imports another one.
//!
//! Reading order: `problem` (how a refusal looks), `limits` (what every door refuses), `payload`
//! (JSON that stays bytes), `json_path` (where in a JSON text something is wrong).

pub(crate) mod json_path;
pub(crate) mod limits;
pub(crate) mod payload;
pub(crate) mod problem;
