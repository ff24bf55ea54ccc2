//! What keys hold. Every edit of a collection also writes its rows and counts its bytes.
//!
//! Reading order: [`entry`] is a key's head, [`edit`] the way to change a collection, then one file
//! for each kind.

pub(crate) mod edit;
pub(crate) mod entry;
pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod score;
pub(crate) mod set;
pub(crate) mod sorted_set;
