//! One text that holds all its mutants, each behind a switch.
//!
//! The code that a mutant puts in is the original one, without further switches: only one mutant is
//! on at a time, so the text grows with the number of mutants and not with their combinations.

use std::fmt::Write as _;
use std::ops::Range;

use super::sites::{Shape, Site};

/// The module that the copy of each crate gets; the product never has it.
pub(crate) const SWITCH: &str = "\
use std::sync::OnceLock;

static ON: OnceLock<u32> = OnceLock::new();

#[inline]
pub(crate) fn is_on(id: u32) -> bool {
    let read = || std::env::var(\"ASTRA_MUTANT\").ok().and_then(|id| id.parse().ok());
    *ON.get_or_init(|| read().unwrap_or(0)) == id
}
";
/// What the switch reads.
pub(crate) const SWITCH_VARIABLE: &str = "ASTRA_MUTANT";

/// Where a mutant stands in the written text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) id: u32,
    /// The code that it puts in.
    pub(crate) branch: Range<usize>,
    /// Everything that was written for its site, other mutants of the same site included.
    pub(crate) site: Range<usize>,
}

/// The text with a switch for each mutant.
pub(crate) fn write(text: &str, mutants: &[(u32, &Site)]) -> (String, Vec<Placed>) {
    let mut sorted = mutants.to_vec();
    // What contains comes before what is contained; an early return before everything.
    sorted.sort_by_key(|(id, site)| {
        let length = site.range.len();
        (site.range.start, length != 0, std::cmp::Reverse(length), site.shape, *id)
    });
    let mut writer = Writer { text, out: String::new(), placed: Vec::new() };
    writer.piece(0..text.len(), &sorted);
    (writer.out, writer.placed)
}

struct Writer<'t> {
    text: &'t str,
    out: String,
    placed: Vec<Placed>,
}

impl Writer<'_> {
    /// Writes a range of the text and the mutants inside it.
    fn piece(&mut self, range: Range<usize>, mut mutants: &[(u32, &Site)]) {
        let mut at = range.start;
        while let Some((_, site)) = mutants.first() {
            let same = |other: &Site| other.range == site.range && other.shape == site.shape;
            let n_same = mutants.iter().take_while(|(_, other)| same(other)).count();
            let (here, later) = mutants.split_at(n_same);
            let is_inside = |other: &Site| other.range.start < site.range.end;
            let n_inside = later.iter().take_while(|(_, other)| is_inside(other)).count();
            let (inside, after) = later.split_at(n_inside);
            self.out.push_str(&self.text[at..site.range.start]);
            self.site(here, inside);
            at = site.range.end;
            mutants = after;
        }
        self.out.push_str(&self.text[at..range.end]);
    }

    fn site(&mut self, here: &[(u32, &Site)], inside: &[(u32, &Site)]) {
        let Some((_, site)) = here.first() else { return };
        let (start, first) = (self.out.len(), self.placed.len());
        if site.shape == Shape::Expression {
            self.out.push('(');
        }
        for (n, (id, mutant)) in here.iter().enumerate() {
            let chained = if n > 0 { " else " } else { "" };
            let _ = write!(self.out, "{chained}if crate::mutant::is_on({id}) {{ ");
            let branch_start = self.out.len();
            self.out.push_str(&mutant.after);
            let branch = branch_start..self.out.len();
            self.out.push_str(" }");
            self.placed.push(Placed { id: *id, branch, site: 0..0 });
        }
        if site.shape != Shape::Return {
            self.out.push_str(" else { ");
            self.piece(site.range.clone(), inside);
            self.out.push_str(" }");
        }
        if site.shape == Shape::Expression {
            self.out.push(')');
        }
        for placed in &mut self.placed[first..first + here.len()] {
            placed.site = start..self.out.len();
        }
    }
}

/// The mutants that an error of the compiler at `span` is about: the one whose code it points
/// into, else all of the innermost site around it, else those that begin inside it.
pub(crate) fn blamed(placed: &[Placed], span: &Range<usize>) -> Vec<u32> {
    let is_around = |range: &Range<usize>| range.start <= span.start && span.end <= range.end;
    if let Some(one) = placed.iter().find(|placed| is_around(&placed.branch)) {
        return vec![one.id];
    }
    let innermost = placed
        .iter()
        .filter(|placed| is_around(&placed.site))
        .min_by_key(|placed| placed.site.len())
        .map(|placed| placed.site.clone());
    let is_meant = |site: &Range<usize>| match &innermost {
        Some(innermost) => site == innermost,
        None => span.start <= site.start && site.start < span.end,
    };
    placed.iter().filter(|placed| is_meant(&placed.site)).map(|placed| placed.id).collect()
}

#[cfg(test)]
mod tests {
    use super::super::sites::find;
    use super::*;

    /// The text with every mutant, numbered in order; `is_on` stands short for the switch.
    fn written(text: &str) -> (String, Vec<Placed>) {
        let (sites, _) = find(text).unwrap();
        let numbered: Vec<(u32, &Site)> = (1..).zip(&sites).collect();
        write(text, &numbered)
    }

    fn check(text: &str, expected: &str) {
        let (out, _) = written(text);
        syn::parse_file(&out).unwrap();
        assert_eq!(out.replace("crate::mutant::is_on", "is_on"), expected);
    }

    #[test]
    fn each_mutant_of_an_expression_is_a_branch() {
        check(
            "fn f() -> A { g(a < b) }",
            "fn f() -> A { g((if is_on(1) { (a) <= (b) } else if is_on(2) { (a) >= (b) } else { a < b })) }",
        );
    }

    #[test]
    fn a_mutant_inside_of_another_stands_in_its_last_branch_alone() {
        check(
            "fn f() -> A { g(!a == b) }",
            "fn f() -> A { g((if is_on(2) { (!a) != (b) } else { (if is_on(1) { a } else { !a }) == b })) }",
        );
    }

    #[test]
    fn a_statement_and_a_function_can_be_left() {
        check(
            "fn f() { g(); h!() }",
            "fn f() {if is_on(1) { return } if is_on(2) {  } else { g(); } h!() }",
        );
    }

    #[test]
    fn without_mutants_the_text_is_the_same() {
        let text = "fn f() -> bool { a < b }";
        assert_eq!(write(text, &[]), (text.to_owned(), Vec::new()));
    }

    #[test]
    fn an_error_is_blamed_on_the_code_it_points_to_or_on_its_site() {
        let (out, placed) = written("fn f() -> A { g(a < b) }");
        let at = |code: &str| {
            let start = out.find(code).unwrap();
            start..start + code.len()
        };
        assert_eq!(blamed(&placed, &at("(a) >= (b)")), [2]);
        assert_eq!(blamed(&placed, &at("a < b")), [1, 2]);
        assert_eq!(blamed(&placed, &at(&out)), [1, 2]);
        assert_eq!(blamed(&placed, &at("fn f")), [0_u32; 0]);
    }
}
