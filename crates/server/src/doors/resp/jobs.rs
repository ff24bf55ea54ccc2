//! Jobs: submitted (`JOB.SUBMIT`, `LPUSH` to a queue), looked at, acted on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use coordinator::{LoadKey, Refusal, StateWord, SubmittedTask, TaskRecord};
use futures_util::future::join_all;
use model::{NewTask, TaskId};
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use store::{Detail, PageQuery};

use super::answers::{PROCESSING, SCHEDULED, queue_in};
use super::answers::{job_status, job_view, json_bulk, status_word, store_error};
use super::connection::Connection;
use super::dispatch::Invocation;
use super::plans::keep_error;
use crate::handle::AskError;
use crate::plans::action::wait_for;
use crate::plans::job::{JobProblem, Order, OrderDesk, name_key};
use crate::plans::{action, kept};
use crate::resp_workers::job_types;
use crate::wire_words::payload::TASKS_PER_SUBMIT_MAX;

/// Limit: jobs that one list shows.
pub(crate) const LISTED_JOBS_MAX: u32 = 1_000;
/// Jobs that a list shows unless it is told otherwise.
const LISTED_JOBS: u32 = 100;
/// Pages of the store that one list looks through; each is bounded in rows and in bytes.
const PAGES_MAX: usize = 20;
/// Limit: pages of payloads that one `JOBS.SEARCH` looks through, newest first.
const SEARCHED_PAGES_MAX: usize = 4;

/// The arguments of a list: words, then `LIMIT n` and `OFFSET n`, or two bare numbers.
pub(super) struct ListWords<'a> {
    pub(super) words: Vec<&'a str>,
    pub(super) offset: usize,
    pub(super) limit: u32,
}

impl<'a> ListWords<'a> {
    pub(super) fn read(arguments: &'a [Bytes]) -> Result<Self, Reply> {
        let mut list = Self { words: Vec::new(), offset: 0, limit: LISTED_JOBS };
        let mut texts = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let text = std::str::from_utf8(argument)
                .map_err(|_| Reply::error("ERR the arguments of a list are text"))?;
            texts.push(text);
        }
        let mut numbers = Vec::new();
        let mut rest = &texts[..];
        while let [first, more @ ..] = rest {
            let value = more.first().map(|value| value.parse::<usize>());
            match (first.to_ascii_uppercase().as_str(), value) {
                ("LIMIT", Some(Ok(limit))) => list.limit = clamp(limit),
                ("OFFSET", Some(Ok(offset))) => list.offset = offset,
                ("LIMIT" | "OFFSET", _) => return Err(Reply::error("ERR syntax error")),
                _ => {
                    match first.parse::<usize>() {
                        Ok(number) => numbers.push(number),
                        Err(_) => list.words.push(first),
                    }
                    rest = more;
                    continue;
                }
            }
            rest = &more[1..];
        }
        if let Some(offset) = numbers.first() {
            list.offset = *offset;
        }
        if let Some(limit) = numbers.get(1) {
            list.limit = clamp(*limit);
        }
        Ok(list)
    }
}

fn clamp(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(LISTED_JOBS_MAX).clamp(1, LISTED_JOBS_MAX)
}

/// The states behind a word of the seed.
fn states_of(word: &str) -> Option<Vec<StateWord>> {
    Some(match word.to_ascii_lowercase().as_str() {
        "scheduled" => vec![StateWord::Waiting],
        "pending" | "ready" | "queued" => vec![StateWord::Queued, StateWord::Retrying],
        "running" => vec![StateWord::Running],
        "completed" => vec![StateWord::Completed],
        "failed" => vec![StateWord::Failed],
        "dead" => vec![StateWord::Dead],
        "cancelled" => vec![StateWord::Stopped],
        "all" => Vec::new(),
        _ => return None,
    })
}

fn not_found(job: &str) -> Reply {
    Reply::error(format!("ERR Job not found: {job}"))
}

pub(super) fn arity(request: &Request) -> Reply {
    let name = String::from_utf8_lossy(request.name()).to_lowercase();
    Reply::error(format!("ERR wrong number of arguments for '{name}' command"))
}

/// One argument as text.
pub(super) fn text_of(argument: &Bytes) -> Result<&str, Reply> {
    std::str::from_utf8(argument).map_err(|_| Reply::error("ERR a name is text in UTF-8"))
}

