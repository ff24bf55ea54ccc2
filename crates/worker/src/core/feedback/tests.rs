use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn offsets_count_the_bytes_of_all_channels_in_the_order_of_their_leaving() {
    let sink = FeedbackSink::new(|| {});
    put(&sink, Channel::Stdout, b"one");
    put(&sink, Channel::Stderr, b"two!");
    put(&sink, Channel::Stdout, b"three");
    assert_eq!(taken(&sink), ["stdout 0 one", "stderr 3 two!", "stdout 7 three"]);
    put(&sink, Channel::Log, b"x");
    assert_eq!(taken(&sink), ["log 12 x"]);
}

#[test]
fn a_character_is_never_cut_although_its_bytes_come_one_by_one() {
    let sink = FeedbackSink::new(|| {});
    let text = "aé€𐍈z";
    let mut seen = String::new();
    for byte in text.as_bytes() {
        put(&sink, Channel::Stdout, &[*byte]);
        put(&sink, Channel::Stderr, b"!");
        for chunk in sink.take(Instant::now()).expect("an exclamation mark at least").chunks {
            assert!(chunk.data_base64.is_none(), "{chunk:?}");
            if chunk.channel == Channel::Stdout {
                seen.push_str(&chunk.text.unwrap_or_default());
            }
        }
    }
    assert_eq!(seen, text);
    check_offsets(text.len() as u64 * 2, &sink);
}

#[test]
fn half_a_character_waits_for_its_other_half_behind_another_channel() {
    let sink = FeedbackSink::new(|| {});
    put(&sink, Channel::Stdout, b"a\xE2\x82");
    put(&sink, Channel::Stderr, b"x");
    put(&sink, Channel::Stdout, b"\xAC");
    assert_eq!(taken(&sink), ["stdout 0 a", "stderr 1 x", "stdout 2 €"]);
}

#[test]
fn half_a_character_leaves_as_bytes_when_all_is_over() {
    let sink = FeedbackSink::new(|| {});
    put(&sink, Channel::Stdout, b"a\xE2\x82");
    assert_eq!(taken(&sink), ["stdout 0 a"]);
    assert_eq!(sink.due_at(Instant::now()), None, "half a character is nothing to say");
    sink.finish();
    assert_eq!(taken(&sink), ["stdout 1 base64 4oI="]);
}

#[test]
fn bytes_that_are_no_text_are_passed_on_as_they_are() {
    let sink = FeedbackSink::new(|| {});
    put(&sink, Channel::Stdout, b"\xFF\x00\x80");
    put(&sink, Channel::Stderr, b"fine");
    assert_eq!(taken(&sink), ["stdout 0 base64 /wCA", "stderr 3 fine"]);
}

#[test]
fn a_batch_is_bounded_and_does_not_cut_characters_either() {
    let sink = FeedbackSink::new(|| {});
    let text = "€".repeat(BATCH_BYTES);
    put(&sink, Channel::Stdout, text.as_bytes());
    let (mut seen, mut n_batches) = (String::new(), 0);
    while let Some(batch) = sink.take(Instant::now()) {
        n_batches += 1;
        for chunk in batch.chunks {
            let text = chunk.text.expect("text");
            assert!(text.len() <= BATCH_BYTES && text.len() > BATCH_BYTES - 4);
            seen.push_str(&text);
        }
        if n_batches == 3 {
            break;
        }
    }
    assert_eq!(seen.len(), 3 * (BATCH_BYTES - BATCH_BYTES % 3));
    assert!(text.starts_with(&seen));
}

#[test]
fn the_session_is_woken_once_for_news_and_once_for_a_full_batch() {
    let n_woken = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&n_woken);
    let sink = FeedbackSink::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    let woken = || n_woken.load(Ordering::Relaxed);
    put(&sink, Channel::Log, b"a");
    put(&sink, Channel::Log, b"b");
    assert_eq!(woken(), 1);
    put(&sink, Channel::Log, &vec![b'c'; BATCH_BYTES]);
    assert_eq!(woken(), 2);
    while sink.take(Instant::now()).is_some() {}
    put(&sink, Channel::Log, b"d");
    assert_eq!(woken(), 3);
}

