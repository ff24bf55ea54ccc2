//! One Rust file: its tokens, its functions, and which parts of it are tests.

use std::collections::BTreeSet;
use std::ops::Range;

use super::lexer::{self, Kind, Token};

#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
    /// Everything but comments.
    pub(crate) code: Vec<Token<'a>>,
    pub(crate) comments: Vec<Token<'a>>,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) functions: Vec<Function<'a>>,
    pub(crate) test_items: Vec<TestItem<'a>>,
    /// The whole file is test code.
    pub(crate) is_test: bool,
}

/// `#[...]` or `#![...]`; positions are those of tokens in `code`.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) at: usize,
    /// What stands between the brackets.
    pub(crate) inside: Range<usize>,
    is_inner: bool,
}

#[derive(Debug)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    /// The token `fn`.
    pub(crate) at: usize,
    pub(crate) n_arguments: usize,
    /// The body with its braces; nothing for a function that is only declared.
    pub(crate) body: Option<Range<usize>>,
    pub(crate) line: usize,
    pub(crate) end_line: usize,
}

/// An item behind `#[cfg(test)]` or `#[test]`.
#[derive(Debug)]
pub(crate) struct TestItem<'a> {
    pub(crate) tokens: Range<usize>,
    pub(crate) kind: TestItemKind<'a>,
    pub(crate) line: usize,
    pub(crate) end_line: usize,
}

#[derive(Debug, PartialEq)]
pub(crate) enum TestItemKind<'a> {
    /// `mod tests { ... }`
    InlineModule,
    /// `mod tests;`
    DeclaredModule(&'a str),
    Other,
}

impl<'a> Source<'a> {
    pub(crate) fn read(path: &'a str, text: &'a str) -> Self {
        let (comments, code): (Vec<_>, Vec<_>) =
            lexer::lex(text).into_iter().partition(|token| token.kind == Kind::Comment);
        let attributes = attributes(&code);
        let test_items: Vec<_> = attributes
            .iter()
            .filter(|attribute| !attribute.is_inner && attribute.marks_test(&code))
            .map(|attribute| test_item(&code, attribute))
            .collect();
        let all_is_test = attributes.iter().any(|one| one.is_inner && one.marks_test(&code));
        let functions = functions(&code);
        let is_test = all_is_test || is_test_path(path);
        Self { path, text, code, comments, attributes, functions, test_items, is_test }
    }

    /// Whether the token at this position belongs to a test.
    pub(crate) fn is_test_at(&self, position: usize) -> bool {
        self.is_test || self.test_items.iter().any(|item| item.tokens.contains(&position))
    }

    /// Whether these pieces of code stand at this position, one after the other.
    pub(crate) fn reads(&self, position: usize, pieces: &[&str]) -> bool {
        pieces.iter().enumerate().all(|(offset, piece)| {
            self.code.get(position + offset).is_some_and(|token| token.is(piece))
        })
    }

    pub(crate) fn file_name(&self) -> &'a str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }

    /// The folder in which this file's child modules live.
    fn modules_folder(&self) -> &'a str {
        match self.file_name() {
            "lib.rs" | "main.rs" | "mod.rs" => {
                self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
            }
            _ => self.path.trim_end_matches(".rs"),
        }
    }
}

/// Files that Cargo builds for tests alone, and the `name/tests.rs` of a long module.
fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
}

/// Makes test code of the files that some other file declares as `#[cfg(test)] mod name;`.
pub(crate) fn mark_declared_tests(sources: &mut [Source<'_>]) {
    let mut declared = BTreeSet::new();
    for source in &*sources {
        for item in &source.test_items {
            if let TestItemKind::DeclaredModule(name) = item.kind {
                declared.insert(format!("{}/{name}", source.modules_folder()));
            }
        }
    }
    for source in sources {
        let module = source.path.trim_end_matches(".rs");
        let is_declared = |root: &String| {
            module == root || module.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'))
        };
        source.is_test |= declared.iter().any(is_declared);
    }
}

/// The position of the bracket that closes the one at `open`, or the end of the file.
pub(crate) fn closing(code: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (position, token) in code.iter().enumerate().skip(open) {
        if token.is("(") || token.is("[") || token.is("{") {
            depth += 1;
        } else if token.is(")") || token.is("]") || token.is("}") {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return position;
            }
        }
    }
    code.len().saturating_sub(1)
}

