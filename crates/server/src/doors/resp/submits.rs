//! Jobs in: `JOB.SUBMIT`, and `LPUSH` to a queue.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use coordinator::{Refusal, SubmittedTask};
use futures_util::future::join_all;
use model::{NewTask, TaskId};
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;

use super::connection::Connection;
use super::convert::{PROCESSING, SCHEDULED, queue_in};
use super::plans::keep_error;
use crate::handle::AskError;
use crate::plans::after;
use crate::plans::job::{JobProblem, Order, OrderDesk};
use crate::wire_words::limits::TASKS_PER_SUBMIT_MAX;

/// What one request asks for.
struct Wanted {
    jobs: Vec<Bytes>,
    /// The list that they are pushed to; its length is the answer then.
    queue: Option<String>,
}

/// What became of one request.
enum Fate {
    /// Its jobs stand in the order from here, so many.
    Ordered {
        /// The list that they were pushed to, if they were.
        pushed_to: Option<String>,
        first: usize,
        count: usize,
    },
    Refused(Reply),
}

/// Jobs that are submitted together.
#[derive(Default)]
struct Batch {
    tasks: Vec<NewTask>,
    names: Vec<Option<String>>,
    fates: Vec<Fate>,
}

impl Connection {
    /// A run of submits is one submit to the coordinator: they share their commit.
    pub(super) async fn answer_submits(&mut self, run: &[Request]) {
        let mut batch = Batch::default();
        let (app, handle) = (Arc::clone(&self.app), self.member().handle.clone());
        let mut desk = OrderDesk::new(&app, &handle);
        for request in run {
            if let Some(reply) = self.refuse_role(request) {
                batch.fates.push(Fate::Refused(reply));
                continue;
            }
            let (wanted, orders) = match read(request, &mut desk).await {
                Ok(read) => read,
                Err(reply) => {
                    batch.fates.push(Fate::Refused(reply));
                    continue;
                }
            };
            let waits_for_batch = orders
                .iter()
                .flat_map(|order| &order.after)
                .any(|job| batch.names.iter().flatten().any(|name| name == job));
            if waits_for_batch || batch.tasks.len() + orders.len() > TASKS_PER_SUBMIT_MAX {
                self.submit_batch(std::mem::take(&mut batch)).await;
            }
            self.order(&wanted, orders, &mut batch).await;
        }
        self.submit_batch(batch).await;
    }

    /// Adds the jobs of one request, all or none.
    async fn order(&self, wanted: &Wanted, orders: Vec<Order>, batch: &mut Batch) {
        let mut tasks = Vec::with_capacity(orders.len());
        let mut names = Vec::with_capacity(orders.len());
        for order in orders {
            let mut task = order.task;
            match self.find_tasks(&order.after).await {
                Ok(others) => after::wait_for(&mut task, others),
                Err(reply) => return batch.fates.push(Fate::Refused(reply)),
            }
            tasks.push(task);
            names.push(order.job_id);
        }
        let (first, count) = (batch.tasks.len(), tasks.len());
        let pushed_to = wanted.queue.clone();
        batch.tasks.extend(tasks);
        batch.names.extend(names);
        batch.fates.push(Fate::Ordered { pushed_to, first, count });
    }

    /// Submits what was gathered, and answers each request.
    async fn submit_batch(&mut self, batch: Batch) {
        let Batch { tasks, names, fates } = batch;
        // Both are asked before either is answered, so that the lengths are those before the push.
        let lists: BTreeSet<&str> = fates.iter().filter_map(Fate::list).collect();
        let lengths = lists.iter().map(|list| self.peek(list, 0, 0));
        let (lengths, made) = tokio::join!(join_all(lengths), self.submit_all(tasks));
        let length = |found: Result<(Vec<TaskId>, u64), Reply>| found.map_or(0, |(_, n)| n);
        let lengths = lengths.into_iter().map(length);
        let mut lengths: BTreeMap<String, u64> =
            lists.iter().map(|list| (*list).to_owned()).zip(lengths).collect();
        let mut replies = Vec::with_capacity(fates.len());
        for fate in fates {
            replies.push(match fate {
                Fate::Refused(reply) => reply,
                Fate::Ordered { pushed_to, first, count } => match &made {
                    Err(reply) => reply.clone(),
                    Ok(made) => {
                        let own = &made[first..first + count];
                        let failed = own.iter().find_map(|one| one.as_ref().err().cloned());
                        let new = own.iter().flatten().filter(|one| !one.existed).count();
                        let length = pushed_to.and_then(|list| {
                            let length = lengths.get_mut(&list)?;
                            *length += new as u64;
                            Some(*length)
                        });
                        failed.unwrap_or_else(|| submitted(length, own, &names[first..]))
                    }
                },
            });
        }
        for reply in &replies {
            self.reply(reply);
        }
    }

