//! `docs/reference/config.md`, from the struct that holds the settings.

use confique::Config as _;
use confique::meta::{Expr, FieldKind, LeafKind, Meta};

use crate::config::Config;
use crate::words;

const INTRODUCTION: &str = "\
# Configuration

Generated from the program itself by `cargo xtask generate`; do not edit.

A setting is a flag, or an `ASTRA_*` variable, or a key of `./astra.toml`; the first one found counts.
A key that is not listed here is an error, so that a typing error is not silently ignored.

| key | variable | meaning |
|---|---|---|
";

const EXAMPLE: &str = "
## Example

```toml
# astra.toml
server = \"http://10.0.0.5:8080\"
token_file = \"token.secret\"

[log]
format = \"json\"
level = \"info\"
```

## Profile of a folder

`astra dev` writes `profile.toml` into its data folder, with its address and its process.
Commands that are started in the same folder find the server by it, whatever its port.
";

pub(super) fn text() -> String {
    let mut page = INTRODUCTION.to_owned();
    rows(&mut page, &Config::META, "");
    page.push_str(EXAMPLE);
    page
}

fn rows(page: &mut String, meta: &Meta, prefix: &str) {
    for field in meta.fields {
        let key = format!("{prefix}{}", field.name);
        match field.kind {
            FieldKind::Nested { meta } => rows(page, meta, &format!("{key}.")),
            FieldKind::Leaf { env, kind } => {
                let words: Vec<_> = field.doc.iter().map(|line| line.trim()).collect();
                let (meaning, default) = (words.join(" "), default(kind));
                let variable = env.unwrap_or("-");
                words::push(
                    page,
                    format_args!("| `{key}` | `{variable}` | {meaning}{default} |\n"),
                );
            }
        }
    }
}

fn default(kind: LeafKind) -> String {
    match kind {
        LeafKind::Required { default: Some(Expr::Str(text)) } => format!(" Default: `{text}`."),
        LeafKind::Required { default: Some(Expr::Integer(n)) } => format!(" Default: {n}."),
        LeafKind::Required { default: Some(_) | None } | LeafKind::Optional => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_variable_and_a_flag_or_says_why_not() {
        let page = text();
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), 14);
        for row in rows {
            assert!(row.contains("`ASTRA_") || row.contains("No variable"), "{row}");
            assert!(row.contains("Flag: `--") || row.contains("No flag"), "{row}");
        }
    }
}
