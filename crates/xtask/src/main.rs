//! Repository chores, as `cargo xtask <chore>`.
//!
//! Read `test.rs` first: it lists what continuous integration runs. Each chore has a file of its
//! own; `tools.rs` starts other programs and says what is missing.

mod copy;
mod generate;
mod harness;
mod mutants;
mod planted;
mod pytest;
mod release_gate;
mod rust_file;
mod sbom;
mod sim;
mod size;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Repository chores: checks, simulation, chaos, measurements"
)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run everything that continuous integration runs.
    Test(test::Options),
    /// Check the repository rules that the compiler does not check.
    Tidy(tidy::Options),
    /// Run the simulation; every flag goes to it as it is.
    #[command(disable_help_flag = true)]
    Sim(sim::Options),
    /// Check that each deliberate mistake is found by the test that must find it.
    Planted(planted::Options),
    /// Make small mistakes in the pure crates and count how many the tests find.
    Mutants(mutants::Options),
    /// Run what is run before a release, in parts; goes on where it was ended.
    ReleaseGate(release_gate::Options),
    /// Count the lines of the product, of its tests and of the tools.
    Size,
    /// Write the list of everything that `astra` links.
    Sbom,
    /// Write the files that are made from the code, or check that they are fresh.
    Generate(generate::Options),
    /// Kill real processes at random moments and look for loss; flags go to `harness chaos`.
    #[command(disable_help_flag = true)]
    Chaos(harness::Options),
    /// Break connections between real workers and a server, and look for loss and doubles; flags go
    /// to `harness faults`.
    #[command(disable_help_flag = true)]
    Faults(harness::Options),
    /// Measure this build on this machine; flags go to `harness bench`.
    #[command(disable_help_flag = true)]
    Bench(harness::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().chore {
        Chore::Test(options) => test::run(&options),
        Chore::Tidy(options) => tidy::run(&options),
        Chore::Sim(options) => sim::run(&options),
        Chore::Planted(options) => planted::run(&options),
        Chore::Mutants(options) => mutants::run(&options),
        Chore::ReleaseGate(options) => release_gate::run(&options),
        Chore::Size => size::run(),
        Chore::Sbom => sbom::run(),
        Chore::Generate(options) => generate::run(&options),
        Chore::Chaos(options) => options.run("chaos"),
        Chore::Faults(options) => options.run("faults"),
        Chore::Bench(options) => options.run("bench"),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<tools::OutOfTime>() => {
            println!("{error}");
            ExitCode::from(tools::OUT_OF_TIME)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
