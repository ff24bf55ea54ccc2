"""The steps of seed 003 section 9, with the real programs."""

import json
import os
import subprocess

import pytest

from astra_server import Server, binary
from waiting import wait_until

WITHIN_S = 20


def worker_of(server, **variables):
    words = ["worker", "start", "--name", "w1", "--data", str(server.folder / "w1")]
    words += ["--server", f"http://127.0.0.1:{server.port}"]
    environment = {**os.environ, **{f"ASTRA_WORKER_{name}": value for name, value in variables.items()}}
    return subprocess.Popen(
        [binary(), *words], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )


def listed(server) -> dict:
    """The worker, as the API shows it, once it is there."""
    return wait_until(lambda: server.rest("GET", "/workers")["workers"], within_s=WITHIN_S, what="a worker")[0]


def test_a_worker_is_told_who_it_is_by_its_environment_and_shown_by_api_and_command(server):
    worker = worker_of(server, AUTH_TOKEN=server.tokens["worker"], WORKER_VERSION="7.8.9")
    try:
        shown = listed(server)
        assert (shown["worker_id"], shown["health"]) == ("w1", "HEALTHY"), shown
        assert '"7.8.9"' in json.dumps(shown), shown
        words = ["worker", "list", "-o", "json", "--server", f"http://127.0.0.1:{server.port}"]
        words += ["--token", server.tokens["client"]]
        told = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=WITHIN_S, check=True)
        assert [one["worker_id"] for one in json.loads(told.stdout)["workers"]] == ["w1"], told
    finally:
        worker.kill()
        worker.wait()


def test_the_token_of_dev_is_good_in_dev_alone(server, tmp_path_factory):
    dev_server = Server(tmp_path_factory.mktemp("dev"), dev=True).start()
    refused = worker_of(server, AUTH_TOKEN="dev-token")
    _, said = refused.communicate(timeout=WITHIN_S)
    assert refused.returncode != 0 and "E.AUTH" in said, said
    welcome = worker_of(dev_server, AUTH_TOKEN="dev-token")
    try:
        assert listed(dev_server)["worker_id"] == "w1"
    finally:
        welcome.kill()
        welcome.wait()
        dev_server.stop()


def test_dev_listens_to_nobody_else(tmp_path):
    words = ["dev", "--workers", "0", "--data", str(tmp_path / "data"), "--http", "0.0.0.0:0"]
    told = subprocess.run([binary(), *words], capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert told.returncode != 0 and "on this machine only" in told.stderr, told


def test_a_server_listens_on_8080_unless_it_is_told_otherwise(tmp_path):
    server = Server(tmp_path)
    words = ["server", "start", "--data", str(server.data), "--resp", "127.0.0.1:0"]
    process = subprocess.Popen([binary(), *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    # Someone else may have the port; then it is named in the refusal.
    said = []
    try:
        for line in process.stderr:
            said.append(line)
            if "127.0.0.1:8080" in line:
                return
        pytest.fail("".join(said))
    finally:
        process.kill()
        process.wait()
