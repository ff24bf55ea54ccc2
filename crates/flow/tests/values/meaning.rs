//! What expressions mean.

use serde_json::{Value, json};

use crate::world::World;

fn world() -> World {
    let mut world = World::new(json!({
        "open": {
            "status": "succeeded",
            "results": {
                "page": {"url": "http://a/?q=1", "a b": 5},
                "status": 200,
                "list": [{"n": 1, "s": "b"}, {"n": 2, "s": "a"}],
                "big": 9_007_199_254_740_993_i64,
                "float": 1.5,
                "null": null,
            },
            "parameters": {"depth": 3},
        },
        "broken": {"status": "failed", "error": {"code": "E.X", "message": "no luck"}},
        "left_out": {"status": "skipped"},
        "pending": null,
    }));
    world.item = Some(json!({"file": "x.png"}));
    world
}

fn check(cases: &[(&str, Value)]) {
    let world = world();
    for (source, expected) in cases {
        match world.value(source) {
            Ok(value) => assert_eq!(value, *expected, "{source}"),
            Err(error) => panic!("{source}: {error}"),
        }
    }
}

fn check_wrong(cases: &[(&str, &str)]) {
    let world = world();
    for (source, expected) in cases {
        match world.value(source) {
            Ok(value) => panic!("{source} gives {value}"),
            Err(error) => {
                assert_eq!(error.to_string(), format!("parameters.x: {expected}"), "{source}");
            }
        }
    }
}

#[test]
fn a_path_leads_to_its_value() {
    let id = world().id_of("open").to_string();
    let by_id = format!("nodes.{id}.results.status");
    let by_quoted_id = format!("nodes[\"{}\"].results.status", id.to_uppercase());
    check(&[
        ("nodes.open.results.page.url", json!("http://a/?q=1")),
        ("nodes['open'].results['page']['a b']", json!(5)),
        (&by_id, json!(200)),
        (&by_quoted_id, json!(200)),
        ("nodes.open.results.big", json!(9_007_199_254_740_993_i64)),
        ("nodes.open.results.list[1].n", json!(2)),
        ("nodes.open.results.list.0.n", json!(1)),
        ("nodes.open.results.null", json!(null)),
        ("nodes.open.results.page", json!({"url": "http://a/?q=1", "a b": 5})),
        ("nodes.open.parameters.depth", json!(3)),
        ("nodes.open.error", json!(null)),
        ("nodes.broken.status", json!("failed")),
        ("nodes.broken.error.message", json!("no luck")),
        ("nodes.broken.results", json!(null)),
        (
            "nodes.left_out",
            json!({"status": "skipped", "results": null, "parameters": null, "error": null}),
        ),
        ("run.id", json!("run-1")),
        ("run", json!({"id": "run-1", "inputs": {"deep": {"er": true}}})),
        ("run.inputs.deep.er", json!(true)),
        ("inputs.name", json!("Ada")),
        ("inputs", json!({"name": "Ada", "list": [1, 2, 3], "zero": 0})),
        ("item.file", json!("x.png")),
        ("item", json!({"file": "x.png"})),
        ("index", json!(7)),
    ]);
}

#[test]
fn expressions_are_worked_out() {
    check(&[
        ("nodes.open.results.big + 0", json!(9_007_199_254_740_993_i64)),
        ("nodes.open.results.status + 1", json!(201)),
        ("2 * 3 + 4 ** 2 * 2", json!(38)),
        ("7 // 2 * 2 ~ 'x'", json!("6x")),
        ("2 * inputs.list|length", json!(6)),
        ("inputs.list|sum * 2 - -1", json!(13)),
        ("3 * -2", json!(-6)),
        ("-2 * 1.5e1", json!(-30.0)),
        ("10 * 1e-1 / 2", json!(0.5)),
        ("7 % 4 * 2", json!(6)),
        ("2 * 3 is odd", json!(2)),
        ("6 is not divisibleby 4 and 2 * 2 in [4]", json!(true)),
        ("inputs.zero * 2 if index > 3 else 1", json!(0)),
        ("'a' ~ 1 ~ true ~ none ~ [1] ~ 1.5 * 2", json!("a1truenull[1]3.0")),
        ("('a' ~ 'b')|upper ~ '!'", json!("AB!")),
        ("'a' + 'b'", json!("ab")),
        ("[1] + [2]", json!([1, 2])),
        ("inputs.list|reverse", json!([3, 2, 1])),
        ("inputs.name|reverse ~ ''[1:] ~ []|reverse", json!("adA[]")),
        ("inputs.list[:-1] + inputs.list[-1:]", json!([1, 2, 3])),
        ("{'a': inputs.list[{'b': 1}.b:2]}", json!({"a": [2]})),
        ("{1: 2, true: 3, none: 4, 1.5: 5}", json!({"1": 2, "true": 3, "null": 4, "1.5": 5})),
        ("inputs.list[inputs.zero + 1:]", json!([2, 3])),
        ("nodes.open.results.list[inputs.zero].s", json!("b")),
        ("nodes.open.results.list|map(attribute='s')|join('-')", json!("b-a")),
        ("nodes.open.results.list|sort(attribute='s')|first", json!({"n": 2, "s": "a"})),
        ("nodes.open.results.list|selectattr('n', 'gt', 1)|list", json!([{"n": 2, "s": "a"}])),
        ("nodes.open.results.list|sum(attribute='n')", json!(3)),
        ("{'a': [inputs.name, {'b': none}]}", json!({"a": ["Ada", {"b": null}]})),
        ("inputs.name|lower|replace('a', 'oo')", json!("oodoo")),
        ("'abc'|replace('', '-')", json!("-a-b-c-")),
        ("inputs.list|tojson", json!("[1,2,3]")),
        ("range(3)", json!([0, 1, 2])),
        ("range(1, 8, 3) + range(3, 0, -2) + range(2, 1)", json!([1, 4, 7, 3, 1])),
        ("range(9223372036854775806, 9223372036854775807, 5)|length", json!(1)),
        (
            "'a  b'|split ~ 'a,b,c'|split(',', 1) ~ 'a\nb'|lines",
            json!("[\"a\",\"b\"][\"a\",\"b,c\"][\"a\",\"b\"]"),
        ),
        (
            "[{'a': 2, 'b': 1}, {'a': 1, 'b': 2}]|sort(attribute='a, b')|map(attribute='b')",
            json!([2, 1]),
        ),
        (
            "[{'k': 'x', 'n': 1}, {'k': 'x', 'n': 2}]|groupby('k')|map(attribute='grouper')",
            json!(["x"]),
        ),
        ("[1, 2, 3, 4]|select('even') ~ [1, 2]|reject('in', [2])", json!("[2,4][1]")),
        ("'a,b'|split(',')", json!(["a", "b"])),
        ("'<a>'|e", json!("&lt;a&gt;")),
        // One word before `==` is a value; before `=` it would name an argument.
        ("index == 7 and index==7 and not index == 8", json!(true)),
        ("nodes.broken.status == 'failed' and not nodes.open.error", json!(true)),
        ("nodes.broken.results.x|default('y')", json!("y")),
        ("nodes.open.results.a.b.c is defined", json!(false)),
        ("nodes.pending.results.x|default(5) * 2", json!(10)),
        ("inputs.nodes|default(1)", json!(1)),
        ("{'b': 1, 'a': 2}|items|list", json!([["a", 2], ["b", 1]])),
        ("2.0", json!(2.0)),
        ("18446744073709551615", json!(u64::MAX)),
    ]);
}

