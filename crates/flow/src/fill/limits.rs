//! How large what is filled in may become.

use serde_json::Value;

/// The most bytes of parameters of one task, the same as at the doors.
pub const PARAMETERS_BYTES_MAX: usize = 1024 * 1024;

/// How deep parameters may nest, the same as at the doors.
pub const NESTING_MAX: usize = 64;

/// The most elements that one node is executed for.
pub const MAP_ITEMS_MAX: usize = 100_000;

/// The most bytes of a list that a node is executed for.
pub const LIST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The most bytes of what a graph gives.
pub const OUTPUTS_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What may still be put in. A value is weighed before it is copied, so that a thousand mentions
/// of one large value end early.
pub(super) struct Room {
    what: &'static str,
    most: usize,
    left: usize,
}

impl Room {
    pub(super) fn new(what: &'static str, most: usize) -> Self {
        Self { what, most, left: most }
    }

    /// A value comes in.
    pub(super) fn take(&mut self, value: &Value) -> Result<(), String> {
        self.left = self.left.checked_sub(bytes_at_least(value)).ok_or_else(|| self.too_large())?;
        Ok(())
    }

    /// What is said where there is no room.
    pub(super) fn too_large(&self) -> String {
        format!("{} would have more than {} bytes", self.what, self.most)
    }
}

/// No more than the value has as JSON.
fn bytes_at_least(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 1,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| bytes_at_least(item) + 1).sum::<usize>(),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| name.len() + bytes_at_least(value) + 4;
            2 + fields.iter().map(field).sum::<usize>()
        }
    }
}

/// Whether it nests deeper than parameters may.
pub(super) fn is_too_deep(value: &Value) -> bool {
    fn is_deeper(value: &Value, than: usize) -> bool {
        match value {
            Value::Array(items) => than == 0 || items.iter().any(|item| is_deeper(item, than - 1)),
            Value::Object(fields) => {
                than == 0 || fields.values().any(|field| is_deeper(field, than - 1))
            }
            _ => false,
        }
    }
    is_deeper(value, NESTING_MAX)
}
