//! A text, taken apart into what stands there and what is to be worked out.

use super::scan::{character, string_end};

/// A part of a text.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<'t> {
    /// As it stands.
    Text(&'t str),
    /// What stands between `{{` and `}}`.
    Code {
        /// The expression.
        source: &'t str,
        /// Where it begins in the text.
        at: usize,
    },
}

/// Takes a text apart. As everywhere in Jinja, `{{- x -}}` takes away the blanks around it.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut done = 0;
    let mut trims = false;
    while let Some(found) = text[done..].find("{{") {
        let open = done + found;
        let close = code_end(text, open)?;
        let source = &text[open + 2..close];
        let inner = source.strip_prefix('-').unwrap_or(source);

        let before = &text[done..open];
        let before = if trims { before.trim_start() } else { before };
        let before = if inner.len() < source.len() { before.trim_end() } else { before };
        push_text(&mut pieces, before)?;

        let at = close - inner.len();
        let source = inner.strip_suffix('-').unwrap_or(inner);
        trims = source.len() < inner.len();
        pieces.push(Piece::Code { source, at });
        done = close + 2;
    }
    let after = &text[done..];
    push_text(&mut pieces, if trims { after.trim_start() } else { after })?;
    Ok(pieces)
}

/// The expression without the braces around it, where a text is nothing but one expression.
pub(crate) fn bare(text: &str) -> &str {
    let text = text.trim();
    if !text.starts_with("{{") {
        return text;
    }
    match pieces(text).as_deref() {
        Ok([Piece::Code { source, .. }]) => source.trim(),
        _ => text,
    }
}

fn push_text<'t>(pieces: &mut Vec<Piece<'t>>, text: &'t str) -> Result<(), String> {
    if text.contains("{%") {
        let hint = "write {{ a if condition else b }}";
        return Err(format!("blocks like {{% %}} are not part of expressions; {hint}"));
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(())
}

/// Where the `}}` is that belongs to the `{{` at `open`: braces of objects and braces in strings
/// are not it.
fn code_end(text: &str, open: usize) -> Result<usize, String> {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut here = open + 2;
    while let Some(&byte) = bytes.get(here) {
        match byte {
            b'\'' | b'"' => match string_end(bytes, here) {
                Some(end) => here = end - 1,
                None => break,
            },
            b'}' if depth == 0 && bytes.get(here + 1) == Some(&b'}') => return Ok(here),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        here += 1;
    }
    Err(format!("the {{{{ at character {} is never closed", character(text, open)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str) -> String {
        let shown = |piece: &Piece<'_>| match piece {
            Piece::Text(text) => format!("[{text}]"),
            Piece::Code { source, at } => {
                assert!(text[*at..].starts_with(source), "{at} in {text}");
                format!("<{source}>")
            }
        };
        pieces(text).unwrap().iter().map(shown).collect()
    }

    #[test]
    fn a_text_comes_apart() {
        for (text, expected) in [
            ("", ""),
            ("plain } }} text", "[plain } }} text]"),
            ("{{ a }}", "< a >"),
            ("a{{b}}c{{d}}", "[a]<b>[c]<d>"),
            ("{{ '}}' }}", "< '}}' >"),
            ("{{ \"\\\"}}\" }}", "< \"\\\"}}\" >"),
            ("{{ {'a': {'b': 1}} }}", "< {'a': {'b': 1}} >"),
            ("{{ {'a': {'b': 1}}}}", "< {'a': {'b': 1}}>"),
            ("a {{- b -}} c {{ d }}", "[a]< b >[c ]< d >"),
            ("a {{ -1 }} {{-1-}} ", "[a ]< -1 ><1>"),
            ("{# fff #} {{ ü }}", "[{# fff #} ]< ü >"),
        ] {
            assert_eq!(show(text), expected, "{text}");
        }
    }

    #[test]
    fn braces_go_only_where_nothing_else_stands() {
        for (text, expected) in [
            (" {{ a == 1 }} ", "a == 1"),
            ("a == 1", "a == 1"),
            ("{{ a }} {{ b }}", "{{ a }} {{ b }}"),
            ("{{ a }}x", "{{ a }}x"),
            ("{{ a", "{{ a"),
        ] {
            assert_eq!(bare(text), expected, "{text}");
        }
    }
}
