//! Puts fields of a job's input into arguments: `{{input.field}}`.
//!
//! What is put in is text of one argument and stays that: it never becomes a second argument, is
//! never looked at again, and no shell sees it. It could still become an option, though, where an
//! argument begins with the placeholder: `{{input.file}}` with `--output=/etc/passwd`. So an
//! argument that would begin with `-` only because of what was put in is refused. A plan that
//! means it says so: by a `-` of its own (`--level={{input.level}}`), or by an argument `--`
//! before, which ends the options for most programs.

use serde_json::Value;

/// What begins a placeholder.
pub const PLACEHOLDER: &str = "{{input.";
const PLACEHOLDER_END: &str = "}}";
/// The longest argument after fields were put in; the kernel takes twice as much.
pub const FILLED_BYTES_MAX: usize = 65_536;

/// A field that cannot be put in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("args[{argument}]: {fault}")]
pub struct FillError {
    /// Which argument, from 0.
    pub argument: usize,
    /// Why.
    pub fault: FillFault,
}

/// Why a field cannot be put in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillFault {
    /// The input does not have it.
    #[error("the input has no field {0}")]
    Missing(String),
    /// An object or a list.
    #[error(
        "the field {field} of the input is {kind}; only text, a number, true, false and null can \
         stand in an argument"
    )]
    NotPlain {
        /// The field.
        field: String,
        /// What it is.
        kind: &'static str,
    },
    /// It would be an option.
    #[error(
        "the input would make it begin with -, and a program would take it for an option; put an \
         argument -- before it if that is meant"
    )]
    Option,
    /// No program can be given a NUL.
    #[error("the input would put a NUL into it, which no program can be given")]
    Nul,
    /// It became too long.
    #[error("with the input it has {0} bytes; at most {FILLED_BYTES_MAX}")]
    Length(usize),
}

/// The arguments with the input's fields in place of the placeholders. `{{input.a.b}}` is the
/// field `b` of the object `a`, or the entry of a list if `b` is a number. Other braces stay.
pub fn substitute(args: &[String], input: &Value) -> Result<Vec<String>, FillError> {
    let mut are_options_over = false;
    let mut filled = Vec::with_capacity(args.len());
    for (argument, template) in args.iter().enumerate() {
        let text = fill(template, input).and_then(|text| check(text, template, are_options_over));
        filled.push(text.map_err(|fault| FillError { argument, fault })?);
        are_options_over |= template == "--";
    }
    Ok(filled)
}

fn check(text: String, template: &str, are_options_over: bool) -> Result<String, FillFault> {
    let is_injected = text.starts_with('-') && !template.starts_with('-');
    match text.len() {
        _ if is_injected && !are_options_over => Err(FillFault::Option),
        _ if text.contains('\0') => Err(FillFault::Nul),
        n_bytes if n_bytes > FILLED_BYTES_MAX => Err(FillFault::Length(n_bytes)),
        _ => Ok(text),
    }
}

fn fill(template: &str, input: &Value) -> Result<String, FillFault> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, field, after)) = next_placeholder(rest) {
        filled.push_str(before);
        filled.push_str(&text_of(input, field)?);
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// What stands before the next placeholder, its field, and what follows.
fn next_placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once(PLACEHOLDER)?;
    let (field, after) = rest.split_once(PLACEHOLDER_END)?;
    Some((before, field.trim(), after))
}

fn text_of(input: &Value, field: &str) -> Result<String, FillFault> {
    let missing = || FillFault::Missing(field.to_owned());
    let value = field.split('.').try_fold(input, step).ok_or_else(missing)?;
    let kind = match value {
        Value::String(text) => return Ok(text.clone()),
        Value::Number(_) | Value::Bool(_) | Value::Null => return Ok(value.to_string()),
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    Err(FillFault::NotPlain { field: field.to_owned(), kind })
}

fn step<'a>(value: &'a Value, part: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(part),
        Value::Array(entries) => entries.get(part.parse::<usize>().ok()?),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_put_in_as_text() {
        let input = json!({"s": "a b", "n": -1.5, "t": true, "z": null, "o": {"l": ["x", {"d": 7}]},
            "b": "{{input.s}}"});
        check("<{{input.s}}>", &input, "<a b>");
        check("x{{input.n}}{{input.t}}{{input.z}}", &input, "x-1.5truenull");
        check("{{input.o.l.0}}{{input.o.l.1.d}}{{ input.s }}", &input, "x7{{ input.s }}");
        check("{{input.s }}", &input, "a b");
        check("{{input.b}}", &input, "{{input.s}}");
        for other in ["{{.Name}}", "{{input}}", "{{input.s", "}}{{", "", "{input.s}"] {
            check(other, &input, other);
        }
    }

    #[test]
    fn what_cannot_be_put_in_is_said_in_a_sentence() {
        let input = json!({"l": [1], "o": {}, "s": "x", "nul": "\0", "long": "x".repeat(65_537)});
        check_refused("{{input.nothing}}", &input, "args[1]: the input has no field nothing");
        check_refused("{{input.s.deeper}}", &input, "has no field s.deeper");
        check_refused("{{input.l.1}}", &input, "has no field l.1");
        check_refused("{{input.}}", &input, "has no field ");
        check_refused("{{input.x}}", &Value::Null, "has no field x");
        check_refused("{{input.l}}", &input, "the field l of the input is a list; only text");
        check_refused("{{input.o}}", &input, "is an object; only text");
        check_refused("{{input.nul}}", &input, "a NUL");
        check_refused("{{input.long}}", &input, "it has 65537 bytes");
    }

    /// What the input says is text, whatever it looks like, and never an option.
    #[test]
    fn what_was_put_in_is_never_an_option_by_itself() {
        let input = json!({"x": "-oProxyCommand=id", "n": -1, "e": "", "f": "; rm -rf /"});
        for template in ["{{input.x}}", "{{input.x}}.txt", "{{input.e}}{{input.x}}", "{{input.n}}"]
        {
            check_refused(template, &input, "args[1]: the input would make it begin with -");
        }
        check("--opt={{input.x}}", &input, "--opt=-oProxyCommand=id");
        check("./{{input.x}}", &input, "./-oProxyCommand=id");
        check("{{input.f}}", &input, "; rm -rf /");
        let args = ["{{input.f}}", "--", "{{input.x}}"].map(String::from);
        let filled = substitute(&args, &input).expect("the plan says that options are over");
        assert_eq!(filled, ["; rm -rf /", "--", "-oProxyCommand=id"]);
        // Only the plan can say so.
        let args = ["{{input.d}}", "{{input.x}}"].map(String::from);
        substitute(&args, &json!({"d": "--", "x": "-x"})).expect_err("an input cannot");
    }

    fn check(template: &str, input: &Value, expected: &str) {
        let args = ["first".to_owned(), template.to_owned()];
        assert_eq!(substitute(&args, input).expect(template), ["first", expected]);
    }

    fn check_refused(template: &str, input: &Value, expected: &str) {
        let args = ["first".to_owned(), template.to_owned()];
        let error = substitute(&args, input).expect_err(template).to_string();
        assert!(error.contains(expected), "{template}: {error}");
    }
}