impl Connection {
    /// The task that a job's name stands for, as it is durable.
    pub(super) async fn find_record(&self, job: &str) -> Result<Option<TaskRecord>, Reply> {
        let shard = self.member().handle.shard();
        let key = match job.parse::<TaskId>() {
            Ok(task) if task.shard() == shard => LoadKey::Task(task),
            Ok(_) => return Ok(None),
            Err(_) if crate::plans::job::check_name("job_id", job).is_err() => return Ok(None),
            Err(_) => LoadKey::Idempotency(name_key(job)),
        };
        let found = self.app.store.load(shard, vec![key]).await;
        let mut found = found.map_err(|error| store_error(&error))?;
        Ok(found.pop().map(|(_, record)| record).filter(is_job))
    }

    async fn record(&self, job: &str) -> Result<TaskRecord, Reply> {
        self.find_record(job).await?.ok_or_else(|| not_found(job))
    }

    /// `JOB.GET`: what the job is and where it stands. A worker that asks has read its pop.
    pub(super) async fn on_job_get(&mut self, request: &Request) -> Result<Reply, Reply> {
        let [_, job] = &request.arguments[..] else { return Err(arity(request)) };
        let job = text_of(job)?;
        let record = self.record(&popped_name(job)).await?;
        self.prove_job(&record);
        Ok(json_bulk(job_view(&record)))
    }

    /// The client spoke of a job that it may hold.
    pub(super) fn prove_job(&mut self, record: &TaskRecord) {
        let epoch = record.progress.epoch;
        self.prove(model::LeaseId { task: record.id, epoch });
    }

    pub(super) async fn on_job_status(&mut self, request: &Request) -> Result<Reply, Reply> {
        let [_, job] = &request.arguments[..] else { return Err(arity(request)) };
        let record = self.record(text_of(job)?).await?;
        let mut status = job_status(&record);
        if let Some(snapshot) = self.app.feedback.snapshot(record.id)
            && record.progress.state.word() == StateWord::Running
        {
            let percent = snapshot.progress.map(|progress| progress * 100.0);
            status.insert("progress_percent".into(), percent.into());
            status.insert("stage".into(), snapshot.stage.into());
            status.insert("message".into(), snapshot.message.into());
        }
        Ok(json_bulk(status))
    }

    pub(super) async fn on_job_cancel(&mut self, request: &Request) -> Result<Reply, Reply> {
        let [_, job] = &request.arguments[..] else { return Err(arity(request)) };
        let job = text_of(job)?;
        let task = self.record(job).await?.id;
        if self.member().handle.stop(task).await? {
            return Ok(Reply::ok());
        }
        let word = status_word(self.record(job).await?.progress.state.word());
        Err(Reply::error(format!("ERR Invalid status transition: {word} -> cancelled")))
    }

