//! Where a source text can be changed, and into what.
//!
//! Only code that runs is changed: constants are evaluated by the compiler, where no switch can be
//! read, and tests, assertions, patterns, attributes and the insides of macros are left alone.

use std::ops::Range;

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, ReturnType, Stmt, UnOp};

/// The longest piece of code that a line of the report shows.
const SHOWN_CHARS_MAX: usize = 70;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Comparison,
    Logic,
    Arithmetic,
    Negation,
    Literal,
    Condition,
    Guard,
    Statement,
    Body,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Comparison => "comparison",
            Self::Logic => "logic",
            Self::Arithmetic => "arithmetic",
            Self::Negation => "negation",
            Self::Literal => "literal",
            Self::Condition => "condition",
            Self::Guard => "guard",
            Self::Statement => "statement",
            Self::Body => "body",
        }
    }
}

/// How the switch is written around a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// At the beginning of a function: return early.
    Return,
    /// Around a statement: leave it out.
    Statement,
    /// Around an expression: take another one.
    Expression,
}

/// One possible change of a source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    /// The bytes that are replaced; empty for a function that returns early.
    pub(crate) range: Range<usize>,
    pub(crate) shape: Shape,
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    /// The code as a person reads it in the report.
    pub(crate) before: String,
    /// The code that takes its place; empty for a statement that is left out.
    pub(crate) after: String,
}

/// Every site of a source text, and the modules beside it that only tests have.
pub(crate) fn find(text: &str) -> Result<(Vec<Site>, Vec<String>)> {
    let file = syn::parse_file(text).context("cannot parse")?;
    let mut finder = Finder { text, sites: Vec::new(), test_modules: Vec::new() };
    finder.visit_file(&file);
    finder.sites.sort_by(|a, b| order(a).cmp(&order(b)));
    Ok((finder.sites, finder.test_modules))
}

fn order(site: &Site) -> (usize, usize, Kind, &str) {
    (site.range.start, site.range.end, site.kind, &site.after)
}

struct Finder<'t> {
    text: &'t str,
    sites: Vec<Site>,
    test_modules: Vec<String>,
}

