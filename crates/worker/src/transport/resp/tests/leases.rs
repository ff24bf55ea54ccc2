//! Plays our own server: jobs are leased, reports are judged.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use protocol::resp::reply::Reply;
use serde_json::{Value, json};

use super::server::{Answer, text};

/// A job as this server keeps it.
#[derive(Debug, Default)]
pub(super) struct Leased {
    body: Value,
    epoch: u32,
    /// Who was given it and has not spoken of it yet.
    unread_by: Option<usize>,
    /// The report that counts.
    pub(super) report: Option<Bytes>,
}

/// Jobs and leases.
#[derive(Default)]
pub(super) struct Leases {
    pub(super) waiting: VecDeque<String>,
    pub(super) jobs: BTreeMap<String, Leased>,
    /// The queues that were asked.
    pub(super) asked: Vec<String>,
    /// Errors that the next updates are answered with.
    pub(super) update_errors: VecDeque<&'static str>,
    /// What updates that end nothing are answered with, from here on.
    pub(super) progress_error: Option<&'static str>,
    pub(super) heartbeat: &'static str,
    /// Errors that the next heartbeats and pops are answered with.
    pub(super) heartbeat_errors: VecDeque<&'static str>,
    pub(super) pop_errors: VecDeque<&'static str>,
    pub(super) is_registered: bool,
    /// Whether a pop gives the value alone.
    pub(super) gives_bare: bool,
    pub(super) refuses: Option<&'static str>,
}

impl Leases {
    pub(super) fn push(&mut self, job_id: &str, body: Value) {
        self.jobs.insert(job_id.into(), Leased { body, ..Leased::default() });
        self.waiting.push_back(job_id.into());
    }

    /// Jobs that are held and not reported.
    pub(super) fn n_held(&self) -> usize {
        let is_held = |(id, job): &(&String, &Leased)| {
            job.epoch > 0 && job.report.is_none() && !self.waiting.contains(id)
        };
        self.jobs.iter().filter(is_held).count()
    }

    pub(super) fn n_waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn would_pop(&self, words: &[Bytes]) -> Option<bool> {
        (words[0] == "BRPOP").then_some(!self.waiting.is_empty())
    }

    pub(super) fn on_gone(&mut self, connection: usize) {
        for (id, job) in &mut self.jobs {
            if job.unread_by.take_if(|by| *by == connection).is_some() {
                self.waiting.push_back(id.clone());
            }
        }
    }

    pub(super) fn answer(&mut self, connection: usize, words: &[Bytes]) -> Answer {
        let spoken = text(words);
        let spoken: Vec<&str> = spoken.iter().map(String::as_str).collect();
        // Whoever says something has read what was said before.
        for job in self.jobs.values_mut() {
            job.unread_by.take_if(|by| *by == connection);
        }
        Answer::Reply(match spoken[..] {
            ["WORKER.REGISTER", _] => self.register(),
            ["WORKER.HEARTBEAT", id, _] if !self.is_registered => {
                Reply::error(format!("ERR Worker not registered: {id}"))
            }
            ["WORKER.HEARTBEAT", _, _] => match self.heartbeat_errors.pop_front() {
                Some(error) => Reply::error(error),
                None => Reply::simple(self.heartbeat),
            },
            ["WORKER.UNREGISTER", _] => Reply::ok(),
            ["BRPOP", ..] => return self.pop(connection, &spoken),
            ["JOB.UPDATE", id, _] => self.update(id, &words[2]),
            _ => Reply::error(format!("ERR unknown command '{}'", spoken[0])),
        })
    }

    fn register(&mut self) -> Reply {
        if let Some(text) = self.refuses {
            return Reply::error(text);
        }
        self.is_registered = true;
        Reply::simple("OK worker_id=w heartbeat_interval=30")
    }

    fn pop(&mut self, connection: usize, words: &[&str]) -> Answer {
        self.asked = words[1..words.len() - 1].iter().map(|queue| (*queue).into()).collect();
        if let Some(error) = self.pop_errors.pop_front() {
            return Answer::Reply(Reply::error(error));
        }
        let Some(id) = self.waiting.pop_front() else { return Answer::Nothing(Reply::NullArray) };
        let job = self.jobs.get_mut(&id).expect("what waits is there");
        job.epoch += 1;
        job.unread_by = Some(connection);
        let mut body = job.body.clone();
        body["job_id"] = json!(id);
        body["lease_id"] = json!(format!("{id}-{}", job.epoch));
        body["attempt"] = json!(job.epoch);
        let value = Reply::bulk(body.to_string().into_bytes());
        let pair = || Reply::Array(vec![Reply::bulk(words[1].to_owned()), value.clone()]);
        Answer::Reply(if self.gives_bare { value } else { pair() })
    }

    fn update(&mut self, id: &str, json: &Bytes) -> Reply {
        let update: Value = serde_json::from_slice(json).expect("an update is JSON");
        let job = self.jobs.get_mut(id).expect("only jobs of this server are spoken of");
        let is_end = update["status"] != "running";
        if update["lease_id"] != format!("{id}-{}", job.epoch) {
            return Reply::error("CANCELLED superseded: the job was given to another worker");
        }
        match (&job.report, is_end) {
            (Some(report), true) if report == json => return Reply::ok(),
            (Some(_), true) => return Reply::error("REJECTED duplicate_report: with other words"),
            (Some(_), false) => return Reply::error("ERR Invalid status transition"),
            (None, true) => {
                if let Some(error) = self.update_errors.pop_front() {
                    return Reply::error(error);
                }
                job.report = Some(json.clone());
            }
            (None, false) => {
                if let Some(error) = self.progress_error {
                    return Reply::error(error);
                }
            }
        }
        Reply::ok()
    }
}
