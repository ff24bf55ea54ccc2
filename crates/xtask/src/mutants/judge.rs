//! Runs test binaries with one mutant on, until one of them goes red.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use super::schemata::SWITCH_VARIABLE;

/// A mutant that allocates without end must not take the machine down.
const MEMORY_KIB_MAX: u64 = 4 * 1024 * 1024;
/// A mutant may take so many times as long as the tests take without one, and a little more.
const SLOWER_MAX: u32 = 5;
const SLOWER_BY: Duration = Duration::from_secs(10);
/// The longest that a trial may take without a mutant.
const GREEN_MAX: Duration = Duration::from_mins(2);
/// Processor seconds decide, because the machine may be busy with something else. Time on the wall
/// only ends what waits for ever.
const WALL_PER_PROCESSOR: u32 = 6;
/// Fewer random cases than a test run by itself has: a survivor is to cost seconds.
const SMALLER: [(&str, &str); 3] =
    [("SESSION_SCHEDULES", "4000"), ("PROPTEST_CASES", "64"), ("RUST_BACKTRACE", "0")];

/// One program that goes red if it finds a mutant.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// `coordinator/it`.
    pub(crate) name: String,
    /// The crate whose tests these are; `sim` for the simulation.
    pub(crate) package: String,
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    /// Where cargo would start it.
    pub(crate) folder: PathBuf,
    /// How long it takes without a mutant.
    pub(crate) green: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Survived,
    FoundBy(String),
    TimeOut(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Green,
    Red,
    TimeOut,
}

/// The crates whose tests look at a crate, nearest first.
pub(crate) fn packages_that_test(package: &str) -> &'static [&'static str] {
    match package {
        "flow" => &["flow", "coordinator", "sim"],
        "coordinator" => &["coordinator", "shard", "sim"],
        "protocol" => &["protocol", "shard", "sim"],
        _ => &["shard", "sim"],
    }
}

/// The trials for a mutant of `package`: near ones first, and of those the quick ones.
pub(crate) fn ordered<'t>(trials: &'t [Trial], package: &str) -> Vec<&'t Trial> {
    let mut ordered = Vec::new();
    for near in packages_that_test(package) {
        let mut same: Vec<&Trial> = trials.iter().filter(|one| one.package == *near).collect();
        same.sort_by_key(|one| one.green);
        ordered.extend(same);
    }
    ordered
}

/// Every trial must be green without a mutant; notes how long each takes.
pub(crate) fn measure(trials: &mut [Trial]) -> Result<()> {
    for trial in trials {
        let began = Instant::now();
        let end = run(trial, 0, GREEN_MAX)?;
        trial.green = began.elapsed();
        println!("mutants: {} is green in {:.1} s", trial.name, trial.green.as_secs_f64());
        if end != End::Green {
            bail!("{} is not green without a mutant; run: {}", trial.name, trial.shown(0));
        }
    }
    Ok(())
}

/// Runs the trials in order; the first that is not green ends it.
pub(crate) fn judge(trials: &[&Trial], id: u32) -> Result<Outcome> {
    for trial in trials {
        match run(trial, id, trial.green * SLOWER_MAX + SLOWER_BY)? {
            End::Green => {}
            End::Red => return Ok(Outcome::FoundBy(trial.name.clone())),
            End::TimeOut => return Ok(Outcome::TimeOut(trial.name.clone())),
        }
    }
    Ok(Outcome::Survived)
}

impl Trial {
    /// The command as one would type it.
    pub(crate) fn shown(&self, id: u32) -> String {
        let variables = SMALLER.map(|(name, value)| format!("{name}={value}")).join(" ");
        let (folder, program) = (self.folder.display(), self.program.display());
        let arguments = self.arguments.join(" ");
        format!("cd {folder} && {SWITCH_VARIABLE}={id} {variables} {program} {arguments}")
    }

