//! Queues as lists, and `QUEUE.*`.

use std::borrow::Cow;

use bytes::Bytes;
use coordinator::{LoadKey, Pause, QueueView, StateWord, TaskRecord, TaskState, WorkerHealth};
use model::{QueueName, TaskId, Timestamp};
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use store::{Detail, PageQuery};

use super::answers::{Answered, PROCESSING, RespError, SCHEDULED, queue_in, queues_of, whole};
use super::answers::{job_status, job_view, json_bulk};
use super::connection::Connection;
use super::jobs::{arity, text_at, text_of};
use crate::resp_workers::job_types;

/// Limit: jobs that one look at a queue shows.
const PEEKED_JOBS_MAX: u32 = 1_000;
const PEEKED_JOBS: u32 = 10;

fn in_states(states: &[StateWord], limit: u32) -> PageQuery {
    PageQuery { states: states.to_vec(), limit, ..PageQuery::default() }
}

impl Connection {
    pub(super) async fn queue_views(&self) -> Answered<Vec<QueueView>> {
        Ok(self.member().handle.list_queues().await?)
    }

    /// The ready jobs of a list in the order in which they are taken, and how many there are.
    pub(super) async fn peek(
        &self,
        queue: &str,
        skip: u32,
        limit: u32,
    ) -> Answered<(Vec<TaskId>, u64)> {
        let queues = queues_of(queue)?.into_iter().collect();
        Ok(self.member().handle.peek(queues, Some(job_types()), skip, limit).await?)
    }

    async fn records_of(&self, tasks: Vec<TaskId>) -> Answered<Vec<TaskRecord>> {
        let shard = self.member().handle.shard();
        let keys = tasks.into_iter().map(LoadKey::Task).collect();
        let found = self.app.store.load(shard, keys).await?;
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    /// How many jobs a list has.
    pub(super) async fn queue_len(&self, queue: &str) -> Answered<u64> {
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
    async fn queue_range(&self, queue: &str, start: i64, stop: i64) -> Answered<Vec<Reply>> {
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
        Ok(records.iter().map(|record| json_bulk(job_view(record))).collect())
    }

    /// Commands for lists, on a queue.
    pub(super) async fn answer_queue(
        &mut self,
        command: &str,
        key: &[u8],
        rest: &[Bytes],
    ) -> Answered {
        let queue = queue_in(key).ok_or(RespError::new("ERR a queue's name is text"))?;
        match (command, rest) {
            ("llen", _) => Ok(whole(self.queue_len(queue).await?)),
            ("lrange", [start, stop]) => {
                Ok(Reply::Array(self.queue_range(queue, number(start)?, number(stop)?).await?))
            }
            ("lrem", [_, value]) => self.on_queue_lrem(queue, value).await,
            ("exists", _) => Ok((self.queue_len(queue).await? > 0).into()),
            ("type", _) => Ok(Reply::simple("list")),
            ("ttl", _) => Ok(Reply::Integer(-1)),
            _ => {
                let instead = "use LPUSH, BRPOP, LLEN, LRANGE, or QUEUE.* and JOB.*";
                Err(format!("queue:{queue} shows jobs; {instead}").into())
            }
        }
    }

    /// A worker takes its job off the list of held ones: the report did that already.
    async fn on_queue_lrem(&mut self, queue: &str, value: &Bytes) -> Answered {
        let value = text_of(value)?;
        let name = super::jobs::popped_name(value).into_owned();
        let Some(record) = self.find_record(&name).await? else { return Ok(Reply::Integer(0)) };
        if queue.starts_with(PROCESSING) {
            return Ok(Reply::Integer(1));
        }
        if record.progress.state.word() != StateWord::Queued {
            return Ok(Reply::Integer(0));
        }
        Ok(self.member().handle.stop(record.id).await?.into())
    }

    // ----- QUEUE.*

    /// `QUEUE.STATS [queue]`: all queues in a few numbers, or one in detail.
    pub(super) async fn on_queue_stats(&mut self, request: &Request) -> Answered {
        let views = self.queue_views().await?;
        let shard = self.member().handle.shard();
        let dead = self.app.store.count_dead(shard).await?;
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
    async fn next_due(&self, queue: &str) -> Answered<Option<Timestamp>> {
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
        let count = |count: fn(&QueueView) -> u64| whole(view.map_or(0, count));
        let paused = view.and_then(|view| view.paused.as_ref());
        map([
            ("queue", queue.to_owned().into()),
            ("length", count(|view| view.depth)),
            ("oldest_job_age_seconds", whole(age)),
            ("next_job_due_in_seconds", next.map(|next| whole(next.since(now).as_secs())).into()),
            ("running", count(|view| view.in_flight)),
            ("retries_due", count(|view| view.retries_due)),
            ("scheduled", count(|view| view.scheduled)),
            ("dead", whole(dead)),
            ("paused", paused.is_some().into()),
            ("paused_by", paused.map(|pause| pause.by.clone()).into()),
        ])
    }

    /// `QUEUE.PEEK queue [count]`: who is next.
    pub(super) async fn on_queue_peek(&mut self, request: &Request) -> Answered {
        let (queue, limit) = match &request.arguments[1..] {
            [queue] => (queue, PEEKED_JOBS),
            [queue, count] => {
                let count = text_of(count)?.parse::<u32>().map_err(|_| NOT_AN_INTEGER)?;
                (queue, count.min(PEEKED_JOBS_MAX))
            }
            _ => return Err(arity(request)),
        };
        let queue = text_of(queue)?.trim_start_matches("queue:");
        let (tasks, _) = self.peek(queue, 0, limit).await?;
        let records = self.records_of(tasks).await?;
        Ok(Reply::Array(records.iter().map(|record| json_bulk(job_status(record))).collect()))
    }

    /// `QUEUE.PAUSE queue` and `QUEUE.RESUME queue`: kept before it is answered.
    pub(super) async fn on_queue_pause(&mut self, request: &Request, is_pause: bool) -> Answered {
        let queue: QueueName = text_at(request, 1)?.trim_start_matches("queue:").parse()?;
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
    map(fields.into_iter().map(|(name, n)| (name, whole(n))))
}

fn map(fields: impl IntoIterator<Item = (&'static str, Reply)>) -> Reply {
    Reply::Map(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

const NOT_AN_INTEGER: RespError =
    RespError(Cow::Borrowed("ERR value is not an integer or out of range"));

pub(super) fn number(text: &[u8]) -> Answered<i64> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or(NOT_AN_INTEGER)
}
