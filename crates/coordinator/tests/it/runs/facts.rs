//! The facts of a run: each has its number, and a restart replays them. `restart` compares the
//! state of the run before it with the state after it.

use expect_test::expect;
use serde_json::json;

use super::world::{World, id, workflow};
use super::{check, inner, middlewares, none, with_subgraph};

/// A list with middlewares, subgraphs, a skipped node, a question, and what all of them gave.
fn everything() -> serde_json::Value {
    let map = json!({ "over": "{{ nodes.a.results.list }}", "maxParallel": 2 });
    let each =
        json!({ "map": map, "middlewares": middlewares(1), "parameters": { "is": "{{ item }}" } });
    let inside = json!({ "type": "workflow.container", "map": { "over": [1, 2] },
        "parameters": { "__container": { "subgraphId": id(500) }, "x": "{{ item }}" } });
    let nodes = [
        ("a", none()),
        ("each", each),
        ("box", inside),
        ("no", json!({ "when": "false" })),
        ("ask", json!({ "type": "core.approve" })),
        ("end", json!({ "parameters": { "all": "{{ nodes.each.results }}" } })),
    ];
    let edges = [("a", "no"), ("no", "ask"), ("ask", "end"), ("each", "box"), ("box", "end")];
    let mut flow = workflow(&nodes, &edges);
    flow["subgraphs"] = json!([{ "id": id(500), "definition": inner() }]);
    flow
}

const STORY: &[&str] = &[
    "start",
    "w takes 9",
    "w completes a {\"list\":[1,2,3]}",
    "w takes 9",
    "w calls next from each~0[0] as r",
    "w calls next from each~0[1] as r",
    "w takes 9",
    "w stumbles each~0[1]",
    "w completes each[0] {\"v\":1}",
    "w completes each~0[0] {\"m\":0}",
    "wait 2",
    "w takes 9",
    "w completes each~0[1] {\"m\":1}",
    "w takes 9",
    "w completes each~0[2] {\"m\":2}",
    "w takes 9",
    "w completes 1/double {\"y\":6}",
    "signal ask yes",
    "w takes 9",
    "w completes 1/show",
    "w completes 2/double {\"y\":7}",
    "w takes 9",
    "w completes 2/show",
    "w takes 9",
    "w completes end",
];

#[test]
fn every_fact_takes_the_next_number() {
    let mut world = World::new(&everything());
    for line in STORY {
        world.deed(line);
    }
    assert!(world.transcript.contains("RUN succeeded"), "{}", world.transcript);
    let expected: Vec<u64> = (1..=world.numbers.len() as u64).collect();
    assert_eq!(world.numbers, expected);
    assert_eq!(world.lists.iter().map(|list| list.length).collect::<Vec<_>>(), [3, 2]);
}

/// R 001-4.2-a: the number of a grant is the `seq` of its dispatch.
#[test]
fn every_grant_takes_a_new_number() {
    let mut world = World::new(&workflow(&[("a", none()), ("b", none())], &[]));
    for line in ["start", "w takes 1", "restart", "w stumbles a", "wait 2", "w takes 9"] {
        world.deed(line);
    }
    let names: Vec<&str> = world.grants.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["a", "a", "b"]);
    assert!(world.grants.is_sorted_by(|(_, one), (_, next)| one.is_some() && one < next));
}

#[test]
fn a_restart_after_each_deed_changes_nothing() {
    let plain = World::new(&everything()).play(&STORY.join("\n"));
    let mut world = World::new(&everything());
    for line in STORY {
        world.deed(line);
        world.deed("restart");
    }
    assert_eq!(facts_told(&world.transcript), facts_told(&plain));
}

/// The older version stored no numbers, and not that a list had begun.
#[test]
fn a_run_of_an_older_version_is_numbered_at_the_first_restart_and_never_again() {
    let plain = World::new(&everything()).play(&STORY.join("\n"));
    for (upgraded, after) in STORY.iter().enumerate().take(STORY.len() - 1).skip(1) {
        let mut world = World::new(&everything());
        for (place, line) in STORY.iter().enumerate() {
            world.deed(line);
            if place == upgraded {
                world.deed("upgrade");
            }
            if place >= upgraded {
                world.deed("restart");
            }
        }
        let story = &world.transcript;
        assert_eq!(story.matches("numbers for").count(), 1, "{story}");
        assert_eq!(facts_told(story), facts_told(&plain), "upgraded after {after}");
    }
}

