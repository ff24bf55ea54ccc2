//! What a command is run for: files, lines or numbers; and how they stand in its arguments.

use std::path::Path;

use super::flags::RunFlags;
use super::glob;
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};

/// One run has no more tasks.
pub(super) const ITEMS_MAX: usize = 100_000;

/// One thing to run the command for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// From 1.
    pub(super) number: usize,
    /// A path, a line or a number.
    pub(super) text: String,
}

/// All items, if the flags ask for any.
pub(super) fn of(flags: &RunFlags) -> Result<Option<Vec<Item>>> {
    let texts = match (&flags.each, &flags.array) {
        (None, None) => return Ok(None),
        (_, Some(numbers)) => {
            numbers.0.clone().take(ITEMS_MAX + 1).map(|number| number.to_string()).collect()
        }
        (Some(each), None) if each == "-" => lines()?,
        (Some(pattern), None) => files(pattern)?,
    };
    if texts.len() > ITEMS_MAX {
        let message = format!("there are more than {ITEMS_MAX} items");
        let hint = "split them over several runs";
        return Err(Failure::new(ExitCode::Validation, message, hint));
    }
    let items = texts.into_iter().zip(1..).map(|(text, number)| Item { number, text });
    Ok(Some(items.collect()))
}

fn files(pattern: &str) -> Result<Vec<String>> {
    let found = glob::expand(Path::new("."), pattern, ITEMS_MAX + 1)
        .map_err(|error| Failure::usage(format!("--each {pattern}: {error}"), "check the path"))?;
    if found.is_empty() {
        return Err(Failure::new(
            ExitCode::Validation,
            format!("no file matches {pattern}"),
            "it is looked for from this folder; quote the pattern, so that the shell leaves it \
             alone",
        ));
    }
    Ok(found)
}

fn lines() -> Result<Vec<String>> {
    let read: std::io::Result<Vec<String>> = std::io::stdin().lines().collect();
    let lines = read.map_err(|error| {
        Failure::usage(format!("cannot read items from stdin: {error}"), "give lines of text")
    })?;
    let lines: Vec<_> = lines.into_iter().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        let hint = "give one item per line: `ls | astra run --each - -- wc {}`";
        return Err(Failure::new(ExitCode::Validation, "stdin holds no item", hint));
    }
    Ok(lines)
}

impl Item {
    /// The argument, with the item in the place of its names. Other braces stay as they are.
    pub(super) fn fill(&self, argument: &str) -> String {
        let mut filled = String::with_capacity(argument.len());
        let mut rest = argument;
        while let Some(start) = rest.find('{') {
            filled.push_str(&rest[..start]);
            rest = &rest[start..];
            let end = rest.find('}').map_or(rest.len(), |end| end + 1);
            if let Some(part) = self.part(&rest[..end]) {
                filled.push_str(&part);
                rest = &rest[end..];
            } else {
                filled.push('{');
                rest = &rest[1..];
            }
        }
        filled.push_str(rest);
        filled
    }

    fn part(&self, name: &str) -> Option<String> {
        let path = Path::new(&self.text);
        let text = |part: Option<&std::ffi::OsStr>| {
            Some(part.unwrap_or_default().to_string_lossy().into_owned())
        };
        match name {
            "{}" => Some(self.text.clone()),
            "{n}" | "{#}" => Some(self.number.to_string()),
            "{name}" => text(path.file_name()),
            "{stem}" => text(path.file_stem()),
            "{ext}" => text(path.extension()),
            "{dir}" => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                Some(parent.map_or_else(|| ".".into(), |parent| parent.to_string_lossy().into()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_braces_become_the_item() {
        let item = Item { number: 7, text: "photos/a.b.jpg".into() };
        for (argument, expected) in [
            ("{}", "photos/a.b.jpg"),
            ("thumbs/{name}", "thumbs/a.b.jpg"),
            ("{dir}/{stem}-{n}.{ext}", "photos/a.b-7.jpg"),
            ("{{}}", "{photos/a.b.jpg}"),
            ("${HOME} {x} {", "${HOME} {x} {"),
            ("{ {#}", "{ 7"),
            ("awk '{print $1}' {}", "awk '{print $1}' photos/a.b.jpg"),
        ] {
            assert_eq!(item.fill(argument), expected, "{argument}");
        }
        let plain = Item { number: 1, text: "42".into() };
        assert_eq!(plain.fill("{dir}|{ext}|{stem}"), ".||42");
    }

    #[test]
    fn numbers_make_items() {
        let flags = RunFlags { array: "3-5".parse().ok(), ..RunFlags::default() };
        let items = of(&flags).expect("fits").expect("asked for");
        let shown: Vec<_> = items.iter().map(|item| (item.number, item.text.as_str())).collect();
        assert_eq!(shown, [(1, "3"), (2, "4"), (3, "5")]);
        let many = RunFlags { array: "1-99999999999".parse().ok(), ..RunFlags::default() };
        assert_eq!(of(&many).expect_err("too many").exit, ExitCode::Validation);
    }
}
