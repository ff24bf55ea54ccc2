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
    way: Vec<String>,
}

impl<'a, 'r> Renderer<'a, 'r> {
    pub(super) fn new(view: View<'a>, taken: &'a [&'a [String]], room: &'r mut Room) -> Self {
        Self { view, taken, room, way: Vec::new() }
    }

    /// The value with all its expressions worked out; `at` is its name for people.
    pub(super) fn render(&mut self, at: &str, value: &Value) -> Result<Value, EvalError> {
        match value {
            Value::String(text) if text.contains("{{") && !self.is_taken() => {
                let wrong = |reason| EvalError { path: self.name(at), reason };
                let value = render(text, self.view).map_err(wrong)?;
                self.room.take(at, &value).map_err(|error| self.located(at, error))?;
                Ok(value)
            }
            Value::Array(items) => {
                let mut rendered = Vec::with_capacity(items.len());
                for (place, item) in items.iter().enumerate() {
                    self.way.push(place.to_string());
                    rendered.push(self.render(at, item)?);
                    self.way.pop();
                }
                Ok(Value::Array(rendered))
            }
            Value::Object(fields) => {
                let mut rendered = Map::new();
                for (name, field) in fields {
                    self.way.push(name.clone());
                    rendered.insert(name.clone(), self.render(at, field)?);
                    self.way.pop();
                }
                Ok(Value::Object(rendered))
            }
            other => Ok(other.clone()),
        }
    }

    /// Whether what stands here will be replaced: as a whole, or because something goes below it.
    fn is_taken(&self) -> bool {
        self.taken.iter().any(|to| to.iter().zip(&self.way).all(|(to, here)| to == here))
    }

    fn located(&self, at: &str, error: EvalError) -> EvalError {
        EvalError { path: self.name(at), ..error }
    }

    /// Where we are, for people: `parameters.urls[0]`.
    fn name(&self, at: &str) -> String {
        let mut name = at.to_owned();
        for segment in &self.way {
            if segment.bytes().all(|byte| byte.is_ascii_digit()) {
                name.extend(["[", segment, "]"]);
            } else {
                name.extend([".", segment]);
            }
        }
        name
    }
}
