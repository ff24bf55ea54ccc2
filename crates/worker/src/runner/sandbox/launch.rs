//! The launcher: a process of one thread that binds itself and becomes a program.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::process::ExitCode;

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};

use super::exec::Program;
use super::orders::{Fault, Orders};
use super::profile::Level;
use super::{calls, files};

/// The word by which a binary is asked to be a launcher.
pub const LAUNCH: &str = "__launch";
/// How a launcher ends that did not become its program.
pub(in crate::runner) const LAUNCH_FAILED: u8 = 125;
/// What a launcher says when it was only to try the bounds.
pub(super) const PROBE_ANSWER: &str = "within bounds\n";

/// Obeys if the words of the command line ask for a launcher; otherwise nothing happens. Has to be
/// called before anything else, while there is one thread. Comes back with an exit code only if
/// the program did not take over.
pub fn if_asked(mut words: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let is_asked = words.nth(1).is_some_and(|word| word == LAUNCH);
    is_asked.then(|| obey(words))
}

fn obey(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let failed = ExitCode::from(LAUNCH_FAILED);
    let orders = words.next().and_then(|orders| orders.into_string().ok());
    let orders = orders.and_then(|orders| serde_json::from_str::<Orders>(&orders).ok());
    let Some(orders) = orders else { return failed };
    // Opened before the bounds are set, and closed by the kernel when the program takes over.
    let Ok(mut fault) = File::create(&orders.fault) else { return failed };
    match launch(&orders, words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            why.write(&mut fault);
            failed
        }
    }
}

/// Ends well for a probe only.
fn launch(orders: &Orders, mut words: impl Iterator<Item = OsString>) -> Result<(), Fault> {
    let bounds = |error: io::Error| Fault::Bounds(error.to_string());
    let program = Program::new(&words.next().unwrap_or_default(), words).map_err(bounds)?;
    bind(orders).map_err(Fault::Bounds)?;
    if let Some(user) = orders.user {
        become_user(user).map_err(|error| bounds(error.into()))?;
    }
    if orders.is_probe {
        return io::stdout().write_all(PROBE_ANSWER.as_bytes()).map_err(bounds);
    }
    orders.limits.set_memory().map_err(bounds)?;
    Err(Fault::Exec(program.take_over().raw_os_error().unwrap_or_default()))
}

/// This process has one thread, so the whole of it changes.
fn become_user(user: u32) -> rustix::io::Result<()> {
    set_thread_groups(&[])?;
    set_thread_gid(Gid::from_raw(user))?;
    set_thread_uid(Uid::from_raw(user))
}

fn bind(orders: &Orders) -> Result<(), String> {
    orders.limits.set().map_err(|error| format!("limits cannot be set: {error}"))?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| format!("rights cannot be given up: {error}"))?;
    match orders.level {
        Level::Off | Level::Basic => Ok(()),
        Level::Strict => {
            files::confine(orders)?;
            calls::refuse(orders.no_network)
        }
    }
}
