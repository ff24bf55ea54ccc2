//! Stays with a run to its end: events say when to look, and looking tells where it stands.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use protocol::rest::runs::{NodeStatus, Run, RunNode};
use serde_json::Value;
use tokio::sync::mpsc;

use super::look::{look, name_of};
use super::picture::Picture;
use super::screen::Screen;
use super::teller::Teller;
use super::{ending, interrupt};
use crate::context::Context;
use crate::events::{EventReader, Heard};
use crate::exit_code::ExitCode;
use crate::failure::{Failure, Result};
use crate::interrupts::Interrupts;
use crate::output::{self, Format};
use crate::words;

/// Questions are asked no more often.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// And no less often: an event may be lost with its server.
const LOOK_EVERY_MAX: Duration = Duration::from_secs(1);
/// A server that needs long for an answer is asked less often: looking takes at most so much of
/// its time.
const PAUSES_PER_LOOK: u32 = 9;
/// So long without the server, and it is given up.
const AWAY_MAX: Duration = Duration::from_mins(1);
/// What a run's last events take to arrive.
const LAST_EVENTS_WITHIN: Duration = Duration::from_millis(500);
/// How often clocks and bars move.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// Which run.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    pub(crate) run_id: String,
    pub(crate) number: u64,
}

/// How much is told on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// What each node does.
    Nodes,
    /// How it ended.
    EndAlone,
}

/// Follows to the end; success only if the run succeeded.
pub(crate) async fn follow(run: Followed, manner: Manner, context: &Context) -> Result<ExitCode> {
    let mut interrupts = Interrupts::new()?;
    let mut events = Some(heard_of(&run, context));
    let mut vigil = Vigil::new(run, manner, context);
    loop {
        tokio::select! {
            biased;
            () = interrupts.next() => {
                return interrupt::leave(interrupts, vigil.run.number, context).await;
            }
            heard = next_of(&mut events) => match heard {
                Ok(heard) => vigil.hear(&heard),
                // Looking now and then tells the same, only later.
                Err(()) => events = None,
            },
            () = tokio::time::sleep_until(vigil.due().into()) => {
                if let Some(end) = vigil.look().await? {
                    vigil.hear_out(&mut events).await;
                    return Ok(vigil.end(&end));
                }
            }
            () = tokio::time::sleep(DRAW_EVERY), if vigil.screen.is_some() => vigil.draw(),
        }
    }
}

type Events = Option<mpsc::Receiver<Result<Heard>>>;

fn heard_of(run: &Followed, context: &Context) -> mpsc::Receiver<Result<Heard>> {
    // Whoever reads lines wants all of them; to look again it takes only these.
    let types = match context.output.format() {
        Format::Jsonl => "",
        Format::Text | Format::Json | Format::Quiet => "&types=run.status,node.status,node.state",
    };
    let query = format!("runId={}{types}", run.run_id);
    EventReader::new(context, &query, None).spawn()
}

async fn next_of(events: &mut Events) -> std::result::Result<Heard, ()> {
    match events {
        Some(events) => match events.recv().await {
            Some(Ok(heard)) => Ok(heard),
            Some(Err(_)) | None => Err(()),
        },
        None => std::future::pending().await,
    }
}

/// What was seen and told so far.
struct Vigil<'a> {
    run: Followed,
    manner: Manner,
    context: &'a Context,
    screen: Option<Screen>,
    teller: Teller,
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

