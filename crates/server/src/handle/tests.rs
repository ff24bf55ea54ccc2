use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use coordinator::{Grant, WorkerView};
use futures_util::poll;
use model::{Demand, LeaseId, RetryPolicy, TaskId, TaskSpec, Timestamp};

use super::*;

#[tokio::test]
async fn an_asker_that_goes_while_it_waits_withdraws() {
    let (handle, mut inbox) = handle();
    {
        let mut asking = pin!(handle.ask(Question::ListWorkers));
        assert!(poll!(&mut asking).is_pending());
    }
    let Some(Message::Ask(Asking { ticket, .. })) = inbox.recv().await else { panic!("it asked") };
    let Ok(Message::Tell(Command::Withdraw { ticket: withdrawn })) = inbox.try_recv() else {
        panic!("it goes without a word")
    };
    assert_eq!(withdrawn, ticket);
}

#[tokio::test]
async fn leases_that_cross_the_asker_who_goes_are_given_back() {
    let (handle, mut inbox) = handle();
    let grant = grant();
    let lease = grant.lease;
    {
        let mut asking = pin!(handle.ask(Question::ListWorkers));
        assert!(poll!(&mut asking).is_pending());
        let Some(Message::Ask(Asking { reply, .. })) = inbox.recv().await else {
            panic!("it asked")
        };
        assert!(reply.send(Answer::Leases(vec![grant])).is_ok(), "the asker is still there");
    }
    let Ok(Message::Tell(Command::ReturnLeases { leases })) = inbox.try_recv() else {
        panic!("a lease that nobody knows of blocks its task until it ends")
    };
    assert_eq!(leases, [lease]);
}

#[tokio::test]
async fn an_answer_that_was_heard_is_not_taken_back() {
    let (handle, mut inbox) = handle();
    {
        let mut asking = pin!(handle.ask(Question::ListWorkers));
        assert!(poll!(&mut asking).is_pending());
        let Some(Message::Ask(Asking { reply, .. })) = inbox.recv().await else {
            panic!("it asked")
        };
        assert!(reply.send(Answer::Leases(vec![grant()])).is_ok());
        assert!(matches!(asking.await, Ok(Answer::Leases(_))));
    }
    drop(handle);
    assert!(inbox.recv().await.is_none(), "nothing more is said");
}

#[tokio::test]
async fn a_refusal_is_an_error_that_says_why() {
    let refused = AskError::Refused(Refusal::WorkersFull);
    check_answer(Answer::Refused(Refusal::WorkersFull), &Err(refused)).await;
}

#[tokio::test]
async fn an_answer_to_another_question_is_no_answer() {
    check_answer(Answer::Queues(Vec::new()), &Err(AskError::Unavailable)).await;
    check_answer(Answer::Workers(Vec::new()), &Ok(Vec::new())).await;
}

/// What the asker of `list_workers` hears when the shard gives this answer.
async fn check_answer(answer: Answer, expected: &Result<Vec<WorkerView>, AskError>) {
    let (handle, mut inbox) = handle();
    let mut asking = pin!(handle.list_workers());
    assert!(poll!(&mut asking).is_pending());
    let Some(Message::Ask(Asking { reply, .. })) = inbox.recv().await else { panic!("it asked") };
    assert!(reply.send(answer).is_ok(), "the asker is still there");
    assert_eq!(&asking.await, expected);
}

fn handle() -> (ShardHandle, mpsc::Receiver<Message>) {
    ShardHandle::new(shard(), Weak::new(), CancellationToken::new())
}

fn shard() -> ShardId {
    ShardId::new(0).expect("fits")
}

fn grant() -> Grant {
    let demand = Demand {
        queue: "default".parse().expect("name"),
        task_type: "demo.echo".parse().expect("name"),
        tools: BTreeSet::new(),
        tags: BTreeMap::new(),
        package: None,
    };
    let spec = TaskSpec {
        demand,
        priority: 0,
        lease_ttl: Duration::from_secs(30),
        timeout: None,
        retry: RetryPolicy::default(),
    };
    Grant {
        run: None,
        concurrency_key: None,
        link: None,
        chain: None,
        fact: None,
        lease: LeaseId { task: TaskId::of(shard(), 1), epoch: 1 },
        attempt: 1,
        spec: Arc::new(spec),
        parameters: Bytes::from_static(b"{}"),
        expires_at: Timestamp::from_millis(31_000),
        heartbeat_every: Duration::from_secs(10),
    }
}
