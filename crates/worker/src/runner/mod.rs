//! Runs other people's programs: started by argv, never through a shell; watched; stopped whole.
//!
//! Reading order: [`output`] is what a program says, kept and passed on within bounds, and
//! [`spool`] all of it, kept for another program; [`environment`] is what it is told and [`tools`]
//! which one it may be; [`watchdog`] and [`process`] hold its process group; [`streams`] moves bytes; [`supervise`] is one program
//! from its start to its end, [`sandbox`] the bounds that the kernel keeps it in, [`failure`] how
//! its end is told. [`command`] and [`plan`] are node types.

pub mod command;
pub mod environment;
pub mod failure;
pub mod output;
pub mod plan;
pub mod process;
pub mod sandbox;
pub mod spool;
pub mod streams;
pub mod supervise;
pub mod tools;
pub mod watchdog;
