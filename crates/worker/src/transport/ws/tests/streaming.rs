//! What programs say while they run.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::server::{PATIENCE, Scene, Wish};
use crate::core::feedback::GATHERED_BYTES_MAX;
use crate::waiting::wait_until;

/// A program that is not held up gets further in this time.
const STILL_FOR: Duration = Duration::from_millis(700);

#[tokio::test]
async fn output_comes_while_the_program_runs_and_all_of_it_before_the_result() {
    let mut scene = Scene::start().await;
    let script = "echo one; sleep 0.2; echo two >&2; sleep 0.2; printf three";
    scene.dispatch("l-1", "command", &json!({ "argv": ["sh", "-c", script] }));
    let first = scene.frame().await;
    assert_eq!(first.corr, "l-1");
    assert_eq!(
        (&first.payload["run_id"], &first.payload["task_id"]),
        (&json!("r"), &json!("task-of-l-1"))
    );
    let mut said = Said::default();
    said.add(&first.payload);
    assert_eq!(said.shown, ["stdout 0 one\n"]);
    said.until_result(&mut scene).await;
    assert_eq!(said.shown, ["stdout 0 one\n", "stderr 4 two\n", "stdout 8 three"]);
}

#[tokio::test]
async fn no_character_is_cut_and_every_byte_has_its_place() {
    let mut scene = Scene::start().await;
    // Written a byte at a time, the pauses between them longer than a batch.
    let script =
        r"printf '\342'; sleep 0.05; printf '\202'; sleep 0.05; printf '\254!'; printf '\377'";
    scene.dispatch("l-1", "command", &json!({ "argv": ["sh", "-c", script] }));
    let mut said = Said::default();
    said.until_result(&mut scene).await;
    assert_eq!(said.bytes, b"\xE2\x82\xAC!\xFF");
    assert!(said.shown.iter().any(|shown| shown.contains('€')) || said.shown[0].contains("base64"));
    assert!(!said.shown.iter().any(|shown| shown.contains("base64 4g==")), "{:?}", said.shown);
}

#[tokio::test]
async fn much_output_arrives_whole_and_in_order() {
    let mut scene = Scene::start().await;
    scene.dispatch("l-1", "command", &json!({ "argv": ["seq", "1", "300000"] }));
    let mut said = Said::default();
    said.until_result(&mut scene).await;
    let expected: String =
        (1..=300_000).fold(String::new(), |text, n| text + &n.to_string() + "\n");
    assert!(said.bytes == expected.as_bytes(), "{} bytes came", said.bytes.len());
    assert!(said.n_frames < 200, "{} frames for 2 MB", said.n_frames);
}

#[tokio::test]
async fn a_session_that_takes_nothing_holds_the_program_back() {
    let mut scene = Scene::start().await;
    scene.wish(Wish::Hold(true));
    // Says how far it got, beside the pipe that fills.
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("progress");
    let script = "i=0; while [ $i -lt 1000 ]; do head -c 10000 /dev/zero | tr '\\0' x; i=$((i+1)); echo $i > $0; done";
    let argv = json!({ "argv": ["sh", "-c", script, path] });
    scene.dispatch("l-1", "command", &argv);
    let progress =
        || std::fs::read_to_string(&path).ok().and_then(|n| n.trim().parse::<usize>().ok());
    let mut last = (None, Instant::now());
    let standing_still = async || {
        let now = progress();
        if now != last.0 {
            last = (now, Instant::now());
        }
        now.filter(|_| last.1.elapsed() >= STILL_FOR).ok_or(last)
    };
    let stuck = wait_until("the program to stand still", PATIENCE, standing_still).await;
    let bytes = stuck * 10_000;
    assert!(bytes < GATHERED_BYTES_MAX + (1 << 20), "{bytes} bytes were taken");
    assert!(bytes > GATHERED_BYTES_MAX / 2, "{bytes} bytes were taken");
    scene.wish(Wish::Hold(false));
    let mut said = Said::default();
    said.until_result(&mut scene).await;
    assert_eq!(said.bytes.len(), 10_000_000, "nothing is lost");
}

#[tokio::test]
async fn builtin_types_say_how_they_fare() {
    let mut scene = Scene::start().await;
    scene.dispatch("l-1", "core.log", &json!({ "message": "hello", "channel": "stdout" }));
    let feedback = scene.frame().await;
    assert_eq!(feedback.kind, "biz.exec.feedback");
    assert_eq!(feedback.payload["message"], "hello");
    assert_eq!(feedback.payload["chunks"][0]["text"], "hello\n");
    assert_eq!(scene.answer().await.payload["status"], "SUCCEEDED");
    scene.dispatch("l-2", "core.sleep", &json!({ "seconds": 1.2 }));
    let feedback = scene.frame().await;
    assert!(feedback.payload["progress"].as_f64().is_some_and(|share| share > 0.5));
}

/// All that a task said, put together again.
#[derive(Default)]
pub(super) struct Said {
    pub(super) bytes: Vec<u8>,
    pub(super) shown: Vec<String>,
    pub(super) n_frames: usize,
}

impl Said {
    /// Adds a frame; its chunks must follow those before.
    pub(super) fn add(&mut self, payload: &Value) {
        self.n_frames += 1;
        for chunk in payload["chunks"].as_array().into_iter().flatten() {
            let offset = chunk["metadata"]["offset"].as_u64().expect("an offset");
            assert_eq!(offset, self.bytes.len() as u64, "no gap and no overlap");
            let channel = chunk["channel"].as_str().expect("a channel");
            match (chunk["text"].as_str(), chunk["data_base64"].as_str()) {
                (Some(text), None) => {
                    self.bytes.extend_from_slice(text.as_bytes());
                    self.shown.push(format!("{channel} {offset} {text}"));
                }
                (None, Some(data)) => {
                    self.bytes.extend(BASE64_STANDARD.decode(data).expect("base64"));
                    self.shown.push(format!("{channel} {offset} base64 {data}"));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub(super) async fn until_result(&mut self, scene: &mut Scene) -> Value {
        loop {
            let frame = scene.frame().await;
            if frame.kind != "biz.exec.feedback" {
                assert_eq!(frame.kind, "biz.exec.result");
                return frame.payload;
            }
            self.add(&frame.payload);
        }
    }
}
