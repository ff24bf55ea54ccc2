//! Plays a story about schedules: deeds in, a transcript out. Every fact is kept, so that a crash
//! at any turn can be told too.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{
    Answer, Command, Coordinator, Effect, Moment, NewRun, Overlap, Preparation, PrepareTicket,
    Question, RestoredRun, RunAbout, RunChange, RunParts, RunRecord, ScheduleEdit, ScheduleId,
    ScheduleProgress, ScheduleSpec, Step, TaskRecord, TenantChange, Ticket,
};
use model::{RunId, Timestamp};
use uuid::Uuid;

use crate::runs::world::workflow;
use crate::story::{Kept, START, shard};

/// A tenant with schedules, the shell that prepares their runs, and the store behind it.
pub(super) struct World {
    pub(super) coordinator: Coordinator,
    program: Arc<flow::Program>,
    now: Timestamp,
    /// How far the wall clock is ahead, in seconds.
    ahead: i64,
    /// The schedule that the deeds are about.
    pub(super) id: ScheduleId,
    tickets: u64,
    asked: BTreeMap<Ticket, String>,
    /// What the shell was asked to prepare, oldest first.
    preparing: VecDeque<(PrepareTicket, ScheduleId, Timestamp)>,
    pub(super) transcript: String,
    pub(super) crash: Option<Crash>,
    // What the store would hold.
    pub(super) kept: Kept,
    pub(super) runs: BTreeMap<RunId, RunRecord>,
    /// The moments that were dealt with, with their runs.
    pub(super) fired: Vec<(Timestamp, Option<RunId>)>,
}

/// The server dies at the end of this turn, counted from the next.
#[derive(Clone, Copy)]
pub(super) struct Crash {
    pub(super) turns_left: usize,
    /// Whether the turn became durable before.
    pub(super) is_durable: bool,
}

impl World {
    pub(super) fn new() -> Self {
        let definition = workflow(&[("a", serde_json::json!({}))], &[]);
        let source = Bytes::from(serde_json::to_vec(&definition).expect("JSON"));
        let compiled = flow::compile(source).unwrap_or_else(|problems| panic!("{problems:#?}"));
        let at = Moment { now: START, wall: START, entropy: 0 };
        Self {
            coordinator: Coordinator::restore(shard(), 0, [], at),
            program: Arc::new(compiled.program),
            now: START,
            ahead: 0,
            id: schedule_id(1),
            tickets: 0,
            asked: BTreeMap::new(),
            preparing: VecDeque::new(),
            transcript: String::new(),
            crash: None,
            kept: Kept::default(),
            runs: BTreeMap::new(),
            fired: Vec::new(),
        }
    }

