"""A worker over HTTP that counts letters, words and lines. Usage: pull.py [URL] [TOKEN]"""

import json
import sys
import threading
import urllib.request
import uuid

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
HEADERS = {"Content-Type": "application/json"}
if len(sys.argv) > 2:
    HEADERS["Authorization"] = "Bearer " + sys.argv[2]
WORKER_ID = "python-" + uuid.uuid4().hex[:8]


def post(path, body):
    request = urllib.request.Request(URL + "/api/v1" + path, json.dumps(body).encode(), HEADERS)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def keep_alive(lease, done):
    """Renews the lease until the work is done or the lease is lost."""
    extended = True
    while extended and not done.wait(lease["heartbeat_ms"] / 1000):
        answer = post(f"/leases/{lease['lease_id']}/heartbeat", {"worker_id": WORKER_ID})
        extended = answer["verdict"] == "EXTENDED"


def execute(lease):
    report = {"worker_id": WORKER_ID, "report_id": str(uuid.uuid4())}
    done = threading.Event()
    threading.Thread(target=keep_alive, args=(lease, done), daemon=True).start()
    try:
        text = lease["parameters"]["text"]
        counts = {"letters": len(text), "words": len(text.split()), "lines": text.count("\n") + 1}
        word, report["result"] = "complete", counts
    except (KeyError, TypeError, AttributeError) as error:
        word, report["reason"] = "fail", repr(error)
    done.set()
    answer = post(f"/leases/{lease['lease_id']}/{word}", report)
    print(lease["lease_id"], answer["verdict"], answer.get("reason", ""), flush=True)


while True:
    wanted = {"worker_id": WORKER_ID, "types": ["text.count"], "max": 1, "wait_ms": 20000}
    for lease in post("/leases", wanted)["leases"]:
        execute(lease)
