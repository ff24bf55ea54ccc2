//! Runs of workflows as people see them: a tree of nodes, live or after the fact.
//!
//! Reading order: `tree` (which node stands below which), `row` (one of its lines), `picture` (all
//! of them), `screen` (a picture that is drawn again and again) and `teller` (lines where nothing
//! can be drawn again), `look` (a run as the server sees it), `follow` (stays with a run to its
//! end), `ending` (how it ended), `interrupt`
//! (Ctrl-C) and `shown` (a run as a whole).

mod ending;
mod follow;
mod interrupt;
mod look;
mod picture;
mod row;
mod screen;
mod shown;
mod teller;
mod tree;

pub(crate) use follow::{Followed, Manner, follow};
pub(crate) use look::{look, name_of, path};
pub(crate) use picture::Picture;
