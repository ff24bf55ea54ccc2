//! The deeds of a story.
//!
//! ```text
//! submit a key=.. prio=.. ttl=.. timeout=.. attempts=.. backoff=.. backoff_max=.. after=.. behind=b,c
//!          needs=tool:x,tag:k=v,package:n@v type=.. queue=.. ckey=.. pin=w1:30s prefer=w1
//!          stick=k:30s like=k + b ...
//! w1 takes 2 waits 10s confirm=5s slots=3 grace=2s offers tool:x,tag:k=v types=.. queues=.. limit=type:n
//! w1 beats | w1 beats L1,L2 | w1 beats and counts 2
//!             w1 goes away        returned L1,L2
//! w1 completes L1,L2 with X as ID       w1 fails L1 fatal as ID
//! w1 gives back L1,L2                   w1 registers slow offers tool:x ... | w1 unregisters
//! w1 starts over                        drain w1 pressure | undrain w1 leaving
//! drain w1 by ada until 60s | undrain w1
//! w1 says slow offers tool:x ...        w1 shows jq 1.7
//! pause q by ada | resume q
//! peek queues=a,b types=x skip=1 limit=2
//! stop a | requeue a | watch a 10s | unwatch | explain a | workers | queues
//! restart | time passes                 dice 7
//! loads wait | load arrives | loads arrive | loads fail
//! ticks wait | ticks come
//! ```
//!
//! A lease is `L1`, in the order of grants, or `a#7`, whether it was granted or not. A task is
//! its name, `nobody` (never submitted) or `foreign:a` (the same number of another tenant).

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{Command, Drain, DrainCause, Pause, Question as Asked, Renewal, SilenceLimits};
use model::{
    Failure, LeaseId, NewTask, Report, ReportKey, ReportedOutcome, ShardId, TaskId, WorkerId,
};

use super::texts::{digest, duration, moment, names, new_task, offer, plain_request};
use super::{Question, World, shard};

impl World {
    pub(crate) fn play(&mut self, deed: &str) {
        let words: Vec<&str> = deed.split_whitespace().collect();
        match words.as_slice() {
            ["submit", ..] => self.submit(deed.strip_prefix("submit").expect("just matched")),
            ["stop", name] => {
                let task = self.task(name);
                self.ask(about(deed), |ticket| Command::Ask(ticket, Asked::Stop { task }));
            }
            ["requeue", name] => {
                let task = self.task(name);
                self.ask(about(deed), |ticket| Command::Ask(ticket, Asked::Requeue { task }));
            }
            ["explain", name] => {
                let task = self.task(name);
                self.ask(about(deed), |ticket| Command::Ask(ticket, Asked::Explain { task }));
            }
            ["watch", name, time] => {
                let (task, until) = (self.task(name), moment(time));
                self.ask(about(deed), |ticket| Command::Ask(ticket, Asked::Watch { task, until }));
            }
            ["workers"] => self.ask(about(deed), |ticket| Command::Ask(ticket, Asked::ListWorkers)),
            ["peek", options @ ..] => self.peek(deed, options),
            ["queues"] => self.ask(about(deed), |ticket| Command::Ask(ticket, Asked::ListQueues)),
            ["returned", leases] => {
                let leases = self.leases(leases);
                self.order(Command::ReturnLeases { leases });
            }
            [worker, "takes", options @ ..] => self.take(worker, options),
            [worker, "beats", "and", "counts", count] => self.beat(worker, &[], count),
            [worker, "beats", leases @ ..] => self.beat(worker, leases, "0"),
            [worker, "completes" | "fails", ..] => self.report(worker, &words[1..]),
            [worker, "gives", "back", leases] => {
                let (worker, leases) = (worker.parse().expect("a worker"), self.leases(leases));
                self.order(Command::GiveBack { worker, leases });
            }
            [worker, "starts", "over"] => {
                let worker = worker.parse().expect("a worker");
                self.order(Command::LoseWorker { worker });
            }
            [worker, "goes", "away"] => self.withdraw(Some(worker)),
            ["unwatch"] => self.withdraw(None),
            _ => self.play_setting(deed, &words),
        }
    }

