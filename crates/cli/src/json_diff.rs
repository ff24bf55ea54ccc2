//! What differs between two JSON values, path by path.

use serde::Serialize;
use serde_json::Value;

/// More differences than this are not told apart.
const DIFFERENCES_MAX: usize = 1_000;

/// A value that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Difference {
    /// Where, like `sizes.0.width`; empty for the whole.
    pub(crate) path: String,
    /// What it is on the one side; absent where there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) a: Option<Value>,
    /// And on the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) b: Option<Value>,
}

/// All differences, in the order of their paths.
pub(crate) fn differences(a: Option<&Value>, b: Option<&Value>) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), a, b, &mut found);
    found
}

fn compare(path: String, a: Option<&Value>, b: Option<&Value>, found: &mut Vec<Difference>) {
    if a == b || found.len() >= DIFFERENCES_MAX {
        return;
    }
    let below = |key: &str| if path.is_empty() { key.into() } else { format!("{path}.{key}") };
    match (a, b) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let mut keys: Vec<_> = one.keys().chain(other.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                compare(below(key), one.get(key), other.get(key), found);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for index in 0..one.len().max(other.len()) {
                compare(below(&index.to_string()), one.get(index), other.get(index), found);
            }
        }
        _ => found.push(Difference { path, a: a.cloned(), b: b.cloned() }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_differs_is_told() {
        let a = json!({"same": 1, "list": [1, 2], "gone": true, "deep": {"x": "a"}});
        let b = json!({"same": 1, "list": [1, 3, 4], "deep": {"x": "b"}, "new": null});
        let shown: Vec<_> = differences(Some(&a), Some(&b))
            .into_iter()
            .map(|one| (one.path, one.a.unwrap_or_default(), one.b.unwrap_or_default()))
            .collect();
        let expected = [
            ("deep.x", json!("a"), json!("b")),
            ("gone", json!(true), json!(null)),
            ("list.1", json!(2), json!(3)),
            ("list.2", json!(null), json!(4)),
            ("new", json!(null), json!(null)),
        ];
        assert_eq!(shown, expected.map(|(path, a, b)| (path.to_owned(), a, b)));
        assert_eq!(differences(Some(&a), Some(&a)), []);
        let whole = differences(None, Some(&json!(1)));
        assert_eq!(whole, [Difference { path: String::new(), a: None, b: Some(json!(1)) }]);
    }
}
