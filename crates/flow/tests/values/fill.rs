//! What a step is given.

use bytes::Bytes;
use flow::{EvalError, Parameters, Step, Wire};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{World, step, wire};

/// Nodes 0 to 3: `a`, `b`, `c`, `d`.
fn world() -> World {
    World::new(json!({
        "a": {
            "status": "succeeded", "order": 2,
            "results": {"url": "http://a", "fields": {"x": 1}, "list": [10, 20], "null": null},
            "parameters": {"depth": 3},
            "middlewares": [{"tries": 2}],
        },
        "b": {"status": "succeeded", "order": 1, "results": {"url": "http://b", "n": 7}},
        "c": {"status": "failed", "order": 0, "results": {"url": "http://c"}},
        "d": {"status": "skipped", "order": 3, "results": {"url": "http://d"}},
        "e": null,
    }))
}

fn filled(world: &World, step: &Step) -> Result<Value, EvalError> {
    let bytes = world.ask(|scope| flow::fill(step, scope))?;
    Ok(serde_json::from_slice(&bytes).expect("parameters are JSON"))
}

fn with_wires(authored: Value, wires: Vec<Wire>) -> Result<Value, EvalError> {
    let world = world();
    filled(&world, &Step { wires, ..world.step(authored) })
}

#[test]
fn plain_parameters_are_the_same_bytes() {
    let bytes = Bytes::from_static(br#"{ "b" : 1.0, "a":"{% x %}" }"#);
    let step = step(0, Parameters::Plain(bytes.clone()));
    let given = world().ask(|scope| flow::fill(&step, scope)).unwrap();
    assert_eq!(given, bytes);
    assert_eq!(given.as_ptr(), bytes.as_ptr(), "they are not copied");
}

#[test]
fn values_flow_to_their_place() {
    for (from, to, expected) in [
        ("results.url", "url", json!({"k": 1, "url": "http://a"})),
        ("results.url", "k.deep", json!({"k": {"deep": "http://a"}})),
        ("results.list.1", "n", json!({"k": 1, "n": 20})),
        ("results.null", "k", json!({"k": null})),
        ("parameters.depth", "k", json!({"k": 3})),
        ("mw0:results.tries", "k", json!({"k": 2})),
        ("results.fields", "", json!({"x": 1})),
        // Missing, or not an object where parameters have to stay one: as authored.
        ("results.nothing", "k", json!({"k": 1})),
        ("mw0:parameters.x", "k", json!({"k": 1})),
        ("results.url", "", json!({"k": 1})),
    ] {
        assert_eq!(with_wires(json!({"k": 1}), vec![wire(0, from, to)]), Ok(expected), "{from}");
    }
}

#[test]
fn the_source_that_ended_last_wins() {
    let (a, b) = (wire(0, "results.url", "u"), wire(1, "results.url", "u"));
    assert_eq!(with_wires(json!({}), vec![a, b]), Ok(json!({"u": "http://a"})));
    let (a, b) = (wire(0, "results.url", "u"), wire(1, "results.url", "u"));
    assert_eq!(with_wires(json!({}), vec![b, a]), Ok(json!({"u": "http://a"})));
    // Wires of one node: in the order of the edges.
    let wires = vec![wire(1, "results.url", "u"), wire(1, "results.n", "u")];
    assert_eq!(with_wires(json!({}), wires), Ok(json!({"u": 7})));
}

#[test]
fn only_what_went_well_flows() {
    let to = |node| with_wires(json!({"u": "kept"}), vec![wire(node, "results.url", "u")]);
    assert_eq!(to(2), Ok(json!({"u": "kept"})), "failed");
    assert_eq!(to(3), Ok(json!({"u": "http://d"})), "skipped");
    assert_eq!(to(4), Ok(json!({"u": "kept"})), "has not ended");
}

#[test]
fn texts_are_worked_out_and_keys_are_not() {
    let authored = json!({
        "{{ inputs.name }}": "{{ inputs.name }}",
        "typed": "{{ nodes.a.results.list }}",
        "blanks": " {{ nodes.b.results.n }}",
        "mixed": "{{ nodes.b.results.n }}:{{ nodes.a.results.list }}:{{ nodes.a.results.null }}",
        "comment": "{# x #}{{ 1 }}",
        "block": "{% if x %}",
        "list": [{"x": "{{ 1 + 1 }}"}, 5, null],
    });
    assert_eq!(
        with_wires(authored, vec![]),
        Ok(json!({
            "{{ inputs.name }}": "Ada",
            "typed": [10, 20],
            "blanks": " 7",
            "mixed": "7:[10,20]:null",
            "comment": "{# x #}1",
            "block": "{% if x %}",
            "list": [{"x": 2}, 5, null],
        }))
    );
}

#[test]
fn an_error_says_where() {
    for (authored, expected) in [
        (
            json!({"a": [0, {"b": "{{ inputs.x }}"}]}),
            "parameters.a[1].b: inputs.x is undefined (inputs has: list, name, zero)",
        ),
        (
            json!({"a": "{% if 1 %}{{ 1 }}{% endif %}"}),
            "parameters.a: blocks like {% %} are not part of expressions; \
             write {{ a if condition else b }}",
        ),
        (json!({"a": "x {{ 1"}), "parameters.a: the {{ at character 3 is never closed"),
    ] {
        assert_eq!(with_wires(authored, vec![]).unwrap_err().to_string(), expected);
    }
}

#[test]
fn what_flows_in_takes_the_place_of_an_expression() {
    let authored = || json!({"u": "{{ inputs.missing }}", "v": "{{ 1 }}", "l": ["{{ inputs.m }}"]});
    let list = || wire(0, "results.url", "l.0");
    for (wires, expected) in [
        (
            vec![wire(0, "results.url", "u"), list()],
            json!({"u": "http://a", "v": 1, "l": ["http://a"]}),
        ),
        (
            vec![wire(0, "results.url", "u.deep"), list()],
            json!({"u": {"deep": "http://a"}, "v": 1, "l": ["http://a"]}),
        ),
        (vec![wire(0, "results.fields", "")], json!({"x": 1})),
    ] {
        assert_eq!(with_wires(authored(), wires), Ok(expected));
    }
    // Where nothing flows in, it is worked out after all.
    assert!(with_wires(authored(), vec![wire(0, "results.nothing", "u"), list()]).is_err());
}

#[test]
fn only_nodes_that_are_referred_to_are_looked_at() {
    let world = world();
    let mut step = world.step(json!({"x": "{{ nodes.b.results.n }}"}));
    assert_eq!(filled(&world, &step), Ok(json!({"x": 7})));
    step.references = vec![0];
    assert!(filled(&world, &step).is_err());
}

#[test]
fn a_payload_is_laid_over_the_parameters() {
    let payload = |payload: Value| {
        let mut world = world();
        world.payload = Some(payload);
        world
    };
    let world = payload(json!({"a": "{{ 1 }}", "new": {"x": 1}}));
    let expected = json!({"a": "{{ 1 }}", "b": 2, "new": {"x": 1}});
    assert_eq!(filled(&world, &world.step(json!({"a": {"x": 0}, "b": "{{ 2 }}"}))), Ok(expected));

    let plain = |bytes| step(0, Parameters::Plain(Bytes::from_static(bytes)));
    let expected = json!({"a": "{{ 1 }}", "b": "{% x", "new": {"x": 1}});
    assert_eq!(filled(&world, &plain(br#"{"b":"{% x"}"#)), Ok(expected));
    let expected = json!({"a": "{{ 1 }}", "new": {"x": 1}});
    assert_eq!(filled(&world, &plain(b"")), Ok(expected.clone()));
    assert_eq!(filled(&world, &plain(b"null")), Ok(expected));
    assert_eq!(filled(&world, &plain(b"[1]")), Ok(json!([1])));
    assert_eq!(filled(&payload(json!([1])), &plain(b"{}")), Ok(json!({})));
}

#[test]
fn parameters_have_a_largest_size_and_depth() {
    let mut world = world();
    let most = 1024 * 1024 - r#"{"a":""}"#.len();
    world.inputs = json!({"fits": "x".repeat(most), "is_more": "x".repeat(most + 1)});
    assert!(filled(&world, &world.step(json!({"a": "{{ inputs.fits }}"}))).is_ok());
    for authored in [
        json!({"a": "{{ inputs.is_more }}"}),
        json!({"a": vec!["{{ inputs.fits }}"; 1000]}),
        json!({"a": "{{ inputs.fits }}", "b": "y"}),
    ] {
        let error = filled(&world, &world.step(authored)).unwrap_err();
        assert_eq!(error.reason, "parameters would have more than 1048576 bytes");
    }
    let nested = |depth| (0..depth).fold(json!(1), |value, _| json!([value]));
    world.inputs = json!({"fits": nested(63), "is_more": nested(64)});
    assert!(filled(&world, &world.step(json!({"a": "{{ inputs.fits }}"}))).is_ok());
    let error = filled(&world, &world.step(json!({"a": "{{ inputs.is_more }}"}))).unwrap_err();
    assert_eq!(error.to_string(), "parameters: they nest more than 64 levels deep");
}

#[test]
fn a_text_of_a_step_is_worked_out() {
    let world = world();
    let step = world.step(json!({}));
    let text = |text: &str| world.ask(|scope| flow::text_of(text, &step, scope));
    assert_eq!(text("plain"), Ok("plain".to_owned()));
    assert_eq!(text("user-{{ inputs.name }}"), Ok("user-Ada".to_owned()));
    assert_eq!(text("{{ nodes.b.results.n }}"), Ok("7".to_owned()));
    assert_eq!(text("{{ inputs.x }}").unwrap_err().path, "{{ inputs.x }}");
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        "[{}%# a-c\\\\\"']{0,12}".prop_map(Value::from),
        Just(Value::from("{{ 1+1 }}")),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        let key = prop_oneof!["\\PC{0,8}", Just("{{ 1+1 }}".to_owned())];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// The value without any text that holds an expression.
fn without_expressions(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace('{', "{ ")),
        Value::Array(items) => items.into_iter().map(without_expressions).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, without_expressions(value))).collect()
        }
        other => other,
    }
}

