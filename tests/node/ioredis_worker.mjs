// Workers of ioredis: takes jobs, leaves a mark in a folder for each, and says so.
// Usage: node ioredis_worker.mjs PORT KEY QUEUE FOLDER COUNT
import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const Redis = createRequire(`${process.env.ASTRA_NODE_FOLDER}/`)("ioredis");
const [port, key, queue, folder, count] = process.argv.slice(2);

async function work() {
  const client = new Redis({ port: Number(port), password: key });
  while (!existsSync(`${folder}/stop`)) {
    const popped = await client.brpop(`queue:${queue}`, 1);
    if (popped === null) continue;
    const job = JSON.parse(popped[1]);
    for (const needed of job.needs.split(" ").filter(Boolean)) {
      if (!existsSync(`${folder}/${needed}`)) {
        appendFileSync(`${folder}/faults`, `${job.job_id} began before ${needed} was done\n`);
      }
    }
    appendFileSync(`${folder}/log`, `${job.job_id}\n`);
    writeFileSync(`${folder}/${job.job_id}`, "");
    const said = await client.call("JOB.UPDATE", job.job_id, JSON.stringify({ status: "completed" }));
    if (said !== "OK") appendFileSync(`${folder}/faults`, `${job.job_id}: ${said}\n`);
  }
  await client.quit();
}

await Promise.all(Array.from({ length: Number(count) }, work));
