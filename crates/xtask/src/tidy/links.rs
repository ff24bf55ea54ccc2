//! Relative links in Markdown lead to a file or a folder of the repository.

use super::finding::{Finding, Rule};
use super::repository::{Repository, TextFile};

pub(crate) fn check(repository: &Repository) -> Vec<Finding> {
    let pages = repository.texts.iter().filter(|file| file.has_extension("md"));
    pages.flat_map(|page| check_page(repository, page)).collect()
}

fn check_page(repository: &Repository, page: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in links(&page.text) {
        if !is_relative(&target) {
            continue;
        }
        let leads_somewhere =
            resolve(&page.path, &target).is_some_and(|path| repository.holds(&path));
        if !leads_somewhere {
            let message = format!("the link to `{target}` leads nowhere");
            findings.push(Finding::new(Rule::BrokenLink, &page.path, line, message));
        }
    }
    findings
}

fn is_relative(target: &str) -> bool {
    let scheme = target.split(['/', '?', '#']).next().unwrap_or_default();
    !target.starts_with('#') && !target.starts_with("//") && !scheme.contains(':')
}

/// The path from the root of the repository; nothing if it leaves the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let target = target.split(['#', '?']).next().unwrap_or_default().replace("%20", " ");
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Every link target outside of code, with its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        match fence {
            Some(open) if start.starts_with(open) => fence = None,
            Some(_) => {}
            None => {
                fence = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
                if fence.is_none() {
                    let prose = without_code(line);
                    found.extend(targets(&prose).into_iter().map(|target| (index + 1, target)));
                }
            }
        }
    }
    found
}

/// The line without what stands between backticks, of which as many close as open.
fn without_code(line: &str) -> String {
    let mut prose = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let (before, ticks_and_after) = rest.split_at(start);
        let code = ticks_and_after.trim_start_matches('`');
        let ticks = &ticks_and_after[..ticks_and_after.len() - code.len()];
        prose.push_str(before);
        // Backticks without a partner start no code.
        rest = code.split_once(ticks).map_or(code, |(_, after)| after);
    }
    prose + rest
}

fn targets(prose: &str) -> Vec<String> {
    let mut found: Vec<String> =
        prose.match_indices("](").filter_map(|(at, _)| inline_target(&prose[at + 2..])).collect();
    found.extend(definition_target(prose));
    found
}

/// `path "title")`, `<path with spaces>)` or `path)`; a path may hold balanced parentheses.
fn inline_target(after: &str) -> Option<String> {
    if let Some(bracketed) = after.strip_prefix('<') {
        return bracketed.split_once('>').map(|(path, _)| path.to_owned());
    }
    let mut depth = 0_usize;
    let end = after.find(|character| match character {
        '(' => {
            depth += 1;
            false
        }
        ')' if depth > 0 => {
            depth -= 1;
            false
        }
        ')' => true,
        other => other.is_whitespace(),
    })?;
    Some(after[..end].to_owned())
}

/// `[name]: path`, but no footnote.
fn definition_target(prose: &str) -> Option<String> {
    let named = prose.strip_prefix('[').filter(|rest| !rest.starts_with('^'))?;
    let (_, path) = named.split_once("]:")?;
    path.split_whitespace().next().map(|path| path.trim_matches(['<', '>']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_somewhere_are_fine() {
        for text in [
            "[a](b.md)",
            "[a](./b.md#part) and [c](../LICENSE)",
            "[a](/docs/b.md) ![picture](img/a.png \"title\")",
            "[a](img) [a](img/) [a](..)",
            "[a](<b.md>)",
            "[a](https://example.org/x.md) [b](mailto:a@b.c) [c](#part)",
            "[a]: b.md",
            "[^1]: nowhere.md",
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        check("x\n[a](c.md)", &["docs/a.md:2: the link to `c.md` leads nowhere [broken-link]"]);
        for text in [
            "[a](b.txt)",
            "[a](../b.md)",
            "[a](../../LICENSE)",
            "[b](b.md) [a](img/b.png)",
            "[a]: c.md",
            "![a](c(1).png)",
            "a ` b [a](c.md)",
        ] {
            assert_eq!(found(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn code_is_not_read_for_links() {
        check("`[a](c.md)` and ``[a](c.md)``", &[]);
        check("```text\n[a](c.md)\n```\n[b](b.md)", &[]);
        assert_eq!(found("```\n```\n[a](c.md)").len(), 1);
    }

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(found(text), expected, "{text}");
    }

    fn found(text: &str) -> Vec<String> {
        let page = TextFile { path: "docs/a.md".into(), text: text.into() };
        let paths = ["docs/a.md", "docs/b.md", "docs/img/a.png", "LICENSE"];
        let repository = Repository {
            texts: vec![page],
            paths: paths.into_iter().map(String::from).collect(),
            packages: Vec::new(),
        };
        super::check(&repository).iter().map(ToString::to_string).collect()
    }
}
