//! Nodes that are executed once per element of a list, so many at a time; what they give is joined
//! in the order of the elements.

use std::fmt::Write as _;

use bytes::Bytes;
use flow::OnError;
use model::{Failure, RunId};

use crate::coordinator::Turn;
use crate::run::{Due, Many, Place, RUN_TASKS_MAX, UnitEnd};
use crate::run_change::NodeWord;

impl Turn<'_> {
    /// Begins as many elements as there is room for.
    pub(crate) fn begin_items(&mut self, id: RunId, frame: u32, node: u32) {
        loop {
            match self.next_item(id, frame, node) {
                NextItem::None => return self.after_item(id, (frame, node)),
                NextItem::NoRoom => return,
                NextItem::Begin(item) => {
                    let place = Place { frame, node, item: Some(item), level: 0, call: None };
                    if let Err(end) = self.begin_unit(id, &place, None) {
                        let run = self.state.runs.live.get_mut(&id).expect("just looked at");
                        let frame = run.frames.get_mut(&frame).expect("just looked at");
                        frame.note_item_end(node, item, end);
                    }
                }
            }
        }
    }

    fn next_item(&mut self, id: RunId, frame: u32, node: u32) -> NextItem {
        let Some(run) = self.state.runs.live.get_mut(&id) else { return NextItem::NoRoom };
        let max = run.node(frame, node).and_then(|node| node.map.as_ref()?.max_parallel);
        let is_full = run.busy >= RUN_TASKS_MAX;
        let state = run.frames.get_mut(&frame);
        let Some(many) = state.and_then(|frame| frame.many_mut(node)) else {
            return NextItem::NoRoom;
        };
        many.is_due = false;
        let is_begun = |many: &Many| {
            let next = many.next;
            many.active.contains(&next) || many.ends[next as usize].is_some()
        };
        while (many.next as usize) < many.items.len() && is_begun(many) {
            many.next += 1;
        }
        if many.next as usize == many.items.len() {
            return NextItem::None;
        }
        // Elements that no worker executes, such as subgraphs, do not count as busy.
        if many.active.len() >= max.map_or(RUN_TASKS_MAX, |max| max.min(RUN_TASKS_MAX)) as usize {
            return NextItem::NoRoom;
        }
        if is_full {
            many.is_due = true;
            run.line.push_front(Due::Items { frame, node });
            return NextItem::NoRoom;
        }
        many.next += 1;
        NextItem::Begin(many.next - 1)
    }

    /// One element has ended: the node may fail with it, be done, or go on with another.
    pub(crate) fn after_item(&mut self, id: RunId, (frame, node): (u32, u32)) {
        let Some(run) = self.state.runs.live.get_mut(&id) else { return };
        let on_error = run.node(frame, node).map_or(OnError::Fail, |node| node.on_error);
        let Some(state) = run.frames.get_mut(&frame) else { return };
        let Some(many) = state.many_mut(node) else { return };
        if on_error == OnError::Fail
            && let Some(end) = many.first_failure()
        {
            return self.end_node(id, (frame, node), end.at(self.at.now));
        }
        if many.ended as usize == many.items.len() {
            let end = many.joined();
            return self.end_node(id, (frame, node), end.at(self.at.now));
        }
        let has_more = (many.next as usize) < many.items.len();
        if has_more && !many.is_due {
            many.is_due = true;
            run.line.push_back(Due::Items { frame, node });
            self.state.runs.set_due(id);
        }
    }
}

enum NextItem {
    Begin(u32),
    /// Every element has been begun.
    None,
    /// Later.
    NoRoom,
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
