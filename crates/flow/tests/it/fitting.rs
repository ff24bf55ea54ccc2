//! Parameters that fit their schemas, and wires that fit their ports.

use expect_test::{Expect, expect};
use serde_json::json;

use crate::telling::{check, workflow};

fn check_parameters(schema: &str, parameters: &str, expected: &Expect) {
    let node = format!(
        r#"{{"id": "$a", "type": "core.noop", "alias": "a"}},
           {{"id": "$b", "type": "core.noop", "parameters": {parameters},
             "schema": {{"parameters": {schema}}},
             "ui": {{"inputPorts": [{{"key": "in", "binding": {{"path": "parameters.fed.deep"}}}}]}}}},
           {{"id": "$c", "type": "core.noop", "ui": {{"outputPorts": [
             {{"key": "out", "binding": {{"path": "results.x"}}}}]}}}}"#
    );
    let edge =
        r#"{"source": {"node": "$c", "port": "out"}, "target": {"node": "$b", "port": "in"}}"#;
    check(&workflow(&node, edge), expected);
}

#[test]
fn parameters_fit_the_schema_of_the_node() {
    let schema = r##"{"type": "object", "required": ["url", "mode"], "additionalProperties": false,
        "properties": {"url": {"type": "string", "minLength": 3},
                       "mode": {"enum": ["fast", "slow"]},
                       "n": {"type": ["integer", "null"], "maximum": 10},
                       "list": {"type": "array", "items": {"$ref": "#/$defs/item"}}},
        "$defs": {"item": {"type": "object", "required": ["id"]}}}"##;
    check_parameters(
        schema,
        r#"{"url": "abc", "mode": "fast", "n": null, "list": [{"id": 1}]}"#,
        &expect![[""]],
    );
    check_parameters(
        schema,
        r#"{"url": 5, "mode": "medium", "n": 11, "list": [{"id": 1}, {}], "ulr": "x", "a/b": 1}"#,
        &expect![[r#"
            E.FLOW.PARAMETERS $b /nodes/1/parameters/list/1/id: id is missing; the node needs it
            E.FLOW.PARAMETERS $b /nodes/1/parameters/mode: mode is "medium"; it must be one of "fast", "slow"
            E.FLOW.PARAMETERS $b /nodes/1/parameters/n: n: the value is greater than the maximum of 10
            E.FLOW.PARAMETERS $b /nodes/1/parameters/url: url is a number; it must be text
            E.FLOW.PARAMETERS $b /nodes/1/parameters: parameters does not know a/b, ulr; remove it, or look for a typing error
        "#]],
    );
    check_parameters(
        schema,
        "null",
        &expect![[r"
        E.FLOW.PARAMETERS $b /nodes/1/parameters/url: url is missing; the node needs it
        E.FLOW.PARAMETERS $b /nodes/1/parameters/mode: mode is missing; the node needs it
    "]],
    );
}

#[test]
fn what_is_filled_in_later_is_not_checked() {
    let schema = r#"{"type": "object", "required": ["n", "fed", "gone"], "minProperties": 9,
        "properties": {"n": {"type": "integer"},
                       "fed": {"type": "object", "required": ["deep", "other"],
                               "properties": {"deep": {"type": "integer"}}},
                       "both": {"anyOf": [{"required": ["a"]}, {"properties": {"b": {"type": "integer"}}, "required": ["b"]}]}}}"#;
    check_parameters(
        schema,
        r#"{"n": "{{ nodes.a.results.n }}", "fed": {"deep": "no"}, "both": {"b": "{{ nodes.a.results.b }}"}}"#,
        &expect![[r"
            E.FLOW.PARAMETERS $b /nodes/1/parameters/gone: gone is missing; the node needs it
            E.FLOW.PARAMETERS $b /nodes/1/parameters/fed/other: other is missing; the node needs it
        "]],
    );
    check_parameters(
        r#"{"properties": {"list": {"items": {"type": "integer"}}}}"#,
        r#"{"list": ["{{ nodes.a.results.n }}", "no", {"deep": "{{ nodes.a.results.n }}"}]}"#,
        &expect![[r"
            E.FLOW.PARAMETERS $b /nodes/1/parameters/list/1: 1 is text; it must be a whole number
            E.FLOW.PARAMETERS $b /nodes/1/parameters/list/2: 2 is an object; it must be a whole number
        "]],
    );
    check_parameters(
        schema,
        r#"{"n": "5", "gone": 1}"#,
        &expect![[r"
            E.FLOW.PARAMETERS $b /nodes/1/parameters/n: n is text; it must be a whole number
        "]],
    );
}

#[test]
fn what_a_middleware_may_hand_on_is_not_missed() {
    let node = r#"{"id": "$a", "type": "core.noop", "parameters": {"n": "x"},
        "schema": {"parameters": {"type": "object", "required": ["item"], "properties": {"n": {"type": "integer"}}}},
        "middlewares": [{"id": "$m", "type": "core.loop",
            "schema": {"parameters": {"type": "object", "required": ["times"]}}}]}"#;
    check(
        &workflow(node, ""),
        &expect![[r"
            E.FLOW.PARAMETERS $a /nodes/0/parameters/n: n is text; it must be a whole number
            E.FLOW.PARAMETERS $a /nodes/0/middlewares/0/parameters/times: times is missing; the node needs it
        "]],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn schemas_do_not_reach_out_and_do_not_explode() {
    check_parameters(
        r#"{"$ref": "http://example.com/schema.json"}"#,
        "{}",
        &expect![[r"
        E.FLOW.PARAMETERS $b /nodes/1/schema/parameters: the schema refers to http://example.com/schema.json; only places of its own, like #/$defs/name, are followed, so copy what it needs into it
    "]],
    );
    check_parameters(
        r#"{"properties": {"a": {"$ref": "file:///etc/passwd"}}}"#,
        "{}",
        &expect![[r"
            E.FLOW.PARAMETERS $b /nodes/1/schema/parameters: the schema refers to file:///etc/passwd; only places of its own, like #/$defs/name, are followed, so copy what it needs into it
        "]],
    );
    check_parameters(
        r##"{"$ref": "#"}"##,
        "{}",
        &expect![[r"
        E.FLOW.PARAMETERS (warning) $b /nodes/1/schema/parameters: the schema is not used to check parameters: it refers to itself
    "]],
    );
    check_parameters(
        r##"{"$ref": "#/$defs/none"}"##,
        "{}",
        &expect![[r"
        E.FLOW.PARAMETERS (warning) $b /nodes/1/schema/parameters: the schema is not used to check parameters: it refers to a place that is not there
    "]],
    );
    check_parameters(
        r#"{"type": "objekt"}"#,
        "{}",
        &expect![[r#"
            E.FLOW.PARAMETERS (warning) $b /nodes/1/schema/parameters: the schema is not used to check parameters: it is no JSON Schema: "objekt" is not valid under any of the schemas listed in the 'anyOf' keyword
        "#]],
    );
    check_parameters(
        r"[]",
        "{}",
        &expect![[r#"
        E.FLOW.PARAMETERS (warning) $b /nodes/1/schema/parameters: the schema is not used to check parameters: it is no JSON Schema: [] is not of types "boolean", "object"
    "#]],
    );
    check_parameters(
        r#"{"properties": {"a": {"pattern": "(?=x)(a+)+$"}}}"#,
        r#"{"a": "aaaa"}"#,
        &expect![[r#"
            E.FLOW.PARAMETERS (warning) $b /nodes/1/schema/parameters: the schema is not used to check parameters: it is no JSON Schema: "(?=x)(a+)+$" is not a "regex"
        "#]],
    );
    check_parameters(
        r#"{"properties": {"a": {"pattern": "((a{100}){100}){100}"}}}"#,
        r#"{"a": "a"}"#,
        &expect![[r#"
            E.FLOW.PARAMETERS (warning) $b /nodes/1/schema/parameters: the schema is not used to check parameters: it is no JSON Schema: "((a{100}){100}){100}" is not a "regex"
        "#]],
    );
    check_parameters(
        r#"{"properties": {"a": {"pattern": "^(a+)+$"}}}"#,
        &json!({"a": "a".repeat(50_000) + "b"}).to_string(),
        &expect![[r#"
            E.FLOW.PARAMETERS $b /nodes/1/parameters/a: a: the value does not match "^(a+)+$"
        "#]],
    );
    let deep = format!("{}true{}", r#"{"not":"#.repeat(100), "}".repeat(100));
    check_parameters(
        &deep,
        "{}",
        &expect![[r"
        E.FLOW.PARAMETERS (warning) $b /nodes/1/schema/parameters: the schema is not used to check parameters: it nests more than 64 levels deep
    "]],
    );
    let long = json!({"description": "x".repeat(300_000)}).to_string();
    check_parameters(
        &long,
        "{}",
        &expect![[r"
        E.FLOW.PARAMETERS (warning) $b /nodes/1/schema/parameters: the schema is not used to check parameters: it has 300018 bytes, at most 262144 are read
    "]],
    );
}

#[test]
fn large_parameters_and_large_schemas_are_not_multiplied() {
    let all: Vec<_> = (0..1_000).map(|n| json!({"minLength": n})).collect();
    let schema = json!({"properties": {"list": {"items": {"allOf": all}}}}).to_string();
    let parameters = json!({"list": vec!["x"; 10_000]}).to_string();
    check_parameters(
        &schema,
        &parameters,
        &expect![[r"
        E.FLOW.LIMIT (warning) $b /nodes/1/parameters: the parameters are not checked: they are too large for their schema
    "]],
    );
}

fn check_wire(from: &str, to: &str, expected: &Expect) {
    let nodes = format!(
        r#"{{"id": "$a", "type": "core.noop",
              "schema": {{"results": {{"properties": {{"page": {from}}}, "$defs": {{"text": {{"type": "string"}}}}}}}},
              "ui": {{"outputPorts": [{{"key": "page", "binding": {{"path": "results.page"}}}}]}}}},
            {{"id": "$b", "type": "core.noop",
              "schema": {{"parameters": {{"properties": {{"selector": {to}}}}}}},
              "ui": {{"inputPorts": [{{"key": "selector", "binding": {{"path": "parameters.selector"}}}}]}}}}"#
    );
    let edge = r#"{"source": {"node": "$a", "port": "page"}, "target": {"node": "$b", "port": "selector"}}"#;
    check(&workflow(&nodes, edge), expected);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn wires_fit_their_ports() {
    let text = r#"{"type": "string"}"#;
    check_wire(
        r#"{"type": "object"}"#,
        text,
        &expect![[r"
            E.FLOW.WIRE_TYPE $b /edges/0: page is an object; selector wants text; connect it to another port, or put a node between that converts it
        "]],
    );
    check_wire(text, text, &expect![[""]]);
    check_wire(
        r##"{"$ref": "#/$defs/text"}"##,
        r#"{"type": "array"}"#,
        &expect![[r"
            E.FLOW.WIRE_TYPE $b /edges/0: page is text; selector wants a list; connect it to another port, or put a node between that converts it
        "]],
    );
    check_wire(r#"{"type": "integer"}"#, r#"{"type": "number"}"#, &expect![[""]]);
    check_wire(
        r#"{"type": "number"}"#,
        r#"{"type": "integer"}"#,
        &expect![[r"
        E.FLOW.WIRE_TYPE $b /edges/0: page is a number; selector wants a whole number; connect it to another port, or put a node between that converts it
    "]],
    );
    check_wire(r#"{"type": "object"}"#, "{}", &expect![[""]]);
    check_wire("true", text, &expect![[""]]);
    check_wire(
        r#"{"type": ["string", "null"]}"#,
        text,
        &expect![[r"
            E.FLOW.WIRE_TYPE (warning) $b /edges/0: page is text or null; selector wants text, so some values will not fit
        "]],
    );
    check_wire(text, r#"{"type": ["string", "null"]}"#, &expect![[""]]);
    check_wire(r#"{"enum": ["a"]}"#, r#"{"enum": ["a", "b"]}"#, &expect![[""]]);
    check_wire(
        r#"{"enum": ["a", "b", "c"]}"#,
        r#"{"enum": ["a", "b"]}"#,
        &expect![[r#"
        E.FLOW.WIRE_TYPE (warning) $b /edges/0: page may be something that selector does not take; it must be one of "a", "b"
    "#]],
    );
    check_wire(
        r#"{"enum": ["x"]}"#,
        r#"{"enum": ["a", "b"]}"#,
        &expect![[r#"
        E.FLOW.WIRE_TYPE $b /edges/0: page never is what selector wants; it must be one of "a", "b"
    "#]],
    );
    check_wire(
        text,
        r#"{"enum": ["a", "b"]}"#,
        &expect![[r#"
        E.FLOW.WIRE_TYPE (warning) $b /edges/0: page may be something that selector does not take; it must be one of "a", "b"
    "#]],
    );
    check_wire(
        r#"{"type": "string", "contentMediaType": "image/png"}"#,
        r#"{"type": "string", "contentMediaType": "audio/wav"}"#,
        &expect![[r"
            E.FLOW.WIRE_TYPE $b /edges/0: page is text (image/png); selector wants text (audio/wav); connect it to another port, or put a node between that converts it
        "]],
    );
    check_wire(
        r#"{"type": "string", "format": "date"}"#,
        r#"{"type": "string", "format": "uri"}"#,
        &expect![[r"
            E.FLOW.WIRE_TYPE (warning) $b /edges/0: page is text (date); selector wants text (uri), so some values will not fit
        "]],
    );
    check_wire(r#"{"type": "string", "format": "date"}"#, text, &expect![[""]]);
}

#[test]
fn a_node_that_runs_per_element_gives_another_shape() {
    let nodes = r#"{"id": "$a", "type": "core.noop", "map": {"over": [1, 2]},
           "schema": {"results": {"properties": {"items": {"type": "string"}}}},
           "ui": {"outputPorts": [{"key": "all", "binding": {"path": "results.items"}}]}},
         {"id": "$b", "type": "core.noop",
           "schema": {"parameters": {"properties": {"list": {"type": "array"}}}},
           "ui": {"inputPorts": [{"key": "list", "binding": {"path": "parameters.list"}}]}}"#;
    let edge =
        r#"{"source": {"node": "$a", "port": "all"}, "target": {"node": "$b", "port": "list"}}"#;
    check(&workflow(nodes, edge), &expect![[""]]);
}