    pub(super) fn deed(&mut self, line: &str) {
        let schedule = self.id;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["schedule", number] => self.id = schedule_id(number.parse().expect("a number")),
            ["add", overlap, cron @ ..] => self.add(line, overlap, &cron.join(" ")),
            ["change", overlap] => {
                let overlap = Some(overlap_named(overlap));
                self.edit(line, ScheduleEdit { overlap, ..ScheduleEdit::default() });
            }
            ["rule", cron @ ..] => {
                let cron = Some(cron.join(" "));
                self.edit(line, ScheduleEdit { cron, ..ScheduleEdit::default() });
            }
            [word @ ("pause" | "resume")] => {
                let paused = Some(*word == "pause");
                self.edit(line, ScheduleEdit { paused, ..ScheduleEdit::default() });
            }
            ["remove"] => {
                self.ask(line, |ticket| {
                    Command::Ask(ticket, Question::RemoveSchedule { schedule })
                });
            }
            ["show"] => {
                self.ask(line, |ticket| Command::Ask(ticket, Question::ShowSchedule { schedule }));
            }
            ["backfill", moments @ ..] => {
                let moments = moments.iter().map(|one| later(START, one.parse().expect("s")));
                let moments = moments.collect();
                self.ask(line, |ticket| {
                    Command::Ask(ticket, Question::Backfill { schedule, moments })
                });
            }
            ["ends", number] => self.end(RunId::of(shard(), number.parse().expect("a number"))),
            ["wait", seconds] => self.pass(seconds.parse().expect("seconds")),
            ["down", seconds] => self.now = later(self.now, seconds.parse().expect("seconds")),
            ["wall", seconds] => self.ahead += seconds.parse::<i64>().expect("seconds"),
            ["restart"] => self.restart(),
            ["lost", deed @ ..] => {
                self.crash = Some(Crash { turns_left: 0, is_durable: false });
                self.deed(&deed.join(" "));
            }
            ["prepared"] => self.prepared(Self::run_of),
            ["existing", number] => {
                let run = RunId::of(shard(), number.parse().expect("a number"));
                self.prepared(|_, _| Preparation::Existing(run));
            }
            ["impossible"] => self.prepared(|_, _| Preparation::Impossible("no such flow".into())),
            ["later"] => self.prepared(|_, _| Preparation::Later),
            _ => panic!("no such deed: {line}"),
        }
    }

    fn add(&mut self, line: &str, overlap: &str, cron: &str) {
        let (schedule, spec) = (self.id, Box::new(spec(overlap, cron)));
        self.ask(line, |ticket| Command::Ask(ticket, Question::AddSchedule { schedule, spec }));
    }

    fn edit(&mut self, line: &str, edit: ScheduleEdit) {
        let (schedule, edit) = (self.id, Box::new(edit));
        self.ask(line, |ticket| Command::Ask(ticket, Question::EditSchedule { schedule, edit }));
    }

    fn end(&mut self, run: RunId) {
        let question = format!("ends {}", run.number());
        self.ask(&question, |ticket| {
            Command::Ask(ticket, Question::CancelRun { run, by: "ada".into() })
        });
    }

    /// The shell comes back with what it was asked for first.
    fn prepared(
        &mut self,
        preparation: impl FnOnce(&Self, (ScheduleId, Timestamp)) -> Preparation,
    ) {
        let (prepare, schedule, due) = self.preparing.pop_front().expect("something is prepared");
        let preparation = preparation(self, (schedule, due));
        let step = self.coordinator.handle(self.at(), Command::Prepared { prepare, preparation });
        self.tell(&step);
    }

    /// A run without a key: nothing but the facts keeps a moment from having two.
    fn run_of(&self, (schedule, due): (ScheduleId, Timestamp)) -> Preparation {
        let run = NewRun {
            program: Arc::clone(&self.program),
            inputs: Bytes::from(format!(r#"{{"of":"{schedule}","due":"{due}"}}"#)),
            idempotency: None,
            about: Arc::new(RunAbout::default()),
            reused: Vec::new(),
        };
        Preparation::Run(Box::new(run))
    }

    pub(super) fn ask(&mut self, question: &str, command: impl FnOnce(Ticket) -> Command) {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.asked.insert(ticket, question.to_owned());
        let step = self.coordinator.handle(self.at(), command(ticket));
        self.tell(&step);
    }

    pub(super) fn at(&self) -> Moment {
        Moment { now: self.now, wall: later(self.now, self.ahead), entropy: 0 }
    }

    pub(super) fn pass(&mut self, seconds: i64) {
        let end = later(self.now, seconds);
        while self.tick_until(end) {}
        self.now = end;
    }

    /// Goes on to the next deadline, unless that comes later.
    fn tick_until(&mut self, end: Timestamp) -> bool {
        let Some(due) = self.coordinator.next_deadline().filter(|due| *due <= end) else {
            return false;
        };
        self.now = due.max(self.now);
        let step = self.coordinator.tick(self.at());
        self.tell(&step);
        true
    }

    /// Plays a minute with a quick shell, and runs that take so many seconds.
    pub(super) fn play(&mut self, run_seconds: i64) {
        let end = later(START, 60);
        loop {
            let open = self.runs.values().filter(|record| record.end.is_none());
            let ends = open.map(|record| (later(record.created_at, run_seconds), record.id)).min();
            if !self.preparing.is_empty() {
                self.prepared(Self::run_of);
            } else if let Some((_, run)) = ends.filter(|(at, _)| *at <= self.now) {
                self.end(run);
            } else {
                let next = ends.map_or(end, |(at, _)| at.min(end));
                if !self.tick_until(next) {
                    if next == end {
                        return;
                    }
                    self.now = next;
                }
            }
        }
    }

    fn restart(&mut self) {
        self.asked.clear();
        self.preparing.clear();
        let at = self.at();
        let live: Vec<TaskRecord> = self.kept.live().cloned().collect();
        self.coordinator = Coordinator::restore(shard(), self.kept.next_number(), live, at);
        let open = self.runs.values().filter(|record| record.end.is_none());
        let restored =
            |record: &RunRecord| RestoredRun { record: record.clone(), parts: RunParts::default() };
        let runs: Vec<_> = open.map(restored).collect();
        self.coordinator.restore_runs(self.runs.len() as u64 + 1, runs, at);
        self.coordinator.restore_settings(self.kept.settings.clone());
        self.write("restarted");
        let step = self.coordinator.tick(at);
        self.tell(&step);
    }

    /// A turn comes to its end: it becomes durable and its effects leave, or the server dies.
    fn tell(&mut self, step: &Step) {
        self.coordinator.check_invariants();
        let crash = self.crash.take_if(|crash| crash.turns_left == 0);
        if let Some(crash) = &mut self.crash {
            crash.turns_left -= 1;
        }
        if crash.is_none_or(|crash| crash.is_durable) {
            self.keep(step);
        }
        if crash.is_some() {
            return self.restart();
        }
        for effect in &step.effects {
            self.tell_effect(effect);
        }
    }

    fn keep(&mut self, step: &Step) {
        step.changes.iter().for_each(|change| self.kept.keep(change));
        for change in &step.runs {
            match change {
                RunChange::RunStarted(record) => {
                    let number = record.id.number();
                    let is_same = |other: &RunRecord| other.inputs == record.inputs;
                    let has_one = self.runs.values().any(is_same);
                    assert!(!has_one, "a moment has one run: {}", self.transcript);
                    self.runs.insert(record.id, (**record).clone());
                    self.write(&format!("run {number} started"));
                }
                RunChange::RunSettled { run, end } => {
                    self.runs.get_mut(run).expect("started before").end = Some(end.clone());
                    self.write(&format!("run {} ended", run.number()));
                }
                _ => {} // Nodes are not what these stories are about.
            }
        }
        for change in &step.tenant {
            self.kept.keep_tenant(change);
            self.keep_progress(change);
        }
    }

    fn keep_progress(&mut self, change: &TenantChange) {
        match change {
            TenantChange::ScheduleFired { schedule, progress } => {
                let last = progress.last.as_ref().expect("a moment was dealt with");
                self.fired.push((last.due, last.outcome.as_ref().ok().copied()));
                self.write_progress(*schedule, progress);
            }
            TenantChange::ScheduleWaits { schedule, progress } => {
                self.write_progress(*schedule, progress);
            }
            _ => {} // The deed before says what happened.
        }
    }

    fn tell_effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Prepare { prepare, schedule, due, .. } => {
                assert!(self.preparing.is_empty(), "one at a time: {}", self.transcript);
                self.preparing.push_back((*prepare, *schedule, *due));
                let name = name_of(*schedule);
                self.write(&format!("{name}prepare {}", second(*due)));
            }
            Effect::Answer { ticket, answer } => {
                let question = self.asked.remove(ticket).expect("asked");
                match answer {
                    Answer::Schedule(record) if question == "show" => {
                        self.write_progress(record.id, &record.progress);
                    }
                    Answer::Schedule(_) | Answer::ScheduleRemoved | Answer::Stopped => {
                        self.write(&format!("{question}: done"));
                    }
                    other => self.write(&format!("{question}: {other:?}")),
                }
            }
            Effect::Load { .. } => panic!("nothing to load"),
        }
    }

    fn write_progress(&mut self, schedule: ScheduleId, progress: &ScheduleProgress) {
        let list = |moments: &[Timestamp]| {
            moments.iter().map(|one| second(*one)).collect::<Vec<_>>().join(" ")
        };
        let text = progress.last.as_ref().map_or("nothing yet".to_owned(), |last| {
            let outcome = match &last.outcome {
                Ok(run) => format!("run {}", run.number()),
                Err(problem) => problem.clone(),
            };
            format!("{} gave {outcome}", second(last.due))
        });
        let (waiting, backfill) = (list(&progress.waiting), list(&progress.backfill));
        let name = name_of(schedule);
        self.write(&format!("{name}{text}; waiting [{waiting}], past [{backfill}]"));
    }

    fn write(&mut self, sentence: &str) {
        let now = second(self.now);
        writeln!(self.transcript, "{now:<6}{sentence}").expect("a text takes every line");
    }
}