    pub(super) async fn on_job_retry(&mut self, request: &Request) -> Result<Reply, Reply> {
        let [_, job] = &request.arguments[..] else { return Err(arity(request)) };
        let task = self.record(text_of(job)?).await?.id;
        match self.member().handle.requeue(task).await {
            Ok(()) => Ok(Reply::ok()),
            Err(AskError::Refused(Refusal::NotRequeueable { state })) => {
                let word = status_word(state);
                Err(Reply::error(format!("ERR Invalid status transition: {word} -> pending")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// `JOB.LIST <action> [status]`: the jobs of an action.
    pub(super) async fn on_job_list(&mut self, request: &Request) -> Result<Reply, Reply> {
        let [_, action_id, rest @ ..] = &request.arguments[..] else { return Err(arity(request)) };
        let action_id = text_of(action_id)?;
        let list = ListWords::read(rest)?;
        if kept::action(&self.member().handle, action_id).await?.is_none() {
            return Err(Reply::error(format!("ERR Action not found: {action_id}")));
        }
        let states = wanted_states(&list)?;
        let handle = &self.member().handle;
        let records = action::records(&self.app, handle, action_id).await;
        let records = records.map_err(|error| store_error(&error))?;
        let wanted = |record: &&TaskRecord| {
            states.is_empty() || states.contains(&record.progress.state.word())
        };
        let page = records.iter().filter(wanted).skip(list.offset).take(list.limit as usize);
        Ok(Reply::Array(page.map(|record| json_bulk(job_status(record))).collect()))
    }

    /// `JOBS.LIST [status] [offset limit]`: newest first.
    pub(super) async fn on_jobs_list(&mut self, request: &Request) -> Result<Reply, Reply> {
        let list = ListWords::read(&request.arguments[1..])?;
        let states = wanted_states(&list)?;
        self.status_lines(&list, PageQuery { states, ..PageQuery::default() }).await
    }

    /// `JOBS.SEARCH word...`: jobs in whose name, plan, action, worker or payload every word
    /// occurs; `status:failed`, `queue:gpu` and `worker:w1` look at one field.
    pub(super) async fn on_jobs_search(&mut self, request: &Request) -> Result<Reply, Reply> {
        let list = ListWords::read(&request.arguments[1..])?;
        if list.words.is_empty() {
            return Err(arity(request));
        }
        match search_query(&list.words)? {
            Some(query) => self.status_lines(&list, query).await,
            None => Ok(Reply::Array(Vec::new())),
        }
    }

    /// A line for each job that fits, without large payloads.
    async fn status_lines(&self, list: &ListWords<'_>, query: PageQuery) -> Result<Reply, Reply> {
        let (skip, limit) = (list.offset, list.limit);
        let query = PageQuery { skip, limit, detail: Detail::Summary, ..query };
        let records = self.search(query).await?;
        Ok(Reply::Array(records.iter().map(|record| json_bulk(job_status(record))).collect()))
    }

    /// Jobs, newest first, of a bounded part of the past.
    pub(super) async fn search(&self, mut query: PageQuery) -> Result<Vec<TaskRecord>, Reply> {
        let shard = self.member().handle.shard();
        query.task_types = job_types().iter().cloned().collect();
        let limit = query.limit;
        let pages_max = if query.words.is_empty() { PAGES_MAX } else { SEARCHED_PAGES_MAX };
        let mut found = Vec::new();
        for _ in 0..pages_max {
            let page = self.app.store.list(shard, query.clone()).await;
            let page = page.map_err(|error| store_error(&error))?;
            found.extend(page.tasks);
            query.skip = query.skip.saturating_sub(page.skipped);
            query.limit = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
            match page.next_before {
                Some(next) if query.limit > 0 => query.before = Some(next),
                Some(_) | None => break,
            }
        }
        Ok(found)
    }
}

/// What the words of a search ask for; `None` where no queue or worker can have that name.
fn search_query(words: &[&str]) -> Result<Option<PageQuery>, Reply> {
    let mut query = PageQuery::default();
    for word in words {
        if let Some(status) = word.strip_prefix("status:") {
            query.states.extend(states_of(status).ok_or_else(|| unknown_status(status))?);
        } else if let Some(queue) = word.strip_prefix("queue:") {
            let Ok(queue) = queue.parse() else { return Ok(None) };
            query.queue = Some(queue);
        } else if let Some(worker) = word.strip_prefix("worker:") {
            let Ok(worker) = worker.parse() else { return Ok(None) };
            query.holder = Some(worker);
        } else {
            query.words.push((*word).to_owned());
        }
    }
    Ok(Some(query))
}

pub(super) fn is_job(record: &TaskRecord) -> bool {
    job_types().contains(&record.spec.demand.task_type)
}

fn wanted_states(list: &ListWords<'_>) -> Result<Vec<StateWord>, Reply> {
    match list.words.first() {
        None => Ok(Vec::new()),
        Some(word) => states_of(word).ok_or_else(|| unknown_status(word)),
    }
}

fn unknown_status(word: &str) -> Reply {
    let known = "scheduled, pending, running, completed, failed, dead, cancelled or all";
    Reply::error(format!("ERR unknown status '{word}'; it is one of {known}"))
}

/// What older workers ask for after a pop is the popped value itself, which is JSON.
pub(super) fn popped_name(text: &str) -> std::borrow::Cow<'_, str> {
    #[derive(serde::Deserialize)]
    struct Popped {
        job_id: String,
    }
    match serde_json::from_str::<Popped>(text) {
        Ok(popped) => popped.job_id.into(),
        Err(_) => text.into(),
    }
}

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
    pub(super) async fn answer_submits(&mut self, run: &[Invocation]) {
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
                Ok(others) => wait_for(&mut task, others),
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
