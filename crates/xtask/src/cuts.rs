//! `cargo xtask cuts`: real workers, whose connections are broken.

use std::process::Command;

use anyhow::Result;

use crate::chaos::fresh_seed;
use crate::tools;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many tasks run.
    #[arg(long, default_value_t = 2_000)]
    pub(crate) tasks: u32,
    /// How many times something happens to a connection.
    #[arg(long, default_value_t = 200)]
    pub(crate) cuts: u32,
    /// How many times the server is killed.
    #[arg(long, default_value_t = 5)]
    pub(crate) kills: u32,
    /// Leave out the worker whose server hangs up, which takes 20 seconds.
    #[arg(long)]
    pub(crate) short: bool,
    /// Where the random choices start; without it a new one each time, which is printed.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let astra = tools::built("astra")?;
    let seed = options.seed.unwrap_or_else(fresh_seed);
    let Options { tasks, cuts, kills, .. } = options;
    println!("cuts: {tasks} tasks, {cuts} faults, {kills} kills of the server, seed {seed}");
    let mut command = Command::new(astra);
    command.args(["internal", "cuts", "--with-freeze"]);
    for (flag, value) in [("--tasks", tasks), ("--cuts", cuts), ("--with-server-kills", kills)] {
        command.arg(flag).arg(value.to_string());
    }
    command.arg("--seed").arg(seed.to_string());
    if !options.short {
        command.arg("--with-hang-ups");
    }
    tools::run(&mut command)
}