impl<'a> Vigil<'a> {
    fn new(run: Followed, manner: Manner, context: &'a Context) -> Self {
        let screen = Screen::new(context.output).filter(|_| manner == Manner::Nodes);
        let now = Instant::now();
        Self {
            run,
            manner,
            context,
            screen,
            teller: Teller::default(),
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

    fn hear(&mut self, heard: &Heard) {
        match heard {
            Heard::Open => self.is_stale = true,
            Heard::Event(frame) => {
                self.is_stale = true;
                if self.context.output.format() == Format::Jsonl {
                    self.context.output.line(&frame.data);
                }
            }
            Heard::Away => self.note("the server does not answer; waiting for it"),
            Heard::Back => {
                self.is_stale = true;
                self.note("the server is back");
            }
        }
    }

    /// Whoever reads lines gets all of them, also those that come after the last look.
    async fn hear_out(&mut self, events: &mut Events) {
        if self.context.output.format() != Format::Jsonl {
            return;
        }
        let rest = async {
            while let Ok(heard) = next_of(events).await {
                self.hear(&heard);
            }
        };
        // The stream of a run does not end with it.
        let _ = tokio::time::timeout(LAST_EVENTS_WITHIN, rest).await;
    }

    /// One look; gives the run when it is over.
    async fn look(&mut self) -> Result<Option<Run>> {
        let asked = Instant::now();
        self.is_stale = false;
        let run = look(self.context, &self.run.run_id).await;
        self.looked = Instant::now();
        self.pause = LOOK_EVERY.max(asked.elapsed() * PAUSES_PER_LOOK);
        let run = match run {
            Ok(run) => run,
            Err(failure) if self.is_endured(&failure) => return Ok(None),
            Err(failure) => return Err(self.cut(failure)),
        };
        self.seen = Instant::now();
        if !std::mem::replace(&mut self.has_headline, true) && self.manner == Manner::Nodes {
            let nodes = run.counts.map_or(0, |counts| counts.total);
            let nodes = words::count(usize::try_from(nodes).unwrap_or(usize::MAX), "node");
            let name = if run.name.is_empty() { "" } else { &format!("{} · ", run.name) };
            self.note(&format!("run {} · {name}{nodes}", run.number));
        }
        if run.status.is_terminal() {
            self.nodes = run.nodes.clone().unwrap_or_default();
            return Ok(Some(run));
        }
        self.nodes = run.nodes.unwrap_or_default();
        self.show();
        Ok(None)
    }

    fn show(&mut self) {
        self.ask_people();
        if self.screen.is_some() {
            self.draw();
        } else if self.manner == Manner::Nodes {
            self.teller.tell(&Picture::of(&self.nodes, words::now()), self.context.output);
        }
    }

    fn draw(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.draw(&Picture::of(&self.nodes, words::now()).lines(Screen::height()));
        }
    }

    /// A run that waits for a person says so, and how it is answered.
    fn ask_people(&mut self) {
        let waiting = self.nodes.iter().filter(|node| node.status == NodeStatus::Running);
        let questions: Vec<_> = waiting
            .filter_map(|node| Some((node.node_id.clone(), question(self.run.number, node)?)))
            .collect();
        for (node, question) in questions {
            if self.asked.insert(node) {
                self.note(&question);
            }
        }
    }

    fn note(&mut self, text: &str) {
        match &mut self.screen {
            Some(screen) => screen.note(text),
            None => self.context.output.note(text),
        }
    }

    /// A server that restarts comes back.
    fn is_endured(&self, failure: &Failure) -> bool {
        failure.exit == ExitCode::Unreachable && self.seen.elapsed() < AWAY_MAX
    }

    /// Where to go on when the server was away for too long.
    fn cut(&self, failure: Failure) -> Failure {
        if failure.exit != ExitCode::Unreachable {
            return failure;
        }
        let number = self.run.number;
        failure.with_hint(format!("the run may go on; follow it with `astra run follow {number}`"))
    }

    fn end(mut self, run: &Run) -> ExitCode {
        self.draw();
        if self.screen.is_none() && self.manner == Manner::Nodes {
            self.teller.tell(&Picture::of(&self.nodes, words::now()), self.context.output);
        }
        let output = self.context.output;
        output.note(ending::headline(run));
        if let Some(ways_on) = ending::ways_on(run) {
            output.note(ways_on);
        }
        if !output.is_for_people() {
            output.show(run);
        } else if let Some(outputs) = run.outputs.as_ref().filter(|raw| raw.get() != "{}") {
            let value: Value = serde_json::from_str(outputs.get()).unwrap_or_default();
            output.line(&output::pretty(&value));
        }
        ending::exit_code(run.status)
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
