//! Nodes that are executed once per element of a list, so many at a time; what they give is joined
//! in the order of the elements.

use std::fmt::Write as _;

use bytes::Bytes;
use flow::OnError;
use model::{Failure, RunId};

use crate::coordinator::Decision;
use crate::run::change::{ItemEnd, NodeWord, RunChange};
use crate::run::run_state::{Many, Place, RUN_TASKS_MAX, UnitEnd};

impl Decision<'_> {
    /// Begins as many elements as there is room for.
    pub(crate) fn begin_items(&mut self, id: RunId, frame: u32, node: u32) {
        while let Some(item) = self.next_item(id, frame, node) {
            let place = Place { frame, node, item: Some(item), level: 0, call: None };
            if let Err(end) = self.begin_unit(id, &place, None) {
                let mut end = end.at(self.now());
                end.fact = Some(self.state.runs.live[&id].next_fact());
                let item = Box::new(ItemEnd { frame, node, item, end });
                self.record_run(RunChange::ItemEnded { run: id, item });
            }
        }
        self.after_item(id, (frame, node));
    }

    fn next_item(&self, id: RunId, frame: u32, node: u32) -> Option<u32> {
        let run = self.state.runs.live.get(&id)?;
        let many = run.frames.get(&frame)?.many(node)?;
        let may_begin = many.place.is_some() && run.busy < RUN_TASKS_MAX;
        may_begin.then_some(many.next)
    }

    /// One element has ended: the node may fail with it, be done, or go on with another.
    pub(crate) fn after_item(&mut self, id: RunId, (frame, node): (u32, u32)) {
        let Some(run) = self.state.runs.live.get(&id) else { return };
        let on_error = run.node(frame, node).map_or(OnError::Fail, |node| node.on_error);
        let Some(many) = run.frames.get(&frame).and_then(|frame| frame.many(node)) else { return };
        if on_error == OnError::Fail
            && let Some(end) = many.first_failure()
        {
            return self.end_node(id, (frame, node), end.at(self.now()));
        }
        if many.ended as usize == many.items.len() {
            let end = many.joined();
            return self.end_node(id, (frame, node), end.at(self.now()));
        }
        self.state.runs.set_due(id);
    }
}

impl Many {
    fn first_failure(&self) -> Option<UnitEnd> {
        let index = self.failed?;
        let end = self.ends[index as usize].as_ref()?;
        let failure = end.failure.as_ref().map(|failure| Failure {
            reason: format!("element {index}: {}", failure.reason),
            ..failure.clone()
        });
        Some(UnitEnd { word: end.word, result: None, failure })
    }

    /// What the elements gave, in order.
    fn joined(&self) -> UnitEnd {
        let mut json = String::from("{\"items\":[");
        let mut errors = Vec::new();
        for (index, end) in self.ends.iter().enumerate() {
            if index > 0 {
                json.push(',');
            }
            let end = end.as_ref().expect("all have ended");
            let result = end.result.as_ref().and_then(|json| std::str::from_utf8(json).ok());
            json.push_str(result.unwrap_or("null"));
            if let Some(failure) = &end.failure
                && matches!(end.word, NodeWord::Failed | NodeWord::Cancelled)
            {
                errors.push(serde_json::json!({
                    "index": index, "code": failure.code, "message": failure.reason
                }));
            }
        }
        let _ = write!(json, "],\"count\":{}", self.items.len());
        if !errors.is_empty() {
            let _ = write!(json, ",\"errors\":{}", serde_json::Value::Array(errors));
        }
        json.push('}');
        let result = Some(Bytes::from(json));
        UnitEnd { word: NodeWord::Succeeded, result, failure: None }
    }
}
