"""The published JSON Schemas: the envelope first, then the payload that its type chooses."""

import json
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).resolve().parent.parent / "schemas"


@cache
def validator(path: str) -> Draft202012Validator:
    schema = json.loads((FOLDER / path).read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)


def payload_schema(frame_type: str) -> str:
    """`control.ack` is described by `session/ack`, `biz.exec.dispatch` by `biz/exec.dispatch`."""
    family, _, name = frame_type.partition(".")
    folder = {"control": "session", "biz": "biz"}[family]
    return f"{folder}/{name}.schema.json"


def validate(frame: dict) -> None:
    validator("session/envelope.schema.json").validate(frame)
    if frame["type"].startswith("ext."):
        return  # Seed 000 section 1: extensions are transported, and opaque.
    validator(payload_schema(frame["type"])).validate(frame["payload"])