proptest! {
    #[test]
    fn what_holds_no_expression_passes_as_it_is(value in any_value()) {
        let authored = json!({ "x": without_expressions(value) });
        let world = world();
        // Even where it is said that there are some.
        let parameters = Parameters::Open { authored: authored.clone(), has_expressions: true };
        let given = world.ask(|scope| flow::fill(&step(0, parameters), scope)).unwrap();
        let plain = Bytes::from(authored.to_string());
        prop_assert_eq!(&given, &plain);
        let step = step(0, Parameters::Plain(plain.clone()));
        prop_assert_eq!(world.ask(|scope| flow::fill(&step, scope)).unwrap(), plain);
    }

    #[test]
    fn what_flows_in_is_never_an_expression(value in any_value()) {
        let mut world = World::new(json!({"a": {"status": "succeeded", "results": {"v": value}}}));
        world.inputs = json!({ "v": value });
        world.item = Some(value.clone());
        world.payload = Some(json!({ "payload": value }));
        let authored = json!({
            "input": "{{ inputs.v }}",
            "item": "{{ item }}",
            "engine": "{{ [nodes.a.results.v][0] }}",
            "wire": "{{ inputs.missing }}",
        });
        let step = Step { wires: vec![wire(0, "results.v", "wire")], ..world.step(authored) };
        let expected = json!({
            "input": value, "item": value, "engine": value, "wire": value, "payload": value,
        });
        prop_assert_eq!(filled(&world, &step).unwrap(), expected);
    }

    #[test]
    fn any_text_gives_a_value_or_an_error(
        text in prop_oneof!["\\PC{0,30}", "[{}%'\"\\\\()\\[\\]*~|.,:=<>+\\- a-e0-9]{0,40}"]
    ) {
        let _ = world().value(&text);
        let _ = world().says_yes(&text);
    }
}
