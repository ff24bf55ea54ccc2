//! One job from its start to its report.

use std::sync::Arc;

use protocol::rest::leases::VerdictWord;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::heartbeat::JobStats;
use super::job::{Claim, Job};
use super::reconnecting::Reconnecting;
use super::report::{self, Heard, JobUpdates, KeyReport, Progress};
use super::worker::Options;
use crate::core::drain::STOP_LIMIT;
use crate::core::executor::{Context, Outcome, PARAMETERS_INVALID};
use crate::core::feedback::FeedbackSink;
use crate::core::in_flight::PANICKED;
use crate::core::verdict::{self, Judgement};

/// What all jobs of a worker need around them.
pub(super) struct Surroundings {
    pub(super) options: Arc<Options>,
    /// Where jobs were popped from.
    pub(super) main: Reconnecting,
    /// Where leased jobs are spoken of while the other line waits for the next one.
    pub(super) side: Reconnecting,
    pub(super) stats: JobStats,
    /// The time is up for everything that still runs.
    pub(super) leave: CancellationToken,
}

/// How it went with a job.
#[derive(Debug)]
pub(super) enum Ended {
    /// The server has said what it thinks of it.
    Judged(Judgement),
    /// Nobody answered its report.
    Unheard,
    /// It did not end here.
    GivenBack,
}

/// Executes a job and reports it.
pub(super) async fn run(around: Arc<Surroundings>, job: Job) -> Ended {
    let _active = around.stats.begin(&job.id);
    let execution = Execution { around: &around, job: &job };
    let ended = execution.run().await;
    if let Ended::Judged(judgement) = &ended {
        verdict::log(judgement);
    }
    ended
}

struct Execution<'a> {
    around: &'a Surroundings,
    job: &'a Job,
}

/// How the work itself ended.
enum WorkEnd {
    /// By itself.
    Outcome(Outcome),
    /// The server wants it no more.
    Lost(Judgement),
    /// This worker leaves.
    Left,
}

