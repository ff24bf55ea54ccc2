use super::*;

#[test]
fn the_first_bytes_leave_at_once_and_the_next_after_the_pause() {
    let start = Instant::now();
    let mut coalescer = Coalescer::default();
    assert_eq!(coalescer.due_at(start), None);
    coalescer.push(Channel::Stdout, b"a");
    assert_eq!(coalescer.due_at(start), Some(start));
    coalescer.take(start);
    coalescer.push(Channel::Stdout, b"b");
    assert_eq!(coalescer.due_at(start), Some(start + FLUSH_EVERY));
    coalescer.push(Channel::Stdout, &vec![b'c'; FLUSH_BYTES]);
    assert_eq!(coalescer.due_at(start), Some(start), "enough bytes do not wait");
}

#[test]
fn after_a_silence_bytes_leave_at_once_again() {
    let start = Instant::now();
    let mut coalescer = Coalescer::default();
    coalescer.push(Channel::Stdout, b"a");
    coalescer.take(start);
    let later = start + Duration::from_secs(1);
    coalescer.push(Channel::Stdout, b"b");
    assert!(coalescer.due_at(later).is_some_and(|due| due <= later));
}

#[test]
fn a_batch_keeps_the_order_and_joins_neighbours() {
    let mut coalescer = Coalescer::default();
    let said = [
        (Channel::Stdout, "one "),
        (Channel::Stdout, "two"),
        (Channel::Stderr, "oops"),
        (Channel::Stdout, "three"),
    ];
    for (channel, text) in said {
        coalescer.push(channel, text.as_bytes());
    }
    assert_eq!(
        shown(&coalescer.take(Instant::now())),
        ["stdout 0 one two", "stderr 0 oops", "stdout 7 three"]
    );
    coalescer.push(Channel::Stderr, b"again");
    assert_eq!(shown(&coalescer.take(Instant::now())), ["stderr 4 again"]);
}

#[test]
fn what_waits_is_bounded() {
    let mut coalescer = Coalescer::default();
    coalescer.push(Channel::Stdout, &vec![0; PENDING_BYTES_MAX - 1]);
    assert_eq!(coalescer.room(), 1);
    coalescer.push(Channel::Stdout, &[0; 1]);
    assert_eq!(coalescer.room(), 0);
    coalescer.take(Instant::now());
    assert_eq!(coalescer.room(), PENDING_BYTES_MAX);
    assert!(coalescer.is_empty());
}

#[test]
fn within_the_limit_everything_is_kept() {
    check_capture(8, &["abcd", "efgh"], "abcdefgh", 0);
    check_capture(8, &["a", "", "b"], "ab", 0);
    check_capture(0, &[], "", 0);
}

#[test]
fn over_the_limit_the_beginning_and_the_end_are_kept() {
    check_capture(8, &["0123456789"], "0123\n[... 2 bytes dropped ...]\n6789", 2);
    check_capture(8, &["01", "23456", "789"], "0123\n[... 2 bytes dropped ...]\n6789", 2);
    check_capture(3, &["0123456789"], "0\n[... 7 bytes dropped ...]\n89", 7);
    check_capture(0, &["abc"], "\n[... 3 bytes dropped ...]\n", 3);
}

#[test]
fn a_character_is_not_cut_in_two() {
    check_capture(6, &["aaäxxxxäbb"], "aa\n[... 8 bytes dropped ...]\nbb", 8);
    check_capture(8, &["€€€€"], "€\n[... 6 bytes dropped ...]\n€", 6);
}

#[test]
fn memory_stays_within_the_limit() {
    let mut capture = Capture::new(1000);
    for _ in 0..10_000 {
        capture.push(&[b'y'; 777]);
        assert!(capture.n_kept() <= 1000);
    }
    assert!(capture.tail.capacity() <= 4096, "{}", capture.tail.capacity());
    assert_eq!(capture.text().dropped_bytes, 7_770_000 - 1000);
}

#[test]
fn narrowing_drops_the_middle() {
    let mut capture = Capture::new(100);
    capture.push(b"0123456789");
    let text = capture.narrowed(4).text();
    assert_eq!(text.text, "01\n[... 6 bytes dropped ...]\n89");
    capture.push(&[b'x'; 200]);
    capture.push(b"end");
    let text = capture.narrowed(4).text();
    assert_eq!(
        (text.text.as_str(), text.dropped_bytes),
        ("01\n[... 209 bytes dropped ...]\nnd", 209)
    );
}

#[test]
fn bytes_that_are_no_text_are_marked() {
    let mut capture = Capture::new(100);
    capture.push(b"a\xFFb\r\n");
    assert_eq!(capture.text().text, "a\u{FFFD}b\r\n");
}

fn shown(chunks: &[Chunk]) -> Vec<String> {
    chunks
        .iter()
        .map(|Chunk { channel, offset, bytes }| {
            format!("{} {offset} {}", channel.name(), String::from_utf8_lossy(bytes))
        })
        .collect()
}

fn check_capture(bytes_max: usize, said: &[&str], text: &str, dropped_bytes: u64) {
    let mut capture = Capture::new(bytes_max);
    for part in said {
        capture.push(part.as_bytes());
    }
    assert_eq!(capture.text(), CapturedText { text: text.into(), dropped_bytes }, "{said:?}");
}
