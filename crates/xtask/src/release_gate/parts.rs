//! The parts of the gate, in the order in which they run.

use crate::tools::Tool;

/// Seeds of the simulation, 100,000 in all; no seed is played twice.
const SIMULATIONS: u64 = 20;
const SIMULATION_SEEDS: u64 = 5_000;
/// Each planted mistake compiles the tree twice.
const PLANTED: u64 = 4;
/// The judging of mutants goes on from part to part; the last one must end it.
const MUTANTS: u64 = 3;
const MUTANTS_MINUTES: u64 = 55;
const CHAOS: u64 = 10;
const CHAOS_CYCLES: u64 = 100;
/// The commands of the last comparison in `bench/results/`, each with its figures as JSON.
const BENCHMARKS: [&str; 8] = [
    "--only throughput --tasks 200000",
    "--only latency --samples 1500",
    "--door ws --workers 2 --slots 256 --only throughput --tasks 120000",
    "--door ws --workers 2 --slots 256 --only latency --samples 1000",
    "--door resp --only throughput --tasks 200000",
    "--door resp --only latency --samples 1500",
    "--only flows --workers 2",
    "--only memory,restart,grants --queued 200000",
];

/// One row of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// The arguments of cargo, for each command.
    pub(crate) commands: Vec<Vec<String>>,
    pub(crate) shows: &'static str,
    pub(crate) needs: &'static [Tool],
    /// Whether a later part may end what this one began.
    pub(crate) may_continue: bool,
}

impl Part {
    pub(crate) fn new(name: &str, shows: &'static str, command: Vec<String>) -> Self {
        let commands = vec![command];
        Self { name: name.to_owned(), commands, shows, needs: &[], may_continue: false }
    }
}

pub(crate) fn all() -> Vec<Part> {
    let mut parts = vec![deny(), sbom()];
    parts.extend((1..=SIMULATIONS).map(simulation));
    parts.extend((1..=PLANTED).map(planted));
    parts.extend((1..=MUTANTS).map(mutants));
    parts.extend((1..=CHAOS).map(chaos));
    parts.push(benchmarks());
    parts
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn deny() -> Part {
    let shows = "no forbidden crate, licence or source is linked";
    let command = words("deny check bans licenses sources");
    Part { needs: &[Tool::CargoDeny], ..Part::new("deny", shows, command) }
}

fn sbom() -> Part {
    let shows = "the list of everything that astra links";
    let command = words("xtask sbom");
    Part { needs: &[Tool::CargoCycloneDx], ..Part::new("sbom", shows, command) }
}

fn simulation(number: u64) -> Part {
    let from = (number - 1) * SIMULATION_SEEDS + 1;
    let shows = "the promises hold under every fault, in 5,000 histories";
    let command = words(&format!("xtask sim --seeds {SIMULATION_SEEDS} --from {from}"));
    Part::new(&format!("sim-{number:02}"), shows, command)
}

fn planted(number: u64) -> Part {
    let shows = "each planted mistake is found";
    let command = words(&format!("xtask planted --part {number}/{PLANTED}"));
    Part::new(&format!("planted-{number}"), shows, command)
}

fn mutants(number: u64) -> Part {
    let shows = "how many mutants the tests find";
    let command = words(&format!("xtask mutants --minutes {MUTANTS_MINUTES}"));
    let part = Part::new(&format!("mutants-{number}"), shows, command);
    Part { may_continue: number < MUTANTS, ..part }
}

fn chaos(number: u64) -> Part {
    let shows = "killed processes lose nothing, 100 times";
    let command = words(&format!("xtask chaos --cycles {CHAOS_CYCLES} --seed {number}"));
    Part::new(&format!("chaos-{number:02}"), shows, command)
}

fn benchmarks() -> Part {
    let shows = "the figures to compare with bench/results";
    let command = |line| words(&format!("xtask bench {line}"));
    let commands = BENCHMARKS.map(command).into();
    Part { commands, ..Part::new("bench", shows, Vec::new()) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::tools;

    fn line_of(name: &str) -> String {
        let parts = all();
        let part = parts.into_iter().find(|part| part.name == name).unwrap();
        part.commands[0].join(" ")
    }

    #[test]
    fn no_two_parts_have_one_name_and_none_is_without_a_command() {
        let parts = all();
        let names: BTreeSet<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names.len(), parts.len());
        assert!(parts.iter().all(|part| part.commands.iter().all(|words| !words.is_empty())));
    }

    #[test]
    fn the_simulations_play_a_hundred_thousand_different_seeds() {
        assert_eq!(line_of("sim-01"), "xtask sim --seeds 5000 --from 1");
        assert_eq!(line_of("sim-20"), "xtask sim --seeds 5000 --from 95001");
        assert_eq!(SIMULATIONS * SIMULATION_SEEDS, 100_000);
    }

    #[test]
    fn only_the_last_part_of_the_mutants_must_end_them() {
        let parts = all();
        let may: Vec<&str> =
            parts.iter().filter(|part| part.may_continue).map(|part| part.name.as_str()).collect();
        assert_eq!(may, ["mutants-1", "mutants-2"]);
    }

    #[test]
    fn the_benchmarks_are_those_of_the_last_comparison() {
        let page = "bench/results/2026-11-18-tenant-as-a-machine.md";
        let text = fs::read_to_string(tools::repository_root().unwrap().join(page)).unwrap();
        let listed: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("astra bench tasks ")).collect();
        assert_eq!(listed, BENCHMARKS);
    }
}
