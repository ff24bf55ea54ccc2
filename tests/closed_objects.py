"""The keys that the existing worker knows. It drops whatever carries another one, at any level.

A shape is `ANY` (not looked into), a dict of keys to shapes, or a list with the shape of its items.
"""

ANY = None

ENVELOPE = {
    "type": ANY, "id": ANY, "ts": ANY, "tenant": ANY, "sender": {"role": ANY, "id": ANY},
    "payload": ANY, "corr": ANY, "seq": ANY, "session_seq": ANY,
    "ack": {"for": ANY, "request": ANY}, "flags": [ANY],
}
RESOURCE_REF = {
    "resource_id": ANY, "worker_name": ANY, "type": ANY, "scope": ANY, "expires_at": ANY, "metadata": ANY,
}
DISPATCH = {
    "run_id": ANY, "task_id": ANY, "node_id": ANY, "node_type": ANY, "package_name": ANY,
    "package_version": ANY, "parameters": ANY, "constraints": {"timeout_ms": ANY}, "priority": ANY,
    "host_node_id": ANY, "middleware_chain": [ANY], "chain_index": ANY, "concurrency_key": ANY,
    "resource_refs": [RESOURCE_REF], "affinity": {"key": ANY, "mode": ANY, "expires_at": ANY},
}
DISPATCH_REQUIRED = (
    "run_id", "task_id", "node_id", "node_type", "package_name", "package_version",
    "parameters", "constraints",
)
PAYLOADS = {
    "control.ack": {
        "ok": ANY, "for": ANY, "info": ANY, "ack_seq": ANY, "ack_bitmap": ANY, "recv_window": ANY,
    },
    "control.session.accept": {
        "session_id": ANY, "session_token": ANY, "worker_instance_id": ANY, "expires_at": ANY, "resumed": ANY,
    },
    "control.reset": {"code": ANY, "reason": ANY, "retry_after_ms": ANY},
    "control.drain": {"reason": ANY, "deadline_ms": ANY},
    "biz.exec.dispatch": DISPATCH,
    "biz.exec.next.response": {
        "requestId": ANY, "runId": ANY, "nodeId": ANY, "middlewareId": ANY, "result": ANY,
        "error": {"code": ANY, "message": ANY}, "trace": ANY,
    },
    "biz.pkg.install": {"name": ANY, "version": ANY, "url": ANY, "sha256": ANY},
    "biz.pkg.uninstall": {"name": ANY, "version": ANY},
}


def unknown_keys(value, shape, path: str = "") -> list[str]:
    """Where `value` has keys that the shape does not have."""
    if isinstance(shape, dict) and isinstance(value, dict):
        inner = [
            found for key in value if key in shape
            for found in unknown_keys(value[key], shape[key], f"{path}.{key}")
        ]
        return [f"{path}.{key}" for key in value if key not in shape] + inner
    if isinstance(shape, list) and isinstance(value, list):
        return [found for item in value for found in unknown_keys(item, shape[0], f"{path}[]")]
    return []


def why_dropped(frame: dict) -> str | None:
    """What is wrong with a frame in the eyes of the existing worker."""
    found = unknown_keys(frame, ENVELOPE)
    shape = PAYLOADS.get(frame["type"], ANY)
    found += unknown_keys(frame["payload"], shape, ".payload")
    if frame["type"] == "biz.exec.dispatch":
        found += [f"no .payload.{key}" for key in DISPATCH_REQUIRED if key not in frame["payload"]]
    return ", ".join(found) or None
