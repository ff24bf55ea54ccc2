//! Resources that parameters speak of: `{"resourceRef": {"resourceId", "workerName", "type"}}`.

use protocol::session::payload::resource::ResourceRef;
use serde_json::Value;

/// References that one dispatch names besides its parameters.
const REFERENCES_MAX: usize = 64;
const KEY: &str = "resourceRef";

/// The resources that a task works with, so that its worker keeps them meanwhile, or fails at once.
pub(super) fn in_parameters(parameters: &[u8]) -> Option<Vec<ResourceRef>> {
    // Few speak of any, and the others need not be read.
    let text = std::str::from_utf8(parameters).ok().filter(|text| text.contains(KEY))?;
    let parameters: Value = serde_json::from_str(text).ok()?;
    let mut found = Vec::new();
    collect(&parameters, &mut found);
    (!found.is_empty()).then_some(found)
}

fn collect(value: &Value, found: &mut Vec<ResourceRef>) {
    match value {
        Value::Object(keys) => {
            for (key, inner) in keys {
                match reference(inner).filter(|_| key == KEY) {
                    Some(one) if found.len() < REFERENCES_MAX => found.push(one),
                    Some(_) => {}
                    None => collect(inner, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn reference(value: &Value) -> Option<ResourceRef> {
    let text = |names: [&str; 2]| {
        let found = names.iter().find_map(|name| value.get(name)?.as_str());
        found.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    Some(ResourceRef {
        resource_id: text(["resourceId", "resource_id"])?,
        worker_name: text(["workerName", "worker_name"])?,
        resource_type: text(["type", "type"]).unwrap_or_else(|| "file".to_owned()),
        scope: None,
        expires_at: None,
        metadata: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_wherever_they_stand() {
        let one = r#"{"resourceId":"a","workerName":"w","type":"page"}"#;
        check(&format!(r#"{{"resourceRef":{one}}}"#), &["a w page"]);
        check(
            &format!(
                r#"{{"x":[1,{{"resourceRef":{one}}}],"y":{{"resourceRef":{{"resource_id":"b","worker_name":"v"}}}}}}"#
            ),
            &["a w page", "b v file"],
        );
        check(r#"{"resourceRef":"a","x":{"resourceRef":{"resourceId":"a"}}}"#, &[]);
        check(r#"{"text":"resourceRef"}"#, &[]);
        check(r#"{"a":1}"#, &[]);
    }

    fn check(parameters: &str, expected: &[&str]) {
        let found = in_parameters(parameters.as_bytes()).unwrap_or_default();
        let found: Vec<_> = found
            .iter()
            .map(|one| format!("{} {} {}", one.resource_id, one.worker_name, one.resource_type))
            .collect();
        assert_eq!(found, expected, "{parameters}");
    }
}
