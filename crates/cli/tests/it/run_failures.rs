//! `astra run` when something is not as it should be: exit codes, reasons, hints.

use crate::support::{Site, line_of};

#[test]
fn the_exit_code_tells_how_the_command_ended() {
    let site = Site::with_worker();
    let check = |flags: &[&str], script: &str, code: i32| {
        let mut words = vec!["run", "-q"];
        words.extend(flags);
        words.extend(["--", "sh", "-c", script]);
        site.run(&words).with_code(code);
    };
    check(&[], "exit 3", 1);
    check(&["--propagate"], "exit 3", 3);
    check(&["--propagate"], "echo 'the program exited with code 9' >&2; exit 77", 77);
    check(&["--propagate"], "kill -9 $$", 137);
    check(&["--propagate"], "exit 0", 0);
    check(&["--propagate", "--timeout", "100ms"], "sleep 30", 124);
    check(&["--timeout", "100ms"], "sleep 30", 1);
    check(&["--retries", "1"], "[ $ASTRA_ATTEMPT = 2 ]", 0);
    check(&[], "[ $ASTRA_ATTEMPT = 2 ]", 1);
}

#[test]
fn a_run_that_waits_says_why() {
    let mut site = Site::new();
    let (process, mut stdout) = site.start(&["run", "--name", "r1", "--", "echo", "at last"]);
    let mut stderr = process.stderr();
    assert_eq!(line_of(&mut stderr), "run r1 · echo · waiting\n");
    assert!(line_of(&mut stderr).contains("no worker"));
    assert!(line_of(&mut stderr).contains("astra worker start"));
    site.add_worker("w1");
    assert_eq!(line_of(&mut stdout), "at last\n");
    assert_eq!(process.end().0.code(), Some(0));
}

#[test]
fn a_command_goes_where_its_program_is() {
    let site = Site::with_worker();
    let waiting = site.run(&["run", "-d", "--name", "r1", "--", "no-such-program"]).with_code(0);
    assert_eq!(waiting.text(), "r1");
    let why = site.run(&["explain", "last"]).with_code(0);
    assert!(why.text().contains("tool no-such-program"), "{}", why.text());
    site.run(&["run", "stop", "r1"]).with_code(0);
    site.run(&["run", "wait", "r1"]).with_code(1);
    let unchecked = site.run(&["run", "--no-tool-check", "--", "no-such-program"]).with_code(1);
    assert!(unchecked.stderr.contains("no-such-program"), "{}", unchecked.stderr);
    let elsewhere = site.run(&["run", "--cwd", "/no/such", "--", "pwd"]).with_code(1);
    assert!(elsewhere.stderr.contains("--cwd"), "{}", elsewhere.stderr);
}

#[test]
fn a_command_line_that_makes_no_sense_is_helped() {
    let site = Site::new();
    let check = |words: &[&str], code: i32, hint: &str| {
        let ended = site.run(words).with_code(code);
        assert!(ended.stderr.contains(hint), "{words:?}: {}", ended.stderr);
    };
    check(&["run", "ls", "-l"], 2, "did you mean `astra run -- ls -l`?");
    check(&["run", "folow", "x"], 2, "Or `astra run follow`?");
    check(&["run"], 2, "astra run -- echo hello");
    check(&["run", "--detach", "list"], 2, "leave them out");
    check(&["run", "--each", "nothing*", "--", "cat", "{}"], 7, "no file matches nothing*");
    check(&["run", "show", "nobody"], 3, "astra run list");
    check(&["run", "show", "last"], 3, "astra run -- echo hello");
    check(&["run", "--server", "http://127.0.0.1:1", "--", "true"], 5, "hint:");
    check(&["run", "--token", "wrong", "--", "true"], 4, "hint:");
}
