//! Expressions that would take all memory, all stack or all time, if they could.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::World;

/// What a process may have when it works out a bomb: the expression's own limits, some copies of
/// that, and what a process has anyway.
#[cfg(target_os = "linux")]
const ADDRESS_SPACE_KIB: usize = 384 * 1024;

/// Much longer than the worst one takes on a busy machine.
const ONE_MAY_TAKE: Duration = Duration::from_secs(10);

/// A stack that is smaller than that of any thread.
const STACK_BYTES: usize = 512 * 1024;

/// Expressions that must end in an error.
const SHORT: &[&str] = &[
    "'x' * 1000000000",
    "'x' * 100000000",
    "100000000 * 'x'",
    "('x') * 99999999 * 1",
    "('x'|upper) * 100000000",
    "inputs['text'] * 90",
    "(1,) * 100000000",
    "[1] * 100000000",
    "2 * 50000000 * [1]",
    "[[[1] * 10000] * 10000] * 10000",
    "('x', 'y') * 50000000",
    "inputs.list * 100",
    "range(10 ** 9)",
    "range(1000000000)",
    "range(0, 1000000000, 1)|list",
    "10 ** 1000",
    "9 ** 9 ** 9 ** 9",
    "340282366920938463463374607431768211456",
    "'%1000000000d'|format(1)",
    "'%1000000000d' % 1",
    "'x'|indent(100000000)",
    "'x'|center(100000000)",
    "[1]|batch(1000000000, 0)",
    "[1]|slice(1000000000, 0)",
    "[1]|tojson(indent=1000000000)",
    "['x', 'y']|map('replace', 'x', inputs.text)|join(inputs.text)|replace('a', inputs.text)",
    "inputs.text|replace('', inputs.text)",
    "inputs.text|list|join(inputs.text)",
    "inputs.list|join(inputs.text)",
    "inputs.text|map('replace', 'a', 'bb')|map('replace', 'b', inputs.text)|list",
    "inputs.list|map('string')|map('replace', '0', inputs.text)|list",
    "range(100000)|map('default', range(100000))|list",
    "inputs.list|select('in', inputs.list)|list",
    "range(10000)|select('in', range(100000))|list",
    "inputs.list|sum(start=[])",
    "inputs.list|map('list')|list",
    "inputs.text|split('')|map('split', '')|map('tojson')|join(inputs.text)",
    "(inputs.quotes|tojson|tojson|tojson|tojson|tojson|tojson|tojson|tojson)|length",
    "inputs.text|e|e|e|e|e|e|e|e|e|e|list|join(inputs.text)",
    "range(100000)|groupby('x')",
    "inputs.list|groupby('x', default=inputs.text)|tojson",
    "[inputs.text, inputs.text]|join(inputs.text * 1000)",
    "inputs.text|trim(inputs.other)",
    "inputs.list|sort(attribute='a,a,a,a,a,a,a,a,a,a')",
    "range(-9223372036854775808, 9223372036854775807)",
    "''[::-1]",
    "[][::-1]",
    "dict(a=1)",
    "namespace()",
    "debug()",
    "f(*inputs.list)",
    "1.5|round(100000000000)|string * 5",
];

fn repeat(text: &str, times: usize) -> String {
    text.repeat(times)
}

fn bombs() -> Vec<String> {
    let mut bombs: Vec<String> = SHORT.iter().map(ToString::to_string).collect();
    add_doubling(&mut bombs);
    add_large(&mut bombs);
    add_deep(&mut bombs);
    bombs
}

/// What doubles with each link of a chain.
fn add_doubling(bombs: &mut Vec<String>) {
    bombs.push(format!("'aa'{}", repeat("|replace('a','aa')", 30)));
    bombs.push(format!("'a'{}", repeat("|replace('','aaaaaaaaaaaaaaaa')", 20)));
    bombs.push(format!("{}'\\\\'{}", repeat("([", 30), repeat("]~'')", 30)));
    bombs.push(format!("{}'\\\\'{}", repeat("[", 60), repeat("]|string", 60)));
    bombs.push(format!("{}'\\\\'{}", repeat("[", 60), repeat("]|upper", 60)));
    bombs.push(format!("{}'\\\\'{}", repeat("[", 60), repeat("]|tojson", 60)));
    bombs.push(format!("[[1,1]{}]", repeat("|map('replace',1,[1,1])", 50)));
}

/// One large value, many times.
fn add_large(bombs: &mut Vec<String>) {
    let big = "inputs.text";
    bombs.push(format!("{big}{}", repeat(&format!("~{big}"), 300)));
    bombs.push(format!("{big}{}", repeat(&format!("+{big}"), 300)));
    bombs.push(format!("[{}]", repeat(&format!("{big},"), 1200)));
    bombs.push(format!("{big}{}", repeat("~1", 390)));
    bombs.push(format!("{big}{}", repeat("+'a'", 390)));
    bombs.push(format!("inputs.list{}", repeat("+[1]", 190)));
    let fields: Vec<String> = (0..600).map(|n| format!("{n}:{big}")).collect();
    bombs.push(format!("{{{}}}", fields.join(",")));
}

