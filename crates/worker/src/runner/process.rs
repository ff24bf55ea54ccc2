//! A program and everything that it starts, as one process group that is signalled as a whole, and
//! that dies with this worker, however the worker dies.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{self, ExitStatus, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::signal::unix::{self, SignalKind};

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

const SHELL: &str = "/bin/sh";
/// A fixed text that only ever reads numbers; nothing that a task says comes near it.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
groups=
while read -r sign group; do
    others=
    for known in $groups; do
        [ "$known" = "$group" ] || others="$others $known"
    done
    groups=$others
    [ "$sign" = + ] && groups="$groups $group"
done
for group in $groups; do
    kill -s KILL -- "-$group"
done
"#;

/// Knows the groups that must not outlive this process.
///
/// A worker that ends by itself stops its programs. One that is killed by SIGKILL cannot, and the
/// kernel's own remedy (a death signal set between fork and exec) needs `unsafe`, reaches only the
/// leader of a group and fires when a mere thread ends. So a small process sits at the other end
/// of a pipe. The worker tells it which groups are alive; when the pipe closes, the worker is
/// gone, and it kills them. A program that was started in the last instant before, or that left
/// its group by `setsid`, can survive; its lease has an end all the same.
#[derive(Debug, Default)]
pub struct Watchdog {
    watch: Mutex<Watch>,
}

#[derive(Debug, Default)]
struct Watch {
    guard: Option<Guard>,
    groups: BTreeSet<i32>,
    has_complained: bool,
}

/// A group that dies with this process, until this is dropped.
#[derive(Debug)]
pub struct Watched {
    watchdog: Arc<Watchdog>,
    group: i32,
}

impl Watchdog {
    /// From here on the group dies with this process. Starts the guard with the first group.
    pub fn watch(self: &Arc<Self>, group: Pid) -> Watched {
        let group = group.as_raw_pid();
        let mut watch = self.watch.lock();
        watch.groups.insert(group);
        watch.tell('+', group);
        Watched { watchdog: Arc::clone(self), group }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watch = self.watchdog.watch.lock();
        watch.groups.remove(&self.group);
        watch.tell('-', self.group);
    }
}

impl Watch {
    /// A guard that does not listen is replaced by one that is told everything.
    fn tell(&mut self, sign: char, group: i32) {
        let is_told = self.guard.as_mut().is_some_and(|guard| guard.tell(sign, group).is_ok());
        if is_told {
            return;
        }
        self.guard = None;
        if self.groups.is_empty() {
            return;
        }
        match Guard::start(&self.groups) {
            Ok(guard) => self.guard = Some(guard),
            Err(error) if !self.has_complained => {
                self.has_complained = true;
                tracing::warn!(%error, "programs may outlive this worker if it is killed");
            }
            Err(_) => {}
        }
    }
}

#[derive(Debug)]
struct Guard {
    process: process::Child,
    input: process::ChildStdin,
}

impl Guard {
    fn start(groups: &BTreeSet<i32>) -> io::Result<Self> {
        let mut process = process::Command::new(SHELL)
            .args(["-c", SCRIPT])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals that are meant for the worker's group must not end its guard.
            .process_group(0)
            .spawn()?;
        let input = process.stdin.take().expect("stdin was piped");
        let mut guard = Self { process, input };
        // A guard that does not read must not make the worker wait.
        let flags = fcntl_getfl(&guard.input)?;
        fcntl_setfl(&guard.input, flags | OFlags::NONBLOCK)?;
        for group in groups {
            guard.tell('+', *group)?;
        }
        Ok(guard)
    }

    fn tell(&mut self, sign: char, group: i32) -> io::Result<()> {
        self.input.write_all(format!("{sign} {group}\n").as_bytes())
    }
}

impl Drop for Guard {
    /// Ends the guard before the pipe closes: to it, a closed pipe is a dead worker.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Duration;

    use super::*;
    use crate::waiting::wait_until;

    #[test]
    fn a_guard_lives_from_the_first_group_on_and_is_replaced_when_it_dies() {
        let watchdog = Arc::new(Watchdog::default());
        assert!(guard_of(&watchdog).is_none());
        let mut first = sleeper();
        let watched = watchdog.watch(Pid::from_child(&first));
        let guard = guard_of(&watchdog).expect("started");
        kill_guard(&watchdog);
        let mut second = sleeper();
        let also_watched = watchdog.watch(Pid::from_child(&second));
        assert_ne!(guard_of(&watchdog), Some(guard));
        drop((watched, also_watched));
        drop(watchdog);
        for child in [&mut first, &mut second] {
            assert!(child.try_wait().expect("ours").is_none(), "an orderly end kills nobody");
            child.kill().expect("ours");
            child.wait().expect("ours");
        }
    }

    #[tokio::test]
    async fn when_the_pipe_closes_the_groups_that_are_left_die() {
        let (mut kept, mut forgotten) = (sleeper(), sleeper());
        let ids = [&kept, &forgotten].map(|child| Pid::from_child(child).as_raw_pid());
        let mut guard = Guard::start(&BTreeSet::from(ids)).expect("starts");
        guard.tell('-', ids[1]).expect("told");
        hang_up(guard);
        check_ends(&mut kept).await;
        assert!(forgotten.try_wait().expect("ours").is_none());
        forgotten.kill().expect("ours");
        forgotten.wait().expect("ours");
    }

    async fn check_ends(child: &mut Child) {
        let ended = async || child.try_wait().expect("ours").ok_or("it runs");
        wait_until("the end of a process", Duration::from_secs(5), ended).await;
    }

    /// Closes the pipe and leaves the guard alone, as the death of this process would.
    fn hang_up(mut guard: Guard) {
        let mut other = Command::new("true").stdin(Stdio::piped()).spawn().expect("spawns");
        let unused = other.stdin.take().expect("piped");
        drop(std::mem::replace(&mut guard.input, unused));
        other.wait().expect("ours");
        guard.process.wait().expect("the guard ends by itself");
    }

    fn guard_of(watchdog: &Watchdog) -> Option<u32> {
        watchdog.watch.lock().guard.as_ref().map(|guard| guard.process.id())
    }

    fn kill_guard(watchdog: &Watchdog) {
        let mut watch = watchdog.watch.lock();
        let guard = watch.guard.as_mut().expect("started");
        guard.process.kill().expect("ours");
        guard.process.wait().expect("ours");
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("100").process_group(0).spawn().expect("spawns")
    }
}
