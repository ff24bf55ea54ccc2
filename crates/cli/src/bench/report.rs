//! What is printed.

use serde::Serialize;

use super::figures::Percentiles;
use super::flows::FlowTimes;
use super::plan::Plan;
use crate::output::{self, Show};
use crate::words;

/// The numbers of one run; what was not measured is absent.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(super) tasks: u64,
    pub(super) workers: u64,
    pub(super) batch: u64,
    pub(super) clients: u64,
    pub(super) payload_bytes: u64,
    pub(super) queued: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tasks_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) submit_per_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) commit_ms: Option<Percentiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) latency_ms: Option<Percentiles>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rss_bytes_per_queued_task: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) restart_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grant_us: Option<GrantTimes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rss_bytes_per_session: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sessions_back_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tasks_run_again: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) flows: Option<FlowTimes>,
}

/// The time per grant, in the middle, with few and with many queued tasks.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct GrantTimes {
    pub(super) few_queued: u64,
    pub(super) few_us: f64,
    pub(super) many_queued: u64,
    pub(super) many_us: f64,
}

impl Report {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            tasks: plan.tasks,
            workers: plan.workers,
            batch: plan.batch,
            clients: plan.clients,
            payload_bytes: plan.payload,
            queued: plan.queued,
            tasks_per_s: None,
            submit_per_s: None,
            commit_ms: None,
            latency_ms: None,
            rss_bytes_per_queued_task: None,
            restart_s: None,
            grant_us: None,
            rss_bytes_per_session: None,
            sessions_back_s: None,
            tasks_run_again: None,
            flows: None,
        }
    }
}

impl Show for Report {
    fn text(&self) -> String {
        let per_second = |rate: f64| format!("{:>10}", thousands(rate));
        let two = |p: Percentiles| format!("{:>10.2}  p50,  {:.2}  p99", p.p50, p.p99);
        let rows = [
            ("tasks_per_s", self.tasks_per_s.map(per_second)),
            ("submit_per_s", self.submit_per_s.map(per_second)),
            ("commit_ms", self.commit_ms.map(two)),
            ("latency_ms", self.latency_ms.map(two)),
            ("rss_bytes_per_queued_task", self.rss_bytes_per_queued_task.map(per_second)),
            ("restart_s", self.restart_s.map(|seconds| format!("{seconds:>10.2}"))),
            ("grant_us", self.grant_us.map(grants)),
            ("rss_bytes_per_session", self.rss_bytes_per_session.map(per_second)),
            ("sessions_back_s", self.sessions_back_s.map(|seconds| format!("{seconds:>10.2}"))),
            ("tasks_run_again", self.tasks_run_again.map(|count| format!("{count:>10}"))),
        ];
        let seconds = |seconds: f64| format!("{seconds:>10.3}");
        let flows = self.flows.map(|flows| {
            [
                ("accept_100k_s", Some(seconds(flows.accept_100k_s))),
                ("nodes_per_s", Some(per_second(flows.nodes_per_s))),
                ("chain_step_ms", Some(seconds(flows.chain_step_ms))),
                ("fan_2000_s", Some(seconds(flows.fan_2000_s))),
                ("fan_10000_s", Some(seconds(flows.fan_10000_s))),
                ("cost_ratio_10k_to_1k", Some(seconds(flows.cost_ratio_10k_to_1k))),
            ]
        });
        let rows = rows.into_iter().chain(flows.into_iter().flatten());
        let rows: Vec<_> =
            rows.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        output::facts(&rows)
    }

    fn quiet(&self) -> String {
        self.tasks_per_s.map_or_else(String::new, |rate| format!("{rate:.0}"))
    }
}

fn grants(times: GrantTimes) -> String {
    let GrantTimes { few_queued, few_us, many_queued, many_us } = times;
    let (few_queued, many_queued) = (words::thousands(few_queued), words::thousands(many_queued));
    format!("{few_us:>10.2}  with {few_queued} queued,  {many_us:.2}  with {many_queued}")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates are positive and far below 2^53"
)]
fn thousands(rate: f64) -> String {
    words::thousands(rate.max(0.0).round() as u64)
}