pub(super) fn schedule_id(number: u128) -> ScheduleId {
    ScheduleId(Uuid::from_u128(number))
}

/// How a story calls a schedule, where it has more than one.
fn name_of(schedule: ScheduleId) -> String {
    if schedule == schedule_id(1) { String::new() } else { format!("{}: ", schedule.0.as_u128()) }
}

fn spec(overlap: &str, cron: &str) -> ScheduleSpec {
    ScheduleSpec {
        name: None,
        workflow_id: "flow-1".into(),
        version: None,
        cron: cron.into(),
        timezone: "UTC".into(),
        inputs: Bytes::from_static(b"{}"),
        overlap: overlap_named(overlap),
        paused: false,
        created_at: START,
        created_by: "ada".into(),
    }
}

fn overlap_named(name: &str) -> Overlap {
    match name {
        "skip" => Overlap::Skip,
        "queue" => Overlap::Queue,
        "allow" => Overlap::Allow,
        "cancel" => Overlap::Cancel,
        other => panic!("no such overlap: {other}"),
    }
}

/// Seconds since the story began.
pub(super) fn second(moment: Timestamp) -> String {
    format!("{}s", (moment.to_integer() - START.to_integer()) / 1_000)
}

pub(super) fn later(moment: Timestamp, seconds: i64) -> Timestamp {
    if seconds < 0 {
        let millis = Duration::from_secs(seconds.unsigned_abs()).as_millis();
        let millis = u64::try_from(millis).expect("few");
        return Timestamp::from_millis(moment.as_millis().saturating_sub(millis));
    }
    moment.after(Duration::from_secs(seconds.unsigned_abs()))
}
