//! Asks for what a popped value does not say: the job behind a name, and its plan.
//!
//! Each generation of servers keeps them elsewhere, so the places are tried in turn.

use bytes::Bytes;
use protocol::resp::reply::Reply;
use serde_json::{Map, Value};

use super::connection::{Request, request};
use super::line::{Line, Unanswered};

/// The JSON of a job; the sentence says where it was looked for.
pub(super) async fn job(line: &Line, id: &str) -> Result<Result<Bytes, String>, Unanswered> {
    let key = format!("job:{id}");
    let places = [request(&["JOB.GET", id]), request(&["GET", &key]), request(&["HGETALL", &key])];
    first(line, places, "job", id).await
}

/// The JSON of a plan.
pub(super) async fn plan(line: &Line, id: &str) -> Result<Result<Bytes, String>, Unanswered> {
    let key = format!("plan:{id}");
    let places =
        [request(&["PLAN.GET", id]), request(&["GET", &key]), request(&["HGET", &key, "json"])];
    first(line, places, "plan", id).await
}

async fn first(
    line: &Line,
    places: [Request; 3],
    what: &str,
    id: &str,
) -> Result<Result<Bytes, String>, Unanswered> {
    let mut said = Vec::new();
    for place in places {
        let name = String::from_utf8_lossy(&place[0]).into_owned();
        // A lost connection says nothing about the place.
        let reply = loop {
            match line.ask(place.clone()).await {
                Ok(reply) => break reply,
                Err(Unanswered::Lost) => {}
                Err(closed @ Unanswered::Closed) => return Err(closed),
            }
        };
        match document(&reply) {
            Some(json) => return Ok(Ok(json)),
            None => said.push(format!("{name}: {}", short(&reply))),
        }
    }
    Ok(Err(format!("the server does not have the {what} {id} ({})", said.join("; "))))
}

/// A reply that holds a document: as it is, or field by field.
fn document(reply: &Reply) -> Option<Bytes> {
    match reply {
        Reply::Bulk(bytes) => Some(bytes.clone()),
        Reply::Array(items) if !items.is_empty() => {
            let text = |reply: &Reply| match reply {
                Reply::Bulk(bytes) => String::from_utf8(bytes.to_vec()).ok(),
                _ => None,
            };
            let pairs = items.as_chunks::<2>().0.iter();
            let fields = pairs.map(|[name, value]| {
                let (name, value) = (text(name)?, text(value)?);
                let value = field(&name, value);
                Some((name, value))
            });
            let fields: Option<Map<String, Value>> = fields.collect();
            Some(Value::Object(fields?).to_string().into())
        }
        _ => None,
    }
}

/// The input is JSON inside a field of text; everything else is text.
fn field(name: &str, text: String) -> Value {
    match serde_json::from_str(&text) {
        Ok(value) if name == "input" => value,
        Ok(_) | Err(_) => Value::String(text),
    }
}

fn short(reply: &Reply) -> String {
    match reply {
        Reply::Error(text) => text.to_string(),
        Reply::Null | Reply::NullArray => "nothing".into(),
        Reply::Array(items) if items.is_empty() => "nothing".into(),
        _ => "something else".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_read_whole_and_field_by_field() {
        let bulks = |items: &[&'static str]| Reply::array(items.iter().copied());
        check(&Reply::from("{}"), Some("{}"));
        let fields = bulks(&["plan_id", "7", "input", r#"{"a":1}"#]);
        check(&fields, Some(r#"{"input":{"a":1},"plan_id":"7"}"#));
        let plain = bulks(&["input", "two words"]);
        check(&plain, Some(r#"{"input":"two words"}"#));
        for nothing in [Reply::Null, Reply::NullArray, bulks(&[]), Reply::error("ERR x")] {
            check(&nothing, None);
        }
    }

    fn check(reply: &Reply, expected: Option<&str>) {
        assert_eq!(document(reply).as_deref(), expected.map(str::as_bytes), "{reply:?}");
    }
}
