//! What `astra run` is told about a command.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use model::RunName;

use crate::commands::task::parse_tag;
use crate::duration::Span;

/// About the command and its run.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Run")]
pub(crate) struct RunFlags {
    /// The run's name: 1 to 64 letters, digits, `-` and `_`. Default: eight random letters. The
    /// same name with the same command is the same run, and is followed.
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<RunName>,
    /// Print the run's name and return; the command runs on.
    #[arg(short, long)]
    pub(super) detach: bool,
    /// Exit with the command's own code; 128 and the signal's number if a signal killed it.
    #[arg(long)]
    pub(super) propagate: bool,
    /// Write nothing but what the command writes.
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Stop the command if it takes longer.
    #[arg(long, value_name = "DURATION")]
    pub(super) timeout: Option<Span>,
    /// Try so often again if it fails, or if its worker is lost. Default: not if it fails, twice if
    /// its worker is lost.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=RETRIES_MAX))]
    pub(super) retries: Option<u32>,
    /// Set a variable of the command; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_variable)]
    pub(super) env: Vec<(String, String)>,
    /// The folder that it runs in, which must exist on the worker's machine. Default: this one.
    #[arg(long, value_name = "DIR")]
    pub(super) cwd: Option<PathBuf>,
    /// A file that the command reads; `-` for stdin.
    #[arg(long, value_name = "FILE|-")]
    pub(super) stdin: Option<String>,
    /// A tag that the worker must carry; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_tag)]
    pub(super) on: Vec<(String, String)>,
    /// A tool that the worker must have; may be given several times. The command itself is one.
    #[arg(long, value_name = "TOOL")]
    pub(super) needs_tool: Vec<String>,
    /// Also take workers that do not say that they have the command.
    #[arg(long)]
    pub(super) no_tool_check: bool,
    /// The queue to stand in. Default `default`.
    #[arg(long)]
    pub(super) queue: Option<String>,
    /// From -1000 to 1000, higher first.
    #[arg(long, allow_negative_numbers = true)]
    pub(super) priority: Option<i64>,
    /// Run it once for each file that matches, or for each line of stdin (`-`). `{}` becomes the
    /// item, `{name}` `{stem}` `{ext}` `{dir}` parts of its path, `{#}` its number.
    #[arg(long, value_name = "GLOB|-", conflicts_with = "array")]
    pub(super) each: Option<String>,
    /// Run it once for each number, like 1-100.
    #[arg(long, value_name = "FROM-TO")]
    pub(super) array: Option<Numbers>,
    /// At most so many at a time.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=PARALLEL_MAX))]
    pub(super) max_parallel: Option<u32>,
}

/// The server's limit of attempts, less the first.
const RETRIES_MAX: i64 = model::ATTEMPTS_MAX as i64 - 1;
/// More at a time than any fleet has slots.
const PARALLEL_MAX: i64 = 100_000;

fn parse_variable(text: &str) -> Result<(String, String), String> {
    parse_tag(text).map_err(|_| "not a variable like NAME=value".into())
}

/// Numbers from one to another, both included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbers(pub(super) RangeInclusive<u64>);

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ends = text.split_once('-').unwrap_or((text, text));
        match (ends.0.trim().parse(), ends.1.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self(first..=last)),
            _ => Err("not numbers like 1-100".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_a_range_or_one() {
        assert_eq!("1-100".parse(), Ok(Numbers(1..=100)));
        assert_eq!("7".parse(), Ok(Numbers(7..=7)));
        for wrong in ["", "-", "3-1", "a-b", "1-2-3", "-1"] {
            assert!(wrong.parse::<Numbers>().is_err(), "{wrong}");
        }
    }
}
