use super::*;

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

fn check_capture(bytes_max: usize, said: &[&str], text: &str, dropped_bytes: u64) {
    let mut capture = Capture::new(bytes_max);
    for part in said {
        capture.push(part.as_bytes());
    }
    assert_eq!(capture.text(), CapturedText { text: text.into(), dropped_bytes }, "{said:?}");
}

#[test]
fn little_is_kept_in_memory_and_much_in_a_file() {
    for n_bytes in [0, 1, SPOOL_MEMORY_BYTES, SPOOL_MEMORY_BYTES + 1, 3 * SPOOL_MEMORY_BYTES] {
        let said: Vec<u8> = (0..=255).cycle().take(n_bytes).collect();
        let mut spool = Spool::new(SPOOL_BYTES_MAX);
        for part in said.chunks(32 * 1024) {
            spool.push(part).expect("room");
        }
        let spooled = spool.finish().expect("kept");
        assert_eq!(matches!(spooled, Spooled::File(_)), n_bytes > SPOOL_MEMORY_BYTES);
        for _ in 0..2 {
            assert!(read(spooled.reader().expect("again")) == said, "{n_bytes} bytes");
        }
    }
}

#[test]
fn a_reader_cannot_write() {
    let mut spool = Spool::new(SPOOL_BYTES_MAX);
    spool.push(&vec![b'x'; 2 * SPOOL_MEMORY_BYTES]).expect("room");
    let spooled = spool.finish().expect("kept");
    let Spooled::File(mut file) = spooled.reader().expect("again") else {
        panic!("so much is in a file")
    };
    file.write_all(b"forged").expect_err("read only");
}

#[test]
fn too_much_is_an_error_and_never_a_shorter_text() {
    let mut spool = Spool::new(3);
    spool.push(b"abc").expect("room");
    assert!(matches!(spool.push(b"d"), Err(SpoolError::TooLong(3))));
}

fn read(spooled: Spooled) -> Vec<u8> {
    match spooled {
        Spooled::Bytes(bytes) => bytes.to_vec(),
        Spooled::File(mut file) => {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).expect("read");
            bytes
        }
    }
}
