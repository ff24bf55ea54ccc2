//! Jobs in: `JOB.SUBMIT`, and `LPUSH` to a queue.

use std::sync::Arc;

use bytes::Bytes;
use coordinator::{Answer, Command, Refusal};
use model::{NewTask, TaskId};
use protocol::resp::reply::Reply;
use protocol::resp::request::Request;

use super::answers::{ask_error, refusal};
use super::connection::Connection;
use super::convert::{PROCESSING, SCHEDULED, queue_in};
use crate::doors::http::convert::tasks::TASKS_PER_SUBMIT_MAX;
use crate::handle::AskError;
use crate::plans::job::OrderDesk;

/// What one request asks for.
struct Wanted {
    jobs: Vec<Bytes>,
    queue: Option<String>,
    /// Whether the client wants to know how long the list is, or what the job is called.
    is_push: bool,
}

/// What became of one request.
enum Fate {
    /// Its jobs stand in the order from here, so many.
    Ordered { is_push: bool, first: usize, count: usize },
    Refused(Reply),
}

impl Connection {
    /// A run of submits is one submit to the coordinator: they share their commit.
    pub(super) async fn answer_submits(&mut self, run: &[Request]) {
        let mut tasks: Vec<NewTask> = Vec::new();
        let mut names: Vec<Option<String>> = Vec::new();
        let mut fates = Vec::with_capacity(run.len());
        let (app, tenant) = (Arc::clone(&self.app), self.member().tenant().clone());
        let mut desk = OrderDesk::new(&app.plans, &tenant, app.clock.now());
        for request in run {
            let fate = match self.refuse_role(request) {
                Some(reply) => Fate::Refused(reply),
                None => self.order(request, &mut desk, &mut tasks, &mut names).await,
            };
            fates.push(fate);
        }
        let made = self.submit_all(tasks).await;
        for fate in fates {
            let reply = match fate {
                Fate::Refused(reply) => reply,
                Fate::Ordered { is_push, first, count } => match &made {
                    Err(reply) => reply.clone(),
                    Ok(made) => {
                        let own = &made[first..first + count];
                        own.iter().find_map(|one| one.as_ref().err().cloned()).unwrap_or_else(
                            || pushed(is_push, first + count, own, &names[first..first + count]),
                        )
                    }
                },
            };
            self.reply(&reply);
        }
    }

    async fn order(
        &self,
        request: &Request,
        desk: &mut OrderDesk<'_>,
        tasks: &mut Vec<NewTask>,
        names: &mut Vec<Option<String>>,
    ) -> Fate {
        let refused = |text: String| Fate::Refused(Reply::error(format!("ERR {text}")));
        let wanted = match wanted(request) {
            Ok(wanted) => wanted,
            Err(text) => return refused(text),
        };
        let first = tasks.len();
        if first + wanted.jobs.len() > TASKS_PER_SUBMIT_MAX {
            return refused(format!("more than {TASKS_PER_SUBMIT_MAX} jobs at once"));
        }
        let mut made = Vec::with_capacity(wanted.jobs.len());
        for json in &wanted.jobs {
            let order = match desk.read(json, wanted.queue.as_deref()) {
                Ok(order) => order,
                Err(problem) => return refused(problem.to_string()),
            };
            let task = order.task;
            match self.find_tasks(&order.after).await {
                Ok(_) => {}
                Err(reply) => return Fate::Refused(reply),
            }
            made.push((task, order.job_id));
        }
        let count = made.len();
        for (task, name) in made {
            tasks.push(task);
            names.push(name);
        }
        Fate::Ordered { is_push: wanted.is_push, first, count }
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
    ) -> Result<Vec<Result<TaskId, Reply>>, Reply> {
        let mut made: Vec<Option<Result<TaskId, Reply>>> = vec![None; tasks.len()];
        loop {
            let places: Vec<usize> = (0..made.len()).filter(|idx| made[*idx].is_none()).collect();
            if places.is_empty() {
                break;
            }
            // Only a job with a name can be refused for itself; then the others are asked for anew.
            let has_names = tasks.iter().any(|task| task.idempotency.is_some());
            let wanted = if has_names { tasks.clone() } else { std::mem::take(&mut tasks) };
            let handle = &self.member().handle;
            let answer =
                handle.ask(|ticket| Command::Submit { ticket, tasks: wanted }).await;
            match answer.map_err(ask_error)? {
                Answer::Submitted(submitted) => {
                    for (place, one) in places.into_iter().zip(submitted) {
                        made[place] = Some(Ok(one.task));
                    }
                }
                Answer::Refused(Refusal::IdempotencyConflict { key }) => {
                    let is_it = |task: &NewTask| {
                        task.idempotency.as_ref().is_some_and(|mark| mark.key == key)
                    };
                    let Some(bad) = tasks.iter().position(is_it) else {
                        return Err(ask_error(AskError::Unavailable));
                    };
                    let name = key.as_str().trim_start_matches("job:");
                    let text = format!("ERR Job already exists: {name}");
                    made[places[bad]] = Some(Err(Reply::error(text)));
                    tasks.remove(bad);
                }
                Answer::Refused(why) => return Err(refusal(&why)),
                _ => return Err(ask_error(AskError::Unavailable)),
            }
        }
        Ok(made.into_iter().flatten().collect())
    }
}

fn pushed(
    is_push: bool,
    length: usize,
    made: &[Result<TaskId, Reply>],
    names: &[Option<String>],
) -> Reply {
    if is_push {
        return Reply::Integer(i64::try_from(length).unwrap_or(i64::MAX));
    }
    match (names.first(), made.first()) {
        (Some(Some(name)), _) => Reply::bulk(name.clone().into_bytes()),
        (_, Some(Ok(task))) => Reply::bulk(task.to_string().into_bytes()),
        _ => Reply::Null,
    }
}

fn wanted(request: &Request) -> Result<Wanted, String> {
    let arguments = &request.arguments[1..];
    if request.name_is("JOB.SUBMIT") {
        return match arguments {
            [json] => Ok(Wanted { jobs: vec![json.clone()], queue: None, is_push: false }),
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
    Ok(Wanted { jobs: jobs.to_vec(), queue: Some(queue.to_owned()), is_push: true })
}
