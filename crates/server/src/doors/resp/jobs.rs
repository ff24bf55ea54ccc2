//! Jobs: submitted (`JOB.SUBMIT`, `LPUSH` to a queue), looked at, acted on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use coordinator::{Refusal, StateWord, SubmittedTask, TaskRecord};
use futures_util::future::join_all;
use model::{NewTask, TaskId};
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;
use store::{Detail, PageQuery};

use super::answers::{Answered, PROCESSING, RespError, SCHEDULED, queue_in, whole};
use super::answers::{job_status, job_view, json_bulk, status_word};
use super::connection::Connection;
use super::dispatch::Invocation;
use crate::bulk;
use crate::handle::AskError;
use crate::plans::action;
use crate::plans::action::wait_for;
use crate::plans::job::{Order, OrderDesk};
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
    pub(super) fn read(arguments: &'a [Bytes]) -> Answered<Self> {
        let mut list = Self { words: Vec::new(), offset: 0, limit: LISTED_JOBS };
        let texts: Result<Vec<&str>, _> =
            arguments.iter().map(|argument| std::str::from_utf8(argument)).collect();
        let texts = texts.map_err(|_| RespError::new("ERR the arguments of a list are text"))?;
        let mut numbers = Vec::new();
        let mut texts = texts.into_iter();
        while let Some(text) = texts.next() {
            let (is_limit, is_offset) =
                (text.eq_ignore_ascii_case("limit"), text.eq_ignore_ascii_case("offset"));
            if is_limit || is_offset {
                let value = texts.next().and_then(|value| value.parse::<usize>().ok());
                let value = value.ok_or(RespError::new("ERR syntax error"))?;
                if is_limit {
                    list.limit = clamp(value);
                } else {
                    list.offset = value;
                }
            } else if let Ok(number) = text.parse::<usize>() {
                numbers.push(number);
            } else {
                list.words.push(text);
            }
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
fn states_of(word: &str) -> Answered<Vec<StateWord>> {
    Ok(match word.to_ascii_lowercase().as_str() {
        "scheduled" => vec![StateWord::Waiting],
        "pending" | "ready" | "queued" => vec![StateWord::Queued, StateWord::Retrying],
        "running" => vec![StateWord::Running],
        "completed" => vec![StateWord::Completed],
        "failed" => vec![StateWord::Failed],
        "dead" => vec![StateWord::Dead],
        "cancelled" => vec![StateWord::Stopped],
        "all" => Vec::new(),
        _ => {
            let known = "scheduled, pending, running, completed, failed, dead, cancelled or all";
            return Err(format!("unknown status '{word}'; it is one of {known}").into());
        }
    })
}

pub(super) fn arity(request: &Request) -> RespError {
    let name = String::from_utf8_lossy(request.name()).to_lowercase();
    format!("wrong number of arguments for '{name}' command").into()
}

/// One argument as text.
pub(super) fn text_of(argument: &Bytes) -> Answered<&str> {
    std::str::from_utf8(argument).map_err(|_| RespError::new("ERR a name is text in UTF-8"))
}

/// The argument at a position, which the table of commands demands, as text.
pub(super) fn text_at(request: &Request, position: usize) -> Answered<&str> {
    text_of(&request.arguments[position])
}

impl Connection {
    /// The task that a job's name stands for, as it is durable.
    pub(super) async fn find_record(&self, job: &str) -> Answered<Option<TaskRecord>> {
        let found = action::job(&self.app, self.member().handle.shard(), job).await?;
        Ok(found.filter(|record| job_types().contains(&record.spec.demand.task_type)))
    }

    pub(super) async fn record(&self, job: &str) -> Answered<TaskRecord> {
        self.find_record(job).await?.ok_or_else(|| RespError::not_found(job))
    }

    /// `JOB.GET`: what the job is and where it stands. A worker that asks has read its pop.
    pub(super) async fn on_job_get(&mut self, request: &Request) -> Answered {
        let record = self.record(&popped_name(text_at(request, 1)?)).await?;
        self.prove_job(&record);
        Ok(json_bulk(job_view(&record)))
    }

    /// The client spoke of a job that it may hold.
    pub(super) fn prove_job(&mut self, record: &TaskRecord) {
        let epoch = record.progress.epoch;
        self.prove(model::LeaseId { task: record.id, epoch });
    }

    pub(super) async fn on_job_status(&mut self, request: &Request) -> Answered {
        let record = self.record(text_at(request, 1)?).await?;
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

    pub(super) async fn on_job_cancel(&mut self, request: &Request) -> Answered {
        let job = text_at(request, 1)?;
        let task = self.record(job).await?.id;
        if self.member().handle.stop(task).await? {
            return Ok(Reply::ok());
        }
        let word = status_word(self.record(job).await?.progress.state.word());
        Err(format!("Invalid status transition: {word} -> cancelled").into())
    }

    pub(super) async fn on_job_retry(&mut self, request: &Request) -> Answered {
        let task = self.record(text_at(request, 1)?).await?.id;
        match self.member().handle.requeue(task).await {
            Ok(()) => Ok(Reply::ok()),
            Err(AskError::Refused(Refusal::NotRequeueable { state })) => {
                let word = status_word(state);
                Err(format!("Invalid status transition: {word} -> pending").into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// `JOB.LIST <action> [status]`: the jobs of an action.
    pub(super) async fn on_job_list(&mut self, request: &Request) -> Answered {
        let action_id = text_at(request, 1)?;
        let list = ListWords::read(&request.arguments[2..])?;
        self.action(action_id).await?;
        let states = wanted_states(&list)?;
        let records = action::records(&self.app, &self.member().handle, action_id).await?;
        let wanted = |record: &&TaskRecord| {
            states.is_empty() || states.contains(&record.progress.state.word())
        };
        let page = records.iter().filter(wanted).skip(list.offset).take(list.limit as usize);
        Ok(Reply::Array(page.map(|record| json_bulk(job_status(record))).collect()))
    }

    /// `JOBS.LIST [status] [offset limit]`: newest first.
    pub(super) async fn on_jobs_list(&mut self, request: &Request) -> Answered {
        let list = ListWords::read(&request.arguments[1..])?;
        let states = wanted_states(&list)?;
        self.status_lines(&list, PageQuery { states, ..PageQuery::default() }).await
    }

    /// `JOBS.SEARCH word...`: jobs in whose name, plan, action, worker or payload every word
    /// occurs; `status:failed`, `queue:gpu` and `worker:w1` look at one field.
    pub(super) async fn on_jobs_search(&mut self, request: &Request) -> Answered {
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
    async fn status_lines(&self, list: &ListWords<'_>, query: PageQuery) -> Answered {
        let (skip, limit) = (list.offset, list.limit);
        let query = PageQuery { skip, limit, detail: Detail::Summary, ..query };
        let records = self.search(query).await?;
        Ok(Reply::Array(records.iter().map(|record| json_bulk(job_status(record))).collect()))
    }

    /// Jobs, newest first, of a bounded part of the past.
    pub(super) async fn search(&self, mut query: PageQuery) -> Answered<Vec<TaskRecord>> {
        query.task_types = job_types().iter().cloned().collect();
        let pages_max = if query.words.is_empty() { PAGES_MAX } else { SEARCHED_PAGES_MAX };
        let shard = self.member().handle.shard();
        Ok(bulk::pages(&self.app, shard, query, pages_max).await?.0)
    }
}

/// What the words of a search ask for; `None` where no queue or worker can have that name.
fn search_query(words: &[&str]) -> Answered<Option<PageQuery>> {
    let mut query = PageQuery::default();
    for word in words {
        if let Some(status) = word.strip_prefix("status:") {
            query.states.extend(states_of(status)?);
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

fn wanted_states(list: &ListWords<'_>) -> Answered<Vec<StateWord>> {
    list.words.first().map_or(Ok(Vec::new()), |word| states_of(word))
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

/// What becomes of one request.
enum Fate {
    /// Its jobs are these of the batch.
    Ordered {
        /// The list that they were pushed to, if they were; its length is the answer then.
        pushed_to: Option<String>,
        jobs: Range<usize>,
    },
    Refused(RespError),
}

/// Jobs that are submitted together.
#[derive(Default)]
struct Batch {
    tasks: Vec<NewTask>,
    names: Vec<Option<String>>,
    fates: Vec<Fate>,
}

/// The jobs of one request, and the list that they are pushed to.
type Orders = (Option<String>, Vec<Order>);

impl Connection {
    /// A run of submits is one submit to the coordinator: they share their commit.
    pub(super) async fn answer_submits(&mut self, run: &[Invocation]) {
        let mut batch = Batch::default();
        let (app, handle) = (Arc::clone(&self.app), self.member().handle.clone());
        let mut desk = OrderDesk::new(&app, &handle);
        for request in run {
            let read = match self.allow(request) {
                Ok(()) => read(request, &mut desk).await,
                Err(error) => Err(error),
            };
            let (pushed_to, orders) = match read {
                Ok(read) => read,
                Err(error) => {
                    batch.fates.push(Fate::Refused(error));
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
            let fate = self.order(pushed_to, orders, &mut batch).await;
            batch.fates.push(fate.unwrap_or_else(Fate::Refused));
        }
        self.submit_batch(batch).await;
    }

    /// Adds the jobs of one request, all or none.
    async fn order(
        &self,
        pushed_to: Option<String>,
        mut orders: Vec<Order>,
        batch: &mut Batch,
    ) -> Answered<Fate> {
        for order in &mut orders {
            wait_for(&mut order.task, self.find_tasks(&order.after).await?);
        }
        let first = batch.tasks.len();
        for order in orders {
            batch.tasks.push(order.task);
            batch.names.push(order.job_id);
        }
        Ok(Fate::Ordered { pushed_to, jobs: first..batch.tasks.len() })
    }

    /// Submits what was gathered, and answers each request.
    async fn submit_batch(&mut self, batch: Batch) {
        let Batch { tasks, names, fates } = batch;
        // Both are asked before either is answered, so that the lengths are those before the push.
        let lists: BTreeSet<&str> = fates.iter().filter_map(Fate::list).collect();
        let lengths = lists.iter().map(|list| self.peek(list, 0, 0));
        let (lengths, made) = tokio::join!(join_all(lengths), self.submit_all(tasks));
        let lengths = lengths.into_iter().map(|found| found.map_or(0, |(_, n)| n));
        let mut lengths: BTreeMap<String, u64> =
            lists.into_iter().map(str::to_owned).zip(lengths).collect();
        for fate in fates {
            let reply = match (fate, &made) {
                (Fate::Refused(error), _) => error.into(),
                (Fate::Ordered { .. }, Err(error)) => error.clone().into(),
                (Fate::Ordered { pushed_to, jobs }, Ok(made)) => {
                    let length = pushed_to.and_then(|list| lengths.get_mut(&list));
                    submitted(length, &made[jobs.clone()], &names[jobs])
                }
            };
            self.reply(&reply);
        }
    }

    /// The tasks of jobs that are named.
    pub(super) async fn find_tasks(&self, jobs: &[String]) -> Answered<Vec<TaskId>> {
        let mut tasks = Vec::with_capacity(jobs.len());
        for job in jobs {
            tasks.push(self.record(job).await?.id);
        }
        Ok(tasks)
    }

    /// All tasks in one submit. One whose name is taken spoils its own request alone.
    async fn submit_all(&self, mut tasks: Vec<NewTask>) -> Answered<Vec<Submitted>> {
        let mut made: Vec<Option<Submitted>> = vec![None; tasks.len()];
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
                    made[places[bad]] = Some(Err(format!("Job already exists: {name}").into()));
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

/// The task that a job became.
type Submitted = Answered<SubmittedTask>;

/// How long the list is after a push of these jobs, or what the job is called.
fn submitted(length: Option<&mut u64>, made: &[Submitted], names: &[Option<String>]) -> Reply {
    let n_new = made.iter().flatten().filter(|one| !one.existed).count();
    let length = length.map(|length| {
        *length += n_new as u64;
        *length
    });
    if let Some(Err(error)) = made.iter().find(|one| one.is_err()) {
        return error.clone().into();
    }
    match (length, names, made) {
        (Some(length), _, _) => whole(length),
        (None, [Some(name), ..], _) => name.clone().into(),
        (None, _, [Ok(made), ..]) => made.task.to_string().into(),
        (None, _, _) => Reply::Null,
    }
}

/// What a request asks for, job by job.
async fn read(request: &Request, desk: &mut OrderDesk<'_>) -> Answered<Orders> {
    let (queue, jobs) = if request.name_is("JOB.SUBMIT") {
        (None, &request.arguments[1..])
    } else {
        let queue = queue_in(&request.arguments[1]);
        let queue = queue.ok_or(RespError::new("ERR a queue's name is text"))?;
        if queue == PROCESSING || queue == SCHEDULED {
            let text = format!("queue:{queue} shows jobs; nothing can be put into it");
            return Err(text.into());
        }
        (Some(queue), &request.arguments[2..])
    };
    if jobs.len() > TASKS_PER_SUBMIT_MAX {
        return Err(format!("more than {TASKS_PER_SUBMIT_MAX} jobs at once").into());
    }
    let mut orders = Vec::with_capacity(jobs.len());
    for json in jobs {
        orders.push(desk.read(json, queue).await?);
    }
    Ok((queue.map(str::to_owned), orders))
}
