"""A worker that counts letters, words and lines. Usage: worker.py [URL] [TOKEN]"""

import json
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
TOKEN = sys.argv[2] if len(sys.argv) > 2 else None
WORKER_ID = "python-" + uuid.uuid4().hex[:8]


def post(path, body, wait_s=0):
    """One request. Raises OSError when the line breaks, HTTPError when the server says no."""
    headers = {"Content-Type": "application/json"}
    if TOKEN:
        headers["Authorization"] = "Bearer " + TOKEN
    data = json.dumps(body).encode()
    request = urllib.request.Request(URL + "/api/v1" + path, data, headers)
    with urllib.request.urlopen(request, timeout=wait_s + 10) as answer:
        return json.load(answer)


def post_until_heard(path, body, tries=20):
    """The same request again while the line is broken. Only for requests that may be repeated."""
    for attempt in range(tries):
        try:
            return post(path, body)
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
        except OSError:
            pass
        time.sleep(min(0.1 * 2**attempt, 2))
    raise OSError("no answer from " + URL)


def keep_alive(lease, lost, done):
    """Renews the lease until the work is done, or says that it is lost."""
    while not done.wait(lease["heartbeat_ms"] / 1000):
        try:
            answer = post("/leases/%s/heartbeat" % lease["lease_id"], {"worker_id": WORKER_ID})
            if answer["verdict"] != "EXTENDED":
                lost.set()
                return
        except OSError:
            pass  # The coordinator notices a missing heartbeat; that is its business.


def execute(parameters):
    text = parameters["text"]
    return {"letters": len(text), "words": len(text.split()), "lines": text.count("\n") + 1}


def attempt(lease):
    lost, done = threading.Event(), threading.Event()
    threading.Thread(target=keep_alive, args=(lease, lost, done), daemon=True).start()
    report = {"worker_id": WORKER_ID, "report_id": str(uuid.uuid4())}
    try:
        report["result"], word = execute(lease["parameters"]), "complete"
    except Exception as error:  # Whatever went wrong, the coordinator decides what follows.
        report["reason"], word = "%s: %s" % (type(error).__name__, error), "fail"
    done.set()
    if lost.is_set():
        print(lease["lease_id"], "lost; the result is discarded")
        return
    answer = post_until_heard("/leases/%s/%s" % (lease["lease_id"], word), report)
    print(lease["lease_id"], answer["verdict"], answer.get("reason", ""))


def main():
    print("worker %s asks %s for text.count" % (WORKER_ID, URL))
    request = {"worker_id": WORKER_ID, "types": ["text.count"], "max": 1, "wait_ms": 20000}
    while True:
        try:
            leases = post("/leases", request, wait_s=20)["leases"]
        except urllib.error.HTTPError as error:
            if error.code != 503:
                sys.exit(error.read().decode())
            leases = []
        except OSError:
            leases = []
            time.sleep(1)
        for lease in leases:
            attempt(lease)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        pass