/// The first `{` or `;` outside of brackets: where the head of an item ends.
fn head_end(code: &[Token<'_>], from: usize) -> usize {
    let mut at = from;
    while let Some(token) = code.get(at) {
        if token.is("{") || token.is(";") {
            return at;
        }
        let is_bracket = token.is("(") || token.is("[");
        at = if is_bracket { closing(code, at) } else { at } + 1;
    }
    code.len().saturating_sub(1)
}

fn attributes(code: &[Token<'_>]) -> Vec<Attribute> {
    let opens = |at: usize| code.get(at).is_some_and(|token| token.is("["));
    let is_bang = |at: usize| code.get(at).is_some_and(|token| token.is("!"));
    let mut found = Vec::new();
    for at in (0..code.len()).filter(|at| code[*at].is("#")) {
        let is_inner = is_bang(at + 1);
        let open = at + 1 + usize::from(is_inner);
        if opens(open) {
            found.push(Attribute { at, inside: open + 1..closing(code, open), is_inner });
        }
    }
    found
}

impl Attribute {
    /// `#[cfg(test)]` and its combinations, `#[test]`, and the `#[...::test]` of a runtime.
    fn marks_test(&self, code: &[Token<'_>]) -> bool {
        let inside = &code[self.inside.clone()];
        let has = |name: &str| inside.iter().any(|token| token.is(name));
        if inside.first().is_some_and(|token| token.is("cfg")) {
            return has("test") && !has("not");
        }
        let path = inside.iter().take_while(|token| !token.is("(") && !token.is("="));
        path.last().is_some_and(|token| token.is("test"))
    }
}

fn test_item<'a>(code: &[Token<'a>], attribute: &Attribute) -> TestItem<'a> {
    let mut start = attribute.inside.end + 1;
    while code.get(start).is_some_and(|token| token.is("#")) {
        start = closing(code, start + 1) + 1;
    }
    let head = head_end(code, start);
    let end = if code[head].is("{") { closing(code, head) } else { head };
    let module = (start..head).find(|at| code[*at].is("mod")).and_then(|at| code.get(at + 1));
    let kind = match module {
        Some(_) if code[head].is("{") => TestItemKind::InlineModule,
        Some(name) => TestItemKind::DeclaredModule(name.text),
        None => TestItemKind::Other,
    };
    let (line, end_line) = (code[attribute.at].line, code[end].end_line);
    TestItem { tokens: attribute.at..end + 1, kind, line, end_line }
}

fn functions<'a>(code: &[Token<'a>]) -> Vec<Function<'a>> {
    (0..code.len()).filter_map(|at| function(code, at)).collect()
}

fn function<'a>(code: &[Token<'a>], at: usize) -> Option<Function<'a>> {
    // `fn(u8)` is a type; a function has a name.
    let name = code.get(at + 1).filter(|next| next.kind == Kind::Ident && code[at].is("fn"))?;
    let open = arguments_open(code, at + 2)?;
    let close = closing(code, open);
    let head = head_end(code, close + 1);
    let body = code[head].is("{").then(|| head..closing(code, head) + 1);
    let end = body.as_ref().map_or(head, |body| body.end - 1);
    Some(Function {
        name: name.text,
        at,
        n_arguments: n_arguments(&code[open + 1..close]),
        body,
        line: code[at].line,
        end_line: code[end].end_line,
    })
}

