"""A run goes on after the server was killed in the middle of it, and does nothing twice."""

import random

import pytest

from astra_server import Server
from flows import ended, node_id, nodes_of, start, workflow
from waiting import wait_until


@pytest.fixture
def flows(tmp_path):
    server = Server(tmp_path).start()
    yield server
    server.stop()
    print(server.log.read_text())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_killed_server_finishes_its_runs(flows, tmp_path, seed):
    """Three layers with a list in the middle, a chain around one node and a subgraph."""
    dice = random.Random(seed)
    inner = workflow({"one": {"parameters": {"x": "{{ inputs.x }}"}}}, outputs={"x": "{{ nodes.one.results.x }}"})
    definition = workflow({
        "list": {"parameters": {"list": list(range(40))}},
        "each": {"map": {"over": "{{ nodes.list.results.list }}", "maxParallel": 8},
                 "type": "core.sleep", "parameters": {"ms": "{{ 20 + item }}"}},
        "again": {"type": "core.fail", "parameters": {"message": "no", "times": 2},
                  "middlewares": [{"id": node_id("retry"), "type": "core.retry", "label": "retry",
                                   "parameters": {"attempts": 5, "delayMs": 50}}],
                  "retry": {"maxAttempts": 1}},
        "box": {"type": "workflow.container",
                "parameters": {"__container": {"subgraphId": node_id("sub")}, "x": "{{ nodes.each.results.count }}"}},
        "end": {"parameters": {"count": "{{ nodes.each.results.count }}", "x": "{{ nodes.box.results.x }}"}},
    }, [("list", "again"), ("again", "end")], subgraphs=[{"id": node_id("sub"), "definition": inner}])
    for node in definition["nodes"] + inner["nodes"]:
        # A grant that was lost with the server is given to someone else after this time.
        node["leaseTtlMs"] = 2_000
    worker = worker_of(flows, tmp_path)
    try:
        runs = [start(flows, definition)["runId"] for _ in range(4)]
        # The lists have 40 elements each.
        for wanted in sorted(dice.sample(range(1, 40 * len(runs)), 3)):
            look = lambda: sum(n_elements_done(flows, run_id) for run_id in runs)
            wait_until(look, lambda n_done: n_done >= wanted, within_s=60, what=f"{wanted} elements to be done")
            flows.kill()
            flows.start()
        for run_id in runs:
            run = ended(flows, run_id, within_s=90)
            assert run["status"] == "succeeded", run["error"]
            assert run["outputs"]["end"] == {"count": 40, "x": 40}
            tasks = [node["taskId"] for node in run["nodes"] if node.get("taskId")]
            assert len(tasks) == len(set(tasks))
    finally:
        worker.kill()
        worker.wait()


def n_elements_done(server, run_id) -> int:
    each = nodes_of(server.rest("GET", f"/runs/{run_id}"))["each"]
    return each.get("map", {}).get("done", 0)


def worker_of(server, folder):
    import subprocess

    from astra_server import binary

    log = (folder / "worker.log").open("ab")
    words = ["worker", "start", "--server", f"http://127.0.0.1:{server.port}", "--name", "w1", "--slots", "16"]
    environment = {"ASTRA_TOKEN": server.tokens["worker"], "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.Popen([binary(), *words], cwd=folder, stdout=log, stderr=log, env=environment)
