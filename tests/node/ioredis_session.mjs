// What users of ioredis do, and what it must give. Usage: node ioredis_session.mjs PORT KEY
import assert from "node:assert/strict";
import { once } from "node:events";
import { createRequire } from "node:module";

const Redis = createRequire(`${process.env.ASTRA_NODE_FOLDER}/`)("ioredis");
const [port, key] = process.argv.slice(2);
const options = { port: Number(port), password: key };
const client = new Redis(options);
await once(client, "ready");

assert.equal(await client.ping(), "PONG");
assert.equal(await client.set("io", "1"), "OK");
assert.equal(await client.get("io"), "1");
assert.equal(await client.get("io-none"), null);
assert.deepEqual(await client.getBuffer("io"), Buffer.from("1"));
await client.hset("io-hash", { a: 1, b: 2 });
assert.deepEqual(await client.hgetall("io-hash"), { a: "1", b: "2" });
await client.zadd("io-sorted", 1.5, "a", 2, "b");
assert.deepEqual(await client.zrange("io-sorted", 0, -1, "WITHSCORES"), ["a", "1.5", "b", "2"]);
await assert.rejects(client.lpush("io", "x"), /WRONGTYPE/);
await assert.rejects(client.call("NOSUCH"), /unknown command/);

const replies = await client.pipeline().set("io", "2").get("io").call("NOSUCH").del("io").exec();
assert.deepEqual(replies[0], [null, "OK"]);
assert.deepEqual(replies[1], [null, "2"]);
assert.match(replies[2][0].message, /unknown command/);
assert.deepEqual(replies[3], [null, 1]);

const seen = [];
for await (const keys of client.scanStream({ match: "io-*", count: 10 })) seen.push(...keys);
assert.deepEqual(seen.sort(), ["io-hash", "io-sorted"]);
await client.del("io-hash", "io-sorted");

const listener = new Redis(options);
const told = [];
listener.on("message", (channel, text) => told.push([channel, JSON.parse(text)]));
assert.equal(await listener.subscribe("job:updates"), 1);

assert.equal(await client.call("JOB.SUBMIT", JSON.stringify({ job_id: "io-job", queue: "io" })), "io-job");
const [list, text] = await client.brpop("queue:io", 5);
assert.equal(list, "queue:io");
assert.equal(JSON.parse(text).job_id, "io-job");
assert.equal(await client.brpop("queue:io", 0.1), null);
assert.equal(await client.call("JOB.UPDATE", "io-job", JSON.stringify({ status: "completed", n: 1 })), "OK");
assert.equal(JSON.parse(await client.call("JOB.STATUS", "io-job")).status, "completed");
while (!told.some(([, update]) => update.job_id === "io-job" && update.status === "completed")) {
  await once(listener, "message");
}
assert.equal(told[0][0], "job:updates");
await listener.unsubscribe();

await assert.rejects(
  once(new Redis({ ...options, password: "wrong", retryStrategy: null }), "ready"),
  /WRONGPASS/,
);
await Promise.all([client.quit(), listener.quit()]);
console.log("all good");
