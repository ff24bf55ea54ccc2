"""The checks that the other tests lean on do bite."""

import copy

import jsonschema
import pytest

import schemas
from closed_objects import why_dropped

DISPATCH = {
    "type": "biz.exec.dispatch", "id": "d-1", "ts": "2026-01-31T12:00:00Z", "tenant": "default",
    "sender": {"role": "scheduler", "id": "s"}, "corr": "t", "seq": 1, "session_seq": 1,
    "ack": {"request": True},
    "payload": {
        "run_id": "r", "task_id": "t", "node_id": "n", "node_type": "x", "package_name": "p",
        "package_version": "1", "parameters": {"free": {"of": "rules"}}, "constraints": {},
        "resource_refs": [{"resource_id": "a", "worker_name": "w", "type": "y"}],
    },
}
PLACES = {
    "the envelope": lambda frame: frame,
    "the sender": lambda frame: frame["sender"],
    "the ack": lambda frame: frame["ack"],
    "the payload": lambda frame: frame["payload"],
    "an object in the payload": lambda frame: frame["payload"]["constraints"],
    "an object in a list": lambda frame: frame["payload"]["resource_refs"][0],
}


def test_a_good_frame_passes_both_checks():
    schemas.validate(DISPATCH)
    assert why_dropped(DISPATCH) is None


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_key_too_many_is_found_at_every_level(place):
    frame = copy.deepcopy(DISPATCH)
    place(frame)["lease_id"] = "l"
    assert "lease_id" in why_dropped(frame)
    with pytest.raises(jsonschema.ValidationError):
        schemas.validate(frame)


@pytest.mark.parametrize("key", ["constraints", "parameters", "package_version"])
def test_a_missing_key_is_found(key):
    frame = copy.deepcopy(DISPATCH)
    del frame["payload"][key]
    assert key in why_dropped(frame)
    with pytest.raises(jsonschema.ValidationError):
        schemas.validate(frame)


@pytest.mark.parametrize("key, wrong", [("tenant", ""), ("ts", "2026-01-31T12:00:00"), ("session_seq", -1)])
def test_a_value_that_does_not_fit_is_found(key, wrong):
    with pytest.raises(jsonschema.ValidationError):
        schemas.validate({**DISPATCH, key: wrong})
