//! The launcher: a process of one thread that binds itself and becomes a program.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fmt, ptr};

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_gid, set_thread_groups, set_thread_uid};
use serde::{Deserialize, Serialize};

use crate::sandbox::confine;
use crate::sandbox::profile::{Level, Limits};

/// The word by which a binary is asked to be a launcher.
pub const LAUNCH: &str = "__launch";
/// How a launcher ends that did not become its program.
pub(crate) const LAUNCH_FAILED: u8 = 125;
/// What a launcher says when it was only to try the bounds.
pub(super) const PROBE_ANSWER: &str = "within bounds\n";

/// Obeys if the words of the command line ask for a launcher; otherwise nothing happens. Has to be
/// called before anything else, while there is one thread. Comes back with an exit code only if
/// the program did not take over.
pub fn if_asked(mut words: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let is_asked = words.nth(1).is_some_and(|word| word == LAUNCH);
    is_asked.then(|| become_program(words))
}

fn become_program(mut words: impl Iterator<Item = OsString>) -> ExitCode {
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
            confine::confine_files(orders)?;
            confine::refuse_calls(orders.no_network)
        }
    }
}

/// A program with everything that it is given, ready to take over.
///
/// What the standard library offers looks for a program on the path and hands a file that the
/// kernel does not know to a shell. Neither may happen here, so the call is made directly.
pub(super) struct Program {
    file: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    /// The program in `file` with these arguments, its name first, and this process's environment.
    pub(super) fn new(file: &OsStr, arguments: impl Iterator<Item = OsString>) -> io::Result<Self> {
        let variables = std::env::vars_os().map(|(name, value)| {
            let mut pair = name.into_vec();
            pair.push(b'=');
            pair.extend(value.into_vec());
            CString::new(pair)
        });
        Ok(Self {
            file: CString::new(file.as_bytes())?,
            arguments: arguments
                .map(|argument| CString::new(argument.into_vec()))
                .collect::<Result<_, _>>()?,
            environment: variables.collect::<Result<_, _>>()?,
        })
    }

    /// Comes back only if the program did not take over.
    #[expect(unsafe_code, reason = "nothing safe starts exactly this file")]
    pub(super) fn take_over(self) -> io::Error {
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        // SAFETY: the default action of a signal runs no code of ours.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        // SAFETY: the file is a C string; both lists hold C strings that live as long as `self`,
        // and end with a null pointer.
        unsafe { libc::execve(self.file.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
        io::Error::last_os_error()
    }
}

/// What the kernel takes: pointers, and a null pointer at the end.
fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    let texts = texts.iter().map(CString::as_c_str).map(CStr::as_ptr);
    texts.chain([ptr::null()]).collect()
}

/// Everything that a launcher does before it becomes a program.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) level: Level,
    pub(super) limits: Limits,
    /// Whom it becomes.
    pub(super) user: Option<u32>,
    /// The program's own folder.
    pub(super) folder: PathBuf,
    pub(super) read_only: Vec<PathBuf>,
    pub(super) read_write: Vec<PathBuf>,
    pub(super) no_network: bool,
    /// Where it says what failed.
    pub(super) fault: PathBuf,
    /// Whether it only tries the bounds.
    pub(super) is_probe: bool,
}

/// Why a launcher did not become its program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fault {
    /// The bounds cannot be had.
    Bounds(String),
    /// The program did not take over; the system's number for why.
    Exec(i32),
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bounds(reason) => formatter.write_str(reason),
            Self::Exec(errno) => io::Error::from_raw_os_error(*errno).fmt(formatter),
        }
    }
}

impl Fault {
    pub(super) fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// Says it as well as it can: who started us sees our end in any case.
    pub(super) fn write(&self, file: &mut File) {
        let _ = file.write_all(&serde_json::to_vec(self).unwrap_or_default());
    }
}
