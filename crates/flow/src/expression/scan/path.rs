//! A path in an expression: `nodes.open.results.url`, `inputs["a b"][0]`, `item`.

use uuid::Uuid;

use super::{Fault, string_end};

/// What an expression looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::expression) struct Path {
    /// Where it begins.
    pub(in crate::expression) origin: Origin,
    /// The way from there.
    pub(in crate::expression) segments: Vec<String>,
}

/// Where a path begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::expression) enum Origin {
    /// A node, by its alias or its id as written.
    Node(String),
    /// The run.
    Run,
    /// The one value that an expression outside of a workflow looks at.
    Input,
    /// What the graph was given.
    Inputs,
    /// The element that the node is executed for.
    Item,
    /// Its place.
    Index,
}

/// The path as people write it.
impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.origin {
            Origin::Node(name) => write!(f, "nodes.{name}")?,
            Origin::Run => f.write_str("run")?,
            Origin::Input => f.write_str("input")?,
            Origin::Inputs => f.write_str("inputs")?,
            Origin::Item => f.write_str("item")?,
            Origin::Index => f.write_str("index")?,
        }
        for segment in &self.segments {
            let bytes = segment.as_bytes();
            if bytes.iter().all(u8::is_ascii_digit) {
                write!(f, "[{segment}]")?;
            } else if identifier_end(bytes, 0) == bytes.len() {
                write!(f, ".{segment}")?;
            } else {
                write!(f, "[{segment:?}]")?;
            }
        }
        Ok(())
    }
}

/// Behind the end of the identifier that begins at `begin`; `begin` where there is none.
pub(super) fn identifier_end(bytes: &[u8], begin: usize) -> usize {
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    if !bytes.get(begin).copied().is_some_and(is_first) {
        return begin;
    }
    let length = bytes[begin..].iter().take_while(|&&byte| is_word(byte)).count();
    begin + length
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The first place from `here` on that holds no blank.
pub(super) fn skip_blanks(bytes: &[u8], here: usize) -> usize {
    here + bytes[here..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// Reads the path that begins with the identifier between `begin` and `end`, and says where it
/// ends. `None` where the identifier is not the beginning of a path.
pub(super) fn read_path(
    source: &str,
    begin: usize,
    end: usize,
) -> Result<Option<(Path, usize)>, Fault> {
    let mut here = end;
    let origin = match &source[begin..end] {
        "run" => Origin::Run,
        "input" => Origin::Input,
        "inputs" => Origin::Inputs,
        "item" => Origin::Item,
        "index" => Origin::Index,
        "nodes" => {
            let (name, after) = node_name(source, end).ok_or_else(|| {
                Fault::new(begin, "name the node directly, like nodes.open or nodes[\"its id\"]")
            })?;
            here = after;
            Origin::Node(name)
        }
        _ => return Ok(None),
    };
    let mut segments = Vec::new();
    while let Some((segment, after)) = segment(source, here) {
        segments.push(segment);
        here = after;
    }
    let path = Path { origin, segments };
    if source.as_bytes().get(skip_blanks(source.as_bytes(), here)) == Some(&b'(') {
        return Err(Fault::new(begin, format!("{path} is not a function")));
    }
    Ok(Some((path, here)))
}

/// What comes behind `nodes`: `.alias`, `.<id>` or `["alias or id"]`.
fn node_name(source: &str, here: usize) -> Option<(String, usize)> {
    let bytes = source.as_bytes();
    let dot = skip_blanks(bytes, here);
    if bytes.get(dot) == Some(&b'.') {
        let begin = skip_blanks(bytes, dot + 1);
        let id = source.get(begin..begin + uuid::fmt::Hyphenated::LENGTH);
        if let Some(id) = id.filter(|id| Uuid::try_parse(id).is_ok()) {
            return Some((id.to_owned(), begin + id.len()));
        }
    }
    let (name, after) = segment(source, here)?;
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    (!is_number).then_some((name, after))
}

/// One step of a path: `.name`, `.0`, `[0]` or `["name"]`; and where it ends.
fn segment(source: &str, here: usize) -> Option<(String, usize)> {
    let bytes = source.as_bytes();
    let here = skip_blanks(bytes, here);
    match bytes.get(here)? {
        b'.' => {
            let begin = skip_blanks(bytes, here + 1);
            let end = identifier_end(bytes, begin).max(digits_end(bytes, begin));
            (end > begin).then(|| (source[begin..end].to_owned(), end))
        }
        b'[' => {
            let begin = skip_blanks(bytes, here + 1);
            let (segment, end) = match bytes.get(begin)? {
                b'"' | b'\'' => {
                    let end = string_end(bytes, begin)?;
                    (&source[begin + 1..end - 1], end)
                }
                _ => {
                    let end = digits_end(bytes, begin);
                    (&source[begin..end], end)
                }
            };
            let close = skip_blanks(bytes, end);
            // A string with escapes, or anything that must be worked out, is left to the engine.
            let is_fixed =
                end > begin && !segment.contains('\\') && bytes.get(close) == Some(&b']');
            is_fixed.then(|| (segment.to_owned(), close + 1))
        }
        _ => None,
    }
}

fn digits_end(bytes: &[u8], begin: usize) -> usize {
    let digits = bytes.get(begin..).unwrap_or_default();
    begin + digits.iter().take_while(|byte| byte.is_ascii_digit()).count()
}
