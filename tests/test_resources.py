"""Files that tasks leave on workers: listed, fetched through the server, used again, gone."""

import contextlib
import fcntl
import hashlib
import http.client
import json
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from astra_server import Server, binary
from flows import ended, nodes_of, played, start, workflow
from waiting import wait_until

MIB = 1 << 20


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("resources")).start()
    server.worker = worker_of(server, "w1")
    yield server
    server.worker.kill()
    server.worker.wait()
    server.stop()
    print(server.log.read_text())


def worker_of(server, name, *more):
    log = (server.folder / f"{name}.log").open("ab")
    words = ["worker", "start", "--name", name, "--slots", "4", "--data", str(server.folder / name)]
    words += ["--server", f"http://127.0.0.1:{server.port}", "--token", server.tokens["worker"], *more]
    return subprocess.Popen([binary(), *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def left_behind(server, **parameters) -> dict:
    run = played(server, workflow({"file": {"type": "core.file", "parameters": parameters}}))
    assert run["status"] == "succeeded", run
    return nodes_of(run)["file"]


def fetch(server, resource_id, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    sent = {"authorization": f"Bearer {server.tokens['client']}"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, f"/api/v1/resources/{resource_id}/download", headers=sent)
    return connection.getresponse()


def test_what_a_task_leaves_behind_is_listed_and_fetched(site):
    node = left_behind(site, text="hello", scope="s1", filename="a b.txt")
    reference = node["result"]["resourceRef"]
    artifact = node["artifacts"][0]
    assert artifact["resourceId"] == reference["resourceId"] and artifact["sizeBytes"] == 5, node
    shown = site.rest("GET", f"/resources/{reference['resourceId']}")
    assert shown["workerName"] == "w1" and shown["sha256"] == hashlib.sha256(b"hello").hexdigest()
    assert shown["isAvailable"] is True
    listed = site.rest("GET", "/resources?workerName=w1")["items"]
    assert reference["resourceId"] in [item["resourceId"] for item in listed]
    assert site.rest("GET", "/resources?workerName=other")["items"] == []
    answer = fetch(site, reference["resourceId"])
    assert (answer.status, answer.read()) == (200, b"hello")
    assert answer.headers["content-disposition"] == 'attachment; filename="a_b.txt"'
    assert fetch(site, "unheard-of").status == 404


def test_a_part_of_it_is_fetched(site):
    node = left_behind(site, text="0123456789")
    name = node["result"]["resourceRef"]["resourceId"]
    tag = fetch(site, name, "HEAD").headers["etag"]
    for wanted, status, place, body in [
        ("bytes=2-4", 206, "bytes 2-4/10", b"234"),
        ("bytes=7-", 206, "bytes 7-9/10", b"789"),
        ("bytes=-3", 206, "bytes 7-9/10", b"789"),
        ("bytes=0-99", 206, "bytes 0-9/10", b"0123456789"),
        ("bytes=10-", 416, "bytes */10", b""),
        ("nonsense", 200, None, b"0123456789"),
    ]:
        answer = fetch(site, name, Range=wanted)
        assert (answer.status, answer.headers["content-range"]) == (status, place), wanted
        assert answer.read() == body
    head = fetch(site, name, "HEAD")
    assert (head.status, head.headers["content-length"], head.read()) == (200, "10", b"")
    assert fetch(site, name, If_None_Match=tag).status == 304
    assert fetch(site, name, Range="bytes=0-1", If_Range=tag).status == 206
    assert fetch(site, name, Range="bytes=0-1", If_Range='"other"').status == 200
    empty = left_behind(site, text="")["result"]["resourceRef"]["resourceId"]
    assert fetch(site, empty).read() == b""


def test_a_hundred_megabytes_arrive_whole_in_bounded_memory(site):
    node = left_behind(site, bytes=100 * MIB)
    before = site.rss_bytes()
    answer, digest, n_bytes = fetch(site, node["result"]["resourceRef"]["resourceId"]), hashlib.sha256(), 0
    began, most = time.monotonic(), before
    while piece := answer.read(MIB):
        digest.update(piece)
        n_bytes += len(piece)
        most = max(most, site.rss_bytes())
    print(f"{n_bytes / MIB / (time.monotonic() - began):.0f} MiB/s, {(most - before) / MIB:.1f} MiB more memory")
    assert n_bytes == 100 * MIB and digest.hexdigest() == node["result"]["sha256"]
    assert most - before < 24 * MIB, (before, most)


def test_a_reader_that_does_not_read_holds_nobody_up(site):
    name = left_behind(site, bytes=30 * MIB)["result"]["resourceRef"]["resourceId"]
    lazy = [fetch(site, name) for _ in range(4)]
    assert all(one.status == 200 for one in lazy)
    is_full = lambda counts: all(n_bytes >= 64 << 10 for n_bytes in counts)
    wait_until(lambda: [unread_bytes(one) for one in lazy], is_full, what="bytes that nobody reads")
    for _ in range(5):
        began = time.monotonic()
        assert played(site, workflow({"quick": {}}))["status"] == "succeeded"
        assert time.monotonic() - began < 5
    digests = [hashlib.sha256(one.read()).hexdigest() for one in lazy]
    assert len(set(digests)) == 1


def test_a_resource_is_used_again_and_a_missing_one_fails_at_once(site):
    run = played(site, workflow({
        "file": {"type": "core.file", "parameters": {"bytes": 1000}},
        "look": {"type": "core.read_resource", "retry": {"maxAttempts": 1},
                 "parameters": {"resourceRef": "{{ nodes.file.results.resourceRef }}"}},
    }))
    assert run["status"] == "succeeded", run
    nodes = nodes_of(run)
    assert nodes["look"]["result"] == {key: nodes["file"]["result"][key] for key in ("sizeBytes", "sha256")}
    gone = {"resourceId": "gone", "workerName": "w1", "type": "file"}
    run = played(site, workflow({"look": {"type": "core.read_resource", "parameters": {"resourceRef": gone}}}))
    assert run["status"] == "failed" and run["error"]["code"] == "E.RESOURCE.MISSING", run


def test_a_download_goes_on_when_its_worker_comes_back(site):
    name = left_behind(site, bytes=60 * MIB)["result"]["resourceRef"]["resourceId"]
    expected = left_behind(site, bytes=60 * MIB)["result"]["sha256"]
    answer = fetch(site, name)
    digest = hashlib.sha256(answer.read(MIB))
    site.worker.kill()
    site.worker.wait()
    site.worker = worker_of(site, "w1")
    while piece := answer.read(MIB):
        digest.update(piece)
    assert digest.hexdigest() == expected, "the file survived its worker"


def test_without_its_worker_a_resource_is_away(site):
    name = left_behind(site, text="x")["result"]["resourceRef"]["resourceId"]
    site.worker.kill()
    site.worker.wait()
    status = lambda: fetch(site, name).status
    wait_until(status, lambda seen: seen == 503, what="the resource to be away")
    answer = fetch(site, name)
    assert json.loads(answer.read())["error"]["code"] == "E.RESOURCE.AWAY"
    assert site.rest("GET", f"/resources/{name}")["isAvailable"] is False
    site.worker = worker_of(site, "w1")
    wait_until(status, lambda seen: seen == 200, what="the resource to be back")


def test_a_file_of_a_run_goes_when_the_run_ends_and_others_stay(site):
    words = {"passing": "run", "staying": "shared", "plain": None}
    run = played(site, workflow({
        name: {"type": "core.file", "parameters": {"text": f"{name} of the run", **({"scope": scope} if scope else {})}}
        for name, scope in words.items()
    }))
    assert run["status"] == "succeeded", run
    is_gone = lambda texts: not any("passing" in text for text in texts)
    texts = wait_until(lambda: files_of(site), is_gone, within_s=10, what="the file of the run to go")
    assert {"staying of the run", "plain of the run"} <= set(texts), texts


def test_a_file_of_a_run_stays_as_long_as_the_run(site):
    run = start(site, workflow({
        "file": {"type": "core.file", "parameters": {"text": "needed once more", "scope": "run"}},
        "wait": {"type": "core.sleep", "parameters": {"ms": 1500}},
        "use": {"type": "core.read_resource",
                "parameters": {"resourceRef": "{{ nodes.file.results.resourceRef }}"}},
    }, [("file", "wait"), ("wait", "use")]))
    assert ended(site, run["runId"])["status"] == "succeeded"


def test_what_a_run_left_is_saved_by_the_command_line_and_nothing_is_overwritten(site, tmp_path):
    run = played(site, workflow({
        "one": {"type": "core.file", "parameters": {"text": "first", "filename": "../a.txt"}},
        "two": {"type": "core.file", "parameters": {"text": "second", "filename": "a.txt"}},
        "three": {"type": "core.file", "parameters": {"bytes": 3 * MIB}},
    }))
    folder = tmp_path / "new" / "folder"
    saved = astra(site, "run", "artifacts", run["runId"], "--save", folder, "-o", "json")
    assert saved.returncode == 0, saved.stderr
    items = {item["node"]: item for item in json.loads(saved.stdout)["artifacts"]}
    assert sorted(path.name for path in folder.parent.rglob("*.txt")) == ["a-2.txt", "a.txt"]
    assert {folder / name for name in ("a.txt", "a-2.txt")} == {
        Path(items[node]["savedAs"]) for node in ("one", "two")}
    for node, content in (("one", b"first"), ("two", b"second")):
        assert Path(items[node]["savedAs"]).read_bytes() == content
    large = Path(items["three"]["savedAs"]).read_bytes()
    assert hashlib.sha256(large).hexdigest() == items["three"]["metadata"]["sha256"]
    listed = astra(site, "run", "artifacts", run["runId"], "--node", "three")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["NODE", "three"]
    unknown = astra(site, "run", "artifacts", run["runId"], "--node", "four")
    assert unknown.returncode == 3 and "has no node four" in unknown.stderr


def test_what_went_with_its_worker_is_told(site, tmp_path):
    gone = astra(site, "run", "artifacts", left_without_its_worker(site)["runId"], "--save", tmp_path)
    assert gone.returncode == 1 and "lost.txt is not fetched" in gone.stderr, gone
    assert list(tmp_path.iterdir()) == []


def test_half_a_file_is_not_left_when_the_server_goes(tmp_path):
    server = Server(tmp_path).start()
    worker = worker_of(server, "w1")
    try:
        run = played(server, workflow({"file": {"type": "core.file", "parameters": {"bytes": 900 * MIB}}}))
        folder = tmp_path / "saved"
        saving = subprocess.Popen(command_of(server, "run", "artifacts", run["runId"], "--save", folder),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

        def is_under_way() -> bool:
            assert saving.poll() is None, "it was saved before anyone could see it"
            return folder.is_dir() and any(path.stat().st_size for path in folder.iterdir())

        wait_until(is_under_way, within_s=30, every_s=0.005, what="the first bytes of the file")
        server.kill()
        _, words = saving.communicate(timeout=90)
        assert saving.returncode == 1 and "is not fetched" in words, words
        assert list(folder.iterdir()) == []
    finally:
        worker.kill()
        worker.wait()
        server.stop()


def left_without_its_worker(server) -> dict:
    """A run whose file is on a worker that does not come back."""
    other = worker_of(server, "passing", "--label", "kind=passing")
    try:
        node = {"type": "core.file", "parameters": {"text": "x", "filename": "lost.txt"}, "labels": {"kind": "passing"}}
        return played(server, workflow({"file": node}))
    finally:
        other.kill()
        other.wait()


def test_a_worker_tells_how_much_it_keeps(site):
    left_behind(site, bytes=12345)
    look = lambda: site.rest("GET", "/workers/w1")["session"]["heartbeat"].get("resources", {})
    is_told = lambda kept: kept.get("disk_bytes", 0) >= 12345
    kept = wait_until(look, is_told, within_s=60, what="a heartbeat with the resource")
    assert kept["count"] >= 1 and kept["in_use"] == 0 and kept["mem_bytes"] == 0
    shown = astra(site, "worker", "show", "w1").stdout
    assert f"{kept['count']} resource" in shown and "bytes in files" in shown


def command_of(server, *words) -> list[str]:
    settings = ["--server", f"http://127.0.0.1:{server.port}", "--token", server.tokens["client"]]
    return [binary(), *map(str, words), *settings]


def astra(server, *words) -> subprocess.CompletedProcess:
    return subprocess.run(command_of(server, *words), capture_output=True, text=True, timeout=60, check=False)


def unread_bytes(answer) -> int:
    """What lies in the socket of an answer and is not read yet."""
    return struct.unpack("i", fcntl.ioctl(answer.fileno(), termios.FIONREAD, bytes(4)))[0]


def files_of(server) -> list[str]:
    texts = []
    for path in (server.folder / "w1" / "resources").iterdir():
        # It may go while it is looked at.
        with contextlib.suppress(FileNotFoundError):
            texts.append(path.read_bytes()[:100].decode(errors="replace"))
    return texts


def test_an_artifact_is_inline_when_the_result_holds_its_data(site):
    node = left_behind(site, text="small", inline=True)
    assert node["artifacts"][0]["inline"] is True and node["result"]["text"] == "small", node
    node = left_behind(site, text="small")
    assert node["artifacts"][0]["inline"] is False and "text" not in node["result"], node
