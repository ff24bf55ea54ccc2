//! The worker against a server that says what the test wants it to say.

use std::convert::Infallible;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;
use crate::executor::{Assignment, Context, Outcome, Work};

#[tokio::test]
async fn a_report_is_sent_and_its_verdict_is_told() {
    let mut scene = Scene::start("core.echo", |path, _| match path {
        "/api/v1/reports" => Some(json!({ "verdicts": [{ "verdict": "COMMITTED" }] })),
        _ => None,
    })
    .await;
    let judgement = scene.judgements.recv().await.expect("told");
    assert_eq!(judgement.verdict, VerdictWord::Committed);
    let summary = scene.stop().await;
    assert_eq!(summary, Summary { committed: 1, ..Summary::default() });
}

#[tokio::test]
async fn a_cancelled_heartbeat_stops_the_work_and_nothing_is_reported() {
    let mut scene = Scene::start("test.forever", |path, _| match path {
        "/api/v1/leases/t-1/heartbeat" => {
            Some(json!({ "verdict": "CANCELLED", "reason": "superseded" }))
        }
        _ => None,
    })
    .await;
    let judgement = scene.judgements.recv().await.expect("told");
    assert_eq!(judgement.verdict, VerdictWord::Cancelled);
    assert_eq!(judgement.reason.as_deref(), Some("superseded"));
    assert!(scene.executor.was_dropped.load(Ordering::SeqCst), "the work is stopped");
    assert_eq!(scene.stop().await.cancelled, 1);
    assert_eq!(reports_among(&mut scene.requests), Vec::<Value>::new());
}

#[tokio::test]
async fn an_unanswered_report_is_sent_again_under_the_same_name() {
    let unanswered = AtomicBool::new(true);
    let mut scene = Scene::start("core.echo", move |path, _| match path {
        "/api/v1/reports" if unanswered.swap(false, Ordering::SeqCst) => Some(Value::Null),
        "/api/v1/reports" => Some(json!({ "verdicts": [{ "verdict": "COMMITTED" }] })),
        _ => None,
    })
    .await;
    scene.judgements.recv().await.expect("told");
    assert_eq!(scene.stop().await.committed, 1);
    let reports = reports_among(&mut scene.requests);
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[0], reports[1]);
    assert!(reports[0]["reports"][0]["report_id"].is_string());
}

#[tokio::test]
async fn a_refused_report_is_surfaced_and_not_retried() {
    let mut scene = Scene::start("core.echo", |path, _| match path {
        "/api/v1/reports" => {
            Some(json!({ "verdicts": [{ "verdict": "REJECTED", "reason": "not_holder" }] }))
        }
        _ => None,
    })
    .await;
    let judgement = scene.judgements.recv().await.expect("told");
    assert_eq!(judgement.verdict, VerdictWord::Rejected);
    assert_eq!(scene.stop().await.rejected, 1);
    assert_eq!(reports_among(&mut scene.requests).len(), 1);
}

type Script = Arc<dyn Fn(&str, &Value) -> Option<Value> + Send + Sync>;

/// A worker, its server and everything that was said.
struct Scene {
    running: tokio::task::JoinHandle<Result<Summary, WorkerError>>,
    shutdown: CancellationToken,
    judgements: mpsc::UnboundedReceiver<Judgement>,
    requests: mpsc::UnboundedReceiver<(String, Value)>,
    executor: Arc<TestExecutor>,
}

impl Scene {
    /// One lease `t-1` of this type is granted; everything else is up to the script, where `null`
    /// breaks the connection.
    async fn start(
        task_type: &'static str,
        script: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        let (heard, requests) = mpsc::unbounded_channel();
        let endpoint = serve(task_type, Arc::new(script), heard).await;
        let (tell, judgements) = mpsc::unbounded_channel();
        let executor = Arc::new(TestExecutor::default());
        let worker = Worker::new(Options {
            client: Client::new(endpoint.parse().expect("an address"), None).expect("a client"),
            worker_id: "w1".parse().expect("a name"),
            slots: 2,
            queues: None,
            tools: Vec::new(),
            tags: BTreeMap::new(),
            packages: Vec::new(),
            executor: Arc::clone(&executor) as Arc<dyn Executor>,
            listener: Arc::new(move |judgement| {
                let _ = tell.send(judgement.clone());
            }),
        });
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(worker.run(shutdown.clone()));
        Self { running, shutdown, judgements, requests, executor }
    }

    async fn stop(&mut self) -> Summary {
        self.shutdown.cancel();
        (&mut self.running).await.expect("no panic").expect("not refused")
    }
}

fn reports_among(requests: &mut mpsc::UnboundedReceiver<(String, Value)>) -> Vec<Value> {
    let mut reports = Vec::new();
    while let Ok((path, body)) = requests.try_recv() {
        if path == "/api/v1/reports" {
            reports.push(body);
        }
    }
    reports
}

async fn serve(
    task_type: &'static str,
    script: Script,
    heard: mpsc::UnboundedSender<(String, Value)>,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("bound").to_string();
    let leases = Arc::new(Mutex::new(vec![json!({
        "lease_id": "t-1", "task_id": "t", "attempt": 1, "type": task_type, "parameters": {},
        "expires_at": "2026-01-01T00:00:00Z", "heartbeat_ms": 20,
    })]));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (script, heard, leases) = (script.clone(), heard.clone(), Arc::clone(&leases));
            let service = service_fn(move |request| {
                answer(request, script.clone(), heard.clone(), Arc::clone(&leases))
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            tokio::spawn(async move {
                let _ = connection.await;
            });
        }
    });
    address
}

async fn answer(
    request: Request<Incoming>,
    script: Script,
    heard: mpsc::UnboundedSender<(String, Value)>,
    leases: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let _ = heard.send((path.clone(), body.clone()));
    let said = match path.as_str() {
        "/api/v1/leases" => {
            let granted = std::mem::take(&mut *leases.lock().expect("not poisoned"));
            if granted.is_empty() {
                std::future::pending::<Infallible>().await;
            }
            json!({ "leases": granted })
        }
        _ => script(&path, &body).expect("the script knows every path"),
    };
    match said {
        Value::Null => Err(std::io::ErrorKind::ConnectionReset.into()),
        said => Ok(Response::new(Full::new(said.to_string().into()))),
    }
}

/// Echoes, or works for ever and remembers that it was stopped.
#[derive(Default)]
struct TestExecutor {
    was_dropped: Arc<AtomicBool>,
}

struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Executor for TestExecutor {
    fn types(&self) -> Vec<String> {
        vec!["core.echo".into(), "test.forever".into()]
    }

    fn execute(&self, assignment: Assignment, _context: Context) -> Work {
        let on_drop = OnDrop(Arc::clone(&self.was_dropped));
        Box::pin(async move {
            if assignment.task_type == "test.forever" {
                let _on_drop = on_drop;
                std::future::pending::<Infallible>().await;
            }
            Outcome::done(assignment.parameters)
        })
    }
}
