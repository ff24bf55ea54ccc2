//! Runs after a restart: nothing is lost, nothing happens twice.

use serde_json::json;

use super::world::{World, id, workflow};
use super::{inner, middlewares, none, with_subgraph};

/// Every story gives the same transcript when the server restarts after each deed.
#[test]
fn a_restart_changes_nothing() {
    let map = json!({ "over": "{{ nodes.a.results.list }}", "maxParallel": 2 });
    let each =
        json!({ "map": map, "middlewares": middlewares(1), "parameters": { "is": "{{ item }}" } });
    let container = json!({ "type": "workflow.container", "parameters": { "__container": { "subgraphId": id(500) }, "x": "{{ nodes.each.results.count }}" } });
    let nodes = [
        ("a", none()),
        ("each", each),
        ("box", container),
        ("no", json!({ "when": "false" })),
        ("ask", json!({ "type": "core.approve" })),
        (
            "end",
            json!({ "parameters": { "all": "{{ nodes.each.results }}", "box": "{{ nodes.box.results.y }}" } }),
        ),
    ];
    let mut flow = workflow(&nodes, &[("a", "no"), ("no", "ask"), ("ask", "end")]);
    flow["subgraphs"] = json!([{ "id": id(500), "definition": inner() }]);
    let story = "
        start
        w takes 9
        w completes a {\"list\":[1,2,3]}
        w takes 9
        w calls next from each~0[0] as r
        w takes 9
        w completes each[0] {\"v\":1}
        w completes each~0[0] {\"m\":0}
        w takes 9
        w calls next from each~0[2] as r
        w takes 9
        w completes each[2] {\"v\":3}
        w completes each~0[2] {\"m\":2}
        w completes each~0[1] {\"m\":1}
        w takes 9
        w completes 1/double {\"y\":6}
        signal ask yes
        w takes 9
        w completes 1/show
        w takes 9
        w completes end
    ";
    let plain = World::new(&flow).play(story);
    let mut world = World::new(&flow);
    for line in story.lines().map(str::trim).filter(|line| !line.is_empty()) {
        world.deed(line);
        if !line.contains("calls next") {
            world.deed("restart");
        }
    }
    let lines = |text: &str| -> Vec<String> {
        let kept =
            text.lines().filter(|line| *line != "-- restart" && !line.contains("called next"));
        kept.map(str::to_owned).collect()
    };
    assert_eq!(lines(&world.transcript), lines(&plain));
    assert!(plain.contains("RUN succeeded"), "{plain}");
}

/// A millisecond is long: the subgraph closes and the middleware around it ends within one.
#[test]
fn a_restart_keeps_what_the_subgraph_of_an_element_gave() {
    let host = json!({ "type": "workflow.container", "map": { "over": [1, 2] },
        "middlewares": middlewares(1),
        "parameters": { "__container": { "subgraphId": id(500) }, "x": "{{ item }}" } });
    let mut world = World::new(&with_subgraph(host, &inner()));
    for line in [
        "start",
        "w takes 9",
        "w calls next from box~0[0] as r",
        "w takes 9",
        "w completes 1/double {\"y\":6}",
        "w takes 9",
        "w completes 1/show",
        "w completes box~0[0] {\"m\":0}",
        "restart",
        "w completes box~0[1] {\"m\":1}",
        "w takes 9",
        "w completes after",
    ] {
        world.deed(line);
    }
    let items = r#""items":[{"m":0,"y":6},{"m":1}]"#;
    assert!(world.transcript.contains(items), "{}", world.transcript);
}