#[test]
fn an_element_that_could_not_begin_is_a_fact() {
    let map = json!({ "over": [{ "n": 1 }, {}, { "n": 3 }], "maxParallel": 1 });
    let each = json!({ "map": map, "onError": "continue", "parameters": { "n": "{{ item.n }}" } });
    check(
        workflow(&[("each", each)], &[]),
        "
        start
        w takes 9
        w completes each[0] {\"r\":1}
        restart
        w takes 9
        restart
        w completes each[2] {\"r\":3}
        ",
        expect![[r#"
            0s   each[0] is ready, given {"n":1}
            0s   each[0] runs, attempt 1
            0s   each[1] ended: failed, parameters.n: item.n is undefined (item has nothing in it)
            0s   each[0] is completed
            0s   each[2] is ready, given {"n":3}
            -- restart
            0s   each[2] runs, attempt 1
            -- restart
            0s   each ended: succeeded {"items":[{"r":1},null,{"r":3}],"count":3,"errors":[{"code":"E.FLOW.EXPRESSION","index":1,"message":"parameters.n: item.n is undefined (item has nothing in it)"}]}
            0s   RUN succeeded with {"each":{"count":3,"errors":[{"code":"E.FLOW.EXPRESSION","index":1,"message":"parameters.n: item.n is undefined (item has nothing in it)"}],"items":[{"r":1},null,{"r":3}]}}
            0s   each[2] is completed
        "#]],
    );
}

#[test]
fn a_call_that_timed_out_stays_so_after_a_restart() {
    check(
        workflow(&[("host", json!({ "middlewares": middlewares(1) }))], &[]),
        "
        start
        w takes 9
        w calls next from host~0 as r within 5
        w takes 9
        wait 6
        restart
        w calls next from host~0 as r
        w completes host~0 {\"m\":1}
        ",
        expect![[r#"
            0s   host~0 is ready, given {"own":0}
            0s   host~0 runs, attempt 1, in a chain of 1
            0s   host is ready, given {}
            0s   host runs, attempt 1, in a chain of 1
            5s   call r ended: timed out
            5s   host is stopped
            5s   host~0 called next as r: timed out
            -- restart
            6s   host~0 called next as r: timed out
            6s   host ended: succeeded {"m":1}
            6s   RUN succeeded with {"host":{"m":1}}
            6s   host~0 is completed
        "#]],
    );
}

#[test]
fn a_called_subgraph_is_closed_when_its_caller_has_ended() {
    let host = json!({ "type": "workflow.container", "middlewares": middlewares(1),
        "parameters": { "__container": { "subgraphId": id(500) }, "x": 1 } });
    check(
        with_subgraph(host, &inner()),
        "
        start
        w takes 9
        w calls next from box~0 as r
        restart
        w takes 9
        wait 6
        restart
        w completes box~0 {\"m\":1}
        w takes 9
        w completes after
        ",
        expect![[r#"
            0s   box~0 is ready, given {"own":0}
            0s   box~0 runs, attempt 1, in a chain of 1
            0s   frame 1 opened with {"x":1}
            0s   1/double is ready, given {"x":1}
            -- restart
            0s   1/double runs, attempt 1
            -- restart
            6s   frame 1 closed: cancelled
            6s   box ended: succeeded {"m":1}
            6s   box~0 is completed
            6s   1/double is stopped
            6s   after is ready, given {"got":{"m":1}}
            6s   after runs, attempt 1
            6s   RUN succeeded with {"after":{}}
            6s   after is completed
        "#]],
    );
}

#[test]
fn a_call_that_could_not_begin_gives_the_same_answer_again() {
    let host =
        json!({ "middlewares": middlewares(1), "parameters": { "n": "{{ run.inputs.a.b }}" } });
    check(
        workflow(&[("host", host)], &[]),
        "
        start
        w takes 9
        w calls next from host~0 as r
        restart
        w calls next from host~0 as r
        w completes host~0
        ",
        expect![[r#"
            0s   host~0 is ready, given {"own":0}
            0s   host~0 runs, attempt 1, in a chain of 1
            0s   call r ended: parameters.n: run.inputs.a.b is undefined (run.inputs has nothing in it)
            0s   host~0 called next as r: it failed
            -- restart
            0s   host~0 called next as r: it failed
            0s   host ended: succeeded {}
            0s   RUN succeeded with {"host":{}}
            0s   host~0 is completed
        "#]],
    );
}

/// The calls of an attempt end with it, and are forgotten with the next lease.
#[test]
fn what_a_lost_attempt_called_for_is_stopped() {
    check(
        workflow(&[("host", json!({ "middlewares": middlewares(2) }))], &[]),
        "
        start
        w takes 9
        w calls next from host~0 as r
        w takes 9
        w calls next from host~1 as r
        w stumbles host~0
        restart
        wait 2
        w takes 9
        restart
        w completes host~0
        ",
        expect![[r#"
            0s   host~0 is ready, given {"own":0}
            0s   host~0 runs, attempt 1, in a chain of 2
            0s   host~1 is ready, given {"own":1}
            0s   host~1 runs, attempt 1, in a chain of 2
            0s   host is ready, given {}
            0s   host~0 is tried again
            0s   host~1 is stopped
            0s   host is stopped
            0s   host~0 called next as r: next_lease_over
            0s   host~1 called next as r: next_lease_over
            -- restart
            2s   host~0 runs, attempt 2, in a chain of 2
            -- restart
            2s   host ended: succeeded {}
            2s   RUN succeeded with {"host":{}}
            2s   host~0 is completed
        "#]],
    );
}

/// What became true, without who asked for it and when a restart was.
fn facts_told(transcript: &str) -> Vec<String> {
    let is_fact = |line: &&str| {
        !line.starts_with("-- ") && !line.contains("called next") && !line.contains("numbers for")
    };
    transcript.lines().filter(is_fact).map(str::to_owned).collect()
}
