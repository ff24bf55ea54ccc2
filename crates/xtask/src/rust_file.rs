//! One Rust file as the compiler's own tokens: what is code, and what of it is for tests alone.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{Spacing, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::Visit;

pub(crate) struct RustFile {
    pub(crate) path: String,
    /// Everything but comments, documentation among them.
    pub(crate) code: Vec<Token>,
    pub(crate) n_lines: usize,
    pub(crate) items: Items,
    /// The whole file is for tests.
    pub(crate) is_test: bool,
}

pub(crate) struct Token {
    /// A name, a sign or a bracket; `::` is one token.
    pub(crate) text: String,
    pub(crate) is_name: bool,
    /// The lines on which it stands, counted from 1.
    pub(crate) lines: RangeInclusive<usize>,
}

/// The items of a file that somebody asks for.
#[derive(Default)]
pub(crate) struct Items {
    /// Lines of items that are compiled for tests alone.
    pub(crate) tests: Vec<RangeInclusive<usize>>,
    /// Lines of `mod tests { ... }`.
    pub(crate) inline_tests: Vec<RangeInclusive<usize>>,
    /// Lines of tests in which the clock stands still.
    pub(crate) paused_tests: Vec<RangeInclusive<usize>>,
    /// Names of `#[cfg(test)] mod name;`.
    declared_tests: Vec<String>,
    /// Lines with `#[ignore]`.
    pub(crate) ignored: Vec<usize>,
    /// Names and lines of functions and methods.
    pub(crate) functions: Vec<(String, usize)>,
    /// Names and lines of types that other crates may use.
    pub(crate) public_types: Vec<(String, usize)>,
}

impl RustFile {
    pub(crate) fn read(path: &str, text: &str) -> Result<Self> {
        let wrong = || format!("{path} is no Rust");
        let tokens: TokenStream =
            text.parse().map_err(|error| anyhow::anyhow!("{error}")).with_context(wrong)?;
        let file = syn::parse_file(text).with_context(wrong)?;
        let mut items = Items::default();
        items.visit_file(&file);
        let lines: Vec<&str> = text.lines().collect();
        let mut code = Vec::new();
        gather(tokens, &lines, &mut code);
        let is_test = path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
            || file.attrs.iter().any(is_for_tests);
        Ok(Self { path: path.to_owned(), code, n_lines: lines.len(), items, is_test })
    }

    /// Whether this line is for tests.
    pub(crate) fn is_test_at(&self, line: usize) -> bool {
        self.is_test || holds(&self.items.tests, line)
    }

    /// Whether these tokens stand at this position, one after the other.
    pub(crate) fn reads(&self, position: usize, pieces: &[&str]) -> bool {
        pieces.iter().enumerate().all(|(offset, piece)| {
            self.code.get(position + offset).is_some_and(|token| token.text == *piece)
        })
    }

    /// Whether a function of this name is run as a test, also in a macro such as `proptest!`.
    pub(crate) fn has_test(&self, name: &str) -> bool {
        (1..self.code.len())
            .filter(|at| self.reads(*at, &["fn", name]))
            .any(|at| self.is_marked_as_test(at))
    }

    /// Whether `#[test]`, or that of a runtime, stands before the function that begins here.
    fn is_marked_as_test(&self, function: usize) -> bool {
        let words = ["async", "pub"];
        let mut end = function;
        while end > 0 && words.contains(&&*self.code[end - 1].text) {
            end -= 1;
        }
        while end > 0 && self.code[end - 1].text == "]" {
            let Some(open) = self.opening(end - 1) else { return false };
            let inside = &self.code[open + 1..end - 1];
            let path = inside.iter().take_while(|token| token.text != "(");
            if path.last().is_some_and(|token| token.text == "test") {
                return true;
            }
            // The sign before the bracket.
            end = open.saturating_sub(1);
        }
        false
    }

    /// The bracket that the one at `close` closes.
    fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0_usize;
        (0..=close).rev().find(|at| {
            match &*self.code[*at].text {
                "]" => depth += 1,
                "[" => depth -= 1,
                _ => {}
            }
            depth == 0
        })
    }

    pub(crate) fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Its lines without the modules of tests at its bottom.
    pub(crate) fn n_lines_without_tests(&self) -> usize {
        self.n_lines - n_lines(&self.items.inline_tests)
    }

    /// Where the files of its modules of tests are: `a/tests.rs`, and whatever is in `a/tests`.
    fn files_of_tests(&self) -> impl Iterator<Item = PathBuf> {
        let name = Path::new(&self.path);
        let stem = name.file_stem().unwrap_or_default();
        let around = name.parent().unwrap_or(name);
        let is_root = ["lib", "main", "mod"].iter().any(|root| stem == *root);
        let folder = if is_root { around.to_owned() } else { around.join(stem) };
        self.items
            .declared_tests
            .iter()
            .flat_map(move |module| [folder.join(module), folder.join(format!("{module}.rs"))])
    }
}

