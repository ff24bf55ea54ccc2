//! How deeply blocks stand inside each other within a function.
//!
//! Counted are the blocks of `if`, `else`, `while`, `for`, `loop`, `match`, `unsafe`, `async`,
//! closures, and bare blocks. A `match` and the block of its arm count once together. The braces of
//! struct literals, patterns and macro data count nothing: they hold no further path.

use super::finding::{Finding, Rule};
use super::lexer::Token;
use super::source::{Function, Source};

const DEPTH_MAX: usize = 4;

pub(crate) fn check(source: &Source<'_>) -> Vec<Finding> {
    let too_deep = source.functions.iter().filter_map(|function| {
        let (depth, line) = deepest(source, function);
        let message = format!("{} nests {depth} deep, at most {DEPTH_MAX}", function.name);
        (depth > DEPTH_MAX).then(|| {
            Finding::new(Rule::Nesting, source.path, line, message).in_function(function.name)
        })
    });
    too_deep.collect()
}

/// The greatest depth and the line on which it is reached first.
fn deepest(source: &Source<'_>, function: &Function<'_>) -> (usize, usize) {
    let Some(body) = function.body.clone() else {
        return (0, function.line);
    };
    let mut walk = Walk::default();
    let mut deepest = (0, function.line);
    let mut at = body.start + 1;
    while at + 1 < body.end {
        if let Some(inner) = source.functions.iter().find(|inner| inner.at == at) {
            // An inner function is measured by itself.
            at = inner.body.as_ref().map_or(at + 1, |body| body.end);
            walk.end_statement();
            continue;
        }
        walk.step(&source.code[at - 1], &source.code[at], source.code.get(at + 1));
        if walk.depth() > deepest.0 {
            deepest = (walk.depth(), source.code[at].line);
        }
        at += 1;
    }
    deepest
}

/// Which brackets are open at a place, the innermost last.
struct Walk {
    open: Vec<Bracket>,
}

impl Default for Walk {
    fn default() -> Self {
        Self { open: vec![Bracket::default()] }
    }
}

/// An open bracket, and what was read directly inside it.
#[derive(Clone, Copy, Default)]
struct Bracket {
    counts: bool,
    is_macro: bool,
    head: Head,
    /// Between `let` and `=`, or `for` and `in`: braces are patterns.
    is_in_pattern: bool,
}

/// What was announced and not yet opened.
#[derive(Clone, Copy, Default, PartialEq)]
enum Head {
    #[default]
    None,
    /// After `if`, `match` and the like: the next brace opens its block.
    Control,
    /// After `->`: the next brace opens the body of a closure.
    ReturnType,
}

impl Walk {
    fn depth(&self) -> usize {
        self.open.iter().filter(|bracket| bracket.counts).count()
    }

    fn step(&mut self, previous: &Token<'_>, token: &Token<'_>, next: Option<&Token<'_>>) {
        if token.is("{") || token.is("(") || token.is("[") {
            return self.open_bracket(previous, token);
        }
        if token.is("}") || token.is(")") || token.is("]") {
            return self.close_bracket();
        }
        let is_generic_for = token.is("for") && next.is_some_and(|next| next.is("<"));
        if is_generic_for || self.open.is_empty() {
            return;
        }
        self.read_word(token);
    }

    fn read_word(&mut self, token: &Token<'_>) {
        const CONTROL: [&str; 8] =
            ["if", "else", "while", "for", "loop", "match", "unsafe", "async"];
        let Some(here) = self.open.last_mut() else {
            return;
        };
        if CONTROL.iter().any(|word| token.is(word)) {
            here.head = Head::Control;
            here.is_in_pattern = token.is("for");
        } else if token.is("let") {
            here.is_in_pattern = true;
        } else if token.is("->") {
            here.head = Head::ReturnType;
        } else if token.is("=") || token.is("in") {
            here.is_in_pattern = false;
            if here.head == Head::ReturnType {
                here.head = Head::None;
            }
        } else if token.is(";") || token.is(",") || token.is("=>") {
            // `=>` also ends the `if` of a guard, which opens no block.
            self.end_statement();
        }
    }

