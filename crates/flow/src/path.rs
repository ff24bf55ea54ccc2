//! Paths into parameters and results: `results.page.url`, `parameters.urls[0]`, `/results/page`.

use serde_json::{Map, Value};

use crate::program::Root;

/// A path as people write it in the binding of a port. `None` when it is not one.
pub(crate) fn parse(text: &str) -> Option<(Root, Vec<String>)> {
    let mut segments = match text.strip_prefix('/') {
        Some(pointer) => pointer.split('/').map(unescape).collect(),
        None => dotted(text)?,
    };
    let root = match segments.first()?.as_str() {
        "parameters" => Root::Parameters,
        "results" => Root::Results,
        _ => return None,
    };
    segments.remove(0);
    Some((root, segments))
}

/// One segment of a JSON pointer: `~1` is a slash, `~0` a tilde.
fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// `a.b[0]["c.d"]` into its segments.
fn dotted(text: &str) -> Option<Vec<String>> {
    let mut segments = Vec::new();
    let mut rest = text;
    loop {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() {
            return None;
        }
        segments.push(name.to_owned());
        rest = after;
        while let Some(inside) = rest.strip_prefix('[') {
            let (segment, after) = bracketed(inside)?;
            segments.push(segment);
            rest = after;
        }
        if rest.is_empty() {
            return Some(segments);
        }
        rest = rest.strip_prefix('.')?;
    }
}

/// What stands between brackets, and what comes behind them.
fn bracketed(inside: &str) -> Option<(String, &str)> {
    for quote in ['"', '\''] {
        if let Some(quoted) = inside.strip_prefix(quote) {
            let (segment, after) = quoted.split_once(quote)?;
            return Some((segment.to_owned(), after.strip_prefix(']')?));
        }
    }
    let (segment, after) = inside.split_once(']')?;
    let is_plain = !segment.is_empty() && !segment.contains(['[', '.']);
    is_plain.then(|| (segment.to_owned(), after))
}

/// The value at a path: through objects by key, through lists by number.
pub fn value_at<'a>(value: &'a Value, path: &[impl AsRef<str>]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, segment| match value {
        Value::Object(fields) => fields.get(segment.as_ref()),
        Value::Array(items) => items.get(place(segment.as_ref())?),
        _ => None,
    })
}

/// Puts a value at a path. Objects are made on the way; what is in the way gives way. An element
/// of a list is replaced where the list has such a place. The empty path replaces the whole, but
/// only by an object: parameters stay an object.
pub fn put_value(target: &mut Value, path: &[String], value: Value) {
    let Some((last, way)) = path.split_last() else {
        if value.is_object() {
            *target = value;
        }
        return;
    };
    let mut here = target;
    for segment in way {
        here = below(here, segment);
    }
    *below(here, last) = value;
}

/// The place below a value that a segment names; made if it is not there.
fn below<'a>(value: &'a mut Value, segment: &str) -> &'a mut Value {
    // Asked before the borrow that is given back, for which the borrow checker lives too long.
    let index = match value {
        Value::Array(items) => place(segment).filter(|&place| place < items.len()),
        _ => None,
    };
    if index.is_none() && !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match (value, index) {
        (Value::Array(items), Some(index)) => &mut items[index],
        (Value::Object(fields), _) => fields.entry(segment).or_insert(Value::Null),
        (other, _) => other,
    }
}

/// A place in a list: digits, without a sign or a leading zero.
fn place(segment: &str) -> Option<usize> {
    let is_number = segment.bytes().all(|byte| byte.is_ascii_digit())
        && (segment.len() == 1 || !segment.starts_with('0'));
    if is_number { segment.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn paths_are_read_in_both_forms() {
        let results = |segments: &[&str]| {
            Some((Root::Results, segments.iter().map(ToString::to_string).collect()))
        };
        for (text, expected) in [
            ("results", results(&[])),
            ("/results", results(&[])),
            ("results.a.b", results(&["a", "b"])),
            ("/results/a/b", results(&["a", "b"])),
            ("/results/a~1b/c~0d/~01", results(&["a/b", "c~d", "~1"])),
            ("/results/", results(&[""])),
            ("results.a[0][1].b", results(&["a", "0", "1", "b"])),
            ("results['a.b'][\"c]\"]", results(&["a.b", "c]"])),
            ("parameters.x[0]", Some((Root::Parameters, vec!["x".into(), "0".into()]))),
            ("", None),
            ("/", None),
            ("a.b", None),
            ("results.", None),
            ("results..a", None),
            ("results.a[", None),
            ("results.a[]", None),
            ("results.a[0]b", None),
            ("results.a['b]", None),
            ("results]", None),
            (".results", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }

    #[test]
    fn values_are_found_below_objects_and_lists() {
        let value = json!({"a": {"b": [10, {"c": null}], "0": "key"}});
        for (path, expected) in [
            (&["a", "b", "0"][..], Some(json!(10))),
            (&["a", "b", "1", "c"], Some(json!(null))),
            (&["a", "0"], Some(json!("key"))),
            (&[], Some(value.clone())),
            (&["a", "b", "2"], None),
            (&["a", "b", "01"], None),
            (&["a", "b", "-1"], None),
            (&["a", "b", ""], None),
            (&["a", "b", "0", "x"], None),
            (&["x"], None),
        ] {
            assert_eq!(value_at(&value, path).cloned(), expected, "{path:?}");
        }
    }

    #[test]
    fn a_value_makes_its_way() {
        for (before, path, value, after) in [
            (json!({}), "results.a.b", json!(1), json!({"a": {"b": 1}})),
            (json!(null), "results.a", json!(1), json!({"a": 1})),
            (json!({"a": 5, "z": 0}), "results.a.b", json!(1), json!({"a": {"b": 1}, "z": 0})),
            (json!({"a": [1, 2]}), "results.a[1]", json!(9), json!({"a": [1, 9]})),
            (json!({"a": [1, 2]}), "results.a[2]", json!(9), json!({"a": {"2": 9}})),
            (json!({"a": [{}]}), "results.a[0].b", json!(9), json!({"a": [{"b": 9}]})),
            (json!({"a": 1}), "results", json!({"b": 2}), json!({"b": 2})),
            (json!({"a": 1}), "results", json!([2]), json!({"a": 1})),
        ] {
            let mut target = before;
            put_value(&mut target, &parse(path).unwrap().1, value);
            assert_eq!(target, after, "{path}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[a-c0-2]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c0-2]", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_set_is_got(
            mut target in any_value(),
            path in prop::collection::vec("[a-c0-2]{1,2}", 1..5),
            value in any_value(),
        ) {
            put_value(&mut target, &path, value.clone());
            prop_assert_eq!(value_at(&target, &path), Some(&value));
        }

        #[test]
        fn any_text_is_a_path_or_not(text in "\\PC{0,40}") {
            let _ = parse(&text);
        }
    }
}