#[test]
fn a_batch_waits_a_moment_after_the_last_one() {
    let sink = FeedbackSink::new(|| {});
    let now = Instant::now();
    put(&sink, Channel::Log, b"a");
    assert_eq!(sink.due_at(now), Some(now), "somebody may be watching");
    sink.take(now);
    put(&sink, Channel::Log, b"b");
    assert_eq!(sink.due_at(now), Some(now + BATCH_EVERY));
    put(&sink, Channel::Log, &vec![b'c'; BATCH_BYTES]);
    assert_eq!(sink.due_at(now), Some(now));
}

#[tokio::test]
async fn who_writes_too_much_waits_until_something_was_taken() {
    let sink = FeedbackSink::new(|| {});
    let writer = sink.clone();
    let much = vec![b'x'; 2 * GATHERED_BYTES_MAX];
    let writing = tokio::spawn(async move { writer.write(Channel::Stdout, much).await });
    let mut n_taken = 0;
    for _ in 0..10 {
        tokio::task::yield_now().await;
        assert!(!writing.is_finished());
        assert!(gathered_bytes(&sink) <= GATHERED_BYTES_MAX);
    }
    while n_taken < 2 * GATHERED_BYTES_MAX {
        let chunks = sink.take(Instant::now()).map(|batch| batch.chunks).unwrap_or_default();
        n_taken +=
            chunks.iter().filter_map(|chunk| chunk.text.as_ref()).map(String::len).sum::<usize>();
        tokio::task::yield_now().await;
    }
    writing.await.expect("ends");
}

#[tokio::test]
async fn a_sink_that_is_closed_lets_its_writer_go() {
    let sink = FeedbackSink::new(|| {});
    let writer = sink.clone();
    let much = vec![b'x'; 2 * GATHERED_BYTES_MAX];
    let writing = tokio::spawn(async move { writer.write(Channel::Stdout, much).await });
    tokio::task::yield_now().await;
    sink.close();
    writing.await.expect("ends");
    assert_eq!(sink.take(Instant::now()), None);
}

#[test]
fn of_two_words_about_progress_the_later_counts() {
    let sink = FeedbackSink::new(|| {});
    sink.progress(0.25);
    sink.say(Status { message: Some("half".into()), progress: Some(0.5), ..Status::default() });
    let status = sink.take(Instant::now()).expect("said").status;
    assert_eq!((status.progress, status.message.as_deref()), (Some(0.5), Some("half")));
    assert_eq!(sink.take(Instant::now()), None);
}

fn put(sink: &FeedbackSink, channel: Channel, bytes: &[u8]) {
    let shared = sink.shared.as_ref().expect("somebody listens");
    shared.with(|gathered| gathered.push(channel, bytes));
}

fn gathered_bytes(sink: &FeedbackSink) -> usize {
    sink.shared.as_ref().expect("somebody listens").gathered.lock().n_bytes
}

fn check_offsets(expected: u64, sink: &FeedbackSink) {
    assert_eq!(sink.shared.as_ref().expect("somebody listens").gathered.lock().offset, expected);
}

fn taken(sink: &FeedbackSink) -> Vec<String> {
    let batch = sink.take(Instant::now()).expect("something is said");
    let shown = batch.chunks.into_iter().map(|chunk| {
        let channel = serde_json::to_string(&chunk.channel).expect("a word");
        let metadata = chunk.metadata.expect("an offset");
        let offset = metadata.get().trim_matches(|c: char| !c.is_ascii_digit()).to_owned();
        let data = chunk.data_base64.map(|data| format!("base64 {data}"));
        let said = chunk.text.or(data).expect("something");
        format!("{} {offset} {said}", channel.trim_matches('"'))
    });
    shown.collect()
}
