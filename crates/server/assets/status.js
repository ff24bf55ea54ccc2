"use strict";

const REFRESH_MS = 1000;
const TASKS_SHOWN = 15;

// The token lives in this variable alone: not in storage, not in a cookie, not in the address.
let token = "";

const byId = (id) => document.getElementById(id);

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path) {
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  const response = await fetch(path, { headers, cache: "no-store" });
  const body = await response.json();
  if (!response.ok) {
    throw new Refused(response.status, body.error?.message ?? response.statusText);
  }
  return body;
}

function age(millis) {
  if (millis === undefined || Number.isNaN(millis)) return "–";
  const seconds = Math.max(0, Math.round(millis / 1000));
  if (seconds < 90) return `${seconds} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const since = (moment) => age(Date.now() - Date.parse(moment));

// State and health as a sign, a word and a colour: never as a colour alone.
const STATES = {
  WAITING: ["◌", "Waiting", "none"],
  QUEUED: ["○", "Queued", ""],
  RETRYING: ["↻", "Retrying", "warn"],
  RUNNING: ["▶", "Running", "busy"],
  COMPLETED: ["✔", "Succeeded", "good"],
  FAILED: ["✖", "Failed", "bad"],
  DEAD: ["✖", "Dead", "bad"],
  STOPPED: ["■", "Stopped", "none"],
};
const HEALTHS = {
  HEALTHY: ["✔", "healthy", "good"],
  WARN: ["!", "missed 1 heartbeat", "warn"],
  DEGRADED: ["!", "missed 2 heartbeats", "warn"],
  LOST: ["✖", "lost", "bad"],
};

function sign(table, word) {
  const [mark, text, style] = table[word] ?? ["?", word, ""];
  return { text: `${mark} ${text}`, style };
}

const number = (text) => ({ text, style: "n" });

function fill(id, rows, whenEmpty) {
  const lines = rows.map((cells) => {
    const line = document.createElement("tr");
    for (const cell of cells) {
      const { text, style } = typeof cell === "object" ? cell : { text: cell, style: "" };
      const box = document.createElement("td");
      box.textContent = text;
      if (style) box.className = style;
      line.append(box);
    }
    return line;
  });
  if (lines.length === 0) {
    const line = document.createElement("tr");
    const box = document.createElement("td");
    box.colSpan = 9;
    box.className = "none";
    box.textContent = whenEmpty;
    line.append(box);
    lines.push(line);
  }
  byId(id).replaceChildren(...lines);
}

function show(queues, workers, tasks) {
  fill("queues", queues.queues.map((one) => [
    one.queue, number(one.depth), number(age(one.oldest_age_ms)), number(one.in_flight),
    number(one.retries_due), number(one.scheduled), number(one.dead),
  ]), "No queue holds a task.");
  fill("workers", workers.workers.map((one) => [
    one.worker_id, sign(HEALTHS, one.health), number(one.in_flight), number(one.granted),
    one.types ? one.types.join(", ") : "every type", number(since(one.last_seen)),
  ]), "No worker has asked for work yet. Start one with: astra worker start");
  fill("tasks", tasks.tasks.map((one) => [
    { text: one.task_id.slice(0, 8), style: "id" }, one.type, one.queue, sign(STATES, one.state),
    number(`${one.attempt}/${one.max_attempts}`), one.lease?.worker_id ?? one.worker_id ?? "–",
    number(since(one.created_at)),
  ]), "No task was submitted yet.");
}

function say(text, isBad) {
  byId("state").textContent = text;
  byId("state").className = isBad ? "bad" : "";
}

async function refresh() {
  try {
    const health = await ask("/healthz");
    byId("version").textContent = health.version;
    const answers = await Promise.all([
      ask("/api/v1/queues"), ask("/api/v1/workers"), ask(`/api/v1/tasks?limit=${TASKS_SHOWN}`),
    ]);
    show(...answers);
    byId("login").hidden = true;
    say("live, refreshed each second", false);
  } catch (error) {
    const needsToken = error instanceof Refused && (error.status === 401 || error.status === 403);
    byId("login").hidden = !needsToken;
    say(error instanceof Refused ? error.message : "the server does not answer; trying again", true);
  }
  setTimeout(refresh, REFRESH_MS);
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
});

refresh();
