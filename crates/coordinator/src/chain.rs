//! Chains of middlewares: each calls the next in line, as often as it likes, and waits for it. A
//! call makes a task (or enters a subgraph), and is answered when that has come to its end.

use model::{CallLink, LeaseId, NodeLink, RunId, TaskId};
use serde_json::Value;

use crate::command::{NextCall, Ticket};
use crate::coordinator::Turn;
use crate::deadline::Deadline;
use crate::effect::{Answer, NextEnd};
use crate::report::Standing;
use crate::run::{Child, Place, Run, UnitEnd, parsed};
use crate::run_change::{NodeWord, RunChange};

/// Calls of one task that may be under way, or remembered, at the same time.
pub const CALLS_MAX: usize = 10_000;

const NO_CHAIN: NextEnd = NextEnd::NotAllowed {
    code: "next_no_chain",
    reason: "this task belongs to no chain of middlewares, or nobody comes after it",
};
const NO_LEASE: NextEnd = NextEnd::NotAllowed {
    code: "next_lease_over",
    reason: "the lease of the caller is over, so its calls are too",
};
const TOO_MANY: NextEnd = NextEnd::NotAllowed {
    code: "next_too_many",
    reason: "this task has made as many calls as one task may",
};

impl Turn<'_> {
    pub(crate) fn on_next(&mut self, ticket: Ticket, call: &NextCall) {
        if !matches!(self.standing(call.lease, &call.worker), Standing::Holder) {
            return self.answer_next(ticket, NO_LEASE);
        }
        let task = self.state.tasks.get(call.lease.task).expect("held tasks are live");
        let Some(link) = task.link().cloned() else {
            return self.answer_next(ticket, NO_CHAIN);
        };
        let named = CallLink { caller: call.lease, request: call.request.clone() };
        match self.earlier_call(&link, &named) {
            Some(Child::Ended(answer)) => return self.answer_next(ticket, answer),
            Some(Child::Task(_) | Child::Frame(_)) => {}
            None => {
                if let Err(answer) = self.begin_call(&link, &named, call) {
                    return self.answer_next(ticket, answer);
                }
            }
        }
        self.wait_for_call(ticket, link.run, named, call.until);
    }

    fn answer_next(&mut self, ticket: Ticket, answer: NextEnd) {
        self.answer(ticket, Answer::Next(Box::new(answer)));
    }

    fn earlier_call(&self, link: &NodeLink, call: &CallLink) -> Option<Child> {
        let run = self.state.runs.live.get(&link.run)?;
        Some(run.calls.get(&call.caller.task)?.get(call)?.child.clone())
    }

    fn begin_call(
        &mut self,
        link: &NodeLink,
        named: &CallLink,
        call: &NextCall,
    ) -> Result<(), NextEnd> {
        let run = self.state.runs.live.get(&link.run).ok_or(NO_CHAIN)?;
        let node = run.node(link.frame, link.node).ok_or(NO_CHAIN)?;
        let level = usize::from(link.level) + 1;
        if level > node.host_level() {
            return Err(NO_CHAIN);
        }
        if run.calls.get(&named.caller.task).is_some_and(|calls| calls.len() >= CALLS_MAX) {
            return Err(TOO_MANY);
        }
        let place = Place {
            frame: link.frame,
            node: link.node,
            item: link.item,
            level,
            call: Some(Box::new(named.clone())),
        };
        let payload = (!call.payload.is_empty()).then(|| parsed(&call.payload));
        let payload = payload.filter(Value::is_object);
        self.begin_unit(link.run, &place, payload.as_ref()).map_err(|end| NextEnd::Ended {
            word: end.word,
            failure: end.failure,
            result: None,
        })
    }

    /// The answer goes to whoever asked last: one who asks again has lost the first answer.
    fn wait_for_call(
        &mut self,
        ticket: Ticket,
        run: RunId,
        named: CallLink,
        until: Option<model::Timestamp>,
    ) {
        let live = self.state.runs.live.get_mut(&run);
        let calls = live.and_then(|run| run.calls.get_mut(&named.caller.task));
        let Some(call) = calls.and_then(|calls| calls.get_mut(&named)) else {
            // An empty subgraph has ended already, and the answer is there.
            return self.answer_next(ticket, NO_CHAIN);
        };
        if let Child::Ended(answer) = &call.child {
            let answer = answer.clone();
            return self.answer_next(ticket, answer);
        }
        if let Some(earlier) = call.waiting.replace(ticket) {
            self.stop_asking(earlier);
            self.answer_next(earlier, NO_LEASE);
        }
        if let Some(until) = until {
            self.state.deadlines.insert(until, Deadline::Call(ticket));
        }
        self.state.runs.callers.insert(ticket, (run, named, until));
    }

    fn stop_asking(&mut self, ticket: Ticket) -> Option<(RunId, CallLink)> {
        let (run, call, until) = self.state.runs.callers.remove(&ticket)?;
        if let Some(until) = until {
            self.state.deadlines.remove(until, Deadline::Call(ticket));
        }
        Some((run, call))
    }

    /// The asker has gone; what it called for goes on.
    pub(crate) fn withdraw_call(&mut self, ticket: Ticket) {
        let Some((run, named)) = self.stop_asking(ticket) else { return };
        if let Some(call) = self.state.runs.live.get_mut(&run).and_then(|run| run.call(&named)) {
            call.waiting = None;
        }
    }

    /// What was called for has ended: the caller hears it.
    pub(crate) fn answer_call(&mut self, run: RunId, named: &CallLink, answer: NextEnd) {
        let live = self.state.runs.live.get_mut(&run);
        let waiting = live.and_then(|run| run.call(named)).and_then(|call| call.waiting.take());
        if let Some(ticket) = waiting {
            self.stop_asking(ticket);
            self.answer_next(ticket, answer);
        }
    }

    /// The caller waits no longer: it hears so, and what it called for is stopped.
    pub(crate) fn on_call_due(&mut self, ticket: Ticket) {
        // The deadline has been taken from its table already.
        let Some((run, named, _)) = self.state.runs.callers.remove(&ticket) else { return };
        let live = self.state.runs.live.get_mut(&run);
        let Some(call) = live.and_then(|run| run.call(&named)) else { return };
        call.waiting = None;
        let child = std::mem::replace(&mut call.child, Child::Ended(NextEnd::TimedOut));
        self.stop_child(run, &child);
        self.answer_next(ticket, NextEnd::TimedOut);
    }

    /// An attempt has ended: what it called for has no sense any more.
    pub(crate) fn after_caller(&mut self, run: RunId, caller: LeaseId) {
        let Some(live) = self.state.runs.live.get_mut(&run) else { return };
        let Some(calls) = live.calls.remove(&caller.task) else { return };
        for (_, call) in calls {
            self.stop_child(run, &call.child);
            if let Some(ticket) = call.waiting {
                self.stop_asking(ticket);
                self.answer_next(ticket, NO_LEASE);
            }
        }
    }

    fn stop_child(&mut self, run: RunId, child: &Child) {
        match *child {
            Child::Task(task) => {
                if let Some(live) = self.state.runs.live.get_mut(&run) {
                    let link = self.state.tasks.get(task).and_then(|task| task.link());
                    live.forget_task(task, link);
                }
                self.stop_task(task);
            }
            Child::Frame(frame) => self.cancel_frame(run, frame),
            Child::Ended(_) => {}
        }
    }

    /// Ends a subgraph whose caller has gone; nobody hears of it.
    fn cancel_frame(&mut self, id: RunId, frame: u32) {
        let stopped = self.take_within(id, frame);
        let Some(run) = self.state.runs.live.get_mut(&id) else { return };
        run.frames.remove(&frame);
        let end = UnitEnd { word: NodeWord::Cancelled, result: None, failure: None };
        let end = Box::new(end.at(self.at.now));
        self.step.runs.push(RunChange::FrameClosed { run: id, frame, end });
        self.stop_all(stopped);
    }

    /// The run ends: callers that wait hear so.
    pub(crate) fn answer_callers_of(&mut self, run: RunId) {
        let callers = &self.state.runs.callers;
        let own = callers.iter().filter(|(_, (of, ..))| *of == run).map(|(ticket, _)| *ticket);
        let own: Vec<Ticket> = own.collect();
        for ticket in own {
            self.stop_asking(ticket);
            self.answer_next(ticket, NO_LEASE);
        }
    }
}

impl Run {
    fn call(&mut self, named: &CallLink) -> Option<&mut crate::run::Call> {
        self.calls.get_mut(&named.caller.task)?.get_mut(named)
    }

    /// A task is no longer the run's: whatever becomes of it means nothing here.
    pub(crate) fn forget_task(&mut self, id: TaskId, link: Option<&std::sync::Arc<NodeLink>>) {
        if self.tasks.remove(&id)
            && let Some(link) = link
        {
            self.busy -= u32::from(self.is_executed(link));
        }
    }
}
