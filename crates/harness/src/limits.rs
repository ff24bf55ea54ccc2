//! The table of limits, read from the sources of the product: a limit is a constant whose doc
//! comment begins with `Limit:`. Its value is worked out from the expression that stands there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use syn::visit::Visit;
use syn::{Attribute, BinOp, Expr, Ident, ItemConst, Lit, Meta};

/// The crates whose limits people meet, from the nouns outwards.
const CRATES: [&str; 9] =
    ["model", "flow", "coordinator", "shard", "protocol", "keyspace", "store", "server", "worker"];
const MARK: &str = "Limit:";

/// One limit.
pub(super) struct Limit {
    pub(super) name: String,
    /// With its unit.
    pub(super) value: String,
    pub(super) meaning: String,
}

/// Every limit, in the order of the files.
pub(super) fn all(root: &Path) -> Result<Vec<Limit>> {
    let mut sources = Vec::new();
    for name in CRATES {
        for path in rust_files(&root.join("crates").join(name).join("src"))? {
            sources.push(Source::read(path)?);
        }
    }
    let mut named: BTreeMap<String, Vec<Expr>> = BTreeMap::new();
    for constant in sources.iter().flat_map(|source| &source.constants) {
        let values = named.entry(constant.ident.to_string()).or_default();
        values.push((*constant.expr).clone());
    }
    let mut limits = Vec::new();
    for source in &sources {
        for constant in &source.constants {
            let Some(meaning) = meaning(&constant.attrs) else { continue };
            let value = source.value(&constant.expr, &named).with_context(|| {
                format!("the value of {} in {}", constant.ident, source.path.display())
            })?;
            let name = constant.ident.to_string();
            limits.push(Limit { value: written(value, &name), name, meaning });
        }
    }
    Ok(limits)
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let listed = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut entries: Vec<_> = listed.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        let is_tests = path.file_stem().is_some_and(|stem| stem == "tests");
        if entry.file_type()?.is_dir() && !is_tests {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|end| end == "rs") && !is_tests {
            files.push(path);
        }
    }
    Ok(files)
}

/// A file with its constants.
struct Source {
    path: PathBuf,
    constants: Vec<ItemConst>,
}

/// What a constant may be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value {
    Count(u64),
    Time(Duration),
}

impl Source {
    fn read(path: PathBuf) -> Result<Self> {
        let file = syn::parse_file(&fs::read_to_string(&path)?)
            .with_context(|| format!("cannot parse {}", path.display()))?;
        let mut found = Constants(Vec::new());
        found.visit_file(&file);
        Ok(Self { path, constants: found.0 })
    }

    fn value(&self, expr: &Expr, named: &BTreeMap<String, Vec<Expr>>) -> Result<Value> {
        match expr {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Int(number) => Ok(Value::Count(number.base10_parse()?)),
                _ => bail!("a literal that is no number"),
            },
            Expr::Binary(both) => {
                let (left, right) =
                    (self.value(&both.left, named)?, self.value(&both.right, named)?);
                let (Value::Count(left), Value::Count(right)) = (left, right) else {
                    bail!("arithmetic with durations");
                };
                let result = match both.op {
                    BinOp::Mul(_) => left.checked_mul(right),
                    BinOp::Shl(_) => left.checked_mul(1 << right),
                    _ => bail!("an operator other than * and <<"),
                };
                result.map(Value::Count).context("more than 64 bits")
            }
            Expr::Path(path) => {
                let last = &path.path.segments.last().context("a name")?.ident;
                self.value(self.constant(last, named)?, named)
            }
            Expr::Call(call) => {
                let Expr::Path(function) = &*call.func else { bail!("an unknown call") };
                let last = function.path.segments.last().context("a name")?.ident.to_string();
                let argument = call.args.first().context("a call without an argument")?;
                let Value::Count(count) = self.value(argument, named)? else {
                    bail!("a duration of a duration");
                };
                duration(&last, count).map(Value::Time)
            }
            _ => bail!("an expression that is not understood; write it with * and <<"),
        }
    }

    /// A constant of this file comes first; others must have a name of their own.
    fn constant<'a>(
        &'a self,
        name: &Ident,
        named: &'a BTreeMap<String, Vec<Expr>>,
    ) -> Result<&'a Expr> {
        if let Some(own) = self.constants.iter().find(|constant| constant.ident == *name) {
            return Ok(&own.expr);
        }
        match named.get(&name.to_string()).map(Vec::as_slice) {
            Some([only]) => Ok(only),
            Some(several) => bail!("{} constants are named {name}", several.len()),
            None => bail!("no constant is named {name}"),
        }
    }
}

