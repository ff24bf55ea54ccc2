//! Runs of workflows as people see them: followed to their end, or shown whole.
//!
//! [`node_tree`] draws the nodes.

mod node_tree;

pub(crate) use node_tree::{NodeTree, name_of};

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use protocol::rest::runs::{NodeCounts, NodeStatus, Run, RunNode, RunRef, RunStatus};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use self::node_tree::{NodeChanges, Screen, run_took};
use crate::context::{AWAY_MAX, Context};
use crate::events::{EventReader, StreamEvent};
use crate::failure::{ExitCode, Failure, Result};
use crate::format;
use crate::interrupts::Interrupts;
use crate::output::{self, Format, Show};

/// Where a run is found; its id or its number.
pub(crate) fn path(run: &str) -> String {
    format!("/api/v1/runs/{}", format::percent_encoded(run))
}

/// The run with its nodes.
pub(crate) async fn look(context: &Context, run: &str) -> Result<Run> {
    context.get(&path(run)).await
}

/// Questions are asked no more often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// And no less often: an event may be lost with its server.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(1);
/// A server that needs long for an answer is asked less often: looking takes at most so much of
/// its time.
const PAUSES_PER_LOOK: u32 = 9;
/// What a run's last events take to arrive.
const LAST_EVENTS_WITHIN: Duration = Duration::from_millis(500);
/// How often clocks and bars move.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// How much is told on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// What each node does.
    Nodes,
    /// How it ended.
    EndAlone,
}

/// Follows to the end; success only if the run succeeded.
pub(crate) async fn follow(
    run_id: String,
    number: u64,
    manner: Manner,
    context: &Context,
) -> Result<ExitCode> {
    let mut interrupts = Interrupts::new()?;
    let mut events = Some(subscribe(&run_id, context));
    let mut follower = RunFollower::new((run_id, number), manner, context);
    loop {
        tokio::select! {
            biased;
            () = interrupts.next() => {
                let number = follower.number;
                drop(follower);
                return leave(interrupts, number, context).await;
            }
            heard = next_event(&mut events) => match heard {
                Ok(heard) => follower.on_event(&heard),
                // Looking now and then tells the same, only later.
                Err(()) => events = None,
            },
            () = tokio::time::sleep_until(follower.due().into()) => {
                if let Some(end) = follower.look().await? {
                    follower.drain_events(&mut events).await;
                    return Ok(follower.end(&end));
                }
            }
            () = tokio::time::sleep(DRAW_EVERY), if follower.screen.is_some() => follower.show_nodes(),
        }
    }
}

type Events = Option<mpsc::Receiver<Result<StreamEvent>>>;

fn subscribe(run_id: &str, context: &Context) -> mpsc::Receiver<Result<StreamEvent>> {
    // Whoever reads lines wants all of them; to look again it takes only these.
    let types = match context.output.format() {
        Format::Jsonl => "",
        Format::Text | Format::Json | Format::Quiet => "&types=run.status,node.status,node.state",
    };
    let query = format!("runId={run_id}{types}");
    EventReader::new(context, &query, None).spawn()
}

async fn next_event(events: &mut Events) -> std::result::Result<StreamEvent, ()> {
    match events {
        Some(events) => match events.recv().await {
            Some(Ok(heard)) => Ok(heard),
            Some(Err(_)) | None => Err(()),
        },
        None => std::future::pending().await,
    }
}

/// What was seen and told so far.
struct RunFollower<'a> {
    run_id: String,
    number: u64,
    manner: Manner,
    context: &'a Context,
    screen: Option<Screen>,
    changes: NodeChanges,
    nodes: Vec<RunNode>,
    /// Nodes that wait for a person who was told so.
    asked: BTreeSet<String>,
    has_headline: bool,
    /// Something happened since the last look.
    is_stale: bool,
    looked: Instant,
    /// The least time until the next look.
    pause: Duration,
    /// When the server last answered.
    seen: Instant,
}