    /// What people and workers say about queues and workers.
    fn play_setting(&mut self, deed: &str, words: &[&str]) {
        match words {
            [worker, how @ ("registers" | "says"), silence_limits, "offers", words @ ..] => {
                let (worker, offer) = (worker.parse().expect("a worker"), Arc::new(offer(words)));
                let (silence_limits, anew) =
                    (silence_limits_named(silence_limits), *how == "registers");
                self.ask(about(deed), |ticket| {
                    Command::Ask(ticket, Asked::Register { worker, offer, silence_limits, anew })
                });
            }
            [worker, "shows", tool, output] => {
                let (worker, output) = (worker.parse().expect("a worker"), (*output).to_owned());
                let tool = tool.parse().expect("a tool");
                let note =
                    |ticket| Command::Ask(ticket, Asked::NoteVerified { worker, tool, output });
                self.ask(about(deed), note);
            }
            [worker, "unregisters"] => {
                let worker = worker.parse().expect("a worker");
                self.ask(about(deed), |ticket| Command::Ask(ticket, Asked::Unregister { worker }));
            }
            ["pause", queue, "by", by] => {
                let (queue, by) = (queue.parse().expect("a queue"), (*by).to_owned());
                let pause = Some(Pause { by, at: self.now });
                self.ask(about(deed), |ticket| {
                    Command::Ask(ticket, Asked::SetPause { queue, pause })
                });
            }
            ["resume", queue] => {
                let (queue, pause) = (queue.parse().expect("a queue"), None);
                self.ask(about(deed), |ticket| {
                    Command::Ask(ticket, Asked::SetPause { queue, pause })
                });
            }
            ["drain", worker, "by", by, until @ ..] => {
                let worker = worker.parse().expect("a worker");
                let gone_by = until.get(1).map(|time| moment(time));
                let drain = Drain { by: (*by).to_owned(), at: self.now, gone_by, reason: None };
                self.ask(about(deed), |ticket| {
                    Command::Ask(ticket, Asked::Drain { worker, drain: Some(drain) })
                });
            }
            ["undrain", worker] => {
                let (worker, drain) = (worker.parse().expect("a worker"), None);
                self.ask(about(deed), |ticket| {
                    Command::Ask(ticket, Asked::Drain { worker, drain })
                });
            }
            ["drain" | "undrain", worker, cause] => {
                let worker = worker.parse().expect("a worker");
                let (cause, on) = (drain_cause(cause), words[0] == "drain");
                self.ask(about(deed), |ticket| {
                    Command::Ask(ticket, Asked::SetDrain { worker, cause, on })
                });
            }
            _ => self.play_fate(words),
        }
    }

    /// What neither people nor workers do.
    fn play_fate(&mut self, words: &[&str]) {
        match words {
            ["restart"] => self.restart(),
            ["time", "passes"] => {}
            ["dice", number] => self.entropy = number.parse().expect("a number"),
            ["loads", "wait"] => self.slow_loads = Some(Vec::new()),
            ["load", "arrives"] => self.first_load_arrives(),
            ["loads", "arrive"] => self.end_loads(|load, found| Command::Loaded { load, found }),
            ["loads", "fail"] => self.end_loads(|load, _| Command::LoadFailed { load }),
            ["ticks", "wait"] => self.ticks = false,
            ["ticks", "come"] => {
                self.ticks = true;
                self.tick();
            }
            _ => panic!("no such deed: {}", words.join(" ")),
        }
    }

    fn submit(&mut self, text: &str) {
        let (mut names, mut tasks): (Vec<String>, Vec<NewTask>) = (Vec::new(), Vec::new());
        for text in text.split(" + ").map(str::trim) {
            let (name, mut task) = new_task(text);
            let behind = text.split_whitespace().find_map(|word| word.strip_prefix("behind="));
            let others = || behind.iter().flat_map(|behind| behind.split(','));
            // A task runs behind tasks that exist.
            if others().any(|other| names.iter().any(|name| name == other)) {
                let (names, tasks) = (std::mem::take(&mut names), std::mem::take(&mut tasks));
                self.ask(Question::Submit { names }, |ticket| {
                    Command::Ask(ticket, Asked::Submit { tasks })
                });
            }
            task.after = others().map(|other| self.task(other)).collect();
            names.push(name);
            tasks.push(task);
        }
        self.ask(Question::Submit { names }, |ticket| {
            Command::Ask(ticket, Asked::Submit { tasks })
        });
    }

    fn peek(&mut self, deed: &str, options: &[&str]) {
        let (mut queues, mut types, mut skip, mut limit) = (Vec::new(), None, 0, 100);
        for option in options {
            match option.split_once('=').expect("queues=, types=, skip= or limit=") {
                ("queues", text) => queues = names(text).into_iter().collect(),
                ("types", text) => types = Some(names(text)),
                ("skip", text) => skip = text.parse().expect("how many"),
                ("limit", text) => limit = text.parse().expect("how many"),
                (other, _) => panic!("no such option: {other}"),
            }
        }
        self.ask(about(deed), |ticket| {
            Command::Ask(ticket, Asked::Peek { queues, types, skip, limit })
        });
    }

    fn take(&mut self, worker: &str, options: &[&str]) {
        let worker: WorkerId = worker.parse().expect("a worker");
        let mut request = plain_request(worker.clone(), self.now);
        request.max = options[0].parse().expect("how many");
        let mut options = &options[1..];
        while let Some((option, rest)) = options.split_first() {
            options = rest;
            if *option == "waits" {
                request.wait_until = self.now.after(duration(rest[0]));
                options = &rest[1..];
            } else if let Some(slots) = option.strip_prefix("slots=") {
                request.slots = Some(slots.parse().expect("how many"));
            } else if let Some(grace) = option.strip_prefix("grace=") {
                request.timeout_grace = duration(grace);
            } else if *option == "offers" {
                request.offer = Arc::new(offer(rest));
                options = &[];
            } else {
                let within = option.strip_prefix("confirm=").expect("waits, offers or confirm=");
                request.confirm_within = Some(duration(within));
            }
        }
        self.ask(Question::Take { worker }, |ticket| {
            Command::Ask(ticket, Asked::RequestLeases { request })
        });
    }

