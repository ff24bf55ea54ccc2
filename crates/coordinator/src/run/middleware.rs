//! Chains of middlewares: each calls the next in line, as often as it likes, and waits for it. A
//! call makes a task (or enters a subgraph), and is answered when that has come to its end.

use std::collections::BTreeMap;

use model::{CallLink, LeaseId, NodeLink, NodeWord, RunId, TaskId, Timestamp};
use serde_json::Value;

use crate::command::{NextCall, Ticket};
use crate::coordinator::Decision;
use crate::effect::{Answer, NextEnd};
use crate::run::change::{EndedCall, RunChange};
use crate::run::run_state::{Child, Place, UnitEnd, parsed};
use crate::state::Deadline;
use crate::state::State;
use crate::task::report::Standing;

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

/// Soft state: who waits for the answer of which call. A caller that is here after a restart asks
/// again.
#[derive(Debug, Default)]
pub(crate) struct Callers {
    by_ticket: BTreeMap<Ticket, (RunId, CallLink, Option<Timestamp>)>,
    by_call: BTreeMap<CallLink, Ticket>,
}

impl Callers {
    fn add(&mut self, ticket: Ticket, run: RunId, call: CallLink, until: Option<Timestamp>) {
        self.by_call.insert(call.clone(), ticket);
        self.by_ticket.insert(ticket, (run, call, until));
    }

    fn remove(&mut self, ticket: Ticket) -> Option<(RunId, CallLink, Option<Timestamp>)> {
        let caller = self.by_ticket.remove(&ticket)?;
        self.by_call.remove(&caller.1);
        Some(caller)
    }

    /// Who waits for answers to calls of this task.
    fn of_task(&self, task: TaskId) -> Vec<Ticket> {
        let first = CallLink { caller: LeaseId { task, epoch: 0 }, request: "".into() };
        let own = self.by_call.range(first..).take_while(|(call, _)| call.caller.task == task);
        own.map(|(_, ticket)| *ticket).collect()
    }

    fn of_run(&self, run: RunId) -> Vec<Ticket> {
        let own = self.by_ticket.iter().filter(|(_, (of, ..))| *of == run);
        own.map(|(ticket, _)| *ticket).collect()
    }

    /// How many wait until a moment.
    pub(crate) fn with_deadline(&self) -> usize {
        self.by_ticket.values().filter(|(_, _, until)| until.is_some()).count()
    }

    /// # Panics
    /// When someone waits for an answer that is there, or for a call that nobody made.
    pub(crate) fn check(&self, state: &State) {
        assert_eq!(self.by_ticket.len(), self.by_call.len(), "callers of next");
        for (ticket, (run, call, _)) in &self.by_ticket {
            assert_eq!(self.by_call.get(call), Some(ticket), "callers of next");
            let child = state.call(*run, call);
            assert!(matches!(child, Some(Child::Task(_) | Child::Frame(_))), "{call:?}: {child:?}");
        }
    }
}

impl State {
    fn call(&self, run: RunId, call: &CallLink) -> Option<&Child> {
        self.runs.live.get(&run)?.calls.get(&call.caller.task)?.get(call)
    }

    /// What a task has called for that has not ended.
    pub(crate) fn calls_of(&self, run: RunId, task: TaskId) -> Vec<Child> {
        let calls = self.runs.live.get(&run).and_then(|run| run.calls.get(&task));
        let open = |child: &&Child| !matches!(child, Child::Ended(_));
        calls.into_iter().flat_map(BTreeMap::values).filter(open).cloned().collect()
    }
}

