"""Workflows over REST, executed by the real worker."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from astra_server import Server, binary
from flows import ENDS, ended, node_id, nodes_of, played, refused, start, until_node, workflow
from waiting import wait_until

EXAMPLES = Path(__file__).parent.parent / "examples" / "workflows"
EXPECTED = json.loads((EXAMPLES / "expected.json").read_text())
SEED_REQUEST = Path(__file__).parent.parent / "docs" / "examples" / "run-request.json"


@pytest.fixture(scope="module")
def flows(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("flows"), dev=True, workers=2).start()
    yield server
    server.stop()
    print(server.log.read_text())


def test_data_flows_with_its_type_and_plain_parameters_are_left_alone(flows):
    plain = {"list": [1, 2.50, None, {"a": "{ not an expression }"}], "text": "ü\n"}
    run = played(
        flows,
        workflow({
            "a": {"parameters": {"n": 41, "plain": plain}},
            "b": {"parameters": {"n": "{{ nodes.a.results.n + 1 }}", "who": "{{ run.inputs.who }}!",
                                 "all": "{{ nodes.a.results.plain }}"}},
        }),
        {"who": "ada"},
    )
    assert run["status"] == "succeeded", run
    assert nodes_of(run)["b"]["result"] == {"n": 42, "who": "ada!", "all": plain}
    assert run["counts"]["succeeded"] == 2 and run["counts"]["total"] == 2


def test_a_wire_copies_from_port_to_port_and_a_missing_value_keeps_the_authored_one(flows):
    def port(key, path, mode):
        return {"key": key, "label": key, "binding": {"path": path, "mode": mode}}

    definition = workflow({
        "a": {"parameters": {"page": {"url": "x"}},
              "ui": {"outputPorts": [port("page", "results.page", "read"), port("gone", "/results/gone", "read")]}},
        "b": {"parameters": {"kept": 1, "page": "authored"},
              "ui": {"inputPorts": [port("page", "parameters.page", "write"), port("kept", "parameters.kept", "write")]}},
    })
    for source, target in (("page", "page"), ("gone", "kept")):
        definition["edges"].append({
            "id": node_id(source + target),
            "source": {"node": node_id("a"), "port": source},
            "target": {"node": node_id("b"), "port": target},
        })
    run = played(flows, definition)
    assert nodes_of(run)["b"]["result"] == {"kept": 1, "page": {"url": "x"}}


def test_a_failing_node_fails_the_run_and_stops_the_others(flows):
    run = played(flows, workflow({
        "bad": {"type": "core.fail", "parameters": {"message": "no paper"}, "retry": {"maxAttempts": 1}},
        "slow": {"type": "core.sleep", "parameters": {"ms": 60_000}},
        "after": {},
    }, [("bad", "after")]))
    nodes = nodes_of(run)
    assert run["status"] == "failed"
    assert run["error"]["nodeId"] == node_id("bad") and "no paper" in run["error"]["message"]
    assert [nodes[name]["status"] for name in ("bad", "slow", "after")] == ["failed", "cancelled", "cancelled"]


def test_errors_can_be_passed_over_or_skip_what_follows(flows):
    bad = {"type": "core.fail", "parameters": {"message": "no"}, "retry": {"maxAttempts": 1}}
    run = played(flows, workflow({
        "over": {**bad, "onError": "continue"},
        "goes_on": {"parameters": {"saw": "{{ nodes.over.status }}"}},
        "skips": {**bad, "onError": "skip"},
        "skipped": {}, "skipped_too": {},
    }, [("over", "goes_on"), ("skips", "skipped"), ("skipped", "skipped_too")]))
    nodes = nodes_of(run)
    assert run["status"] == "succeeded"
    assert nodes["goes_on"]["result"] == {"saw": "failed"}
    assert [nodes[name]["status"] for name in ("skipped", "skipped_too")] == ["skipped", "skipped"]
    assert "skips" in nodes["skipped"]["reason"]


def test_a_run_is_cancelled_once(flows):
    run = start(flows, workflow({"slow": {"type": "core.sleep", "parameters": {"ms": 60_000}}}))
    flows.rest("POST", f"/runs/{run['runId']}/cancel")
    over = ended(flows, run["runId"])
    assert over["status"] == "cancelled"
    status, text = flows.call("POST", f"/api/v1/runs/{run['runId']}/cancel")
    assert status in (200, 202, 409), text


def test_an_approval_waits_for_a_word_and_no_word_comes_twice(flows):
    run = start(flows, workflow({"ask": {"type": "core.approve"}, "b": {}}, [("ask", "b")]))
    signal = f"/runs/{run['runId']}/nodes/{node_id('ask')}/signal"
    until_node(flows, run["runId"], "ask", lambda node: node["status"] == "running", within_s=10)
    status, text = flows.call("POST", f"/api/v1/runs/{run['runId']}/nodes/{node_id('b')}/signal", {"approved": True})
    assert status == 409 and "E.RUN.NOT_WAITING" in text, text
    flows.rest("POST", signal, {"approved": True, "payload": {"note": "fine"}})
    over = ended(flows, run["runId"])
    assert nodes_of(over)["ask"]["result"]["approved"] is True
    status, text = flows.call("POST", f"/api/v1{signal}", {"approved": True})
    assert status == 409, text


def test_the_same_key_starts_one_run(flows):
    definition = workflow({"a": {}})
    headers = {"idempotency-key": "order 66"}
    first, second = (
        json.loads(flows.call("POST", "/api/v1/runs", {"workflow": definition}, headers=headers)[1])
        for _ in range(2)
    )
    assert first["runId"] == second["runId"] and second["existed"] is True
    other = workflow({"b": {}})
    status, text = flows.call("POST", "/api/v1/runs", {"workflow": other}, headers=headers)
    assert status == 409 and "E.RUN.CONFLICT" in text, text


def test_a_retry_reuses_what_was_finished_and_takes_edited_parameters(flows):
    definition = workflow({
        "first": {"parameters": {"n": 1}},
        "second": {"type": "core.fail", "parameters": {"message": "no"}, "retry": {"maxAttempts": 1}},
        "third": {"parameters": {"got": "{{ nodes.first.results.n }}"}},
    }, [("first", "second"), ("second", "third")])
    run = played(flows, definition)
    assert run["status"] == "failed"
    # `times: 0` makes the node that always fails one that never does.
    edited = {node_id("second"): {"message": "no", "times": 0}}
    again = flows.rest("POST", f"/runs/{run['runId']}/retry", {"fromFailed": True, "parameters": edited})
    over = ended(flows, again["runId"])
    nodes = nodes_of(over)
    assert over["status"] == "succeeded", over["error"]
    assert over["retryOf"] == run["runId"]
    assert nodes["first"]["reused"] is True and not nodes["second"].get("reused")
    assert nodes["first"]["taskId"] == nodes_of(run)["first"]["taskId"]


def test_a_run_that_runs_is_not_retried(flows):
    run = start(flows, workflow({"slow": {"type": "core.sleep", "parameters": {"ms": 60_000}}}))
    status, text = flows.call("POST", f"/api/v1/runs/{run['runId']}/retry", {"fromFailed": True})
    assert status == 409 and "E.RUN.CONFLICT" in text, text
    flows.rest("POST", f"/runs/{run['runId']}/cancel")


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_examples_end_as_they_say(flows, name):
    definition, expected = json.loads((EXAMPLES / name).read_text()), EXPECTED[name]
    run = start(flows, definition, expected.get("inputs"))
    words = {signal["node"]: {k: v for k, v in signal.items() if k != "node"} for signal in expected.get("signals", ())}

    def signalled() -> dict:
        """The run, after its waiting nodes got the words that they wait for."""
        seen = flows.rest("GET", f"/runs/{run['runId']}")
        for alias, node in nodes_of(seen).items():
            if alias in words and node["status"] == "running":
                flows.rest("POST", f"/runs/{run['runId']}/nodes/{node['nodeId']}/signal", words.pop(alias))
        return seen

    seen = wait_until(signalled, lambda seen: seen["status"] in ENDS, within_s=30, what=f"the end of {name}")
    assert seen["status"] == expected["status"], json.dumps(seen)[:2000]
    assert seen["outputs"] == expected["outputs"]
    assert {alias: node["status"] for alias, node in nodes_of(seen).items()} == expected["nodes"]


def test_the_request_of_seed_003_is_accepted_as_it_stands_and_comes_back_equal(flows):
    request = json.loads(SEED_REQUEST.read_text())
    run = flows.rest("POST", "/runs", request)
    assert run["status"] in ("queued", "running")
    saved = flows.rest("POST", "/workflows", request["workflow"])
    back = flows.rest("GET", f"/workflows/{saved['workflowId']}")
    assert json.dumps(back, sort_keys=True) == json.dumps(request["workflow"], sort_keys=True)
    node = flows.rest("GET", f"/runs/{run['runId']}")["nodes"][0]
    assert node["status"] == "queued"
    why = flows.rest("GET", f"/runs/{run['runId']}/nodes/{node['nodeId']}/explain")
    assert "crawlerx_playwright" in json.dumps(why), why
    flows.rest("POST", f"/runs/{run['runId']}/cancel")


# ----- bad input


def test_every_problem_is_told_at_once(flows):
    definition = workflow({"a": {}, "b": {"when": "nodes.nobody.results.x"}, "c": {"id": "no-uuid"}}, [("a", "b"), ("b", "a")])
    definition["edges"].append({"id": node_id("e"), "source": {"node": node_id("a")}, "target": {"node": node_id("gone")}})
    error = refused(flows, definition)
    codes = {problem["code"] for problem in error["problems"]}
    assert {"E.FLOW.CYCLE", "E.FLOW.UNKNOWN_NODE", "E.FLOW.INVALID", "E.FLOW.EXPRESSION"} <= codes, error
    for problem in error["problems"]:
        assert problem["message"] and problem["path"].startswith("/"), problem
    before = flows.rest("GET", "/runs?limit=1")["items"]
    refused(flows, definition)
    assert flows.rest("GET", "/runs?limit=1")["items"] == before, "nothing was half-created"


def test_a_million_nodes_are_refused_quickly(flows):
    node = '{"id":"%s","type":"core.noop"}'
    body = '{"workflow":{"id":"%s","schemaVersion":"2025-10","metadata":{"name":"x"},"nodes":[%s],"edges":[]}}' % (
        node_id("w"), ",".join(node % node_id(str(n)) for n in range(300_000)))
    import http.client
    connection = http.client.HTTPConnection("127.0.0.1", flows.port, timeout=30)
    began = time.monotonic()
    connection.request("POST", "/api/v1/runs", body, {"content-type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.status in (413, 422), text[:500]
    assert "E.FLOW.LIMIT" in text or "E.REQUEST.TOO_LARGE" in text or "200,000" in text, text[:500]
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("expression", [
    "{{ 'x' * 1000000000 }}", "{{ range(1000000000) | list }}", "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}", "{{ 'x' | center(1000000000) }}",
])
def test_bombs_in_expressions_hurt_nobody(flows, expression):
    before = flows.rss_bytes()
    status, text = flows.call("POST", "/api/v1/runs", {"workflow": workflow({"a": {"parameters": {"x": expression}}})})
    if status == 202:
        run = ended(flows, json.loads(text)["runId"])
        assert run["status"] == "failed", run
        assert run["error"]["code"] == "E.FLOW.EXPRESSION", run["error"]
    else:
        assert status == 422, text
    assert flows.rss_bytes() - before < 200 * 1024 * 1024
    assert played(flows, workflow({"a": {}}))["status"] == "succeeded"


def test_ids_of_others_are_unknown(server):
    mine = start(server, workflow({"a": {"type": "x"}}))
    server.stop()
    server.tokens["stranger"] = server.make_token("admin", tenant="other")
    server.start()
    for method, path in (("GET", ""), ("POST", "/cancel"), ("POST", "/retry"), ("GET", "/definition")):
        body = {} if method == "POST" else None
        status, text = server.call(method, f"/api/v1/runs/{mine['runId']}{path}", body, role="stranger")
        assert status == 404 and "E.RUN.NOT_FOUND" in text, (path, status, text)


def test_an_expression_of_a_transform_that_is_not_allowed_is_a_clear_failure(flows):
    run = played(flows, workflow({"odd": {"type": "core.transform", "parameters": {"input": {}, "expression": "''[::-1]"}}}))
    error = nodes_of(run)["odd"]["error"]
    assert error["code"] == "E.PARAMETERS.INVALID", error
    assert "core.transform: a part of a list has no step" in error["message"], error
    assert nodes_of(run)["odd"]["attempts"] == 1, "another attempt would only repeat it"


RESULT_SCHEMA = {"results": {"type": "object", "required": ["done"], "properties": {"done": {"type": "boolean"}}}}


def test_a_result_that_is_not_as_its_schema_says_is_told_and_stands(flows):
    run = played(flows, workflow({
        "good": {"parameters": {"done": True, "more": 1}, "schema": RESULT_SCHEMA},
        "odd": {"parameters": {"done": "yes"}, "schema": RESULT_SCHEMA},
        "less": {"parameters": {}, "schema": RESULT_SCHEMA},
        "after": {"parameters": {"saw": "{{ nodes.odd.results.done }}"}},
        "list": {"parameters": {"done": "{{ item }}"}, "schema": RESULT_SCHEMA, "map": {"over": [True, 7, False]}},
    }))
    nodes = nodes_of(run)
    assert run["status"] == "succeeded" and nodes["after"]["result"] == {"saw": "yes"}
    assert "warnings" not in nodes["good"] and "warnings" not in nodes["after"]
    assert nodes["odd"]["warnings"] == ["results.done is text; it must be true or false"]
    assert nodes["odd"]["result"] == {"done": "yes"}, "what was reported stands"
    assert nodes["less"]["warnings"] == ["results.done is missing; the node promises it"]
    assert nodes["list"]["warnings"] == ["element 1: results.done is a number; it must be true or false"]


def test_a_computed_list_is_counted_whole_while_it_is_gone_through(flows):
    run_id = start(flows, workflow({
        "n": {"parameters": {"n": 30}},
        "list": {"type": "core.sleep", "parameters": {"ms": 400},
                 "map": {"over": "{{ range(nodes.n.results.n) }}", "maxParallel": 2}},
    }))["runId"]
    row = until_node(flows, run_id, "list", lambda node: node["status"] == "running", within_s=20)
    assert row["map"]["total"] == 30 and row["map"]["done"] < 30, row
    flows.rest("POST", f"/runs/{run_id}/cancel")


def test_the_logs_of_a_list_are_shown_element_by_element(flows):
    run = played(flows, workflow({
        "say": {"type": "core.log", "parameters": {"message": "word {{ item }}"}, "map": {"over": ["a", "b", "c"]}},
    }))
    words = ["run", "logs", str(run["number"]), "say", "--server", f"http://127.0.0.1:{flows.port}"]
    shown = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=20, check=True)
    expected = [line for index, word in enumerate("abc") for line in (f"==> say [{index}] <==", f"word {word}")]
    assert shown.stderr.splitlines() == expected, shown


def test_the_work_of_a_run_is_taken_away_by_hand(flows):
    run_id = start(flows, workflow({
        "first": {}, "wait": {"type": "core.wait_event", "parameters": {"event": "go"}},
    }, [("first", "wait")]))["runId"]
    until_node(flows, run_id, "first", lambda node: node["status"] == "succeeded", within_s=20)
    workers = [worker["worker_id"] for worker in flows.rest("GET", "/workers")["workers"]]
    words = ["run", "rebind", run_id, "--to", workers[0], "-o", "json"]
    words += ["--server", f"http://127.0.0.1:{flows.port}"]
    shown = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=20, check=True)
    assert [one["worker"] for one in json.loads(shown.stdout)["bindings"]] == [workers[0]], shown
    flows.rest("POST", f"/runs/{run_id}/cancel")
