//! Every limit of this crate under one roof. Each stands in the file that enforces it.

pub use crate::check::nesting::{NESTING_MAX as SUBGRAPHS_NESTING_MAX, NODES_EXECUTED_MAX};
pub use crate::check::parameters::{ALL_STEPS_MAX, NODE_STEPS_MAX};
pub use crate::check::results::RESULT_SENTENCES_MAX;
pub use crate::check::schema::{
    PATTERN_BYTES_MAX, PATTERNS_MAX, SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX, SCHEMAS_BYTES_MAX,
};
pub use crate::check::shape::{
    AFFINITY_TTL_MAX, ALIAS_BYTES_MAX, DEMAND_ENTRIES_MAX as NODE_DEMAND_ENTRIES_MAX,
    KEY_BYTES_MAX, LABEL_BYTES_MAX, MIDDLEWARES_MAX, PARALLEL_MAX, PORTS_MAX,
};
pub use crate::definition::{
    DEFINITION_BYTES_MAX, EDGES_MAX, NODES_MAX, OBJECTS_MAX, WRONG_ELEMENTS_MAX,
};
pub use crate::expression::{
    EXPRESSION_BYTES_MAX, FUEL_MAX, HELD_BYTES_MAX, OPERATIONS_MAX, OUTPUT_BYTES_MAX, SLICES_MAX,
    TOUCHED_BYTES_MAX,
};
pub use crate::fill::{
    LIST_BYTES_MAX, MAP_ITEMS_MAX, NESTING_MAX, OUTPUTS_BYTES_MAX,
    PARAMETERS_BYTES_MAX as NODE_PARAMETERS_BYTES_MAX,
};
pub use crate::problem::PROBLEMS_TOLD_MAX;