    fn beat(&mut self, worker: &str, leases: &[&str], count: &str) {
        let n_active = count.parse().expect("a number");
        let worker: WorkerId = worker.parse().expect("a worker");
        let leases = leases.first().map(|leases| self.leases(leases)).unwrap_or_default();
        let question = Question::Heartbeat { worker: worker.clone(), leases: leases.clone() };
        let leases = if leases.is_empty() {
            Renewal::Unlisted { n_active }
        } else {
            Renewal::Listed(leases)
        };
        self.ask(question, |ticket| Command::Ask(ticket, Asked::Heartbeat { worker, leases }));
    }

    fn report(&mut self, worker: &str, words: &[&str]) {
        let worker: WorkerId = worker.parse().expect("a worker");
        let leases = self.leases(words[1]);
        let after = |word| words.iter().position(|other| *other == word).map(|at| words[at + 1]);
        let outcome = if words[0] == "completes" {
            let result = Bytes::copy_from_slice(after("with").unwrap_or("1").as_bytes());
            ReportedOutcome::Completed { result, extra: None }
        } else {
            let failure = Failure::new("E.TEST", "boom");
            ReportedOutcome::Failed { failure, retryable: !words.contains(&"fatal") }
        };
        let content = format!("{outcome:?}");
        let key = ReportKey(digest(after("as").unwrap_or(&content)));
        let report = |lease: &LeaseId| Report {
            lease: *lease,
            worker: worker.clone(),
            key,
            outcome: outcome.clone(),
        };
        let reports = leases.iter().map(report).collect();
        let question = Question::Report { worker: worker.clone(), leases };
        self.ask(question, |ticket| Command::Ask(ticket, Asked::Report { reports }));
    }

    /// The open requests of a worker, or all watches, are withdrawn.
    fn withdraw(&mut self, worker: Option<&str>) {
        let is_meant = |question: &Question| match question {
            Question::Take { worker: who } => Some(who.as_str()) == worker,
            Question::About { deed } => worker.is_none() && deed.starts_with("watch"),
            Question::Submit { .. } | Question::Heartbeat { .. } | Question::Report { .. } => false,
        };
        let meant: Vec<_> = self.asked.extract_if(.., |_, question| is_meant(question)).collect();
        for (ticket, _) in meant {
            self.order(Command::Withdraw { ticket });
        }
    }

    fn first_load_arrives(&mut self) {
        let slow = self.slow_loads.as_mut().expect("loads wait");
        let (load, found) = slow.remove(0);
        self.order(Command::Loaded { load, found });
    }

    fn end_loads(&mut self, end: impl Fn(coordinator::LoadTicket, Found) -> Command) {
        for (load, found) in self.slow_loads.take().expect("loads wait") {
            self.order(end(load, found));
        }
    }

    // ----- names

    pub(crate) fn task(&self, name: &str) -> TaskId {
        if name == "nobody" {
            return TaskId::of(shard(), 999_999);
        }
        if let Some(name) = name.strip_prefix("foreign:") {
            let elsewhere = ShardId::new(8).expect("a small number");
            return TaskId::of(elsewhere, self.task(name).number());
        }
        let named = self.names.iter().find(|(_, other)| *other == name);
        *named.unwrap_or_else(|| panic!("no such task: {name}")).0
    }

    fn leases(&self, names: &str) -> Vec<LeaseId> {
        names.split(',').map(|name| self.lease(name)).collect()
    }

    fn lease(&self, name: &str) -> LeaseId {
        if let Some((task, epoch)) = name.split_once('#') {
            return LeaseId { task: self.task(task), epoch: epoch.parse().expect("an epoch") };
        }
        let number: usize = name.strip_prefix('L').expect("L1 or a#1").parse().expect("a number");
        self.leases[number - 1]
    }
}

type Found = Vec<(coordinator::LoadKey, coordinator::TaskRecord)>;

fn about(deed: &str) -> Question {
    Question::About { deed: deed.to_owned() }
}

fn silence_limits_named(name: &str) -> SilenceLimits {
    match name {
        "slow" => SilenceLimits::SLOW,
        "standard" => SilenceLimits::STANDARD,
        other => panic!("no such silence_limits: {other}"),
    }
}

fn drain_cause(word: &str) -> DrainCause {
    match word {
        "leaving" => DrainCause::Leaving,
        "pressure" => DrainCause::Pressure,
        _ => panic!("no such cause: {word}"),
    }
}