impl Execution<'_> {
    async fn run(&self) -> Ended {
        let began = Instant::now();
        let outcome = match self.work().await {
            WorkEnd::Outcome(outcome) => outcome,
            WorkEnd::Lost(judgement) => return Ended::Judged(judgement),
            WorkEnd::Left => return self.give_back().await,
        };
        let is_completed = matches!(outcome, Outcome::Completed { .. });
        self.around.stats.ended(is_completed, began.elapsed());
        tokio::select! {
            judgement = self.report(&outcome) => judgement.map_or(Ended::Unheard, Ended::Judged),
            () = self.around.leave.cancelled() => Ended::Unheard,
        }
    }

    async fn work(&self) -> WorkEnd {
        let assignment = match self.job.assignment() {
            Ok(assignment) => assignment,
            Err(why) => return WorkEnd::Outcome(Outcome::hopeless(PARAMETERS_INVALID, why)),
        };
        let said = Arc::new(Notify::new());
        let waker = Arc::clone(&said);
        let feedback = FeedbackSink::new(move || waker.notify_one());
        let stop = CancellationToken::new();
        let deadline = self.job.time.map(|time| Instant::now() + time);
        let (feedback_kept, stop_kept) = (feedback.clone(), stop.clone());
        let context =
            Context { feedback: feedback_kept, stop: stop_kept, deadline, ..Context::detached() };
        let work = tokio::spawn(self.around.options.executor.execute(assignment, context));
        let mut work = AbortOnDropHandle::new(work);
        let (news, heard) = watch::channel(Progress::START);
        let end = tokio::select! {
            biased;
            outcome = &mut work => {
                let panicked = |error| {
                    let reason = format!("the work ended in a panic: {error}");
                    Outcome::passing(PANICKED, reason)
                };
                return WorkEnd::Outcome(outcome.unwrap_or_else(panicked));
            }
            lost = self.speak(heard) => WorkEnd::Lost(lost),
            () = self.around.leave.cancelled() => WorkEnd::Left,
            never = self.listen(&feedback, &said, &news) => match never {},
        };
        // Seed 002 section 4: after a lost lease the work stops before anything else happens.
        feedback.close();
        stop.cancel();
        let _ = timeout(STOP_LIMIT, work).await;
        end
    }

    /// Takes what the work says, so that it never waits for us, and keeps how far it is.
    async fn listen(
        &self,
        feedback: &FeedbackSink,
        said: &Notify,
        news: &watch::Sender<Progress>,
    ) -> std::convert::Infallible {
        loop {
            let now = Instant::now();
            match feedback.due_at(now) {
                None => said.notified().await,
                Some(at) if at > now => sleep_until(at).await,
                Some(_) => {
                    let batch = feedback.take(now);
                    if let Some(share) = batch.and_then(|batch| batch.status.progress) {
                        let told = progress(share, self.job.n_tasks());
                        news.send_if_modified(|known| std::mem::replace(known, told) != told);
                    }
                }
            }
        }
    }

    /// Says how far the work is, and that it goes on. Ends when the server wants it no more.
    async fn speak(&self, mut news: watch::Receiver<Progress>) -> Judgement {
        let Claim::Leased(_) = &self.job.claim else { return std::future::pending().await };
        let every = self.around.options.timing.job_beat_every;
        let mut beats = interval_at(Instant::now() + every, every);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let updates = self.updates();
        news.mark_unchanged();
        loop {
            tokio::select! {
                changed = news.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                _ = beats.tick() => {}
            }
            let progress = *news.borrow_and_update();
            // What is lost is said again by the next beat.
            let Ok(reply) = self.around.side.ask(updates.running(progress)).await else { continue };
            if let Heard::Judged(verdict, text) = report::hear(&reply) {
                return self.judged(verdict, text);
            }
        }
    }

    async fn report(&self, outcome: &Outcome) -> Option<Judgement> {
        let (around, job) = (self.around, self.job);
        match &job.claim {
            Claim::Leased(_) => {
                let request = self.updates().ended(outcome);
                report::report(&around.side, &request, self.name(), &around.options.timing).await
            }
            Claim::Listed { value, .. } => {
                KeyReport::new(&job.id, value, outcome)
                    .send(&around.main, &around.options.timing)
                    .await
            }
        }
    }

    /// A lease comes back by itself when the worker unregisters; a list has to be put right.
    async fn give_back(&self) -> Ended {
        tracing::warn!(job = self.job.id, "the job is not finished; it is given back");
        if let Claim::Listed { value, queue } = &self.job.claim {
            let giving = report::give_back(&self.around.main, queue, value);
            if timeout(STOP_LIMIT, giving).await.is_err() {
                tracing::warn!(job = self.job.id, "nobody heard that the job is given back");
            }
        }
        Ended::GivenBack
    }

    fn updates(&self) -> JobUpdates<'_> {
        JobUpdates { job: self.job, worker_id: &self.around.options.worker_id }
    }

    fn judged(&self, verdict: VerdictWord, text: String) -> Judgement {
        Judgement { lease_id: self.name().into(), verdict, reason: Some(text) }
    }

    /// What the log calls it.
    fn name(&self) -> &str {
        match &self.job.claim {
            Claim::Leased(Some(lease_id)) => lease_id,
            Claim::Leased(None) | Claim::Listed { .. } => &self.job.id,
        }
    }
}

/// The step that runs when a share of all is done.
fn progress(share: f64, n_tasks: usize) -> Progress {
    #[expect(clippy::cast_precision_loss, reason = "a plan has at most 100 steps")]
    let done = (share * n_tasks as f64).round().clamp(0.0, n_tasks.saturating_sub(1) as f64);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 99")]
    let current_task = done as u64 + 1;
    Progress { current_task, progress_percent: (share * 1000.0).round() / 10.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_tells_the_step() {
        for (share, n_tasks, step, percent) in
            [(0.0, 1, 1, 0.0), (0.5, 2, 2, 50.0), (1.0 / 3.0, 3, 2, 33.3), (1.0, 3, 3, 100.0)]
        {
            let expected = Progress { current_task: step, progress_percent: percent };
            assert_eq!(progress(share, n_tasks), expected);
        }
    }
}