    fn command(&self, id: u32, processor: Duration) -> Command {
        let mut command = Command::new("sh");
        let limited = r#"ulimit -v "$1" && ulimit -t "$2" && shift 2 && exec "$@""#;
        command.args(["-c", limited, "sh", &MEMORY_KIB_MAX.to_string()]);
        command.arg((processor.as_secs() + 1).to_string());
        command.arg(&self.program).args(&self.arguments).current_dir(&self.folder);
        command.env(SWITCH_VARIABLE, id.to_string()).envs(SMALLER);
        // One mutant is one thread, so that `--jobs` says how busy the machine is.
        command.env("RUST_TEST_THREADS", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Tests that start programs are ended together with these.
        command.process_group(0);
        command
    }
}

fn run(trial: &Trial, id: u32, processor: Duration) -> Result<End> {
    let mut child = trial
        .command(id, processor)
        .spawn()
        .with_context(|| format!("cannot start {}", trial.name))?;
    let status = wait(&mut child, processor * WALL_PER_PROCESSOR)?;
    let used_up = [Signal::XCPU.as_raw(), Signal::KILL.as_raw()];
    Ok(match status {
        None => End::TimeOut,
        Some(status) if status.signal().is_some_and(|signal| used_up.contains(&signal)) => {
            End::TimeOut
        }
        Some(status) if status.success() => End::Green,
        Some(_) => End::Red,
    })
}

/// Waits for the end; ends the whole process group after `limit`. Time in which this program itself
/// was stopped does not count, since its children were then stopped as well.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    const LOOK_EVERY: Duration = Duration::from_millis(5);
    const STEP_MAX: Duration = Duration::from_millis(500);
    let (mut waited, mut looked) = (Duration::ZERO, Instant::now());
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for a test")? {
            return Ok(Some(status));
        }
        waited += looked.elapsed().min(STEP_MAX);
        looked = Instant::now();
        if waited > limit {
            // It may have ended this moment; then there is nobody to be ended.
            let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
            child.wait().context("cannot wait for a test")?;
            return Ok(None);
        }
        thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(package: &str, program: &str, arguments: &[&str]) -> Trial {
        Trial {
            name: format!("{package}/{program}"),
            package: package.to_owned(),
            program: program.into(),
            arguments: arguments.iter().map(|&word| word.to_owned()).collect(),
            folder: "/".into(),
            green: Duration::from_millis(1),
        }
    }

    #[test]
    fn a_program_is_green_or_red_or_takes_too_long() {
        let second = Duration::from_secs(1);
        assert_eq!(run(&trial("flow", "true", &[]), 1, second).unwrap(), End::Green);
        assert_eq!(run(&trial("flow", "false", &[]), 1, second).unwrap(), End::Red);
        let brief = Duration::from_millis(20);
        assert_eq!(run(&trial("flow", "sleep", &["9"]), 1, brief).unwrap(), End::TimeOut);
        let busy = trial("flow", "sh", &["-c", "while :; do :; done"]);
        assert_eq!(run(&busy, 1, brief).unwrap(), End::TimeOut);
    }

    #[test]
    fn the_program_reads_which_mutant_is_on() {
        let reads = trial("flow", "sh", &["-c", "test \"$ASTRA_MUTANT\" = 17"]);
        assert_eq!(judge(&[&reads], 17).unwrap(), Outcome::Survived);
        assert_eq!(judge(&[&reads], 18).unwrap(), Outcome::FoundBy("flow/sh".to_owned()));
    }

    #[test]
    fn the_tests_of_the_own_crate_come_first_and_the_simulation_last() {
        let mut trials =
            ["sim", "flow", "coordinator", "shard", "flow"].map(|name| trial(name, "true", &[]));
        trials[1].green = Duration::from_secs(2);
        trials[4].name = "flow/quick".to_owned();
        let names: Vec<&str> =
            ordered(&trials, "flow").iter().map(|trial| trial.name.as_str()).collect();
        assert_eq!(names, ["flow/quick", "flow/true", "coordinator/true", "sim/true"]);
    }
}
