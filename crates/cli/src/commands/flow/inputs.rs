//! What a run is given: `-i name=value`, `-i @file.json`.

use std::str::FromStr;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::commands::task::read_file;
use crate::failure::{Failure, Result};

const HINT: &str = "give `-i name=value`, or `-i @file.json` with an object in it";

/// One `-i`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    /// A name and its value.
    Pair(String, Value),
    /// A file with an object in it.
    File(String),
}

impl FromStr for Input {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if let Some(file) = text.strip_prefix('@') {
            return Ok(Self::File(file.into()));
        }
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self::Pair(name.into(), value_of(value))),
            _ => Err("not an input like name=value or @file.json".into()),
        }
    }
}

/// JSON where it is JSON, and a text otherwise.
pub(crate) fn value_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.into()))
}

/// All inputs together; later ones win. `None` without any.
pub(crate) fn object(inputs: &[Input]) -> Result<Option<Box<RawValue>>> {
    if inputs.is_empty() {
        return Ok(None);
    }
    let mut all = Map::new();
    for input in inputs {
        match input {
            Input::Pair(name, value) => {
                all.insert(name.clone(), value.clone());
            }
            Input::File(file) => all.extend(of_file(file)?),
        }
    }
    Ok(Some(to_raw_value(&all).expect("plain values become JSON")))
}

fn of_file(file: &str) -> Result<Map<String, Value>> {
    let value: Value = serde_json::from_str(&read_file(file)?)
        .map_err(|error| Failure::usage(format!("{file} is not JSON: {error}"), HINT))?;
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(Failure::usage(format!("{file} holds no JSON object"), HINT)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn inputs_are_json_where_they_can_be() {
        let texts = ["n=3", "name=Ann", "list=[1,2]", "sure=true", "empty=", "text=\"3\"", "a=b=c"];
        let inputs = texts.map(|text| text.parse::<Input>().expect("an input"));
        let object = object(&inputs).expect("fine").expect("some");
        let expected = json!({"n": 3, "name": "Ann", "list": [1, 2], "sure": true, "empty": "",
            "text": "3", "a": "b=c"});
        assert_eq!(serde_json::from_str::<Value>(object.get()).expect("JSON"), expected);
        assert!(super::object(&[]).expect("fine").is_none());
        for wrong in ["", "x", "=3"] {
            assert!(wrong.parse::<Input>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_may_hold_them_all_and_what_comes_later_wins() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("in.json");
        std::fs::write(&path, r#"{"a": 1, "b": 2}"#).expect("written");
        let file = Input::File(path.to_str().expect("text").into());
        let object = object(&[file.clone(), Input::Pair("b".into(), json!(3))]).expect("fine");
        assert_eq!(object.expect("some").get(), r#"{"a":1,"b":3}"#);
        std::fs::write(&path, "[1]").expect("written");
        assert!(super::object(&[file]).is_err());
    }
}
