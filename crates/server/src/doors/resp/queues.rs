//! Queues as lists, and `QUEUE.*`.

use bytes::Bytes;
use coordinator::{LoadKey, Pause, QueueView, StateWord, TaskRecord, TaskState, WorkerHealth};
use model::{QueueName, TaskId, Timestamp};
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use store::{Detail, PageQuery};

use super::answers::{PROCESSING, SCHEDULED, queue_in, queues_of};
use super::answers::{job_status, job_view, json_bulk, store_error};
use super::connection::Connection;
use super::jobs::{arity, text_of};
use crate::resp_workers::job_types;

/// Limit: jobs that one look at a queue shows.
const PEEKED_JOBS_MAX: u32 = 1_000;
const PEEKED_JOBS: u32 = 10;

fn in_states(states: &[StateWord], limit: u32) -> PageQuery {
    PageQuery { states: states.to_vec(), limit, ..PageQuery::default() }
}

impl Connection {
    pub(super) async fn queue_views(&self) -> Result<Vec<QueueView>, Reply> {
        Ok(self.member().handle.list_queues().await?)
    }

    /// The ready jobs of a list in the order in which they are taken, and how many there are.
    pub(super) async fn peek(
        &self,
        queue: &str,
        skip: u32,
        limit: u32,
    ) -> Result<(Vec<TaskId>, u64), Reply> {
        let queues: Vec<QueueName> = queues_of(queue)
            .map_err(|text| Reply::error(format!("ERR {text}")))?
            .into_iter()
            .collect();
        Ok(self.member().handle.peek(queues, Some(job_types()), skip, limit).await?)
    }

