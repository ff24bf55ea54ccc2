//! Works out the expressions in an authored value.

use serde_json::{Map, Value};

use super::limits::Room;
use crate::expression::{View, render};
use crate::scope::EvalError;

/// Goes through an authored value.
pub(super) struct Renderer<'a, 'r> {
    view: View<'a>,
    /// Places that something else will take: what stands there is not worked out.
    taken: &'a [&'a [String]],
    room: &'r mut Room,
}

/// One step on the way into a value.
#[derive(Clone, Copy)]
enum Place<'v> {
    Field(&'v str),
    Element(usize),
}

impl Place<'_> {
    fn is(self, segment: &str) -> bool {
        match self {
            Self::Field(name) => name == segment,
            Self::Element(place) => segment.parse() == Ok(place),
        }
    }
}

impl<'a, 'r> Renderer<'a, 'r> {
    pub(super) fn new(view: View<'a>, taken: &'a [&'a [String]], room: &'r mut Room) -> Self {
        Self { view, taken, room }
    }

    /// The value with all its expressions worked out; `at` is its name for people.
    pub(super) fn render(&mut self, at: &str, value: &Value) -> Result<Value, EvalError> {
        self.walk(at, value, &mut Vec::new())
    }

    fn walk<'v>(
        &mut self,
        at: &str,
        value: &'v Value,
        way: &mut Vec<Place<'v>>,
    ) -> Result<Value, EvalError> {
        match value {
            Value::String(text) if text.contains("{{") && !self.is_taken(way) => {
                let value = render(text, self.view)
                    .map_err(|reason| EvalError::new(name(at, way), reason))?;
                self.room.take(&value).map_err(|reason| EvalError::new(name(at, way), reason))?;
                Ok(value)
            }
            Value::Array(items) => {
                let mut rendered = Vec::with_capacity(items.len());
                for (place, item) in items.iter().enumerate() {
                    way.push(Place::Element(place));
                    rendered.push(self.walk(at, item, way)?);
                    way.pop();
                }
                Ok(Value::Array(rendered))
            }
            Value::Object(fields) => {
                let mut rendered = Map::new();
                for (name, field) in fields {
                    way.push(Place::Field(name));
                    rendered.insert(name.clone(), self.walk(at, field, way)?);
                    way.pop();
                }
                Ok(Value::Object(rendered))
            }
            other => Ok(other.clone()),
        }
    }

    /// Whether what stands here will be replaced: as a whole, or because something goes below it.
    fn is_taken(&self, way: &[Place<'_>]) -> bool {
        self.taken.iter().any(|to| to.iter().zip(way).all(|(to, here)| here.is(to)))
    }
}

/// Where we are, for people: `parameters.urls[0]`.
fn name(at: &str, way: &[Place<'_>]) -> String {
    let mut name = at.to_owned();
    for place in way {
        match place {
            Place::Field(field) => name.extend([".", field]),
            Place::Element(place) => name.extend(["[", &place.to_string(), "]"]),
        }
    }
    name
}