#[test]
fn what_is_missing_is_named() {
    check_wrong(&[
        (
            "nodes.open.results.body",
            "nodes.open.results.body is undefined (results of \"open\" have: big, float, list, null, page, status)",
        ),
        (
            "nodes.open.results.page.title ~ 'x'",
            "nodes.open.results.page.title is undefined (nodes.open.results.page has: a b, url)",
        ),
        (
            "nodes.open.results.list[2].n + 1",
            "nodes.open.results.list[2].n is undefined (nodes.open.results.list has 2 elements)",
        ),
        (
            "1 + nodes.open.results.status.code",
            "nodes.open.results.status.code is undefined (nodes.open.results.status is a number)",
        ),
        (
            "nodes.broken.results.x",
            "nodes.broken.results.x is undefined (\"broken\" has failed and has no results)",
        ),
        (
            "nodes.pending.status",
            "nodes.pending.status is undefined (\"pending\" has not come to its end)",
        ),
        (
            "nodes.open.result",
            "nodes.open.result is undefined (a node has status, results, parameters and error)",
        ),
        ("inputs.nam", "inputs.nam is undefined (inputs has: list, name, zero)"),
        ("run.input", "run.input is undefined (run has: id, inputs)"),
        ("item.a.b", "item.a.b is undefined (item has: file)"),
        (
            "nodes.open.results.list[index]",
            "something in nodes.open.results.list[index] is undefined",
        ),
    ]);
    let mut world = world();
    world.item = None;
    assert_eq!(
        world.value("item.x").unwrap_err().to_string(),
        "parameters.x: item.x is undefined (the node is not executed for the elements of a list)"
    );
}

#[test]
fn what_cannot_be_worked_out_says_why() {
    check_wrong(&[
        ("'a' * 3", "one can calculate with numbers only, not with a string"),
        ("3 * 'a'", "one can calculate with numbers only, not with a string"),
        ("[1] * 3", "one can calculate with numbers only, not with a sequence"),
        ("1 / 0", "unable to calculate 1 / 0"),
        ("10 ** 100", "unable to calculate 10 ** 100"),
        ("2 ** 100", "it gives 1267650600228229401496703205376, which is too large a number"),
        ("1e308 * 10", "it gives inf, which is not a number in JSON"),
        ("'a'|nope", "filter nope is unknown"),
        ("1 is nope", "test nope is unknown"),
        ("nope(1)", "nope is unknown"),
        ("inputs.list|sum(start=[])", "sum begins with 0"),
        ("inputs.list[::-1]", "a part of a list has no step (there is |reverse), at character 17"),
        ("range(0, 5, 0)", "a range has a step, and at most 100000 elements"),
        ("{[1]: 1}", "a sequence is not the name of a field"),
        ("[1)", "a ) closes nothing, at character 6"),
        ("inputs.name.upper()", "inputs.name.upper is not a function, at character 4"),
    ]);
}

#[test]
fn a_condition_holds_or_not() {
    let world = world();
    for (source, expected) in [
        ("nodes.open.status == 'succeeded'", true),
        ("{{ nodes.open.status == 'failed' }}", false),
        (" inputs.zero ", false),
        ("inputs.name", true),
        ("''", false),
        ("[]", false),
        ("{}", false),
        ("none", false),
        ("0.0", false),
        ("'0'", true),
        ("nodes.broken.error", true),
        ("nodes.open.error", false),
    ] {
        assert_eq!(world.says_yes(source), Ok(expected), "{source}");
    }
    let error = world.says_yes("inputs.nam").unwrap_err();
    assert_eq!(error.to_string(), "when: inputs.nam is undefined (inputs has: list, name, zero)");
}