/// Makes test code of the files that some other file declares as `#[cfg(test)] mod name;`.
pub(crate) fn mark_declared_tests(files: &mut [RustFile]) {
    let tests: BTreeSet<PathBuf> = files.iter().flat_map(RustFile::files_of_tests).collect();
    for file in files {
        file.is_test |= Path::new(&file.path).ancestors().any(|folder| tests.contains(folder));
    }
}

pub(crate) fn holds(ranges: &[RangeInclusive<usize>], line: usize) -> bool {
    ranges.iter().any(|range| range.contains(&line))
}

pub(crate) fn n_lines(ranges: &[RangeInclusive<usize>]) -> usize {
    ranges.iter().map(|range| range.end() - range.start() + 1).sum()
}

/// A comment that documents is a token to the compiler, and none here.
fn gather(tokens: TokenStream, lines: &[&str], code: &mut Vec<Token>) {
    let mut is_joined = false;
    for token in tokens {
        let span = token.span();
        let rest = lines[span.start().line - 1].chars().skip(span.start().column);
        let start: String = rest.take(2).collect();
        if start == "//" || start == "/*" {
            continue;
        }
        let lines_of = |span: proc_macro2::Span| span.start().line..=span.end().line;
        let mut push = |text: String, is_name, lines| code.push(Token { text, is_name, lines });
        match token {
            TokenTree::Group(group) => {
                let brackets = match group.delimiter() {
                    proc_macro2::Delimiter::Parenthesis => ["(", ")"],
                    proc_macro2::Delimiter::Brace => ["{", "}"],
                    proc_macro2::Delimiter::Bracket => ["[", "]"],
                    proc_macro2::Delimiter::None => ["", ""],
                };
                push(brackets[0].to_owned(), false, lines_of(group.span_open()));
                gather(group.stream(), lines, code);
                let close = lines_of(group.span_close());
                code.push(Token { text: brackets[1].to_owned(), is_name: false, lines: close });
            }
            TokenTree::Ident(name) => push(name.to_string(), true, lines_of(span)),
            TokenTree::Literal(literal) => push(literal.to_string(), false, lines_of(span)),
            TokenTree::Punct(sign) if is_joined && sign.as_char() == ':' => {
                is_joined = false;
                if let Some(last) = code.last_mut() {
                    last.text.push(':');
                }
                continue;
            }
            TokenTree::Punct(sign) => {
                is_joined = sign.as_char() == ':' && sign.spacing() == Spacing::Joint;
                push(sign.to_string(), false, lines_of(span));
                continue;
            }
        }
        is_joined = false;
    }
}

impl<'a> Visit<'a> for Items {
    fn visit_item(&mut self, item: &'a syn::Item) {
        use syn::Item::{Const, Enum, Fn, Impl, Mod, Static, Struct, Trait, Type, Use};
        let lines = item.span().start().line..=item.span().end().line;
        let (attributes, public): (&[_], _) = match item {
            Const(item) => (&item.attrs, None),
            Enum(item) => (&item.attrs, Some((&item.vis, &item.ident))),
            Fn(item) => (&item.attrs, None),
            Impl(item) => (&item.attrs, None),
            Mod(item) => (&item.attrs, None),
            Static(item) => (&item.attrs, None),
            Struct(item) => (&item.attrs, Some((&item.vis, &item.ident))),
            Trait(item) => (&item.attrs, Some((&item.vis, &item.ident))),
            Type(item) => (&item.attrs, Some((&item.vis, &item.ident))),
            Use(item) => (&item.attrs, None),
            _ => (&[], None),
        };
        if let Some((syn::Visibility::Public(_), name)) = public {
            self.public_types.push((name.to_string(), name.span().start().line));
        }
        if attributes.iter().any(is_for_tests) {
            match item {
                Mod(module) if module.content.is_none() => {
                    self.declared_tests.push(module.ident.to_string());
                }
                Mod(_) => self.inline_tests.push(lines.clone()),
                _ => {}
            }
            if attributes.iter().any(|one| mentions(one, "start_paused")) {
                self.paused_tests.push(lines.clone());
            }
            self.tests.push(lines);
        }
        syn::visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        if function.attrs.iter().any(is_for_tests) {
            self.tests.push(function.span().start().line..=function.span().end().line);
        }
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_signature(&mut self, signature: &'a syn::Signature) {
        let line = signature.fn_token.span.start().line;
        self.functions.push((signature.ident.to_string(), line));
        syn::visit::visit_signature(self, signature);
    }

    fn visit_attribute(&mut self, attribute: &'a syn::Attribute) {
        let is_conditional = attribute.path().is_ident("cfg_attr");
        if attribute.path().is_ident("ignore") || is_conditional && mentions(attribute, "ignore") {
            self.ignored.push(attribute.span().start().line);
        }
    }
}

/// `#[cfg(test)]` and its combinations, `#[test]`, and the `#[...::test]` of a runtime.
fn is_for_tests(attribute: &syn::Attribute) -> bool {
    if attribute.path().is_ident("cfg") {
        return mentions(attribute, "test") && !mentions(attribute, "not");
    }
    attribute.path().segments.last().is_some_and(|last| last.ident == "test")
}

/// Whether this name stands between the brackets of an attribute.
fn mentions(attribute: &syn::Attribute, name: &str) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return false };
    names(list.tokens.clone()).any(|one| one == name)
}