impl<'a> RunFollower<'a> {
    fn new((run_id, number): (String, u64), manner: Manner, context: &'a Context) -> Self {
        let screen = Screen::new(context.output).filter(|_| manner == Manner::Nodes);
        let now = Instant::now();
        Self {
            run_id,
            number,
            manner,
            context,
            screen,
            changes: NodeChanges::default(),
            nodes: Vec::new(),
            asked: BTreeSet::new(),
            has_headline: false,
            is_stale: true,
            looked: now,
            pause: Duration::ZERO,
            seen: now,
        }
    }

    fn due(&self) -> Instant {
        let pause = if self.is_stale { self.pause } else { self.pause.max(LOOK_EVERY_MAX) };
        self.looked + pause
    }

    fn on_event(&mut self, heard: &StreamEvent) {
        match heard {
            StreamEvent::Open => self.is_stale = true,
            StreamEvent::Event(frame) => {
                self.is_stale = true;
                if self.context.output.format() == Format::Jsonl {
                    self.context.output.line(&frame.data);
                }
            }
            StreamEvent::Away => self.note("the server does not answer; waiting for it"),
            StreamEvent::Back => {
                self.is_stale = true;
                self.note("the server is back");
            }
        }
    }

    /// Whoever reads lines gets all of them, also those that come after the last look.
    async fn drain_events(&mut self, events: &mut Events) {
        if self.context.output.format() != Format::Jsonl {
            return;
        }
        let rest = async {
            while let Ok(heard) = next_event(events).await {
                self.on_event(&heard);
            }
        };
        // The stream of a run does not end with it.
        let _ = tokio::time::timeout(LAST_EVENTS_WITHIN, rest).await;
    }

    /// One look; gives the run when it is over.
    async fn look(&mut self) -> Result<Option<Run>> {
        let asked = Instant::now();
        self.is_stale = false;
        let run = look(self.context, &self.run_id).await;
        self.looked = Instant::now();
        self.pause = LOOK_EVERY.max(asked.elapsed() * PAUSES_PER_LOOK);
        let run = match run {
            Ok(run) => run,
            Err(failure) if self.is_tolerated(&failure) => return Ok(None),
            Err(failure) => return Err(self.cut(failure)),
        };
        self.seen = Instant::now();
        if !std::mem::replace(&mut self.has_headline, true) && self.manner == Manner::Nodes {
            let nodes = run.counts.map_or(0, |counts| counts.total);
            let nodes = format::count(nodes, "node");
            let name = if run.name.is_empty() { "" } else { &format!("{} · ", run.name) };
            self.note(&format!("run {} · {name}{nodes}", run.number));
        }
        if run.status.is_terminal() {
            self.nodes = run.nodes.clone().unwrap_or_default();
            return Ok(Some(run));
        }
        self.nodes = run.nodes.unwrap_or_default();
        self.ask_people();
        self.show_nodes();
        Ok(None)
    }

    fn show_nodes(&mut self) {
        let node_tree = NodeTree::of(&self.nodes, format::now());
        match &self.screen {
            Some(screen) => screen.draw(&node_tree.lines(Screen::height())),
            None if self.manner == Manner::Nodes => {
                self.changes.tell(&node_tree, self.context.output);
            }
            None => {}
        }
    }

    /// A run that waits for a person says so, and how it is answered.
    fn ask_people(&mut self) {
        let waiting = self.nodes.iter().filter(|node| node.status == NodeStatus::Running);
        let questions: Vec<_> = waiting
            .filter_map(|node| Some((node.node_id.clone(), question(self.number, node)?)))
            .collect();
        for (node, question) in questions {
            if self.asked.insert(node) {
                self.note(&question);
            }
        }
    }

    fn note(&mut self, text: &str) {
        match &self.screen {
            Some(screen) => screen.note(text),
            None => self.context.output.note(text),
        }
    }

    /// A server that restarts comes back.
    fn is_tolerated(&self, failure: &Failure) -> bool {
        failure.exit == ExitCode::Unreachable && self.seen.elapsed() < AWAY_MAX
    }

    /// Where to go on when the server was away for too long.
    fn cut(&self, failure: Failure) -> Failure {
        if failure.exit != ExitCode::Unreachable {
            return failure;
        }
        let number = self.number;
        failure.with_hint(format!("the run may go on; follow it with `astra run follow {number}`"))
    }

