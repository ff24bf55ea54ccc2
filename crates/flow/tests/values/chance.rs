//! Expressions that nobody would write: none of them may end the process, whatever it gives.

use proptest::prelude::*;
use serde_json::json;

use crate::world::World;

/// Large enough to overflow what is careless, and small enough to be near the limits of lists.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "1.5",
    "-0.0",
    "1e300",
    "9223372036854775807",
    "(-9223372036854775808)",
    "18446744073709551616",
    "170141183460469231731687303715884105727",
];

const VALUES: &[&str] = &[
    "''",
    "'a'",
    "'äöü'",
    "'a b,c'",
    "[]",
    "[1, 2, 3]",
    "['b', 'A']",
    "{}",
    "{'a': 1}",
    "[{'a': 2}, {'a': 1}]",
    "(1, 'x')",
    "none",
    "true",
    "inputs",
    "inputs.list",
    "inputs.name",
    "inputs.missing",
    "nodes.a.results",
    "nodes.a.results.rows",
    "index",
    "range(3)",
];

const OPERATORS: &[&str] = &[
    "+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
    "and", "or",
];

const FILTERS: &[&str] = &[
    "abs",
    "attr",
    "bool",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "first",
    "float",
    "groupby",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "select",
    "selectattr",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
];

const ARGUMENTS: &[&str] = &[
    "attribute='a'",
    "attribute=0",
    "reverse=true",
    "case_sensitive=true",
    "default=1",
    "'a'",
    "'upper'",
    "'odd'",
    "'in'",
    "'join'",
    "','",
    "by='value'",
    "start=[]",
    "base=36",
    "'floor'",
];

const TESTS: &[&str] = &[
    "defined",
    "undefined",
    "none",
    "odd",
    "even",
    "divisibleby(2)",
    "divisibleby 0",
    "number",
    "string",
    "mapping",
    "iterable",
    "in [1]",
    "eq 1",
    "startingwith('a')",
    "lower",
    "upper",
];

fn expression() -> impl Strategy<Value = String> {
    let pick = |from: &'static [&'static str]| prop::sample::select(from);
    let atom = prop_oneof![pick(NUMBERS), pick(VALUES)].prop_map(str::to_owned);
    atom.prop_recursive(5, 24, 3, move |inner| {
        let argument = || prop_oneof![pick(ARGUMENTS).prop_map(str::to_owned), inner.clone()];
        prop_oneof![
            3 => (inner.clone(), pick(OPERATORS), inner.clone())
                .prop_map(|(a, operator, b)| format!("{a} {operator} {b}")),
            4 => (inner.clone(), pick(FILTERS), prop::collection::vec(argument(), 0..3))
                .prop_map(|(value, filter, args)| format!("{value}|{filter}({})", args.join(", "))),
            1 => (inner.clone(), pick(TESTS)).prop_map(|(value, test)| format!("{value} is {test}")),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(value, from, to)| format!("({value})[{from}:{to}]")),
            1 => (inner.clone(), inner.clone()).prop_map(|(value, at)| format!("({value})[{at}]")),
            1 => inner.clone().prop_map(|value| format!("-({value})")),
            1 => inner.clone().prop_map(|value| format!("({value}).a")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("[{a}, {b}]")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{{{a}: {b}}}")),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| format!("({a} if {b} else {c})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("range({a}, {b})")),
        ]
    })
}

proptest! {
    #[test]
    fn any_expression_gives_a_value_or_an_error(source in expression()) {
        let mut world = World::new(json!({
            "a": {"status": "succeeded", "results": {"rows": [{"a": "x"}, {"a": "y", "b": [1]}]}},
        }));
        world.item = Some(json!(1));
        let first = world.value(&source);
        if let Err(error) = &first {
            prop_assert_ne!(&error.reason, "it cannot be worked out", "the engine panicked");
        }
        prop_assert_eq!(&world.value(&source), &first, "twice the same");
        if let (Ok(value), Ok(yes)) = (&first, world.says_yes(&source)) {
            let is_nothing = [json!(null), json!(false), json!(0), json!(0.0), json!(-0.0),
                json!(""), json!([]), json!({})].contains(value);
            prop_assert_eq!(yes, !is_nothing);
        }
    }
}