impl Decision<'_> {
    pub(crate) fn on_next(&mut self, ticket: Ticket, call: &NextCall) {
        if !matches!(self.standing(call.lease, &call.worker), Standing::Holder) {
            return self.answer_next(ticket, NO_LEASE);
        }
        let task = self.state.tasks.get(call.lease.task).expect("held tasks are live");
        let Some(link) = task.link().cloned() else {
            return self.answer_next(ticket, NO_CHAIN);
        };
        let named = CallLink { caller: call.lease, request: call.request.clone() };
        if self.state.call(link.run, &named).is_none()
            && let Err(answer) = self.begin_call(&link, &named, call)
        {
            return self.answer_next(ticket, answer);
        }
        self.wait_for_call(ticket, link.run, named, call.until);
    }

    fn answer_next(&mut self, ticket: Ticket, answer: NextEnd) {
        self.answer(ticket, Answer::Next(Box::new(answer)));
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
        if let Err(end) = self.begin_unit(link.run, &place, payload.as_ref()) {
            self.end_call(link.run, named, end.failure);
        }
        Ok(())
    }

    /// A call ends without an end of what it called for.
    fn end_call(&mut self, run: RunId, named: &CallLink, failure: Option<model::Failure>) {
        let Some(live) = self.state.runs.live.get(&run) else { return };
        let (call, fact) = (named.clone(), Some(live.next_fact()));
        let call = Box::new(EndedCall { call, failure, at: self.now(), fact });
        self.record_run(RunChange::CallEnded { run, call });
    }

    /// The answer goes to whoever asked last: one who asks again has lost the first answer.
    fn wait_for_call(
        &mut self,
        ticket: Ticket,
        run: RunId,
        named: CallLink,
        until: Option<Timestamp>,
    ) {
        match self.state.call(run, &named) {
            // The run ended with an empty subgraph that was called for.
            None => return self.answer_next(ticket, NO_CHAIN),
            Some(Child::Ended(answer)) => {
                let answer = answer.clone();
                return self.answer_next(ticket, answer);
            }
            Some(Child::Task(_) | Child::Frame(_)) => {}
        }
        if let Some(earlier) = self.state.runs.callers.by_call.get(&named).copied() {
            self.stop_asking(earlier);
            self.answer_next(earlier, NextEnd::AskedAgain);
        }
        if let Some(until) = until {
            self.state.deadlines.insert(until, Deadline::Call(ticket));
        }
        self.state.runs.callers.add(ticket, run, named, until);
    }

    /// The asker has gone; what it called for goes on.
    pub(crate) fn stop_asking(&mut self, ticket: Ticket) {
        if let Some((_, _, Some(until))) = self.state.runs.callers.remove(ticket) {
            self.state.deadlines.remove(until, Deadline::Call(ticket));
        }
    }

    /// What was called for has ended: the caller hears it.
    pub(crate) fn answer_call(&mut self, named: &CallLink, answer: NextEnd) {
        if let Some(ticket) = self.state.runs.callers.by_call.get(named).copied() {
            self.stop_asking(ticket);
            self.answer_next(ticket, answer);
        }
    }

    /// The caller waits no longer: it hears so, and what it called for is stopped.
    pub(crate) fn on_call_due(&mut self, ticket: Ticket) {
        // The deadline has been taken from its table already.
        let Some((run, named, _)) = self.state.runs.callers.remove(ticket) else { return };
        let Some(child) = self.state.call(run, &named).cloned() else { return };
        self.end_call(run, &named, None);
        self.stop_child(run, &child);
        self.answer_next(ticket, NextEnd::TimedOut);
    }

    /// An attempt has ended: what it called for has no sense any more.
    pub(crate) fn after_caller(&mut self, run: RunId, caller: TaskId, children: Vec<Child>) {
        for ticket in self.state.runs.callers.of_task(caller) {
            self.stop_asking(ticket);
            self.answer_next(ticket, NO_LEASE);
        }
        for child in children {
            self.stop_child(run, &child);
        }
    }

    fn stop_child(&mut self, run: RunId, child: &Child) {
        match *child {
            Child::Task(task) => {
                self.stop_task(task);
            }
            Child::Frame(frame) => {
                let end = UnitEnd { word: NodeWord::Cancelled, result: None, failure: None };
                self.close_subgraph(run, frame, end);
            }
            Child::Ended(_) => {}
        }
    }

    /// The run ends: callers that wait hear so.
    pub(crate) fn answer_callers_of(&mut self, run: RunId) {
        for ticket in self.state.runs.callers.of_run(run) {
            self.stop_asking(ticket);
            self.answer_next(ticket, NO_LEASE);
        }
    }
}
