//! Works expressions out.

use std::sync::Arc;

use minijinja::value::{Object, Value};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::Value as Json;

use super::convert::{from_json, to_json};
use super::look::View;
use super::scan::{Code, place_of};
use super::{FUEL_MAX, filters, meter};

thread_local! {
    /// Made once: it holds some dozens of filters, and nothing of what it works out.
    static ENGINE: Environment<'static> = engine();
}

fn engine() -> Environment<'static> {
    let mut engine = Environment::empty();
    filters::add_all(&mut engine);
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_fuel(Some(FUEL_MAX));
    engine
}

/// What an expression gives; or why it gives nothing.
pub(super) fn evaluate(code: Code, view: View<'_>) -> Result<Json, String> {
    // By far the most of them. Nothing is copied that is not looked at.
    if code.is_path {
        let path = &code.paths[0];
        return view.at(path).map(std::borrow::Cow::into_owned).ok_or_else(|| view.explain(path));
    }
    meter::start(code.operations);
    let places = Places(code.paths.iter().map(|path| Some(from_json(&*view.at(path)?))).collect());
    let given = ENGINE.with(|engine| {
        let expression = engine.compile_expression_owned(code.source)?;
        to_json(&expression.eval(Value::from_object(places))?)
    });
    given.map_err(|error| {
        let missing = code.paths.iter().find(|path| view.at(path).is_none());
        match missing {
            Some(path) if is_about_undefined(&error) => view.explain(path),
            _ => reason(&error),
        }
    })
}

/// Whether something was looked at that is not there.
fn is_about_undefined(error: &Error) -> bool {
    error.kind() == ErrorKind::UndefinedError
        || error.detail().is_some_and(|detail| detail.contains("undefined"))
}

/// The sentence of an error, without the engine's own words around it.
pub(super) fn reason(error: &Error) -> String {
    match error.detail() {
        Some(detail) => detail.to_owned(),
        None if error.kind() == ErrorKind::UndefinedError => {
            "something in it is undefined".to_owned()
        }
        None => error.kind().to_string(),
    }
}

/// The values behind the place holders, and what each weighs.
#[derive(Debug)]
struct Places(Vec<Option<(Value, usize)>>);

impl Object for Places {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        let (value, weight) = self.0.get(place_of(key)?)?.as_ref()?;
        Some(match meter::hold(*weight) {
            Ok(()) => value.clone(),
            Err(error) => Value::from(error),
        })
    }
}
