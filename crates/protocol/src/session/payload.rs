//! What frames say: one type for each kind, read by the rules of `schemas/`.
//!
//! Reading order: [`control`], [`exec`], [`resource`], [`package`].

pub mod control;
pub mod exec;
pub mod package;
pub mod resource;
