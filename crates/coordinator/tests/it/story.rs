//! Tells a story to a coordinator and writes down what came of it.
//!
//! A story is lines of `<time> <deed>`; the deeds are in `deed.rs`. Between two lines the clock
//! stops at every deadline. The transcript has a line for each fact and each answer; what an
//! answer merely repeats from a fact is compared with it and not printed.

mod deed;
mod kept;
mod sentence;
mod texts;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use coordinator::{
    Answer, Change, Command, Coordinator, Effect, LoadKey, LoadTicket, Moment, Step, TaskRecord,
    Ticket,
};
use expect_test::Expect;
use model::{LeaseId, ShardId, TaskId, Timestamp, WorkerId};

pub(crate) use self::kept::Kept;
pub(crate) use self::texts::{START, plain_request, plain_spec, plain_task};
use self::texts::{moment, time_text};

/// Tells `story` and compares the transcript.
#[expect(clippy::needless_pass_by_value, reason = "`expect![[..]]` is a value where it is written")]
pub(crate) fn check(story: &str, expect: Expect) {
    expect.assert_eq(&World::after(story).transcript);
}

/// A coordinator, the store behind it and everyone around it.
pub(crate) struct World {
    pub(crate) coordinator: Coordinator,
    pub(crate) kept: Kept,
    pub(crate) transcript: String,
    now: Timestamp,
    entropy: u64,
    names: BTreeMap<TaskId, String>,
    /// In the order of their grants: `L1`, `L2`, ...
    leases: Vec<LeaseId>,
    last_ticket: u64,
    asked: BTreeMap<Ticket, Question>,
    /// What the store had for loads that are under way; `None` when they arrive at once.
    slow_loads: Option<Vec<SlowLoad>>,
    /// Whether the sweep comes in time.
    ticks: bool,
}

type SlowLoad = (LoadTicket, Vec<(LoadKey, TaskRecord)>);

/// What is needed to understand an answer.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Submit { names: Vec<String> },
    Take { worker: WorkerId },
    Heartbeat { worker: WorkerId, leases: Vec<LeaseId> },
    Report { worker: WorkerId, leases: Vec<LeaseId> },
    About { deed: String },
}

impl World {
    /// The world at the end of a story.
    pub(crate) fn after(story: &str) -> Self {
        let mut world = Self::new();
        for line in story.lines().filter(|line| !line.trim().is_empty()) {
            let (time, deed) = line.trim().split_once(' ').expect("a line is a time and a deed");
            world.pass_until(moment(time));
            world.play(deed.trim());
        }
        world
    }

    fn new() -> Self {
        let at = Moment { now: START, wall: START, entropy: 0 };
        Self {
            coordinator: Coordinator::restore(shard(), 0, [], at),
            kept: Kept::default(),
            transcript: String::new(),
            now: START,
            entropy: 0,
            names: BTreeMap::new(),
            leases: Vec::new(),
            last_ticket: 0,
            asked: BTreeMap::new(),
            slow_loads: None,
            ticks: true,
        }
    }

    fn at(&self) -> Moment {
        Moment { now: self.now, wall: self.now, entropy: self.entropy }
    }

    /// Lets the clock run, stopping at every deadline that falls before `time`.
    fn pass_until(&mut self, time: Timestamp) {
        assert!(time >= self.now, "a story goes forward");
        while self.ticks
            && let Some(due) = self.coordinator.next_deadline().filter(|due| *due < time)
        {
            self.now = due.max(self.now);
            self.tick();
        }
        self.now = time;
    }

    fn tick(&mut self) {
        let step = self.coordinator.tick(self.at());
        self.tell(&step);
    }

    /// Asks the coordinator; the answer is told whenever it comes.
    fn ask(&mut self, question: Question, command: impl FnOnce(Ticket) -> Command) {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.asked.insert(ticket, question);
        self.order(command(ticket));
    }

    fn order(&mut self, command: Command) {
        let step = self.coordinator.handle(self.at(), command);
        self.tell(&step);
    }

    fn restart(&mut self) {
        self.asked.clear();
        self.slow_loads = None;
        let live: Vec<TaskRecord> = self.kept.live().cloned().collect();
        self.write(&format!("restarted with {} live tasks", live.len()));
        self.coordinator = Coordinator::restore(shard(), self.kept.next_number(), live, self.at());
        self.coordinator.restore_settings(self.kept.settings.clone());
        self.coordinator.check_invariants();
        self.tick();
    }

    // ----- what came of a step

    fn tell(&mut self, step: &Step) {
        self.coordinator.check_invariants();
        self.learn_names(step);
        for change in &step.changes {
            self.kept.keep(change);
            let sentence = self.fact(change);
            self.write(&sentence);
        }
        for change in &step.tenant {
            self.kept.keep_tenant(change);
        }
        for effect in &step.effects {
            match effect {
                Effect::Answer { ticket, answer } => self.hear(*ticket, answer, &step.changes),
                Effect::Load { load, keys } => self.load(*load, keys),
                Effect::Prepare { .. } => panic!("there is no schedule"),
            }
        }
    }

    fn hear(&mut self, ticket: Ticket, answer: &Answer, facts: &[Change]) {
        let question = self.asked.remove(&ticket).expect("a question is answered once");
        for sentence in self.answer(&question, answer, facts) {
            self.write(&sentence);
        }
    }

    fn load(&mut self, load: LoadTicket, keys: &[LoadKey]) {
        let found = self.kept.find(keys);
        let names: Vec<_> = keys.iter().map(|key| self.load_key(key)).collect();
        self.write(&format!("loading {}", names.join(", ")));
        match &mut self.slow_loads {
            Some(slow) => slow.push((load, found)),
            None => self.order(Command::Loaded { load, found }),
        }
    }

    /// New tasks and leases get their names before anything is said about them.
    fn learn_names(&mut self, step: &Step) {
        for effect in &step.effects {
            if let Effect::Answer { ticket, answer: Answer::Submitted(tasks) } = effect
                && let Question::Submit { names } = &self.asked[ticket]
            {
                let named = tasks.iter().zip(names).filter(|(task, _)| !task.existed);
                self.names.extend(named.map(|(task, name)| (task.task, name.clone())));
            }
        }
        for change in &step.changes {
            if let Change::LeaseGranted { task, progress, .. } = change {
                self.leases.push(LeaseId { task: *task, epoch: progress.epoch });
            }
        }
    }

    fn write(&mut self, sentence: &str) {
        let time = time_text(self.now);
        let named = |sentence: String, (id, name): (&TaskId, &String)| {
            sentence.replace(&id.to_string(), name)
        };
        let sentence = self.names.iter().fold(sentence.to_owned(), named);
        writeln!(self.transcript, "{time:<8}{sentence}").expect("a text takes every line");
    }
}

pub(crate) fn shard() -> ShardId {
    ShardId::new(7).expect("a small number")
}
