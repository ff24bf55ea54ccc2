//! What a node's author says of its result, held against what it gave.

use flow::limits::RESULT_SENTENCES_MAX;
use flow::{Node, ResultCheck};
use protocol::rest::runs::{NodeStatus, RunNode};
use serde_json::Value;

/// Looks at the results of one run.
#[derive(Default)]
pub(crate) struct Promises<'a> {
    check: ResultCheck<'a>,
}

impl<'a> Promises<'a> {
    /// Adds a warning for everything that is not as the author says. The result stands: what a
    /// worker reported has happened, and others may have gone on with it.
    pub(crate) fn look(&mut self, node: &'a Node, row: &mut RunNode) {
        let Some(schema) = &node.results else { return };
        if row.status != NodeStatus::Succeeded {
            return;
        }
        let given = row.result.as_deref().and_then(|raw| serde_json::from_str(raw.get()).ok());
        let Some(result) = given else { return };
        if node.map.is_none() {
            row.warnings = self.check.of(schema, &result);
            return;
        }
        // The author speaks of one element.
        let items = result.get("items").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.is_null()) {
            let told = self.check.of(schema, item);
            row.warnings.extend(told.into_iter().map(|told| format!("element {index}: {told}")));
            if row.warnings.len() >= RESULT_SENTENCES_MAX {
                row.warnings.truncate(RESULT_SENTENCES_MAX);
                return;
            }
        }
    }
}
