//! Streams made by chance: of pieces that mean something to a reader, or of good requests that
//! were tampered with.
//!
//! `RESP_STREAMS` says how many are tried, `RESP_SEED` tries one alone.

use bytes::{BufMut, BytesMut};

use protocol::resp::client::{ReplyError, ReplyReader, encode_request};
use protocol::resp::reply::Reply;
use protocol::resp::request::{Limits, RequestReader};

use super::{ROOMY, Reading, read_pieces};

/// How many streams are tried.
const STREAMS: u64 = 30_000;

/// Of how many pieces a stream is made at most.
const PIECES_MAX: usize = 40;

/// How often a good stream is tampered with at most.
const BLOWS_MAX: usize = 3;

/// What one reply may take.
const REPLY_BYTES_MAX: usize = 200;

/// Narrow ones are met more often.
const LIMITS: [Limits; 4] = [
    Limits::STRANGER,
    Limits { arguments_max: 9, argument_bytes_max: 32, request_bytes_max: 48 },
    Limits { arguments_max: 2, argument_bytes_max: 3, request_bytes_max: 1 << 20 },
    ROOMY,
];

/// What streams are made of.
const PIECES: [&[u8]; 48] = [
    b"*1\r\n",
    b"*2\r\n",
    b"*3\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*9\r\n",
    b"*10\r\n",
    b"*1000000\r\n",
    b"*",
    b"$",
    b"$0\r\n",
    b"$1\r\n",
    b"$3\r\n",
    b"$4\r\n",
    b"$-1\r\n",
    b"$31\r\n",
    b"$33\r\n",
    b"$2147483648\r\n",
    b"$99999999999999999999\r\n",
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b"GET\r\n",
    b"PING",
    b"PING\r\n",
    b"POST",
    b"Host:",
    b"a",
    b"k\r\n",
    b" ",
    b"\t",
    b"\"",
    b"'",
    b"\\",
    b"\\x4",
    b"\\'",
    b"\0",
    b"\xff",
    b"+OK\r\n",
    b"-ERR\r\n",
    b":1\r\n",
    b"_\r\n",
    b"%1\r\n",
    b"~2\r\n",
    b",inf\r\n",
    b"=7\r\n",
    b"txt:",
];

#[test]
fn streams_made_by_chance_are_read_alike() {
    if let Some(seed) = number_of("RESP_SEED") {
        println!("{}", Chance::seeded(seed).stream().escape_ascii());
        judge(seed);
        return;
    }
    let streams = number_of("RESP_STREAMS").unwrap_or(STREAMS);
    let halves: Vec<_> =
        (0..2).map(|half| std::thread::spawn(move || judge_every_other(half, streams))).collect();
    let mut counts = Counts::default();
    for half in halves {
        let other = half.join().unwrap_or_else(|_| panic!("a stream is read in two ways"));
        counts.requests += other.requests;
        counts.errors += other.errors;
        counts.replies += other.replies;
    }
    println!("{streams} streams: {counts:?}");
    // Streams that never reach the deep places would prove nothing.
    assert!(counts.requests > streams / 2, "requests are exercised");
    assert!(counts.errors > streams / 4, "errors are exercised");
    assert!(counts.replies > streams / 10, "replies are exercised");
}

/// What was in the streams.
#[derive(Debug, Default)]
struct Counts {
    requests: u64,
    errors: u64,
    replies: u64,
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn judge_every_other(half: u64, streams: u64) -> Counts {
    let mut counts = Counts::default();
    for seed in (half..streams).step_by(2) {
        let judged = std::panic::catch_unwind(|| judge(seed));
        let Ok((reading, n_replies)) = judged else {
            panic!("RESP_SEED={seed}: {}", Chance::seeded(seed).stream().escape_ascii());
        };
        counts.requests += reading.requests.len() as u64;
        counts.errors += u64::from(reading.error.is_some());
        counts.replies += n_replies as u64;
    }
    counts
}

fn judge(seed: u64) -> (Reading, usize) {
    let mut chance = Chance::seeded(seed);
    let stream = chance.stream();
    let limits = LIMITS[chance.roll(LIMITS.len())];
    let cut = 1 + chance.roll(60);
    (judge_requests(limits, cut, &stream), judge_replies(cut, &stream))
}

/// The same for the same seed.
struct Chance {
    state: u64,
}

impl Chance {
    fn seeded(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xfa }
    }