/// Brackets, signs and chains.
fn add_deep(bombs: &mut Vec<String>) {
    for (open, close) in
        [("(", ")"), ("[", "]"), ("{'a':", "}"), ("[1][", "]"), ("(1 if ", " else 2)")]
    {
        for depth in [100, 150, 390, 1000] {
            bombs.push(format!("{}x{}", repeat(open, depth), repeat(close, depth)));
            bombs.push(repeat(open, depth));
        }
    }
    for (link, times) in [
        ("-", 8000),
        ("not ", 4000),
        ("1+", 8000),
        ("1**", 5000),
        ("1 and ", 2500),
        ("'a'~", 4000),
        ("- ", 390),
        ("not ", 390),
    ] {
        bombs.push(format!("{}x", repeat(link, times)));
    }
    for (link, times) in [
        ("|list", 3000),
        ("[0]", 5000),
        (".a", 8000),
        ("[::-1]", 2700),
        ("[0:]", 4000),
        ("|reverse", 2000),
        ("|first", 399),
        ("()", 4000),
        (" is odd", 2000),
        ("[0:]", 33),
    ] {
        bombs.push(format!("inputs.list[index]{}", repeat(link, times)));
        bombs.push(format!("[1]{}", repeat(link, times)));
    }
    bombs.push(format!("[1]{}", repeat("|list|map('list')", 100)));
    for filter in ["sort", "map", "min", "unique", "join", "sum"] {
        let path = repeat("a.", 7000);
        bombs.push(format!("inputs.list|{filter}(attribute='{path}a')"));
        bombs.push(format!("inputs.list|{filter}(attribute='{}')", path.replace('.', ",")));
    }
    bombs.push(format!("'{}", repeat("x", 16 * 1024)));
}

/// Expressions that are long or deep, and give a value all the same.
fn large_but_sound() -> Vec<String> {
    vec![
        "inputs.text|upper|lower|length".to_owned(),
        "inputs.list|sort|reverse|first".to_owned(),
        "inputs.list|map('string')|join(',')|length".to_owned(),
        format!("0{}", "+1".repeat(399)),
        format!("''{}", "~'a'".repeat(399)),
        format!("{}1{}", "(".repeat(70), ")".repeat(70)),
        format!("{}1", "- ".repeat(399)),
        format!("{}1", "not ".repeat(399)),
        format!("1{}", "|abs".repeat(399)),
        format!("[{}]", "'a',".repeat(4000)),
        format!("inputs.list{}|length", "[0:]".repeat(32)),
        format!("inputs.list{}|length", "[:-1]".repeat(32)),
        "inputs.text|split('b')|length".to_owned(),
        "inputs.text|reverse|length".to_owned(),
        "inputs.text|tojson|tojson|tojson|tojson".to_owned(),
        format!("inputs.small{}", "+[1]".repeat(190)),
        format!("0{}", " if 0 else 0".repeat(40)),
    ]
}

fn world() -> World {
    let mut world = World::new(json!({}));
    world.inputs = json!({
        "text": "a".repeat(1_000_000),
        "other": "b".repeat(1_000_000),
        "quotes": "\"".repeat(100_000),
        "list": (0..100_000).collect::<Vec<u32>>(),
        "small": [1],
    });
    world.item = Some(Value::Null);
    world
}

/// Works them all out; prints each before it begins, so that the last one is known if this process
/// ends before its time.
fn set_off() {
    let world = world();
    let mut slowest = (Duration::ZERO, String::new());
    for (is_bomb, sources) in [(true, bombs()), (false, large_but_sound())] {
        for source in sources {
            let shown: String = source.chars().take(70).collect();
            println!("{shown}");
            let began = Instant::now();
            let given = world.value(&source);
            let took = began.elapsed();
            assert_eq!(given.is_err(), is_bomb, "{shown}: {:?}", given.map(|_| "a value"));
            assert!(took < ONE_MAY_TAKE, "{shown} took {took:?}");
            if took > slowest.0 {
                slowest = (took, shown);
            }
        }
    }
    println!("the slowest took {:?}: {}", slowest.0, slowest.1);
}

/// Says to the process below that it is the one.
#[cfg(target_os = "linux")]
const HERE: &str = "FLOW_TEST_BOMBS_HERE";

#[cfg(target_os = "linux")]
#[test]
fn no_expression_takes_all_memory() {
    if std::env::var_os(HERE).is_some() {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(set_off).unwrap();
        assert!(thread.join().is_ok());
        return;
    }
    let output = std::process::Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\""))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "bombs::no_expression_takes_all_memory", "--nocapture"])
        .args(["--test-threads", "1"])
        .env(HERE, "yes")
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let tail: Vec<&str> = out.lines().rev().take(5).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {tail:#?}\n{errors}", output.status);
    assert!(out.contains("the slowest took"), "it has run: {tail:#?}");
}

/// Each piece is short enough by itself.
#[test]
fn pieces_that_are_too_long_together_are_refused() {
    let input = json!({"half": "x".repeat(2 * 1024 * 1024)});
    let fits = flow::render_input("{{ input.half }}{{ input.half }}", &input);
    assert_eq!(fits.map(|text| text.len()), Ok(4 * 1024 * 1024));
    let too_long = flow::render_input("{{ input.half }}{{ input.half }}!", &input);
    assert_eq!(too_long, Err("it gives more than 4194304 bytes".to_owned()));
}
