"""Workflows, written down shortly, and what becomes of them."""

import json
import uuid

from waiting import wait_until

WITHIN_S = 30
ENDS = ("succeeded", "failed", "cancelled")


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
    is_over = lambda run: run["status"] in ENDS
    look = lambda: server.rest("GET", f"/runs/{run_id}")
    return wait_until(look, is_over, within_s=within_s, what=f"the end of run {run_id}")


def until_node(server, run_id, alias: str, is_wanted, within_s: float = WITHIN_S) -> dict:
    """The node of this alias as soon as it is as wanted."""
    look = lambda: nodes_of(server.rest("GET", f"/runs/{run_id}"))[alias]
    return wait_until(look, is_wanted, within_s=within_s, what=f"node {alias} to be as wanted")


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
