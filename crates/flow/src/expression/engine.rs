//! Works expressions out.

use std::collections::BTreeSet;
use std::sync::Arc;

use minijinja::value::{Object, Value};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior, tests};
use serde_json::Value as Json;

use super::convert::{from_json, to_json};
use super::guard::guarded;
use super::look::Look;
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
pub(super) fn evaluate(code: Code<'_>, view: &impl Look) -> Result<Json, String> {
    // By far the most of them. Nothing is copied that is not looked at.
    if code.is_path {
        let path = &code.paths[0];
        return view.at(path).map(std::borrow::Cow::into_owned).ok_or_else(|| view.explain(path));
    }
    meter::start(code.operations);
    let places = Places(code.paths.iter().map(|path| Some(from_json(&*view.at(path)?))).collect());
    let work = || {
        ENGINE.with(|engine| {
            let expression = engine.compile_expression_owned(code.source)?;
            to_json(&expression.eval(Value::from_object(places))?)
        })
    };
    guarded(work).map_err(|error| {
        if !is_about_undefined(&error) {
            return reason(&error);
        }
        match code.paths.iter().find(|path| view.at(path).is_none()) {
            Some(path) => view.explain(path),
            None => format!("something in {} is undefined", code.authored),
        }
    })
}

/// Whether the engine can read an expression, and knows all that it names.
pub(super) fn check(code: &Code<'_>) -> Result<(), String> {
    ENGINE.with(|engine| {
        let compiled = guarded(|| engine.compile_expression(&code.source));
        let expression = compiled.map_err(|error| reason(&error))?;
        let state = engine.empty_state();
        if let Some(name) = code.filters.iter().find(|name| !tests::is_filter(&state, name)) {
            return Err(format!("there is no filter {name}"));
        }
        if let Some(name) = code.tests.iter().find(|name| !tests::is_test(&state, name)) {
            return Err(format!("there is no test {name}"));
        }
        // In order, so that the same text gives the same sentence.
        let names: BTreeSet<String> = expression.undeclared_variables(false).into_iter().collect();
        match names.iter().find(|name| place_of(name).is_none() && *name != "range") {
            None => Ok(()),
            Some(name) => Err(unknown_name(name)),
        }
    })
}

/// What is said of a name that means nothing in a workflow.
pub(super) fn unknown_name(name: &str) -> String {
    format!("{name} is not known here; there are nodes, run, inputs, item and index")
}

/// Whether something was looked at that is not there.
fn is_about_undefined(error: &Error) -> bool {
    error.kind() == ErrorKind::UndefinedError
        || error.detail().is_some_and(|detail| detail.contains("undefined"))
}

/// The sentence of an error, without the engine's own words around it.
pub(super) fn reason(error: &Error) -> String {
    error.detail().map_or_else(|| error.kind().to_string(), str::to_owned)
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
