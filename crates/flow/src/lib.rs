//! What a workflow says: its definition as authored, the program that is executed, and what flows
//! along its wires. Pure: no clock, no dice, no I/O.
//!
//! Reading order: [`Program`] (what is executed), `definition` (what people write), `check` (what
//! may be wrong with it), `compile` (from the one to the other), then `fill` (the parameters of a
//! step when its turn comes), `expression` and `path` underneath.

// Tests may read files and measure time; what they test may not.
#![cfg_attr(not(test), deny(clippy::disallowed_types, clippy::disallowed_methods))]

mod check;
mod compile;
mod definition;
mod expression;
mod fill;
mod path;
mod problem;
mod program;
mod resource_ref;

pub use check::parameters::{RESULT_SENTENCES_MAX, SchemaCheck};
pub use compile::{Compiled, compile};
pub use expression::{evaluate_input, render_input};
pub use fill::{
    EvalError, Item, NodeFacts, NodesView, Scope, fill, list_of, outputs_of, says_yes, text_of,
};
pub use path::{put_value, value_at};
pub use problem::{Problem, Severity};
pub use program::{
    Affinity, AffinityMode, ContainerPorts, Endpoint, Expression, Graph, Map, Node, OnError,
    OnSkip, Parameters, Program, Root, Step, Wire, Work,
};
pub use resource_ref::{RESOURCE_WAIT_MAX, ResourceConflict, resource_pin};