    fn end(mut self, run: &Run) -> ExitCode {
        self.show_nodes();
        // What was drawn stays; what is said now stands below.
        self.screen = None;
        let output = self.context.output;
        output.note(headline(run));
        if let Some(ways_on) = ways_on(run) {
            output.note(ways_on);
        }
        if !output.is_for_people() {
            output.show(run);
        } else if let Some(outputs) = run.outputs.as_ref().filter(|raw| raw.get() != "{}") {
            let value: Value = serde_json::from_str(outputs.get()).unwrap_or_default();
            output.line(&output::pretty(&value));
        }
        exit_code(run.status)
    }
}

fn question(run: u64, node: &RunNode) -> Option<String> {
    let name = name_of(node);
    match node.node_type.as_str() {
        "core.approve" => {
            Some(format!("  {name} waits for a yes or no: astra run signal {run} {name} --approve"))
        }
        "core.wait_event" => {
            let event = node.awaited_event.as_deref()?;
            let way = format!("astra run signal {run} {name} --event {event}");
            Some(format!("  {name} waits for an event: {way}"))
        }
        _ => None,
    }
}

/// What the shell is told.
fn exit_code(status: RunStatus) -> ExitCode {
    match status {
        RunStatus::Succeeded => ExitCode::Success,
        RunStatus::Queued | RunStatus::Running | RunStatus::Failed | RunStatus::Cancelled => {
            ExitCode::Failed
        }
    }
}

/// The last line about a run.
fn headline(run: &Run) -> String {
    let mark = format::look(run.status).styled_mark();
    let number = run.number;
    match run.status {
        RunStatus::Succeeded => format!("{mark} run {number} succeeded in {}", run_took(run)),
        RunStatus::Cancelled => format!("{mark} run {number} was stopped after {}", run_took(run)),
        RunStatus::Failed => format!("{mark} run {number} failed: {}", why(run)),
        RunStatus::Queued | RunStatus::Running => format!("{mark} run {number} goes on"),
    }
}

/// What to do next.
fn ways_on(run: &Run) -> Option<String> {
    let number = run.number;
    match run.status {
        RunStatus::Failed | RunStatus::Cancelled => Some(format!(
            "  more: astra run show {number}   again from there: astra run retry {number}"
        )),
        RunStatus::Queued | RunStatus::Running | RunStatus::Succeeded => None,
    }
}

fn why(run: &Run) -> String {
    let Some(error) = &run.error else { return "nobody said why".into() };
    let is_it = |node: &&RunNode| Some(&node.node_id) == error.node_id.as_ref();
    match run.nodes.iter().flatten().find(is_it) {
        Some(node) => format!("{}: {}", name_of(node), error.message),
        None => error.message.clone(),
    }
}

/// After the first one.
async fn leave(mut interrupts: Interrupts, number: u64, context: &Context) -> Result<ExitCode> {
    context.output.note(format!(
        "left run {number}, which goes on; follow it with `astra run follow {number}`, stop it \
         with `astra run stop {number}` or Ctrl-C again"
    ));
    if interrupts.is_repeated().await {
        let path = format!("{}/cancel", path(&number.to_string()));
        let _: RunRef = context.command(&path).await?;
        context.output.note(format!("■ run {number} was stopped"));
    }
    Ok(ExitCode::Interrupted)
}

/// More lines than this are for programs.
const LINES_MAX: usize = 200;
/// Longer values are cut for people.
const VALUE_CHARS_MAX: usize = 400;

impl Show for Run {
    fn text(&self) -> String {
        let look = format::look(self.status);
        let headline = look.styled(look);
        let rows = output::facts(&facts(self));
        let title = format!("{headline}  run {}  {}", self.number, self.name);
        let mut text = format!("{}\n{rows}", title.trim_end());
        if let Some(nodes) = self.nodes.as_deref().filter(|nodes| !nodes.is_empty()) {
            let node_tree = NodeTree::of(nodes, format::now());
            format::push(&mut text, format_args!("\n{}\n", node_tree.lines(LINES_MAX).join("\n")));
        }
        if let Some(ways_on) = ways_on(self) {
            format::push(&mut text, format_args!("\n{ways_on}\n"));
        }
        text
    }

    fn quiet(&self) -> String {
        self.status.word().into()
    }
}

fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("id", run.run_id.clone()),
        ("workflow", workflow(run)),
        (
            "started",
            format!("{} ({}) by {}", run.created_at, format::ago(&run.created_at), run.started_by),
        ),
        ("took", run_took(run)),
    ];
    rows.extend(run.retry_of.iter().map(|before| ("again of", before.clone())));
    rows.extend(run.counts.iter().map(|counts| ("nodes", in_words(counts))));
    rows.extend(value("inputs", run.inputs.as_deref()));
    rows.extend(value("outputs", run.outputs.as_deref()));
    rows.extend(
        run.error.iter().map(|error| ("error", format!("{} ({})", error.message, error.code))),
    );
    let left = run.artifacts.as_ref().map_or(0, Vec::len);
    rows.extend((left > 0).then(|| ("left", format::count(left, "artifact"))));
    let bindings = run.bindings.iter().flatten();
    rows.extend(bindings.map(|bound| ("bound", format!("{} to {}", bound.package, bound.worker))));
    rows
}

fn workflow(run: &Run) -> String {
    match run.workflow_version {
        Some(version) => format!("{} version {version}", run.workflow_id),
        None => run.workflow_id.clone(),
    }
}

fn value(name: &'static str, raw: Option<&RawValue>) -> Option<(&'static str, String)> {
    let text = raw?.get();
    (text != "{}").then(|| (name, format::short(&format::one_line(text), VALUE_CHARS_MAX)))
}

fn in_words(counts: &NodeCounts) -> String {
    let all = [
        ("succeeded", counts.succeeded),
        ("running", counts.running),
        ("queued", counts.queued),
        ("failed", counts.failed),
        ("skipped", counts.skipped),
        ("stopped", counts.cancelled),
    ];
    let some = all.into_iter().filter(|(_, n)| *n > 0);
    let some = some.map(|(word, n)| format!("{} {word}", format::thousands(n)));
    format!("{} ({})", format::thousands(counts.total), some.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_line_names_the_node_that_failed() {
        let run = json!({"runId": "r", "number": 41, "status": "failed", "name": "n",
            "workflowId": "w", "definitionHash": "h", "createdAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:00:03Z", "startedBy": "t",
            "error": {"code": "E", "message": "no such file", "nodeId": "n1"},
            "nodes": [{"nodeId": "n1", "alias": "copy", "status": "failed", "type": "t",
                "attempts": 1}]});
        let mut run: Run = serde_json::from_value(run).expect("a run");
        let said = |run: &Run| anstream::adapter::strip_str(&headline(run)).to_string();
        assert_eq!(said(&run), "✗ run 41 failed: copy: no such file");
        assert_eq!(exit_code(run.status), ExitCode::Failed);
        run.status = RunStatus::Succeeded;
        assert_eq!(said(&run), "✓ run 41 succeeded in 3.0s");
        assert_eq!(exit_code(run.status), ExitCode::Success);
    }

    #[test]
    fn a_run_is_shown_with_its_nodes() {
        let run = json!({"runId": "r", "number": 41, "status": "succeeded", "name": "Greeting",
            "workflowId": "w", "workflowVersion": 3, "definitionHash": "h",
            "createdAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:03Z",
            "startedBy": "dev", "inputs": {}, "outputs": {"sent": "hello"},
            "counts": {"queued": 0, "running": 0, "succeeded": 1, "failed": 0, "cancelled": 0,
                "skipped": 0, "total": 1},
            "nodes": [{"nodeId": "n1", "alias": "send", "status": "succeeded", "type": "t",
                "attempts": 1, "taskId": "t"}]});
        let run: Run = serde_json::from_str(&run.to_string()).expect("a run");
        let text = anstream::adapter::strip_str(&run.text()).to_string();
        for line in [
            "✓ Succeeded  run 41  Greeting",
            "  workflow  w version 3",
            "  took      3.0s",
            "  nodes     1 (1 succeeded)",
            "  outputs   {\"sent\":\"hello\"}",
            "  ✓ send  Succeeded",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
        assert!(!text.contains("inputs"), "nothing was given\n{text}");
        assert_eq!(run.quiet(), "succeeded");
    }
}
