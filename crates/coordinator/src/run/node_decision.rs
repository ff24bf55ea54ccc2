//! What becomes of a node whose turn has come, before anything of it is executed.

use flow::{Graph, Node, OnError, OnSkip};
use model::Failure;
use serde_json::Value;

use crate::run::change::NodeWord;
use crate::run::dag::expression_failed;
use crate::run::run_state::{Frame, Run, UnitEnd};

/// What a node does when its turn has come.
pub(crate) enum NodeDecision {
    /// It ends at once.
    Ends(UnitEnd),
    /// It is executed once per element.
    Many(Vec<Value>),
    /// It is executed.
    One,
}

pub(crate) fn node_decision(run: &Run, frame: u32, node: u32) -> NodeDecision {
    let state = &run.frames[&frame];
    let graph = run.graph(state);
    let definition = &graph.nodes[node as usize];
    if let Some(end) = passed_on(state, graph, definition) {
        return NodeDecision::Ends(end);
    }
    let scope = run.scope(state);
    if let Some(when) = &definition.when {
        match flow::says_yes(when, &scope) {
            Ok(true) => {}
            Ok(false) => {
                let reason = format!("its condition `{}` says no", when.source);
                return NodeDecision::Ends(UnitEnd::skipped(NodeWord::Skipped, reason));
            }
            Err(error) => return NodeDecision::Ends(expression_failed(&error)),
        }
    }
    let Some(map) = &definition.map else { return NodeDecision::One };
    match flow::list_of(map, &scope) {
        Ok(items) => NodeDecision::Many(items),
        Err(error) => NodeDecision::Ends(expression_failed(&error)),
    }
}

/// How a node ends without its turn, because of those before it. A failure counts more than a skip,
/// whichever edge was drawn first: `onSkip` lets a node run after a skip, never after a failure.
fn passed_on(state: &Frame, graph: &Graph, node: &Node) -> Option<UnitEnd> {
    let earlier = || node.waits_for.iter().map(|place| &graph.nodes[*place as usize]);
    let words = || node.waits_for.iter().map(|place| state.word(*place));
    let mut blocks = earlier().zip(words()).filter_map(|(earlier, word)| match word? {
        NodeWord::Failed | NodeWord::Cancelled if earlier.on_error == OnError::Skip => {
            Some(format!("`{}` failed, and says that those after it are skipped", earlier.name()))
        }
        NodeWord::Blocked => {
            Some(format!("`{}` was skipped because of a failure before it", earlier.name()))
        }
        _ => None,
    });
    if let Some(reason) = blocks.next() {
        return Some(UnitEnd::skipped(NodeWord::Blocked, reason));
    }
    if node.on_skip != OnSkip::Skip {
        return None;
    }
    let mut skipped = earlier().zip(words()).filter(|(_, word)| *word == Some(NodeWord::Skipped));
    let (earlier, _) = skipped.next()?;
    let reason = format!("`{}` was skipped, and it says to be skipped then", earlier.name());
    Some(UnitEnd::skipped(NodeWord::Skipped, reason))
}

impl UnitEnd {
    fn skipped(word: NodeWord, reason: String) -> Self {
        let failure = Some(Failure::new("E.NODE.SKIPPED", reason));
        Self { word, result: None, failure }
    }
}