impl Finder<'_> {
    fn source(&self, code: &impl Spanned) -> &str {
        &self.text[code.span().byte_range()]
    }

    fn expression(&mut self, kind: Kind, code: &impl Spanned, after: String) {
        let range = code.span().byte_range();
        let before = shown(&self.text[range.clone()]);
        let line = code.span().start().line;
        self.sites.push(Site { range, shape: Shape::Expression, line, kind, before, after });
    }

    fn binary(&mut self, binary: &syn::ExprBinary) {
        let (kind, others) = swaps(&binary.op);
        for other in others {
            // In brackets: another operator may bind less tightly.
            let (left, right) = (self.source(&binary.left), self.source(&binary.right));
            let after = match kind {
                Kind::Arithmetic if other.ends_with('=') => format!("{left} {other} {right}"),
                _ => format!("({left}) {other} ({right})"),
            };
            self.expression(kind, binary, after);
        }
    }

    fn condition(&mut self, kind: Kind, condition: &Expr, values: &[&str]) {
        if !holds_let(condition) && !is_bool(condition) {
            for value in values {
                self.expression(kind, condition, (*value).to_owned());
            }
        }
    }

    fn literal(&mut self, literal: &syn::LitInt) {
        if let Some(next) = literal.base10_parse::<u64>().ok().and_then(|n| n.checked_add(1)) {
            self.expression(Kind::Literal, literal, format!("{next}{}", literal.suffix()));
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        let range = statement.span().byte_range();
        self.sites.push(Site {
            before: shown(&self.text[range.clone()]),
            range,
            shape: Shape::Statement,
            line: statement.span().start().line,
            kind: Kind::Statement,
            after: String::new(),
        });
    }

    fn body(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let start = block.brace_token.span.open().byte_range().end;
        for value in early(&signature.output, block) {
            self.sites.push(Site {
                range: start..start,
                shape: Shape::Return,
                line: signature.fn_token.span().start().line,
                kind: Kind::Body,
                before: format!("fn {}", signature.ident),
                after: format!("return {value}").trim_end().to_owned(),
            });
        }
    }

    /// Whether the code of a function is changed at all.
    fn is_changed(attributes: &[syn::Attribute], signature: &syn::Signature) -> bool {
        // A check that answers nothing is an assertion: without it the product does the same.
        let is_assertion = signature.ident.to_string().starts_with("check_")
            && matches!(signature.output, ReturnType::Default);
        signature.constness.is_none() && !is_assertion && !is_for_tests(attributes)
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        if !holds_let(&binary.left) && !holds_let(&binary.right) {
            self.binary(binary);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if matches!(unary.op, UnOp::Not(_)) {
            let after = self.source(&unary.expr).to_owned();
            self.expression(Kind::Negation, unary, after);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_lit(&mut self, literal: &'ast syn::ExprLit) {
        if let syn::Lit::Int(literal) = &literal.lit {
            self.literal(literal);
        }
    }

    fn visit_expr_if(&mut self, expression: &'ast syn::ExprIf) {
        self.condition(Kind::Condition, &expression.cond, &["true", "false"]);
        visit::visit_expr_if(self, expression);
    }

    fn visit_expr_while(&mut self, expression: &'ast syn::ExprWhile) {
        // A loop that never ends is found by every test that reaches it, after a long wait.
        self.condition(Kind::Condition, &expression.cond, &["false"]);
        visit::visit_expr_while(self, expression);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(Kind::Guard, guard, &["true", "false"]);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(expression, Some(_)) = statement
            && is_call(expression)
        {
            self.statement(statement);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if Self::is_changed(&function.attrs, &function.sig) {
            self.body(&function.sig, &function.block);
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if Self::is_changed(&function.attrs, &function.sig) {
            self.body(&function.sig, &function.block);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default
            && Self::is_changed(&function.attrs, &function.sig)
        {
            self.body(&function.sig, block);
            visit::visit_trait_item_fn(self, function);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        match (is_for_tests(&module.attrs), &module.content) {
            (false, _) => visit::visit_item_mod(self, module),
            (true, None) => self.test_modules.push(module.ident.to_string()),
            (true, Some(_)) => {}
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    /// The length of an array is a constant.
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_variant(&mut self, _: &'ast syn::Variant) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
}

/// What an operator becomes: a neighbour, its negation, or its opposite.
fn swaps(operator: &BinOp) -> (Kind, &'static [&'static str]) {
    match operator {
        BinOp::Lt(_) => (Kind::Comparison, &["<=", ">="]),
        BinOp::Le(_) => (Kind::Comparison, &["<", ">"]),
        BinOp::Gt(_) => (Kind::Comparison, &[">=", "<="]),
        BinOp::Ge(_) => (Kind::Comparison, &[">", "<"]),
        BinOp::Eq(_) => (Kind::Comparison, &["!="]),
        BinOp::Ne(_) => (Kind::Comparison, &["=="]),
        BinOp::And(_) => (Kind::Logic, &["||"]),
        BinOp::Or(_) => (Kind::Logic, &["&&"]),
        BinOp::Add(_) => (Kind::Arithmetic, &["-"]),
        BinOp::Sub(_) => (Kind::Arithmetic, &["+"]),
        BinOp::Mul(_) => (Kind::Arithmetic, &["/"]),
        BinOp::Div(_) => (Kind::Arithmetic, &["*"]),
        BinOp::AddAssign(_) => (Kind::Arithmetic, &["-="]),
        BinOp::SubAssign(_) => (Kind::Arithmetic, &["+="]),
        _ => (Kind::Arithmetic, &[]),
    }
}

/// What a function can return at once instead of doing its work.
fn early(output: &ReturnType, block: &syn::Block) -> Vec<&'static str> {
    let returned = match output {
        // A body of one statement is left out as a statement.
        ReturnType::Default if block.stmts.len() > 1 => return vec![""],
        ReturnType::Default => return Vec::new(),
        ReturnType::Type(_, returned) => returned,
    };
    let syn::Type::Path(path) = returned.as_ref() else { return Vec::new() };
    let name = path.path.segments.last().map(|segment| segment.ident.to_string());
    let values: &[&'static str] = match name.as_deref() {
        Some("bool") => &["true", "false"],
        Some("Option") => &["None"],
        Some("Vec" | "u32" | "u64" | "usize") => &["Default::default()"],
        _ => &[],
    };
    values.iter().copied().filter(|value| !returns_already(block, value)).collect()
}

fn returns_already(block: &syn::Block, value: &str) -> bool {
    match block.stmts.as_slice() {
        [Stmt::Expr(Expr::Lit(literal), None)] => match &literal.lit {
            syn::Lit::Bool(literal) => literal.value.to_string() == value,
            syn::Lit::Int(literal) => literal.base10_digits() == "0",
            _ => false,
        },
        [Stmt::Expr(Expr::Path(path), None)] => path.path.is_ident(value),
        _ => false,
    }
}

fn is_call(expression: &Expr) -> bool {
    match expression {
        Expr::Call(_) | Expr::MethodCall(_) => true,
        Expr::Try(inner) => is_call(&inner.expr),
        _ => false,
    }
}

/// Whether a condition binds something: it cannot be put into brackets.
fn holds_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => holds_let(&binary.left) || holds_let(&binary.right),
        _ => false,
    }
}

fn is_bool(expression: &Expr) -> bool {
    matches!(expression, Expr::Lit(syn::ExprLit { lit: syn::Lit::Bool(_), .. }))
}

/// `#[test]`, `#[cfg(test)]`, or a longer condition that names tests.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            list.tokens.clone().into_iter().any(|token| token.to_string() == "test")
        }
        _ => false,
    })
}

/// Code in one line, cut where it is long.
pub(crate) fn shown(code: &str) -> String {
    let words: Vec<&str> = code.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}..", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let (sites, _) = find(text).unwrap();
        let said: Vec<String> = sites
            .iter()
            .map(|site| {
                let Site { line, kind, before, after, .. } = site;
                format!("{line} {}: {before} -> {after}", kind.name())
            })
            .collect();
        assert_eq!(said, expected);
    }

    #[test]
    fn a_comparison_becomes_its_neighbour_and_its_negation() {
        check(
            "fn f() -> String {\n    g(a < b)\n}\n",
            &["2 comparison: a < b -> (a) <= (b)", "2 comparison: a < b -> (a) >= (b)"],
        );
    }

    #[test]
    fn a_condition_becomes_true_and_false_and_a_loop_only_ends() {
        check(
            "fn f() -> A {\n    if x() { a() } else { while y() {} b() }\n}\n",
            &["2 condition: x() -> false", "2 condition: x() -> true", "2 condition: y() -> false"],
        );
    }

    #[test]
    fn a_function_returns_early_by_its_type() {
        check(
            "fn f(&self) -> bool { g() }",
            &["1 body: fn f -> return false", "1 body: fn f -> return true"],
        );
        check("fn f() -> bool { true }", &["1 body: fn f -> return false"]);
        check("fn f() -> Option<u8> { g() }", &["1 body: fn f -> return None"]);
        check("fn f() -> u64 { g() }", &["1 body: fn f -> return Default::default()"]);
        check("fn f() { let a = g(); h!(a) }", &["1 body: fn f -> return"]);
        check("fn f() -> Other { g() }", &[]);
    }

    #[test]
    fn a_call_as_a_statement_is_left_out() {
        check("fn f() { g(x); }", &["1 statement: g(x); -> "]);
        check("fn f() { g(x)?; }", &["1 statement: g(x)?; -> "]);
        check("fn f() { h!(x); }", &[]);
    }

    #[test]
    fn operators_negations_literals_and_guards_are_swapped() {
        check("fn f() -> A { g(!a) }", &["1 negation: !a -> a"]);
        check("fn f() -> A { g(7u8) }", &["1 literal: 7u8 -> 8u8"]);
        check("fn f() -> A { g(a + b) }", &["1 arithmetic: a + b -> (a) - (b)"]);
        check("fn f() { a += b; }", &["1 arithmetic: a += b -> a -= b"]);
        check(
            "fn f() -> A { match x { Y if z() => a, _ => b } }",
            &["1 guard: z() -> false", "1 guard: z() -> true"],
        );
    }

    #[test]
    fn what_the_compiler_evaluates_is_left_alone() {
        check("const A: u8 = 1 + 2;", &[]);
        check("static A: u8 = 1 + 2;", &[]);
        check("const fn f() -> bool { 1 < 2 }", &[]);
        check("struct A { a: [u8; 4] }\nenum E { A = 1 }", &[]);
        check("fn f() -> A { const B: u8 = 1; [x; 4] }", &[]);
        check("fn f() -> A { match x { 1 => a, 2..=3 => b } }", &[]);
        check("fn f() -> A { g!(1 < 2) }", &[]);
    }

    #[test]
    fn a_condition_that_binds_is_left_whole_but_its_parts_are_not() {
        check(
            "fn f() -> A { if let Some(x) = y && x == z { a } else { b } }",
            &["1 comparison: x == z -> (x) != (z)"],
        );
    }

    #[test]
    fn tests_and_assertions_are_left_alone() {
        check("#[cfg(test)]\nmod tests { fn f() -> bool { a < b } }", &[]);
        check("#[test]\nfn f() { g(1); h(2); }", &[]);
        check("fn check_invariants(&self) { g(1); h(2); }", &[]);
        let (_, modules) = find("#[cfg(test)]\nmod tests;\nmod others;").unwrap();
        assert_eq!(modules, ["tests"]);
    }

    #[test]
    fn a_range_counts_bytes_also_behind_letters_of_several() {
        let text = "fn f() -> A { g(\"äöü €\", a < b) }";
        let (sites, _) = find(text).unwrap();
        assert_eq!(&text[sites[0].range.clone()], "a < b");
    }
}
