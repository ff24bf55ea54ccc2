"""Workflows, written down shortly, and what becomes of them."""

import json
import time
import uuid

WITHIN_S = 30


def node_id(alias: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"node:{alias}"))


def workflow(nodes: dict, edges=(), **more) -> dict:
    """Nodes by alias; an edge is a pair of aliases, without data."""
    made = []
    for alias, extra in nodes.items():
        made.append({"id": node_id(alias), "type": "core.echo", "alias": alias, "label": alias, **extra})
    drawn = [
        {"id": str(uuid.uuid4()), "source": {"node": node_id(a)}, "target": {"node": node_id(b)}}
        for a, b in edges
    ]
    return {
        "id": str(uuid.uuid4()), "schemaVersion": "2025-10", "metadata": {"name": "test"},
        "nodes": made, "edges": drawn, **more,
    }


def start(server, definition: dict, inputs=None, **more) -> dict:
    return server.rest("POST", "/runs", {"workflow": definition, "inputs": inputs or {}, **more})


def ended(server, run_id, within_s: float = WITHIN_S) -> dict:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        run = server.rest("GET", f"/runs/{run_id}")
        if run["status"] in ("succeeded", "failed", "cancelled"):
            return run
        time.sleep(0.02)
    raise AssertionError(f"still {run['status']}: {json.dumps(run)[:3000]}")


def played(server, definition: dict, inputs=None) -> dict:
    return ended(server, start(server, definition, inputs)["runId"])


def nodes_of(run: dict) -> dict:
    """The nodes of the workflow itself, by alias."""
    return {node["alias"]: node for node in run["nodes"] if node.get("alias")}


def refused(server, definition, status: int = 422) -> dict:
    """Why a workflow is not run."""
    answer, text = server.call("POST", "/api/v1/runs", {"workflow": definition})
    assert answer == status, f"{answer} {text[:1000]}"
    return json.loads(text)["error"]
