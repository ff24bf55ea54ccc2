//! What people and programs see: data on stdout, everything else on stderr.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write};

use anstyle::AnsiColor;
use clap::ValueEnum;
use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use protocol::rest::problem::{Problem, ProblemDetail};
use serde::Serialize;

use crate::failure::{self, Failure, Result};

/// How data is written.
///
/// Plain comments on the variants: clap would list documented ones over half a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // For people; may change.
    #[default]
    Text,
    // One JSON value.
    Json,
    // One JSON value per line.
    Jsonl,
    // Ids and words alone.
    Quiet,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    // On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    // Always.
    Always,
    // Never.
    Never,
}

/// Something that a command answers with.
pub(crate) trait Show: Serialize {
    /// For people.
    fn text(&self) -> String;

    /// The least that is useful: ids, or one word.
    fn quiet(&self) -> String;

    /// The lines of `-o jsonl`.
    fn json_lines(&self) -> String {
        json(self)
    }
}

/// How a list is shown.
pub(crate) struct Columns<'a, T, const N: usize> {
    /// What people read where there is no item.
    pub(crate) none: &'a str,
    pub(crate) id: fn(&T) -> String,
    pub(crate) header: [&'a str; N],
    pub(crate) row: fn(&T) -> [String; N],
}

/// Writes what a command has to say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    format: Format,
}

impl Output {
    pub(crate) fn new(format: Format, color: Color) -> Self {
        match color {
            Color::Auto => {}
            Color::Always => anstream::ColorChoice::Always.write_global(),
            Color::Never => anstream::ColorChoice::Never.write_global(),
        }
        Self { format }
    }

    pub(crate) fn format(self) -> Format {
        self.format
    }

    pub(crate) fn is_for_people(self) -> bool {
        self.format == Format::Text
    }

    pub(crate) fn show(self, value: &impl Show) {
        let text = match self.format {
            Format::Text => value.text(),
            Format::Json => pretty(value),
            Format::Jsonl => value.json_lines(),
            Format::Quiet => value.quiet(),
        };
        self.line(text.trim_end());
    }

    /// Answers with one value: for people with `text`, and as the least that is useful with `id`.
    pub(crate) fn answer(self, value: &impl Serialize, text: impl Display, id: impl Display) {
        let text = match self.format {
            Format::Text => text.to_string(),
            Format::Json => pretty(value),
            Format::Jsonl => json(value),
            Format::Quiet => id.to_string(),
        };
        self.line(text.trim_end());
    }

    /// Answers with the items of `whole`.
    pub(crate) fn list<T: Serialize, const N: usize>(
        self,
        whole: &impl Serialize,
        items: &[T],
        columns: &Columns<'_, T, N>,
    ) {
        self.line(&match self.format {
            Format::Text if items.is_empty() => columns.none.to_owned(),
            Format::Text => table(columns.header, items.iter().map(columns.row)),
            Format::Json => pretty(whole),
            Format::Jsonl => lines(items.iter().map(json)),
            Format::Quiet => lines(items.iter().map(columns.id)),
        });
    }

    /// A line of data.
    pub(crate) fn line(self, text: &str) {
        if !text.is_empty() || self.is_for_people() {
            // A reader that went away (`| head`) needs no message.
            let _ = writeln!(anstream::stdout(), "{text}");
        }
    }

    /// A remark for whoever watches. Programs that read our data do not want it.
    pub(crate) fn note(self, text: impl Display) {
        if self.is_for_people() {
            let _ = writeln!(anstream::stderr(), "{text}");
        }
    }

    /// Asks a person; where nobody is there to be asked, that is the failure.
    pub(crate) fn confirm(self, question: &str, nobody: Failure) -> Result<bool> {
        if !self.is_for_people() || !io::stdin().is_terminal() {
            return Err(nobody);
        }
        let mut stderr = anstream::stderr();
        let _ = write!(stderr, "{question} [y/N] ").and_then(|()| stderr.flush());
        let mut answer = String::new();
        let is_read = io::stdin().read_line(&mut answer).is_ok();
        Ok(is_read && ["y", "yes"].contains(&&*answer.trim().to_lowercase()))
    }

    /// The command's last word when it failed. In JSON it is the command's one value.
    pub(crate) fn failure(self, failure: &Failure) {
        match self.format {
            Format::Text | Format::Quiet => failure_in_words(failure),
            Format::Json => self.line(&pretty(&problem(failure))),
            Format::Jsonl => self.line(&json(&problem(failure))),
        }
    }
}

/// Something that is worth knowing whatever the format.
pub(crate) fn warn(text: impl Display) {
    let style = AnsiColor::Yellow.on_default().bold();
    let _ = writeln!(anstream::stderr(), "{style}warning:{style:#} {text}");
}

fn failure_in_words(failure: &Failure) {
    let mut stderr = anstream::stderr().lock();
    let (red, blue) = (AnsiColor::Red.on_default().bold(), AnsiColor::Cyan.on_default().bold());
    let _ = writeln!(stderr, "{red}error:{red:#} {}", failure.message);
    for problem in &failure.problems {
        let _ = writeln!(stderr, "{}", failure::problem_line(problem, None));
    }
    if !failure.hint.is_empty() {
        let _ = writeln!(stderr, "{blue}hint:{blue:#} {}", failure.hint);
    }
}

fn problem(failure: &Failure) -> Problem {
    Problem {
        error: ProblemDetail {
            code: failure.code.clone(),
            message: failure.message.clone(),
            hint: failure.hint.clone(),
            problems: failure.problems.clone(),
        },
    }
}

pub(crate) fn json(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).expect("answers are plain data")
}

pub(crate) fn pretty(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string_pretty(value).expect("answers are plain data")
}

pub(crate) fn lines(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("\n")
}

/// Columns without lines around them.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}

/// A table of names and numbers.
pub(crate) fn facts(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = rows.iter().map(|(name, value)| format!("  {name:<width$}  {value}\n"));
    lines.collect()
}

/// Whether somebody watches stderr live.
pub(crate) fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// A bar on stderr; a hidden one where nobody watches.
pub(crate) fn progress_bar(is_wanted: bool, length: Option<u64>, template: &str) -> ProgressBar {
    let target =
        if is_wanted { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template(template).expect("a template that parses");
    let bar = ProgressBar::with_draw_target(length, target).with_finish(ProgressFinish::AndLeave);
    bar.with_style(style.progress_chars("█▓░"))
}