fn names(tokens: TokenStream) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(name) => found.push(name.to_string()),
            TokenTree::Group(group) => found.extend(names(group.stream()).collect::<Vec<_>>()),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_code_is_told_from_the_rest() {
        check("fn a() { x; }", "");
        check("#[cfg(test)]\nmod tests { fn a() { x; } }", "x");
        check("#[cfg(test)] #[derive(A)] struct B { x: u8 }\nfn y() {}", "x");
        check("#[test]\nfn a() { x; }\nfn b() { y; }", "x");
        check("#[tokio::test(start_paused = true)]\nasync fn a() { x; }", "x");
        check("#[cfg(any(test, feature = \"f\"))] fn a() { x; }", "x");
        check("#[cfg(not(test))] fn a() { x; }", "");
        check("#![cfg(test)]\nfn a() { x; }\nfn b() { y; }", "x y");
        check("#[derive(Test)] struct A { x: u8 }", "");
        check("#[cfg(test)]\nuse a::b;\nfn c() { x; }", "");
        check("impl A {\n#[cfg(test)]\nfn b() { x; }\nfn c() { y; }\n}", "x");
    }

    #[test]
    fn comments_and_texts_are_no_code() {
        let file = RustFile::read("a.rs", "/// x\nfn a() -> b::C { \"x // y\" } // x").unwrap();
        let tokens: Vec<_> = file.code.iter().map(|token| token.text.as_str()).collect();
        let expected = ["fn", "a", "(", ")", "-", ">", "b", "::", "C", "{", "\"x // y\"", "}"];
        assert_eq!(tokens, expected);
    }

    #[test]
    fn a_test_is_a_function_that_is_marked_as_one() {
        let text = "#[test]\nfn a() {}\nfn b() {}\n#[cfg(c)]\n#[tokio::test(d = [1])]\n#[e]\n\
            async fn f() {}\nproptest! {\n#[test]\nfn g(h in 0..1) {}\n}\n// fn i() {}\n";
        let file = RustFile::read("a.rs", text).unwrap();
        let tests: Vec<_> =
            ["a", "b", "f", "g", "i"].into_iter().filter(|one| file.has_test(one)).collect();
        assert_eq!(tests, ["a", "f", "g"]);
    }

    #[test]
    fn files_of_tests_are_known_by_their_place_and_by_who_declares_them() {
        let read = |path: &str, text: &str| RustFile::read(path, text).unwrap();
        let mut files = [
            read("a/src/lib.rs", "#[cfg(test)]\nmod story;\nmod shop;\n"),
            read("a/src/shop.rs", "#[cfg(test)] mod till;\n"),
            read("a/src/story.rs", ""),
            read("a/src/story/teller.rs", ""),
            read("a/src/storyboard.rs", ""),
            read("a/src/shop/till.rs", ""),
            read("b/src/story.rs", ""),
            read("a/src/b/tests.rs", ""),
            read("a/tests/it.rs", ""),
            read("a/src/tests_of_time.rs", ""),
        ];
        mark_declared_tests(&mut files);
        let tests: Vec<_> = files.iter().filter(|one| one.is_test).map(|one| &*one.path).collect();
        let expected = [
            "a/src/story.rs",
            "a/src/story/teller.rs",
            "a/src/shop/till.rs",
            "a/src/b/tests.rs",
            "a/tests/it.rs",
        ];
        assert_eq!(tests, expected);
    }

    /// Of the names `x` and `y`, those that stand in test code.
    fn check(text: &str, expected: &str) {
        let file = RustFile::read("a.rs", text).unwrap();
        let shown: Vec<_> = file
            .code
            .iter()
            .filter(|token| matches!(&*token.text, "x" | "y"))
            .filter(|token| file.is_test_at(*token.lines.start()))
            .map(|token| token.text.as_str())
            .collect();
        assert_eq!(shown.join(" "), expected, "{text}");
    }
}
