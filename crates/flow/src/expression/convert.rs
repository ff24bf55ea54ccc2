//! Between JSON and the values of the engine.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};
use serde_json::{Map, Number, Value as Json};

use super::OUTPUT_BYTES_MAX;
use super::meter::{NESTING_MAX, VALUE_BYTES, too_deep};

/// A value for the engine, and what it weighs there.
pub(super) fn from_json(json: &Json) -> (Value, usize) {
    let mut weight = VALUE_BYTES;
    let value = match json {
        Json::Null => Value::from(()),
        Json::Bool(bool) => Value::from(*bool),
        Json::Number(number) => from_number(number),
        Json::String(text) => {
            weight += text.len();
            Value::from(text.as_str())
        }
        Json::Array(items) => {
            let mut values = Vec::with_capacity(items.len());
            for item in items {
                let (value, more) = from_json(item);
                weight += more;
                values.push(value);
            }
            Value::from(values)
        }
        Json::Object(fields) => Value::from_pairs(fields.iter().map(|(key, field)| {
            let (value, more) = from_json(field);
            weight += VALUE_BYTES + key.len() + more;
            (key.as_str(), value)
        })),
    };
    (value, weight)
}

fn from_number(number: &Number) -> Value {
    if let Some(number) = number.as_i64() {
        Value::from(number)
    } else if let Some(number) = number.as_u64() {
        Value::from(number)
    } else {
        Value::from(number.as_f64())
    }
}

/// What an expression gave, as JSON. No more than [`OUTPUT_BYTES_MAX`] of it.
pub(super) fn to_json(value: &Value) -> Result<Json, Error> {
    Output { room: OUTPUT_BYTES_MAX }.take(value, NESTING_MAX)
}

struct Output {
    room: usize,
}

impl Output {
    fn take(&mut self, value: &Value, depth: usize) -> Result<Json, Error> {
        let depth = depth.checked_sub(1).ok_or_else(too_deep)?;
        match value.kind() {
            ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
            ValueKind::None => self.pay(4).map(|()| Json::Null),
            ValueKind::Bool => self.pay(4).map(|()| Json::Bool(value.is_true())),
            ValueKind::Number => self.pay(1).and_then(|()| number(value)),
            ValueKind::String => self.text(value.as_str().unwrap_or_default()).map(Json::String),
            ValueKind::Seq | ValueKind::Iterable => {
                let mut items = Vec::new();
                for item in value.try_iter()?.checked() {
                    items.push(self.take(&item?, depth)?);
                    self.pay(1)?;
                }
                Ok(Json::Array(items))
            }
            ValueKind::Map => {
                let mut fields = Map::new();
                for key in value.try_iter()?.checked() {
                    let key = key?;
                    let field = self.take(&value.get_item(&key)?, depth)?;
                    fields.insert(self.name(&key)?, field);
                    self.pay(2)?;
                }
                Ok(Json::Object(fields))
            }
            kind => Err(invalid(format!("it gives {kind}, which is not JSON"))),
        }
    }

    /// The name of a field: a text, or what can be nothing else when it is written down.
    fn name(&mut self, key: &Value) -> Result<String, Error> {
        match key.kind() {
            ValueKind::String => self.text(key.as_str().unwrap_or_default()),
            ValueKind::Number | ValueKind::Bool | ValueKind::None => {
                self.take(key, 1).map(|key| key.to_string())
            }
            kind => Err(invalid(format!("a {kind} is not the name of a field"))),
        }
    }

    fn text(&mut self, text: &str) -> Result<String, Error> {
        self.pay(text.len() + 2)?;
        Ok(text.to_owned())
    }

    fn pay(&mut self, bytes: usize) -> Result<(), Error> {
        self.room = self
            .room
            .checked_sub(bytes)
            .ok_or_else(|| invalid(format!("it gives more than {OUTPUT_BYTES_MAX} bytes")))?;
        Ok(())
    }
}

fn number(value: &Value) -> Result<Json, Error> {
    if !value.is_integer() {
        let number = f64::try_from(value.clone())?;
        return Number::from_f64(number)
            .map(Json::Number)
            .ok_or_else(|| invalid(format!("it gives {number}, which is not a number in JSON")));
    }
    if let Ok(number) = i64::try_from(value.clone()) {
        return Ok(Json::from(number));
    }
    u64::try_from(value.clone())
        .map(Json::from)
        .map_err(|_| invalid(format!("it gives {value}, which is too large a number")))
}

/// A value in the middle of a text: a text as it is, everything else as JSON.
pub(super) fn to_text(json: &Json) -> String {
    match json {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn invalid(reason: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, reason)
}