/// The `(` of the arguments; generics before it may hold brackets of their own, as in `F: Fn(u8)`.
fn arguments_open(code: &[Token<'_>], from: usize) -> Option<usize> {
    let mut angles = 0_usize;
    for (position, token) in code.iter().enumerate().skip(from) {
        if token.is("<") {
            angles += 1;
        } else if token.is(">") {
            angles = angles.saturating_sub(1);
        } else if token.is("(") && angles == 0 {
            return Some(position);
        } else if token.is("{") || token.is(";") {
            return None;
        }
    }
    None
}

/// `self` counts, as it does for clippy; a comma inside a type does not.
fn n_arguments(code: &[Token<'_>]) -> usize {
    let (mut n, mut depth, mut is_in_argument) = (0, 0_usize, false);
    for token in code {
        if token.is(",") && depth == 0 {
            is_in_argument = false;
            continue;
        }
        if !is_in_argument {
            is_in_argument = true;
            n += 1;
        }
        if ["(", "[", "{", "<"].iter().any(|open| token.is(open)) {
            depth += 1;
        } else if [")", "]", "}", ">"].iter().any(|close| token.is(close)) {
            depth = depth.saturating_sub(1);
        }
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_arguments_and_lines() {
        check_functions("fn a() {}", "a/0 1-1");
        check_functions("pub async fn a(&self, b: u8,) -> u8 {\n b\n}", "a/2 1-3");
        check_functions("fn a<F: Fn(u8, u8) -> u8>(f: F, m: Map<u8, Vec<u8>>) {}", "a/2 1-1");
        check_functions(
            "fn a(f: fn(u8, u8) -> [u8; 4], (b, c): (u8, u8)) -> [u8; 2] {\n}",
            "a/2 1-2",
        );
        check_functions("trait T {\n fn a(&self);\n fn b(&self) {}\n}", "a/1 2-2, b/1 3-3");
        check_functions("fn a() {\n fn b(x: u8) {}\n}", "a/0 1-3, b/1 2-2");
        check_functions("type F = fn(u8); // fn c() {}\nconst T: &str = \"fn d() {}\";", "");
        check_functions("fn a<T>(t: T) where T: Into<[u8; 2]> {\n}", "a/1 1-2");
    }

    #[test]
    fn test_code_is_told_from_the_rest() {
        check_tests("fn a() { x }", "");
        check_tests("#[cfg(test)]\nmod tests { x }", "x");
        check_tests("#[cfg(test)] #[derive(A)] struct B { x: u8 } fn y() {}", "x");
        check_tests("#[test]\nfn a() { x }\nfn b() { y }", "x");
        check_tests("#[tokio::test(start_paused = true)]\nasync fn a() { x }", "x");
        check_tests("#[cfg(any(test, feature = \"f\"))] fn a() { x }", "x");
        check_tests("#[cfg(not(test))] fn a() { x }", "");
        check_tests("#![cfg(test)]\nfn a() { x } fn b() { y }", "x y");
        check_tests("#[derive(Test)] struct A { x: u8 }", "");
        check_tests("#[cfg(test)] use a::b; fn c() { x }", "");
    }

    #[test]
    fn files_of_tests_are_known_by_their_place() {
        for (path, expected) in [
            ("crates/a/tests/it.rs", true),
            ("crates/a/src/b/tests.rs", true),
            ("crates/a/benches/b.rs", true),
            ("crates/a/src/b.rs", false),
            ("crates/a/src/tests_of_time.rs", false),
        ] {
            assert_eq!(Source::read(path, "").is_test, expected, "{path}");
        }
    }

    #[test]
    fn a_declared_test_module_makes_its_file_a_test() {
        let mut sources = [
            Source::read("a/src/lib.rs", "#[cfg(test)]\nmod story;\nmod shop;\n"),
            Source::read("a/src/shop.rs", "#[cfg(test)] mod till;\n"),
            Source::read("a/src/story.rs", ""),
            Source::read("a/src/story/teller.rs", ""),
            Source::read("a/src/storyboard.rs", ""),
            Source::read("a/src/shop/till.rs", ""),
            Source::read("b/src/story.rs", ""),
        ];
        mark_declared_tests(&mut sources);
        let tests: Vec<_> = sources.iter().filter(|one| one.is_test).map(|one| one.path).collect();
        assert_eq!(tests, ["a/src/story.rs", "a/src/story/teller.rs", "a/src/shop/till.rs"]);
    }

    fn check_functions(text: &str, expected: &str) {
        let source = Source::read("a.rs", text);
        let shown: Vec<_> = source
            .functions
            .iter()
            .map(|one| format!("{}/{} {}-{}", one.name, one.n_arguments, one.line, one.end_line))
            .collect();
        assert_eq!(shown.join(", "), expected, "{text}");
    }

    /// Of the names `x` and `y`, those that stand in test code.
    fn check_tests(text: &str, expected: &str) {
        let source = Source::read("a.rs", text);
        let in_tests = (0..source.code.len()).filter(|at| {
            source.is_test_at(*at) && (source.code[*at].is("x") || source.code[*at].is("y"))
        });
        let shown: Vec<_> = in_tests.map(|at| source.code[at].text).collect();
        assert_eq!(shown.join(" "), expected, "{text}");
    }
}
