//! A run's definition, with something put into its nodes. All the rest stays as it was written,
//! byte for byte.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use protocol::rest::runs::StageState;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::node_view::Painter;
use super::run_snapshot::RunSnapshot;
use crate::logs::FeedbackHub;

/// An object in the order in which it was written; its values stay text.
pub(crate) struct Object<'a>(Vec<(String, Cow<'a, RawValue>)>);

impl<'a> Object<'a> {
    /// `None` for what is no object.
    pub(crate) fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// The value under a key. Of a key that stands twice, the last one counts.
    pub(crate) fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// Puts a value in the place of the old one, or at the end.
    pub(crate) fn set(&mut self, key: &str, value: Box<RawValue>) {
        match self.0.iter_mut().rev().find(|(name, _)| name == key) {
            Some((_, old)) => *old = Cow::Owned(value),
            None => self.0.push((key.to_owned(), Cow::Owned(value))),
        }
    }

    /// The object as text again.
    pub(crate) fn text(&self) -> Option<Box<RawValue>> {
        serde_json::value::to_raw_value(self).ok()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
                    entries.push((key, Cow::Borrowed(value)));
                }
                Ok(Object(entries))
            }
        }
        from.deserialize_map(Entries)
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// A node that a change may be made to.
pub(crate) struct AuthoredNode<'n, 'a> {
    /// The subgraph that it stands in; `None` is the workflow itself.
    pub(crate) subgraph: Option<Uuid>,
    /// Its id.
    pub(crate) id: Uuid,
    /// The node.
    pub(crate) object: &'n mut Object<'a>,
}

/// The definition with each node, in the workflow and in its subgraphs, as `change` leaves it.
/// `None` where the text is not a workflow.
pub(crate) fn rewrite(
    definition: &str,
    change: &mut dyn FnMut(AuthoredNode<'_, '_>),
) -> Option<Box<RawValue>> {
    rewrite_graph(definition, None, change)
}

/// A workflow, or the definition of a subgraph, which may have subgraphs of its own.
fn rewrite_graph(
    definition: &str,
    subgraph: Option<Uuid>,
    change: &mut dyn FnMut(AuthoredNode<'_, '_>),
) -> Option<Box<RawValue>> {
    let mut graph = Object::read(definition)?;
    rewrite_nodes(&mut graph, subgraph, change)?;
    let subgraphs = graph.get("subgraphs").map(|raw| raw.get().to_owned());
    if let Some(subgraphs) = subgraphs.filter(|text| text.starts_with('[')) {
        let list: Vec<&RawValue> = serde_json::from_str(&subgraphs).ok()?;
        let changed: Option<Vec<_>> =
            list.into_iter().map(|one| rewrite_subgraph(one, change)).collect();
        graph.set("subgraphs", serde_json::value::to_raw_value(&changed?).ok()?);
    }
    graph.text()
}

fn rewrite_subgraph(
    subgraph: &RawValue,
    change: &mut dyn FnMut(AuthoredNode<'_, '_>),
) -> Option<Box<RawValue>> {
    let mut subgraph = Object::read(subgraph.get())?;
    let id = subgraph.get("id").and_then(id_in);
    if let Some(text) = subgraph.get("definition").map(|raw| raw.get().to_owned()) {
        subgraph.set("definition", rewrite_graph(&text, id, change)?);
    }
    subgraph.text()
}

fn rewrite_nodes(
    graph: &mut Object<'_>,
    subgraph: Option<Uuid>,
    change: &mut dyn FnMut(AuthoredNode<'_, '_>),
) -> Option<()> {
    let Some(nodes) = graph.get("nodes").map(|raw| raw.get().to_owned()) else { return Some(()) };
    let mut nodes: Vec<Object<'_>> = serde_json::from_str(&nodes).ok()?;
    for object in &mut nodes {
        if let Some(id) = object.get("id").and_then(id_in) {
            change(AuthoredNode { subgraph, id, object });
        }
    }
    graph.set("nodes", serde_json::value::to_raw_value(&nodes).ok()?);
    Some(())
}

fn id_in(raw: &RawValue) -> Option<Uuid> {
    serde_json::from_str(raw.get()).ok()
}

/// The definition with `state` in each node. A node of a subgraph that was entered several times
/// has the state of the last time.
pub(crate) fn with_states(
    definition: &str,
    snapshot: &RunSnapshot<'_>,
    feedback: &FeedbackHub,
) -> Option<Box<RawValue>> {
    let painter = Painter { snapshot, feedback };
    let mut states: HashMap<(Option<Uuid>, Uuid), StageState> = HashMap::new();
    for frame in &snapshot.frames {
        let subgraph = frame.entered.map(|_| frame.graph.id);
        for place in 0..frame.nodes.len() {
            let row = painter.node(frame, place, None).into_iter().next();
            if let Some(state) = row.and_then(|row| row.state) {
                states.insert((subgraph, frame.graph.nodes[place].id), state);
            }
        }
    }
    rewrite(definition, &mut |node| {
        let state = states.get(&(node.subgraph, node.id));
        if let Some(text) = state.and_then(|state| serde_json::value::to_raw_value(state).ok()) {
            node.object.set("state", text);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "11111111-1111-4111-8111-111111111111";
    const TWO: &str = "22222222-2222-4222-8222-222222222222";

    #[test]
    fn only_what_is_changed_changes() {
        let definition = format!(
            r#"{{"z": 1e400, "nodes": [{{"id":"{ONE}","x":[1,  2],"state":null}}, {{"id":"{TWO}"}}],
            "subgraphs": [{{"id":"{TWO}","definition":{{"nodes":[{{"id":"{ONE}"}}],"q":{{}}}}}}],
            "a": 12345678901234567890123}}"#
        );
        let mut seen = Vec::new();
        let made = rewrite(&definition, &mut |node| {
            seen.push((node.subgraph.map(|id| id.to_string()), node.id.to_string()));
            if node.id.to_string() == ONE {
                let state = RawValue::from_string("7".to_owned()).expect("JSON");
                node.object.set("state", state);
            }
        });
        let text = |one: &str| one.to_owned();
        let expected =
            [(None, text(ONE)), (None, text(TWO)), (Some(text(TWO)), text(ONE))].to_vec();
        assert_eq!(seen, expected);
        assert_eq!(
            made.expect("a workflow").get(),
            format!(
                r#"{{"z":1e400,"nodes":[{{"id":"{ONE}","x":[1,  2],"state":7}},{{"id":"{TWO}"}}],"subgraphs":[{{"id":"{TWO}","definition":{{"nodes":[{{"id":"{ONE}","state":7}}],"q":{{}}}}}}],"a":12345678901234567890123}}"#
            )
        );
    }

    #[test]
    fn what_is_no_workflow_stays_what_it_is() {
        for wrong in ["[]", "7", r#"{"nodes":7}"#, r#"{"nodes":[7]}"#] {
            assert!(rewrite(wrong, &mut |_| {}).is_none(), "{wrong}");
        }
    }
}
