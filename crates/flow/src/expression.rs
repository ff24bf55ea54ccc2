//! Expressions in texts: `{{ ... }}`.

/// The nodes that a text with `{{ }}`, or an expression on its own, looks at.
pub(crate) fn references(text: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    if !text.contains("{{") {
        names_in(text, &mut names);
        return Ok(names);
    }
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let inside = &rest[start + 2..];
        let end = inside.find("}}").ok_or("the expression has no closing braces")?;
        names_in(&inside[..end], &mut names);
        rest = &inside[end + 2..];
    }
    Ok(names)
}

/// An expression without the braces around it.
pub(crate) fn bare(text: &str) -> &str {
    let inside = text.trim().strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
    inside.map_or(text, str::trim)
}

fn names_in(expression: &str, names: &mut Vec<String>) {
    for (at, _) in expression.match_indices("nodes") {
        let after = &expression[at + "nodes".len()..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let name = if let Some(after) = after.strip_prefix('.') {
            after.split(|c| !is_word(c)).next()
        } else if let Some(after) = after.strip_prefix("[\"") {
            after.split('"').next()
        } else {
            after.strip_prefix("['").and_then(|after| after.split('\'').next())
        };
        let name = name.unwrap_or_default().to_owned();
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
}
