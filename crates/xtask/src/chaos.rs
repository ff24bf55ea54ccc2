//! `cargo xtask chaos`: real processes, killed at random moments.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

use crate::tools;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many times something is killed.
    #[arg(long, default_value_t = 25)]
    pub(crate) cycles: u32,
    /// Where the random choices start; without it a new one each time, which is printed.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    // The binary itself and not `cargo run`: what is killed must be the server, not a wrapper.
    let astra = tools::built("astra")?;
    let seed = options.seed.unwrap_or_else(fresh_seed);
    println!("chaos: {} cycles, seed {seed}", options.cycles);
    let (cycles, seed) = (options.cycles.to_string(), seed.to_string());
    tools::run(
        Command::new(astra).args(["internal", "chaos", "--cycles", &cycles, "--seed", &seed]),
    )
}

/// Six digits are enough to differ from yesterday's run and short enough to type again.
pub(crate) fn fresh_seed() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(since_1970.subsec_micros())
}
