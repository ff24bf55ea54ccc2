//! Runs other people's programs: started by argv, never through a shell; watched; stopped whole.
//!
//! Reading order: [`output`] is what a program says, kept and passed on within bounds;
//! [`environment`] is what it is told; [`watchdog`] and [`process`] hold its process group;
//! [`streams`] moves bytes; [`supervise`] is one program from its start to its end; [`command`] is
//! the node type.

pub mod command;
pub mod environment;
pub mod output;
pub mod process;
pub mod streams;
pub mod supervise;
pub mod watchdog;