fn duration(function: &str, count: u64) -> Result<Duration> {
    Ok(match function {
        "from_millis" => Duration::from_millis(count),
        "from_secs" => Duration::from_secs(count),
        "from_mins" => Duration::from_mins(count),
        "from_hours" => Duration::from_hours(count),
        other => bail!("a duration by {other}"),
    })
}

struct Constants(Vec<ItemConst>);

impl<'ast> Visit<'ast> for Constants {
    fn visit_item_const(&mut self, constant: &'ast ItemConst) {
        self.0.push(constant.clone());
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.ident != "tests" {
            syn::visit::visit_item_mod(self, module);
        }
    }
}

/// The doc comment behind its mark, as one line; nothing for constants that are no limits.
fn meaning(attributes: &[Attribute]) -> Option<String> {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return None };
        let Expr::Lit(literal) = &pair.value else { return None };
        match &literal.lit {
            Lit::Str(text) if pair.path.is_ident("doc") => Some(text.value().trim().to_owned()),
            _ => None,
        }
    });
    let text = lines.collect::<Vec<_>>().join(" ");
    let meaning = text.strip_prefix(MARK)?.trim();
    let mut letters = meaning.chars();
    let first = letters.next()?;
    Some(first.to_uppercase().chain(letters).collect())
}

fn written(value: Value, name: &str) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match value {
        Value::Count(bytes) if name.contains("_BYTES") => {
            match UNITS.iter().find(|(unit, _)| bytes % unit == 0) {
                Some((unit, word)) => format!("{} {word}", bytes / unit),
                None => format!("{bytes} bytes"),
            }
        }
        Value::Count(count) => grouped(count),
        Value::Time(time) => span(time),
    }
}

/// `10000` as `10,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn span(time: Duration) -> String {
    const HOUR: u64 = 3600;
    const DAY: u64 = 24 * HOUR;
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        whole if whole > DAY && whole % DAY == 0 => format!("{} days", whole / DAY),
        whole if whole % HOUR == 0 => format!("{} h", whole / HOUR),
        other => format!("{other} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(text: &str) -> Result<Option<(String, String)>> {
        let folder = tempfile::tempdir()?;
        for name in CRATES {
            fs::create_dir_all(folder.path().join("crates").join(name).join("src"))?;
        }
        fs::write(folder.path().join("crates/model/src/a.rs"), text)?;
        Ok(all(folder.path())?.pop().map(|limit| (limit.value, limit.meaning)))
    }

    fn check(text: &str, value: &str, meaning: &str) {
        let expected = Some((value.to_owned(), meaning.to_owned()));
        assert_eq!(limit(text).expect("a table"), expected, "{text}");
    }

    #[test]
    fn a_limit_has_its_unit_and_its_sentence() {
        let bytes = "/// Limit: the body\n/// of one call.\nconst A_BYTES_MAX: usize = 16 << 20;";
        check(bytes, "16 MiB", "The body of one call.");
        check("/// Limit: calls.\npub const CALLS_MAX: usize = 2 * 5_000;", "10,000", "Calls.");
        check("/// Limit: a day.\nconst A: Duration = Duration::from_hours(24);", "24 h", "A day.");
        check(
            "/// Limit: days.\nconst A: Duration = Duration::from_hours(24 * 30);",
            "30 days",
            "Days.",
        );
        check(
            "/// Limit: soon.\nconst A: Duration = Duration::from_millis(100);",
            "100 ms",
            "Soon.",
        );
        check("const B: usize = 3;\n/// Limit: as B.\nconst A: usize = crate::x::B;", "3", "As B.");
    }

    #[test]
    fn what_is_no_limit_is_left_out_and_what_is_unknown_is_named() {
        assert_eq!(limit("/// So many.\nconst A_MAX: usize = 3;").expect("a table"), None);
        let within_tests = "mod tests {\n/// Limit: x.\nconst A: usize = 1;\n}";
        assert_eq!(limit(within_tests).expect("a table"), None);
        let error = limit("/// Limit: x.\nconst A: usize = f(B);").expect_err("B is unknown");
        assert!(format!("{error:#}").contains("no constant is named B"), "{error:#}");
    }
}
