//! The elements of a list, and what a graph gives.

use serde_json::{Value, json};

use crate::world::{World, id};

fn world() -> World {
    World::new(json!({
        "a": {"status": "succeeded", "results": {"list": [1, "{{ 2 }}"], "text": "t"}},
        "-b": {"status": "succeeded", "results": {"x": 1}},
        "c": {"status": "skipped"},
        "d": {"status": "failed", "error": {}},
        "e": {"status": "succeeded", "results": null},
    }))
}

#[test]
fn lists_and_objects_have_elements() {
    let world = world();
    for (over, expected) in [
        (json!("nodes.a.results.list"), json!([1, "{{ 2 }}"])),
        (json!("{{ nodes.a.results.list }}"), json!([1, "{{ 2 }}"])),
        (json!([1, "{{ nodes.a.results.text }}", "x"]), json!([1, "t", "x"])),
        (json!("range(2)"), json!([0, 1])),
        (json!([]), json!([])),
        (
            json!({"k": "{{ inputs.zero }}", "l": []}),
            json!([{"key": "k", "value": 0}, {"key": "l", "value": []}]),
        ),
        (
            json!("nodes.a.results"),
            json!([{"key": "list", "value": [1, "{{ 2 }}"]}, {"key": "text", "value": "t"}]),
        ),
    ] {
        assert_eq!(world.list(over.clone()).map(Value::from), Ok(expected), "{over}");
    }
}

#[test]
fn what_has_no_elements_says_what_it_is() {
    let world = world();
    for (over, expected) in [
        (json!("nodes.a.results.text"), "map.over: it is a text, and neither a list nor an object"),
        (json!(5), "map.over: it is a number, and neither a list nor an object"),
        (json!(null), "map.over: it is null, and neither a list nor an object"),
        (json!("{{ inputs.x }}"), "map.over: inputs.x is undefined (inputs has: list, name, zero)"),
        (
            json!([1, "{{ inputs.x }}"]),
            "map.over[1]: inputs.x is undefined (inputs has: list, name, zero)",
        ),
    ] {
        assert_eq!(world.list(over.clone()).unwrap_err().to_string(), expected, "{over}");
    }
}

#[test]
fn a_list_has_a_longest_length() {
    let mut world = world();
    world.inputs = json!({ "list": vec![0; 100_000] });
    assert_eq!(world.list(json!("inputs.list")).unwrap().len(), 100_000);
    world.inputs = json!({ "list": vec![0; 100_001] });
    let error = world.list(json!("inputs.list")).unwrap_err();
    assert_eq!(error.to_string(), "map.over: it has 100001 elements; at most 100000 go");
}

#[test]
fn declared_outputs_are_worked_out() {
    let outputs = json!({
        "first": "{{ nodes.a.results.list[0] }}",
        "plain": {"x": 1, "text": "no braces"},
        "deep": {"list": ["{{ nodes.d.status }}", "{{ inputs.name }}!"]},
    });
    assert_eq!(
        world().outputs(outputs),
        Ok(json!({
            "first": 1,
            "plain": {"x": 1, "text": "no braces"},
            "deep": {"list": ["failed", "Ada!"]},
        }))
    );
    let error = world().outputs(json!({"x": {"y": "{{ nodes.d.results.z }}"}})).unwrap_err();
    assert_eq!(error.path, "outputs.x.y");
}

#[test]
fn undeclared_outputs_are_the_results_of_the_ends() {
    // It comes first in the alphabet.
    let b = id(0).to_string();
    assert_eq!(
        world().outputs(json!({})),
        Ok(json!({
            "a": {"list": [1, "{{ 2 }}"], "text": "t"},
            b: {"x": 1},
            "e": null,
        }))
    );
}

#[test]
fn outputs_have_a_largest_size() {
    let big = "x".repeat(1024 * 1024);
    let mut world = World::new(json!({"a": {"status": "succeeded", "results": big}}));
    let outputs: Value =
        (0..9).map(|n| (n.to_string(), Value::from("{{ nodes.a.results }}"))).collect();
    let error = world.outputs(outputs).unwrap_err();
    assert_eq!(error.to_string(), "outputs.7: outputs would have more than 8388608 bytes");
}
