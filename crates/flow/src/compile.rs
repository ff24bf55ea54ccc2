//! From what people write to what is executed.

use bytes::Bytes;

use crate::problem::Problem;
use crate::program::Program;

/// A program, and what is odd about it.
#[derive(Debug)]
pub struct Compiled {
    /// What is executed.
    pub program: Program,
    /// Nothing but warnings.
    pub warnings: Vec<Problem>,
}

/// Makes a program of a definition; or says everything that is wrong with it.
pub fn compile(source: Bytes) -> Result<Compiled, Vec<Problem>> {
    let _ = source;
    todo!("written next")
}
