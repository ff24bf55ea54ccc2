//! Runs other people's programs: started by argv, never through a shell; watched; stopped whole.
//!
//! Reading order: [`output`] is what a program says, kept within bounds; [`tools`] which program it
//! may be and what it is told; [`process`] holds its process group; [`streams`] moves bytes;
//! [`supervise`] is one program from its start to its end. [`command`] and [`plan`] are node types.

pub mod command;
pub mod output;
pub mod plan;
pub mod process;
pub mod streams;
pub mod supervise;
pub mod tools;
