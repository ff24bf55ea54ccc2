"""Every operation of our OpenAPI document with made-up requests: no server error, and no answer
that the document does not describe."""

import subprocess
import sys
from pathlib import Path

import pytest

from astra_server import Server
from flows import played, workflow

DOCUMENT = Path(__file__).parent.parent / "openapi" / "v1.json"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.fixture
def flows(tmp_path):
    server = Server(tmp_path, dev=True, workers=1).start()
    yield server
    server.stop()
    print(server.log.read_text())


def test_every_answer_is_described(flows, tmp_path):
    definition = workflow({"a": {}, "b": {}}, [("a", "b")])
    saved = flows.rest("POST", "/workflows", definition)
    run = played(flows, definition)
    (tmp_path / "known.toml").write_text(
        "[parameters]\n"
        f'"path.run_id" = "{run["number"]}"\n'
        f'"path.node_id" = "{run["nodes"][0]["nodeId"]}"\n'
        f'"path.workflow_id" = "{saved["workflowId"]}"\n'
    )
    (tmp_path / "unknown.toml").write_text("")
    for config, paths in (("unknown.toml", ".*"), ("known.toml", "/(runs|workflows)/")):
        words = [
            str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(tmp_path / config),
            "run", str(DOCUMENT), "--url", f"http://127.0.0.1:{flows.port}",
            "--header", "Authorization: Bearer dev-token", "--include-path-regex", paths,
            # Streams that end with the watched thing are told elsewhere.
            "--exclude-path-regex", "/events$|/log", "--checks", CHECKS, "--max-examples", "20",
            "--phases", "examples,coverage,fuzzing", "--generation-deterministic", "--no-color",
        ]
        told = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300)
        assert told.returncode == 0, told.stdout[-6000:] + told.stderr[-2000:]
        assert " passed" in told.stdout, told.stdout[-2000:]
