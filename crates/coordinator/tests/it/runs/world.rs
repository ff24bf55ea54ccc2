//! Plays a story about one run: deeds in, a transcript out. Every fact is kept, so that a restart
//! in the middle of a story can be told too.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{
    Answer, Change, Command, Coordinator, Effect, EndedCall, FactNumber, Grant, ItemEnd,
    LeaseRequest, ListRecord, Moment, NewRun, NextCall, NextEnd, NodeEnd, Question, Rebind,
    RestoredRun, Reused, RunAbout, RunBindings, RunChange, RunNumbers, RunParts, RunRecord,
    RunWord, Signal, Step, TaskFacts, TaskRecord, TaskState, Ticket,
};
use flow::Program;
use model::{
    Failure, LeaseId, NodeLink, Offer, Report, ReportKey, ReportedOutcome, ResultExtra, RunId,
    TaskId, Timestamp, WorkerId,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::story::{START, shard};

/// A world with one run.
pub(crate) struct World {
    coordinator: Coordinator,
    program: Arc<Program>,
    pub(crate) run: Option<RunId>,
    now: Timestamp,
    tickets: u64,
    asked: BTreeMap<Ticket, String>,
    leases: BTreeMap<String, LeaseId>,
    pub(crate) transcript: String,
    /// The numbers of facts, in the order in which the steps gave them.
    pub(crate) numbers: Vec<u64>,
    /// The numbers of grants, by the name of what was granted.
    pub(crate) grants: Vec<(String, Option<FactNumber>)>,
    // What the store would hold.
    record: Option<RunRecord>,
    tasks: BTreeMap<TaskId, TaskRecord>,
    frames: Vec<coordinator::SubgraphRecord>,
    closed: Vec<(u32, NodeEnd)>,
    ended: Vec<(u32, u32, NodeEnd)>,
    pub(crate) lists: Vec<ListRecord>,
    items: Vec<ItemEnd>,
    calls: Vec<EndedCall>,
    rebound: Option<Box<RunBindings>>,
}

/// A workflow of nodes that are named by their aliases, and edges without data.
pub(crate) fn workflow(nodes: &[(&str, Value)], edges: &[(&str, &str)]) -> Value {
    let place = |alias: &str| nodes.iter().position(|(name, _)| *name == alias).expect("a node");
    let nodes: Vec<Value> = nodes
        .iter()
        .enumerate()
        .map(|(place, (alias, extra))| {
            let mut node = json!({ "id": id(place), "type": "t", "alias": alias, "label": alias });
            let keys = node.as_object_mut().expect("an object");
            keys.extend(extra.as_object().expect("an object").clone());
            node
        })
        .collect();
    let edges: Vec<Value> = edges
        .iter()
        .map(|(from, to)| {
            json!({
                "id": Uuid::from_u128(0xed6e), "source": { "node": id(place(from)) },
                "target": { "node": id(place(to)) }
            })
        })
        .collect();
    json!({
        "id": Uuid::from_u128(0xf10), "schemaVersion": "2025-10", "metadata": { "name": "story" },
        "nodes": nodes, "edges": edges
    })
}

pub(crate) fn id(place: usize) -> Uuid {
    Uuid::from_u128(0x1000 + place as u128)
}

impl World {
    pub(crate) fn new(workflow: &Value) -> Self {
        let source = Bytes::from(serde_json::to_vec(workflow).expect("JSON"));
        let compiled = flow::compile(source);
        let program = Arc::new(compiled.unwrap_or_else(|problems| panic!("{problems:#?}")).program);
        let at = Moment { now: START, wall: START, entropy: 0 };
        Self {
            coordinator: Coordinator::restore(shard(), 0, [], at),
            program,
            run: None,
            now: START,
            tickets: 0,
            asked: BTreeMap::new(),
            leases: BTreeMap::new(),
            transcript: String::new(),
            numbers: Vec::new(),
            grants: Vec::new(),
            record: None,
            tasks: BTreeMap::new(),
            frames: Vec::new(),
            closed: Vec::new(),
            ended: Vec::new(),
            lists: Vec::new(),
            items: Vec::new(),
            calls: Vec::new(),
            rebound: None,
        }
    }

    /// The transcript of a story: each line is a deed.
    pub(crate) fn play(mut self, story: &str) -> String {
        for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
            self.deed(line);
        }
        self.transcript
    }

    pub(crate) fn deed(&mut self, line: &str) {
        let (words, json) = match line.split_once(" {") {
            Some((words, _)) => (words, Some(&line[words.len() + 1..])),
            None => (line, None),
        };
        let payload = || Bytes::copy_from_slice(json.unwrap_or("{}").as_bytes());
        let words: Vec<&str> = words.split_whitespace().collect();
        match words.as_slice() {
            ["start"] => self.start(payload(), Vec::new()),
            ["start", "reusing", nodes @ ..] => {
                let reused = nodes.iter().map(|name| self.reused(name, json)).collect();
                self.start(Bytes::from_static(b"{}"), reused);
            }
            ["wait", seconds] => self.pass(seconds.parse().expect("seconds")),
            ["restart"] => self.restart(),
            ["upgrade"] => self.upgrade(),
            ["cancel"] => {
                let run = self.run.expect("started");
                self.ask(line, |ticket| {
                    Command::Ask(ticket, Question::CancelRun { run, by: "ada".into() })
                });
            }
            ["signal", node, how @ ..] => self.signal(node, how, payload()),
            [worker, "takes", n] => self.takes(worker, n.parse().expect("a number"), 0),
            [worker, "waits", n] => self.takes(worker, n.parse().expect("a number"), 60),
            ["bindings"] => {
                let run = self.run.expect("started");
                self.ask(line, |ticket| Command::Ask(ticket, Question::Bindings { run }));
            }
            [how @ ("move" | "drain"), package, target @ ..] => {
                let rebind = Rebind {
                    run: self.run.expect("started"),
                    package: (*package != "all").then(|| (*package).to_owned()),
                    to: target.last().map(|worker| worker.parse().expect("a worker")),
                    drain: *how == "drain",
                };
                self.ask(line, |ticket| {
                    Command::Ask(ticket, Question::Rebind { rebind: Box::new(rebind) })
                });
            }
            [worker, "completes", name] => {
                let outcome = ReportedOutcome::Completed { result: payload(), extra: None };
                self.report(worker, name, outcome);
            }
            [worker, "skips", name] => {
                let extra = Some(Box::new(ResultExtra { is_skipped: true, artifacts: None }));
                self.report(worker, name, ReportedOutcome::Completed { result: payload(), extra });
            }
            [worker, verb @ ("fails" | "gives-up" | "stumbles"), name] => {
                let code = if *verb == "gives-up" { "E.RUNNER.CANCELLED" } else { "E.X" };
                let failure = Failure::new(code, "it broke");
                let retryable = *verb == "stumbles";
                self.report(worker, name, ReportedOutcome::Failed { failure, retryable });
            }
            [worker, "calls", "next", "from", name, "as", request] => {
                self.next(worker, name, (request, None), payload());
            }
            [worker, "calls", "next", "from", name, "as", request, "within", seconds] => {
                let within = Some(seconds.parse().expect("seconds"));
                self.next(worker, name, (request, within), payload());
            }
            ["stop", name] => {
                let task = self.leases[*name].task;
                self.ask(line, |ticket| Command::Ask(ticket, Question::Stop { task }));
            }
            _ => panic!("no such deed: {line}"),
        }
    }

    fn at(&self) -> Moment {
        Moment { now: self.now, wall: self.now, entropy: 0 }
    }

    fn ask(&mut self, question: &str, command: impl FnOnce(Ticket) -> Command) {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.asked.insert(ticket, question.to_owned());
        let step = self.coordinator.handle(self.at(), command(ticket));
        self.tell(step);
    }

    fn start(&mut self, inputs: Bytes, reused: Vec<Reused>) {
        let run = NewRun {
            program: Arc::clone(&self.program),
            inputs,
            idempotency: None,
            about: Arc::new(RunAbout::default()),
            reused,
        };
        self.ask("start", |ticket| Command::Ask(ticket, Question::StartRun { run: Box::new(run) }));
    }

    fn reused(&self, name: &str, result: Option<&str>) -> Reused {
        let mut nodes = self.program.graphs[0].nodes.iter();
        let node = nodes.position(|node| node.alias.as_deref() == Some(name)).expect("a node");
        Reused {
            node: u32::try_from(node).expect("few"),
            word: coordinator::NodeWord::Succeeded,
            result: result.map(|json| Bytes::copy_from_slice(json.as_bytes())),
            task: None,
        }
    }

    fn pass(&mut self, seconds: u64) {
        let end = self.now.after(Duration::from_secs(seconds));
        while let Some(due) = self.coordinator.next_deadline().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            let step = self.coordinator.tick(self.at());
            self.tell(step);
        }
        self.now = end;
    }

    fn takes(&mut self, worker: &str, max: u32, wait_s: u64) {
        let request = LeaseRequest {
            worker: worker.parse().expect("a name"),
            offer: Arc::new(Offer { all_tools: true, ..Offer::default() }),
            max,
            slots: None,
            wait_until: self.now.after(Duration::from_secs(wait_s)),
            confirm_within: None,
            timeout_grace: Duration::ZERO,
            is_loss_noticed: true,
        };
        // Most stories have one worker, and need not say who it is.
        let question = if worker == "w" { "takes".to_owned() } else { format!("{worker} takes") };
        self.ask(&question, |ticket| Command::Ask(ticket, Question::RequestLeases { request }));
    }

    fn report(&mut self, worker: &str, name: &str, outcome: ReportedOutcome) {
        let Some(lease) = self.leases.get(name).copied() else { panic!("{name} has no lease") };
        let worker: WorkerId = worker.parse().expect("a name");
        let key = ReportKey(u128::from(lease.task.number()) << 32 | u128::from(lease.epoch));
        let reports = vec![Report { lease, worker, key, outcome }];
        self.ask("report", |ticket| Command::Ask(ticket, Question::Report { reports }));
    }

    fn next(
        &mut self,
        worker: &str,
        name: &str,
        (request, within): (&str, Option<u64>),
        payload: Bytes,
    ) {
        let call = NextCall {
            lease: self.leases[name],
            worker: worker.parse().expect("a name"),
            request: request.into(),
            payload,
            until: within.map(|seconds| self.now.after(Duration::from_secs(seconds))),
        };
        let question = format!("{name} called next as {request}");
        self.ask(&question, |ticket| Command::Ask(ticket, Question::Next { call: Box::new(call) }));
    }

    fn signal(&mut self, node: &str, how: &[&str], payload: Bytes) {
        let nodes = self.program.graphs.iter().flat_map(|graph| &graph.nodes);
        let found = nodes.into_iter().find(|found| found.alias.as_deref() == Some(node));
        let signal = Signal {
            run: self.run.expect("started"),
            node: found.expect("a node").id,
            frame: None,
            event: how.first().filter(|how| how.starts_with('#')).map(|how| how[1..].to_owned()),
            approved: match how.first() {
                Some(&"yes") => Some(true),
                Some(&"no") => Some(false),
                _ => None,
            },
            payload,
            by: "ada".into(),
        };
        let question = format!("signal {node}");
        self.ask(&question, |ticket| {
            Command::Ask(ticket, Question::Signal { signal: Box::new(signal) })
        });
    }

    fn restart(&mut self) {
        let before = self.coordinator.run_states();
        self.restore();
        assert_eq!(self.coordinator.run_states(), before, "a restart brings back the same state");
        let _ = writeln!(self.transcript, "-- restart");
        let step = self.coordinator.tick(self.at());
        self.tell(step);
    }

    /// A new coordinator that knows what the store would.
    fn restore(&mut self) {
        self.asked.clear();
        let settled = |task: &&TaskRecord| matches!(task.progress.state, TaskState::Settled(_));
        let live: Vec<TaskRecord> =
            self.tasks.values().filter(|task| !settled(task)).cloned().collect();
        let next = self.tasks.keys().next_back().map_or(0, |task| task.number() + 1);
        let at = self.at();
        self.coordinator = Coordinator::restore(shard(), next, live, at);
        let run = self.record.clone().filter(|record| record.end.is_none());
        let runs = run.map(|record| RestoredRun {
            record,
            parts: RunParts {
                frames: self.frames.clone(),
                closed: self.closed.clone(),
                ended: self.ended.clone(),
                lists: self.lists.clone(),
                items: self.items.clone(),
                calls: self.calls.clone(),
                rebound: self.rebound.clone(),
                tasks: self.tasks.values().filter(settled).cloned().collect(),
            },
        });
        self.coordinator.restore_runs(2, runs, at);
    }

    // ----- what came of it

    fn tell(&mut self, step: Step) {
        self.coordinator.check_invariants();
        let mut numbers: Vec<u64> = numbers_of(&step).into_iter().map(FactNumber::get).collect();
        numbers.sort_unstable();
        self.numbers.extend(numbers);
        for change in step.runs {
            self.tell_run(change);
        }
        for change in &step.changes {
            self.keep(change);
            self.tell_task(change);
        }
        for effect in step.effects {
            if let Effect::Answer { ticket, answer } = effect {
                let question = self.asked.get(&ticket).cloned().unwrap_or_default();
                self.tell_answer(&question, answer);
            }
        }
    }

    fn number(&mut self, numbers: &RunNumbers) {
        self.write(&format!("numbers for {} tasks", numbers.tasks.len()));
        for (task, facts) in &numbers.tasks {
            self.tasks.get_mut(task).expect("kept").facts = *facts;
        }
        for frame in &mut self.frames {
            frame.fact = numbers.opened.iter().find(|(n, _)| *n == frame.number).map(|(_, f)| *f);
        }
        for (frame, end) in &mut self.closed {
            end.fact = numbers.closed.iter().find(|(n, _)| n == frame).map(|(_, f)| *f);
        }
        for (frame, node, end) in &mut self.ended {
            let own = |(f, n, _): &&(u32, u32, FactNumber)| (f, n) == (&*frame, &*node);
            end.fact = numbers.ended.iter().find(own).map(|(_, _, fact)| *fact);
        }
        self.lists.clone_from(&numbers.lists);
    }

    /// Forgets what an older version did not store.
    fn make_old(&mut self) {
        for task in self.tasks.values_mut() {
            task.facts = TaskFacts::default();
        }
        for frame in &mut self.frames {
            frame.fact = None;
        }
        let ends = self.closed.iter_mut().map(|(_, end)| end);
        for end in ends.chain(self.ended.iter_mut().map(|(_, _, end)| end)) {
            end.fact = None;
        }
        self.lists.clear();
        self.items.clear();
        self.calls.clear();
    }

    /// The older version's folder is opened by this one.
    fn upgrade(&mut self) {
        self.make_old();
        self.restore();
        let _ = writeln!(self.transcript, "-- upgrade");
        let step = self.coordinator.tick(self.at());
        self.tell(step);
    }

    fn keep(&mut self, change: &Change) {
        if let Change::TaskSubmitted(record) = change {
            assert!(self.tasks.insert(record.id, (**record).clone()).is_none(), "made once");
            return;
        }
        let record = self.tasks.get_mut(&change.task()).expect("submitted before");
        record.progress = change.progress().clone();
        match change {
            Change::LeaseGranted { fact, .. } => record.facts.granted = *fact,
            Change::TaskSettled { fact, .. } => record.facts.settled = *fact,
            _ => {}
        }
        record.ended_attempts.extend(change.ended_attempt().cloned());
    }

    fn write(&mut self, line: &str) {
        let seconds = self.now.since(START).as_secs();
        let _ = writeln!(self.transcript, "{:<5}{line}", format!("{seconds}s"));
    }

    fn tell_run(&mut self, change: RunChange) {
        match change {
            RunChange::RunStarted(record) => {
                self.run = Some(record.id);
                self.record = Some(*record);
            }
            RunChange::RunBegan { at, .. } => {
                let record = self.record.as_mut().expect("started");
                assert!(record.began_at.replace(at).is_none(), "a run begins once");
            }
            RunChange::SubgraphOpened { frame, .. } => {
                let inputs = String::from_utf8_lossy(&frame.inputs).into_owned();
                self.write(&format!("frame {} opened with {inputs}", frame.number));
                self.frames.push(*frame);
            }
            RunChange::SubgraphClosed { frame, end, .. } => {
                self.write(&format!("frame {frame} closed: {}", end_text(&end)));
                self.closed.push((frame, *end));
            }
            RunChange::NodeEnded { frame, node, end, .. } => {
                let name = self.node_name(frame, node);
                self.write(&format!("{name} ended: {}", end_text(&end)));
                assert!(
                    !self.ended.iter().any(|(f, n, _)| (*f, *n) == (frame, node)),
                    "{name} ended twice"
                );
                self.ended.push((frame, node, *end));
            }
            RunChange::ListBegun { list, items, .. } => {
                assert_eq!(list.length as usize, items.len());
                self.lists.push(list);
            }
            RunChange::ItemEnded { item, .. } => {
                let name = self.node_name(item.frame, item.node);
                self.write(&format!("{name}[{}] ended: {}", item.item, end_text(&item.end)));
                self.items.push(*item);
            }
            RunChange::CallEnded { call, .. } => {
                let why = call.failure.as_ref().map_or("timed out", |failure| &failure.reason);
                self.write(&format!("call {} ended: {why}", call.call.request));
                self.calls.push(*call);
            }
            RunChange::Numbered { numbers, .. } => self.number(&numbers),
            RunChange::Rebound { bindings, .. } => self.rebound = Some(bindings),
            RunChange::RunSettled { end, .. } => {
                let word = match end.word {
                    RunWord::Succeeded => "succeeded",
                    RunWord::Failed => "failed",
                    RunWord::Cancelled => "cancelled",
                };
                let why = end.failure.as_ref().map_or_else(String::new, |failure| {
                    format!(": {} ({})", failure.reason, failure.code)
                });
                let gave = end.outputs.as_ref().map_or_else(String::new, |outputs| {
                    format!(" with {}", String::from_utf8_lossy(outputs))
                });
                self.write(&format!("RUN {word}{why}{gave}"));
                self.record.as_mut().expect("started").end = Some(end);
            }
        }
    }

    fn tell_task(&mut self, change: &Change) {
        let record = &self.tasks[&change.task()];
        let name = self.name_of(record.link.as_deref().expect("tasks of a run"));
        let given = String::from_utf8_lossy(&record.parameters).into_owned();
        let line = match change {
            Change::TaskSubmitted(record) => match &record.progress.state {
                TaskState::Waiting { .. } => format!("{name} waits, given {given}"),
                _ => format!("{name} is ready, given {given}"),
            },
            Change::TaskSettled { progress, .. } => {
                format!("{name} is {:?}", progress.state.word()).to_lowercase()
            }
            Change::AttemptEnded { .. } => format!("{name} is tried again"),
            _ => return,
        };
        self.write(&line);
    }

    fn tell_answer(&mut self, question: &str, answer: Answer) {
        match answer {
            Answer::Leases(grants) => {
                let worker = question.strip_suffix(" takes").unwrap_or_default();
                for grant in &grants {
                    self.tell_grant(grant, worker);
                }
                if grants.is_empty() && !worker.is_empty() {
                    self.write(&format!("{worker} gets nothing"));
                }
            }
            Answer::Next(end) => {
                let text = match *end {
                    NextEnd::Succeeded(result) => String::from_utf8_lossy(&result).into_owned(),
                    NextEnd::Ended { word, .. } => format!("it {}", word.text()),
                    NextEnd::TimedOut => "timed out".into(),
                    NextEnd::AskedAgain => "asked again".into(),
                    NextEnd::NotAllowed { code, .. } => code.into(),
                };
                self.write(&format!("{question}: {text}"));
            }
            Answer::Bindings(bindings) => {
                let text = |view: &coordinator::BindingView| {
                    let since = view.since.since(START).as_secs();
                    format!("{} to {} since {since}s", view.package, view.worker)
                };
                let texts: Vec<String> = bindings.iter().map(text).collect();
                self.write(&format!("{question}: [{}]", texts.join(", ")));
            }
            Answer::Refused(refusal) => self.write(&format!("{question}: refused, {refusal:?}")),
            Answer::NotLive => self.write(&format!("{question}: not live")),
            _ => {}
        }
    }

    fn tell_grant(&mut self, grant: &Grant, worker: &str) {
        let name = self.name_of(grant.link.as_deref().expect("tasks of a run"));
        let chain = grant.chain.as_ref().map_or_else(String::new, |chain| {
            format!(", in a chain of {}", chain.middlewares.len())
        });
        let on = if worker.is_empty() { String::new() } else { format!(" on {worker}") };
        let line = format!("{name} runs{on}, attempt {}{chain}", grant.attempt);
        self.grants.push((name.clone(), grant.fact));
        self.leases.insert(name, grant.lease);
        self.write(&line);
    }

    fn node_name(&self, frame: u32, node: u32) -> String {
        let graph = match frame {
            0 => 0,
            _ => self.frames.iter().find(|f| f.number == frame).expect("opened").graph,
        };
        let name = self.program.graphs[graph as usize].nodes[node as usize].name();
        if frame == 0 { name } else { format!("{frame}/{name}") }
    }

    /// `2/host~1[3]`: the second link from outside, of the fourth element, in frame 2.
    fn name_of(&self, link: &NodeLink) -> String {
        let mut name = self.node_name(link.frame, link.node);
        let graph = match link.frame {
            0 => 0,
            frame => self.frames.iter().find(|f| f.number == frame).expect("opened").graph,
        };
        let node = &self.program.graphs[graph as usize].nodes[link.node as usize];
        if usize::from(link.level) < node.host_level() {
            let _ = write!(name, "~{}", link.level);
        }
        if let Some(item) = link.item {
            let _ = write!(name, "[{item}]");
        }
        name
    }
}

/// The numbers that a step gives to facts.
fn numbers_of(step: &Step) -> Vec<FactNumber> {
    let of_task = step.changes.iter().filter_map(|change| match change {
        Change::TaskSubmitted(record) => record.facts.begun,
        Change::LeaseGranted { fact, .. } | Change::TaskSettled { fact, .. } => *fact,
        _ => None,
    });
    let of_run = step.runs.iter().filter_map(|change| match change {
        RunChange::SubgraphOpened { frame, .. } => frame.fact,
        RunChange::SubgraphClosed { end, .. } | RunChange::NodeEnded { end, .. } => end.fact,
        RunChange::ListBegun { list, .. } => list.fact,
        RunChange::ItemEnded { item, .. } => item.end.fact,
        RunChange::CallEnded { call, .. } => call.fact,
        RunChange::Rebound { bindings, .. } => bindings.fact,
        _ => None,
    });
    of_task.chain(of_run).collect()
}

fn end_text(end: &NodeEnd) -> String {
    let mut text = end.word.text().to_owned();
    if let Some(result) = &end.result {
        let _ = write!(text, " {}", String::from_utf8_lossy(result));
    }
    if let Some(failure) = &end.failure {
        let _ = write!(text, ", {}", failure.reason);
    }
    text
}