    /// The tasks of jobs that are named.
    pub(super) async fn find_tasks(&self, jobs: &[String]) -> Result<Vec<TaskId>, Reply> {
        let mut tasks = Vec::with_capacity(jobs.len());
        for job in jobs {
            match self.find_record(job).await? {
                Some(record) => tasks.push(record.id),
                None => return Err(Reply::error(format!("ERR Job not found: {job}"))),
            }
        }
        Ok(tasks)
    }

    /// All tasks in one submit. One whose name is taken spoils its own request alone.
    async fn submit_all(
        &self,
        mut tasks: Vec<NewTask>,
    ) -> Result<Vec<Result<SubmittedTask, Reply>>, Reply> {
        let mut made: Vec<Option<Result<SubmittedTask, Reply>>> = vec![None; tasks.len()];
        loop {
            let places: Vec<usize> = (0..made.len()).filter(|idx| made[*idx].is_none()).collect();
            if places.is_empty() {
                break;
            }
            // Only a job with a name can be refused for itself; then the others are asked for anew.
            let has_names = tasks.iter().any(|task| task.idempotency.is_some());
            let wanted = if has_names { tasks.clone() } else { std::mem::take(&mut tasks) };
            match self.member().handle.submit(wanted).await {
                Ok(submitted) => {
                    for (place, one) in places.into_iter().zip(submitted) {
                        made[place] = Some(Ok(one));
                    }
                }
                Err(AskError::Refused(Refusal::IdempotencyConflict { key })) => {
                    let is_it = |task: &NewTask| {
                        task.idempotency.as_ref().is_some_and(|mark| mark.key == key)
                    };
                    let Some(bad) = tasks.iter().position(is_it) else {
                        return Err(AskError::Unavailable.into());
                    };
                    let name = key.as_str().trim_start_matches("job:");
                    let text = format!("ERR Job already exists: {name}");
                    made[places[bad]] = Some(Err(Reply::error(text)));
                    tasks.remove(bad);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(made.into_iter().flatten().collect())
    }
}

impl Fate {
    fn list(&self) -> Option<&str> {
        match self {
            Self::Ordered { pushed_to, .. } => pushed_to.as_deref(),
            Self::Refused(_) => None,
        }
    }
}

/// How long the list is now, or what the job is called.
fn submitted(
    length: Option<u64>,
    made: &[Result<SubmittedTask, Reply>],
    names: &[Option<String>],
) -> Reply {
    if let Some(length) = length {
        return Reply::Integer(i64::try_from(length).unwrap_or(i64::MAX));
    }
    match (names.first(), made.first()) {
        (Some(Some(name)), _) => Reply::bulk(name.clone().into_bytes()),
        (_, Some(Ok(made))) => Reply::bulk(made.task.to_string().into_bytes()),
        _ => Reply::Null,
    }
}

/// What a request asks for, job by job.
async fn read(request: &Request, desk: &mut OrderDesk<'_>) -> Result<(Wanted, Vec<Order>), Reply> {
    let refused = |text: String| Reply::error(format!("ERR {text}"));
    let wanted = wanted(request).map_err(refused)?;
    if wanted.jobs.len() > TASKS_PER_SUBMIT_MAX {
        return Err(refused(format!("more than {TASKS_PER_SUBMIT_MAX} jobs at once")));
    }
    let mut orders = Vec::with_capacity(wanted.jobs.len());
    for json in &wanted.jobs {
        let order = desk.read(json, wanted.queue.as_deref()).await;
        orders.push(order.map_err(|problem| match problem {
            JobProblem::Plan(error) => keep_error(error),
            JobProblem::Invalid(text) => refused(text),
        })?);
    }
    Ok((wanted, orders))
}

fn wanted(request: &Request) -> Result<Wanted, String> {
    let arguments = &request.arguments[1..];
    if request.name_is("JOB.SUBMIT") {
        return match arguments {
            [json] => Ok(Wanted { jobs: vec![json.clone()], queue: None }),
            _ => Err("wrong number of arguments for 'job.submit' command".to_owned()),
        };
    }
    let [key, jobs @ ..] = arguments else {
        return Err("wrong number of arguments for 'lpush' command".to_owned());
    };
    if jobs.is_empty() {
        return Err("wrong number of arguments for 'lpush' command".to_owned());
    }
    let queue = queue_in(key).ok_or("a queue's name is text")?;
    if queue == PROCESSING || queue == SCHEDULED {
        return Err(format!("queue:{queue} shows jobs; nothing can be put into it"));
    }
    Ok(Wanted { jobs: jobs.to_vec(), queue: Some(queue.to_owned()) })
}
