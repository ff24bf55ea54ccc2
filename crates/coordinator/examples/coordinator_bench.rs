//! What the coordinator alone costs, without doors and without a store.
//!
//! `cargo run --release -p coordinator --example coordinator_bench`
//!
//! A million tasks with parameters of 100 bytes each are queued, granted and completed. Facts and
//! effects are dropped as they come, so the times are those of deciding.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use coordinator::{
    Answer, Command, Coordinator, Effect, LeaseRequest, Moment, Question, Renewal, Step, Ticket,
};
use model::{
    Demand, LEASE_TTL_DEFAULT, LeaseId, NewTask, Offer, Report, ReportKey, ReportedOutcome,
    RetryPolicy, ShardId, TaskSpec, Timestamp, WorkerId,
};

const N_TASKS: usize = 1_000_000;
const N_SINGLE: usize = 100_000;
const PARAMETERS_BYTES: usize = 100;
const SUBMIT_BATCH: usize = 100;
const NOW: Timestamp = Timestamp::from_millis(1_000_000_000_000);

fn main() {
    let mut bench = Bench::new();

    let before = resident_bytes();
    let submitting = bench.submit_all();
    let used = resident_bytes().saturating_sub(before);
    print_per_task("submit, batches of 100", submitting, N_TASKS);
    println!("{:<40} {:>8} bytes", "memory per queued task", used / N_TASKS);
    let beyond = (used / N_TASKS).saturating_sub(PARAMETERS_BYTES);
    println!("{:<40} {beyond:>8} bytes", "  of it beyond the parameters");

    let (granting, leases) = bench.grant(N_SINGLE, 1);
    print_per_task("grant one by one, a million queued", granting, N_SINGLE);
    let reporting = bench.report(&leases, 1);
    print_per_task("report one by one", reporting, N_SINGLE);

    let (granting, leases) = bench.grant(N_TASKS - 2 * N_SINGLE, 100);
    print_per_task("grant in batches of 100", granting, leases.len());
    let beating = bench.beat(&leases);
    print_per_task("heartbeat in batches of 100", beating, leases.len());
    let reporting = bench.report(&leases, 100);
    print_per_task("report in batches of 100", reporting, leases.len());

    for n_types in [1, 100, 10_000] {
        let granting = grant_among_types(n_types);
        let title = format!("grant one by one, {n_types} types covered");
        print_per_task(&title, granting, GRANTS_AMONG_TYPES);
    }
}

const GRANTS_AMONG_TYPES: usize = 2_000;

/// How a grant depends on the number of different demands that one worker covers.
fn grant_among_types(n_types: usize) -> Duration {
    let mut bench = Bench::new();
    let specs: Vec<_> = (0..n_types).map(|number| spec(&format!("type-{number}"))).collect();
    let tasks = specs.iter().cycle().take(n_types.max(GRANTS_AMONG_TYPES)).map(task_of).collect();
    bench.handle(Command::Ask(Ticket(0), Question::Submit { tasks }));
    bench.grant(GRANTS_AMONG_TYPES, 1).0
}

struct Bench {
    coordinator: Coordinator,
    worker: WorkerId,
    offer: Arc<Offer>,
}

impl Bench {
    fn new() -> Self {
        let shard = ShardId::new(0).expect("a small number");
        Self {
            coordinator: Coordinator::restore(shard, 0, [], at()),
            worker: "worker-1".parse().expect("a worker"),
            offer: Arc::default(),
        }
    }

    fn handle(&mut self, command: Command) -> Step {
        self.coordinator.handle(at(), command)
    }

    fn submit_all(&mut self) -> Duration {
        let spec = spec("noop");
        let mut took = Duration::ZERO;
        for _ in 0..N_TASKS / SUBMIT_BATCH {
            let tasks = (0..SUBMIT_BATCH).map(|_| task_of(&spec)).collect();
            let begin = Instant::now();
            black_box(self.handle(Command::Ask(Ticket(0), Question::Submit { tasks })));
            took += begin.elapsed();
        }
        took
    }

    fn grant(&mut self, n_tasks: usize, batch: usize) -> (Duration, Vec<LeaseId>) {
        let mut leases = Vec::with_capacity(n_tasks);
        let mut took = Duration::ZERO;
        for _ in 0..n_tasks / batch {
            let request = LeaseRequest {
                worker: self.worker.clone(),
                offer: Arc::clone(&self.offer),
                max: u32::try_from(batch).expect("a small batch"),
                wait_until: NOW,
                confirm_within: None,
                slots: None,
                timeout_grace: Duration::ZERO,
                is_loss_noticed: true,
            };
            let begin = Instant::now();
            let step = self.handle(Command::Ask(Ticket(0), Question::RequestLeases { request }));
            took += begin.elapsed();
            leases.extend(granted(&step));
        }
        assert_eq!(leases.len(), n_tasks, "every request is filled");
        (took, leases)
    }

    fn beat(&mut self, leases: &[LeaseId]) -> Duration {
        let mut took = Duration::ZERO;
        for leases in leases.chunks(100) {
            let (worker, leases) = (self.worker.clone(), Renewal::Listed(leases.to_vec()));
            let begin = Instant::now();
            black_box(self.handle(Command::Ask(Ticket(0), Question::Heartbeat { worker, leases })));
            took += begin.elapsed();
        }
        took
    }

    fn report(&mut self, leases: &[LeaseId], batch: usize) -> Duration {
        let result = Bytes::from_static(b"{}");
        let report = |lease: &LeaseId| Report {
            lease: *lease,
            worker: self.worker.clone(),
            key: ReportKey(1),
            outcome: ReportedOutcome::Completed { result: result.clone(), extra: None },
        };
        let batches: Vec<Vec<Report>> =
            leases.chunks(batch).map(|leases| leases.iter().map(report).collect()).collect();
        let begin = Instant::now();
        for reports in batches {
            black_box(self.handle(Command::Ask(Ticket(0), Question::Report { reports })));
        }
        begin.elapsed()
    }
}

fn granted(step: &Step) -> impl Iterator<Item = LeaseId> {
    step.effects.iter().flat_map(|effect| match effect {
        Effect::Answer { answer: Answer::Leases(grants), .. } => {
            grants.iter().map(|grant| grant.lease).collect()
        }
        Effect::Answer { .. } | Effect::Load { .. } | Effect::Prepare { .. } => Vec::new(),
    })
}

fn spec(task_type: &str) -> Arc<TaskSpec> {
    Arc::new(TaskSpec {
        demand: Demand {
            queue: "default".parse().expect("a name"),
            task_type: task_type.parse().expect("a name"),
            tools: std::collections::BTreeSet::new(),
            tags: std::collections::BTreeMap::new(),
            package: None,
        },
        priority: 0,
        lease_ttl: LEASE_TTL_DEFAULT,
        timeout: None,
        retry: RetryPolicy::default(),
    })
}

fn task_of(spec: &Arc<TaskSpec>) -> NewTask {
    NewTask {
        spec: Arc::clone(spec),
        parameters: Bytes::from(vec![b'x'; PARAMETERS_BYTES]),
        not_before: None,
        concurrency_key: None,
        idempotency: None,
        run: None,
        after: Vec::new(),
        pin: None,
    }
}

fn at() -> Moment {
    Moment { now: NOW, wall: NOW, entropy: 0 }
}

/// What the operating system counts for this process; zero where it does not say.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}

fn print_per_task(what: &str, took: Duration, n_tasks: usize) {
    let nanos = took.as_nanos() / n_tasks as u128;
    println!("{what:<40} {nanos:>8} ns per task");
}
