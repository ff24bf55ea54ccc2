//! A program and everything that it starts, as one process group that is signalled as a whole.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{self, SignalKind};

use crate::runner::watchdog::{Watchdog, Watched};

/// A running group. Dropping it kills the whole group.
#[derive(Debug)]
pub struct ProcessGroup {
    leader: Child,
    id: Pid,
    /// Says that some child of this process has ended.
    endings: unix::Signal,
    is_over: bool,
    _watched: Watched,
}

/// The ends of the pipes that a program talks through; `None` where there is no pipe.
#[derive(Debug)]
pub struct Pipes {
    /// What it reads.
    pub stdin: Option<ChildStdin>,
    /// What it says.
    pub stdout: Option<ChildStdout>,
    /// What it complains about.
    pub stderr: Option<ChildStderr>,
}

impl ProcessGroup {
    /// Starts `command` as the leader of a group of its own.
    pub fn spawn(mut command: Command, watchdog: &Arc<Watchdog>) -> io::Result<(Self, Pipes)> {
        // Before the start, so that no ending is missed.
        let endings = unix::signal(SignalKind::child())?;
        let mut leader = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let id = id.expect("a child that was not waited for has an id");
        let pipes = Pipes {
            stdin: leader.stdin.take(),
            stdout: leader.stdout.take(),
            stderr: leader.stderr.take(),
        };
        let watched = watchdog.watch(id);
        Ok((Self { leader, id, endings, is_over: false, _watched: watched }, pipes))
    }

    /// The number of the group, which is the leader's.
    pub fn id(&self) -> Pid {
        self.id
    }

    /// Waits for the end of the leader without collecting it: as long as nobody does, the kernel
    /// gives its number to no other process, and a signal to the group cannot hit a stranger.
    pub async fn exited(&mut self) {
        while !self.has_exited() {
            if self.endings.recv().await.is_none() {
                return;
            }
        }
    }

    fn has_exited(&self) -> bool {
        let looking = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error means that the leader was collected.
        waitid(WaitId::Pid(self.id), looking).map_or(true, |ended| ended.is_some())
    }

    /// Signals everyone in the group. A group that is gone needs no signal.
    pub fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.id, signal);
    }

    /// Kills what is left of the group and collects the leader.
    pub async fn finish(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        let status = self.leader.wait().await;
        self.is_over = true;
        status
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.is_over {
            self.signal(Signal::KILL);
        }
    }
}