    async fn records_of(&self, tasks: Vec<TaskId>) -> Result<Vec<TaskRecord>, Reply> {
        let shard = self.member().handle.shard();
        let keys = tasks.into_iter().map(LoadKey::Task).collect();
        let found = self.app.store.load(shard, keys).await.map_err(|error| store_error(&error))?;
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    /// How many jobs a list has.
    pub(super) async fn queue_len(&self, queue: &str) -> Result<u64, Reply> {
        if queue != PROCESSING && queue != SCHEDULED {
            return Ok(self.peek(queue, 0, 0).await?.1);
        }
        let views = self.queue_views().await?;
        let count = |view: &QueueView| match queue {
            PROCESSING => view.in_flight,
            _ => view.scheduled + view.retries_due,
        };
        Ok(views.iter().map(count).sum())
    }

    /// `LRANGE`: the job that is taken next stands last, as in a list that is pushed at its left
    /// and popped at its right.
    async fn queue_range(&self, queue: &str, start: i64, stop: i64) -> Result<Vec<Bytes>, Reply> {
        let length = i64::try_from(self.queue_len(queue).await?).unwrap_or(i64::MAX);
        let at = |index: i64| if index < 0 { (length + index).max(0) } else { index };
        let (first, last) = (at(start), at(stop).min(length - 1));
        if first > last {
            return Ok(Vec::new());
        }
        let limit = u32::try_from(last - first + 1).unwrap_or(u32::MAX).min(PEEKED_JOBS_MAX);
        let mut records = match queue {
            PROCESSING => self.search(in_states(&[StateWord::Running], PEEKED_JOBS_MAX)).await?,
            SCHEDULED => {
                let states = [StateWord::Waiting, StateWord::Retrying];
                self.search(in_states(&states, PEEKED_JOBS_MAX)).await?
            }
            _ => {
                let skip = u32::try_from(length - 1 - last).unwrap_or(u32::MAX);
                let (tasks, _) = self.peek(queue, skip, limit).await?;
                let mut records = self.records_of(tasks).await?;
                records.reverse();
                records
            }
        };
        records.truncate(limit as usize);
        let text = |record: &TaskRecord| {
            Bytes::from(serde_json::Value::Object(job_view(record)).to_string())
        };
        Ok(records.iter().map(text).collect())
    }

    /// Commands for lists, on a queue.
    pub(super) async fn answer_queue(&mut self, request: &Request) -> Result<Reply, Reply> {
        let name = request.upper_name().map(|name| name.as_str().to_owned()).unwrap_or_default();
        let queue = request.arguments.get(1).and_then(|key| queue_in(key));
        let queue = queue.ok_or_else(|| Reply::error("ERR a queue's name is text"))?;
        let number = |idx: usize| {
            let text = std::str::from_utf8(&request.arguments[idx]).ok();
            text.and_then(|text| text.parse::<i64>().ok())
                .ok_or_else(|| Reply::error("ERR value is not an integer or out of range"))
        };
        let length = |n: u64| Reply::Integer(i64::try_from(n).unwrap_or(i64::MAX));
        match (name.as_str(), request.arguments.len()) {
            ("LLEN", 2) => Ok(length(self.queue_len(queue).await?)),
            ("LRANGE", 4) => {
                let jobs = self.queue_range(queue, number(2)?, number(3)?).await?;
                Ok(Reply::Array(jobs.into_iter().map(Reply::Bulk).collect()))
            }
            ("LREM", 4) => self.on_queue_lrem(queue, &request.arguments[3]).await,
            ("EXISTS", 2) => Ok(Reply::Integer(i64::from(self.queue_len(queue).await? > 0))),
            ("TYPE", 2) => Ok(Reply::simple("list")),
            ("TTL", 2) => Ok(Reply::Integer(-1)),
            ("LLEN" | "LRANGE" | "LREM" | "EXISTS" | "TYPE" | "TTL", _) => Err(arity(request)),
            _ => Err(Reply::error(format!(
                "ERR queue:{queue} shows jobs; use LPUSH, BRPOP, LLEN, LRANGE, or QUEUE.* and JOB.*"
            ))),
        }
    }

    /// A worker takes its job off the list of held ones: the report did that already.
    async fn on_queue_lrem(&mut self, queue: &str, value: &Bytes) -> Result<Reply, Reply> {
        let value = text_of(value)?;
        let name = super::jobs::popped_name(value).into_owned();
        let Some(record) = self.find_record(&name).await? else { return Ok(Reply::Integer(0)) };
        if queue.starts_with(PROCESSING) {
            return Ok(Reply::Integer(1));
        }
        let task = record.id;
        if !matches!(record.progress.state.word(), StateWord::Queued) {
            return Ok(Reply::Integer(0));
        }
        let is_stopped = self.member().handle.stop(task).await?;
        Ok(Reply::Integer(is_stopped.into()))
    }

    // ----- QUEUE.*

    /// `QUEUE.STATS [queue]`: all queues in a few numbers, or one in detail.
    pub(super) async fn on_queue_stats(&mut self, request: &Request) -> Result<Reply, Reply> {
        let views = self.queue_views().await?;
        let shard = self.member().handle.shard();
        let dead = self.app.store.count_dead(shard).await.map_err(|error| store_error(&error))?;
        match &request.arguments[1..] {
            [] => {
                let workers = self.worker_views().await?;
                let active = workers.iter().filter(|view| view.health != WorkerHealth::Lost);
                let dead = dead.iter().map(|(_, n)| n).sum();
                Ok(all_stats(&views, dead, active.count() as u64))
            }
            [queue] => {
                let queue = text_of(queue)?.trim_start_matches("queue:");
                let view = views.iter().find(|view| view.queue.as_str() == queue);
                let dead = dead.iter().find(|(name, _)| name.as_str() == queue);
                let next = self.next_due(queue).await?;
                Ok(self.one_stats(queue, view, dead.map_or(0, |(_, n)| *n), next))
            }
            _ => Err(arity(request)),
        }
    }

    /// When the first job of a queue that waits for its moment is due.
    async fn next_due(&self, queue: &str) -> Result<Option<Timestamp>, Reply> {
        let Ok(queue) = queue.parse() else { return Ok(None) };
        let query = in_states(&[StateWord::Waiting, StateWord::Retrying], PEEKED_JOBS_MAX);
        let query = PageQuery { queue: Some(queue), detail: Detail::Summary, ..query };
        let waiting = self.search(query).await?;
        let due = waiting.iter().filter_map(|record| match record.progress.state {
            TaskState::Waiting { until, .. } if until < Timestamp::MAX => Some(until),
            _ => None,
        });
        Ok(due.min())
    }

    fn one_stats(
        &self,
        queue: &str,
        view: Option<&QueueView>,
        dead: u64,
        next: Option<Timestamp>,
    ) -> Reply {
        let now = self.app.clock.now();
        let age = view.and_then(|view| view.oldest_since).map_or(0, |at| now.since(at).as_secs());
        let count = |count: fn(&QueueView) -> u64| integer(view.map_or(0, count));
        let paused = view.and_then(|view| view.paused.as_ref());
        map([
            ("queue", Reply::bulk(queue.to_owned().into_bytes())),
            ("length", count(|view| view.depth)),
            ("oldest_job_age_seconds", integer(age)),
            (
                "next_job_due_in_seconds",
                next.map_or(Reply::Null, |next| integer(next.since(now).as_secs())),
            ),
            ("running", count(|view| view.in_flight)),
            ("retries_due", count(|view| view.retries_due)),
            ("scheduled", count(|view| view.scheduled)),
            ("dead", integer(dead)),
            ("paused", Reply::Integer(i64::from(paused.is_some()))),
            (
                "paused_by",
                paused.map_or(Reply::Null, |pause| Reply::bulk(pause.by.clone().into_bytes())),
            ),
        ])
    }

    /// `QUEUE.PEEK queue [count]`: who is next.
    pub(super) async fn on_queue_peek(&mut self, request: &Request) -> Result<Reply, Reply> {
        let (queue, limit) = match &request.arguments[1..] {
            [queue] => (queue, PEEKED_JOBS),
            [queue, count] => {
                let count = text_of(count)?.parse::<u32>();
                let wrong = |_| Reply::error("ERR value is not an integer or out of range");
                (queue, count.map_err(wrong)?.min(PEEKED_JOBS_MAX))
            }
            _ => return Err(arity(request)),
        };
        let queue = text_of(queue)?.trim_start_matches("queue:");
        let (tasks, _) = self.peek(queue, 0, limit).await?;
        let records = self.records_of(tasks).await?;
        Ok(Reply::Array(records.iter().map(|record| json_bulk(job_status(record))).collect()))
    }

    /// `QUEUE.PAUSE queue` and `QUEUE.RESUME queue`: kept before it is answered.
    pub(super) async fn on_queue_pause(
        &mut self,
        request: &Request,
        is_pause: bool,
    ) -> Result<Reply, Reply> {
        let [_, queue] = &request.arguments[..] else { return Err(arity(request)) };
        let queue = text_of(queue)?.trim_start_matches("queue:");
        let queue: QueueName =
            queue.parse().map_err(|error| Reply::error(format!("ERR {error}")))?;
        let by = self.member().credential.clone();
        let pause = is_pause.then(|| Pause { by, at: self.app.clock.now() });
        self.member().handle.set_pause(queue, pause).await?;
        Ok(Reply::ok())
    }
}

fn all_stats(views: &[QueueView], dead: u64, active: u64) -> Reply {
    let sum = |count: fn(&QueueView) -> u64| views.iter().map(count).sum::<u64>();
    let fields = [
        ("pending_jobs", sum(|view| view.depth)),
        ("scheduled_jobs", sum(|view| view.scheduled + view.retries_due)),
        ("running_jobs", sum(|view| view.in_flight)),
        ("dead_jobs", dead),
        ("active_workers", active),
    ];
    map(fields.into_iter().map(|(name, n)| (name, integer(n))))
}

fn integer(n: u64) -> Reply {
    Reply::Integer(i64::try_from(n).unwrap_or(i64::MAX))
}

fn map(fields: impl IntoIterator<Item = (&'static str, Reply)>) -> Reply {
    let pair = |(name, value): (&'static str, Reply)| (Reply::bulk(name.as_bytes()), value);
    Reply::Map(fields.into_iter().map(pair).collect())
}