    fn end_statement(&mut self) {
        if let Some(here) = self.open.last_mut() {
            here.head = Head::None;
            here.is_in_pattern = false;
        }
    }

    fn open_bracket(&mut self, previous: &Token<'_>, token: &Token<'_>) {
        let Some(here) = self.open.last_mut() else {
            return;
        };
        let is_macro = here.is_macro || previous.is("!");
        let counts = token.is("{") && is_block(*here, previous);
        if token.is("{") && !here.is_in_pattern {
            here.head = Head::None;
        }
        self.open.push(Bracket { counts, is_macro, ..Bracket::default() });
    }

    fn close_bracket(&mut self) {
        if self.open.len() > 1 {
            self.open.pop();
        }
    }
}

/// Whether a brace here opens a block, and no struct literal, pattern or arm.
fn is_block(here: Bracket, previous: &Token<'_>) -> bool {
    const BEFORE_BLOCKS: [&str; 6] = ["|", "move", "=", "return", "const", "!"];
    // In a macro these come before data, as in `json!({"a": {}})`.
    const BEFORE_BLOCKS_OR_DATA: [&str; 6] = ["{", "}", ";", "(", ",", ":"];
    if here.is_in_pattern {
        return false;
    }
    here.head != Head::None
        || BEFORE_BLOCKS.iter().any(|sign| previous.is(sign))
        || (!here.is_macro && BEFORE_BLOCKS_OR_DATA.iter().any(|sign| previous.is(sign)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_flow_counts() {
        check("a();", 0);
        check("if a { b } else if c { d } else { e }", 1);
        check("for a in b { while c { loop { if d { e } } } }", 4);
        check("unsafe { async move { a } }", 2);
        check("let Some(a) = b else { return };", 1);
        check("if a.iter().any(|b| { c }) { d }", 1);
        check("'a: { b } let c = { d };", 1);
    }

    #[test]
    fn a_match_and_its_arm_count_once() {
        check("match a { B => { c } D { e } => f, }", 1);
        check("match a { B if c => { if d { e } } _ => match f { G => {} } }", 2);
        check("tokio::select! { a = b => { c } }", 1);
    }

    #[test]
    fn closures_count() {
        check("a.map(|b| { c }).map(move |d| -> E { f }).map(|| { g })", 1);
        check("a.map(|b| b.map(|c| { d }))", 1);
        check("a(|b| { c(|d| { e }) })", 2);
    }

    #[test]
    fn struct_literals_patterns_and_macro_data_do_not_count() {
        check("let A { b, c: D { e } } = F { g: H { i } };", 0);
        check("if let A { b } = c && let D { e } = f { g }", 1);
        check("for A { b } in c { d }", 1);
        check("while let Some(A { b }) = c.next() { d }", 1);
        check("json!({\"a\": {\"b\": [{\"c\": {}}]}});", 0);
        check("assert!(matches!(a, B { .. }));", 0);
        check("A::B { c } | D { e };", 0);
    }

    #[test]
    fn an_inner_function_is_measured_by_itself() {
        check("fn a() { if b { if c { } } } if d { }", 1);
        check("impl A for B { fn c() { if d { if e { } } } } if f { }", 1);
    }

    #[test]
    fn braces_in_texts_and_characters_do_not_count() {
        check("let a = \"{{{\"; let b = '{'; /* { */ if c { d }", 1);
    }

    #[test]
    fn four_deep_is_allowed_and_five_is_not() {
        let four = "fn f() { if a { if b { if c { if d { e } } } } }";
        let five = "fn f() { if a { if b { if c { if d {\n if e { } } } } } }";
        assert_eq!(super::check(&Source::read("a.rs", four)), []);
        let findings = super::check(&Source::read("a.rs", five));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].to_string(), "a.rs:2: f nests 5 deep, at most 4 [nesting]");
    }

    fn check(body: &str, expected: usize) {
        let text = format!("fn outer() {{ {body} }}");
        let source = Source::read("a.rs", &text);
        assert_eq!(deepest(&source, &source.functions[0]).0, expected, "{body}");
    }
}