    fn roll(&mut self, below: usize) -> usize {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.state >> 33).expect("31 bits") % below
    }

    fn stream(&mut self) -> Vec<u8> {
        if self.roll(2) == 0 {
            return (0..self.roll(PIECES_MAX)).flat_map(|_| self.piece()).collect();
        }
        let mut stream = Vec::new();
        for _ in 0..=self.roll(5) {
            stream.extend(self.request());
        }
        for _ in 0..self.roll(BLOWS_MAX + 1) {
            let at = self.roll(stream.len());
            let end = (at + self.roll(4)).min(stream.len());
            let piece = self.piece();
            stream.splice(at..end, piece);
        }
        stream
    }

    /// Something that a reader knows, or any byte.
    fn piece(&mut self) -> Vec<u8> {
        match self.roll(8) {
            0 => vec![u8::try_from(self.roll(256)).expect("below 256")],
            _ => PIECES[self.roll(PIECES.len())].to_vec(),
        }
    }

    /// A good request, as a program or a person sends it.
    fn request(&mut self) -> Vec<u8> {
        let arguments: Vec<Vec<u8>> =
            (0..=self.roll(4)).map(|_| self.piece().repeat(1 + self.roll(3))).collect();
        if self.roll(4) == 0 {
            return b"set key 'a value' \"\\x41\"\r\n".to_vec();
        }
        let mut wire = BytesMut::new();
        encode_request(&mut wire, &arguments);
        wire.to_vec()
    }
}

fn judge_requests(limits: Limits, cut: usize, stream: &[u8]) -> Reading {
    let reading = read_pieces(limits, [stream]);
    assert_eq!(read_pieces(limits, stream.chunks(1)), reading, "byte by byte");
    let (left, right) = stream.split_at(cut.min(stream.len()));
    assert_eq!(read_pieces(limits, [left, right]), reading, "cut at {cut}");
    assert_eq!(read_pieces(limits, stream.chunks(cut)), reading, "pieces of {cut}");
    for request in &reading.requests {
        assert!((1..=limits.arguments_max).contains(&request.len()));
        assert!(request.iter().all(|argument| argument.len() <= limits.argument_bytes_max));
        assert!(request.iter().map(Vec::len).sum::<usize>() <= limits.request_bytes_max);
    }
    assert_eq!(reading.requests, write_and_read(&reading), "written by a client and read again");
    assert_buffers_little(limits, stream);
    reading
}

fn write_and_read(reading: &Reading) -> Vec<Vec<Vec<u8>>> {
    let mut wire = BytesMut::new();
    for request in &reading.requests {
        encode_request(&mut wire, request);
    }
    let again = read_pieces(ROOMY, [&wire[..]]);
    assert_eq!(again.error, None);
    again.requests
}

/// What waits for more bytes is never more than one request may be.
fn assert_buffers_little(limits: Limits, stream: &[u8]) {
    let mut reader = RequestReader::new(limits);
    let mut buffer = BytesMut::new();
    for byte in stream {
        buffer.put_u8(*byte);
        let read = reader.next(&mut buffer);
        if read.is_err() {
            return;
        }
        assert!(buffer.len() < limits.request_bytes_max, "{} bytes wait", buffer.len());
    }
}

fn judge_replies(cut: usize, stream: &[u8]) -> usize {
    let at_once = read_replies([stream]);
    assert_eq!(read_replies(stream.chunks(1)), at_once, "byte by byte");
    assert_eq!(read_replies(stream.chunks(cut)), at_once, "pieces of {cut}");
    at_once.0.len()
}

fn read_replies<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Reply>, Option<ReplyError>) {
    let mut reader = ReplyReader::new(REPLY_BYTES_MAX);
    let mut buffer = BytesMut::new();
    let mut replies = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match reader.next(&mut buffer) {
                Ok(Some(reply)) => replies.push(reply),
                Ok(None) => break,
                Err(error) => return (replies, Some(error)),
            }
        }
        assert!(buffer.len() < REPLY_BYTES_MAX, "{} bytes wait", buffer.len());
    }
    (replies, None)
}
