// SPDX-License-Identifier: Apache-2.0
// The job loop of BullMQ, for tools/bench-clients: clients_bullmq.js PORT MESSAGES PLACES...
"use strict";

const { Queue, Worker } = require("bullmq");

const BODY = "x".repeat(300);
const now = () => Number(process.hrtime.bigint()) / 1e9;
const cpu = () => (process.cpuUsage().user + process.cpuUsage().system) / 1e6;
const report = (part, count, began, used) =>
  console.log(JSON.stringify({ part, count, seconds: now() - began, cpu: cpu() - used, memory: process.memoryUsage.rss() }));

async function main() {
  const [port, messages, ...all] = process.argv.slice(2).map(Number);
  const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
  const queue = new Queue("bench", { connection, defaultJobOptions: { removeOnComplete: true } });
  for (const places of all) {
    let began = now(),
      used = cpu();
    for (let at = 0; at < messages; at += 1000)
      await queue.addBulk(Array(Math.min(1000, messages - at)).fill({ name: "job", data: BODY }));
    report("send", messages, began, used);
    [began, used] = [now(), cpu()];
    let left = messages;
    await new Promise((resolve) => {
      const worker = new Worker("bench", async () => {
        if (--left === 0) setImmediate(() => worker.close().then(resolve));
      }, { connection, concurrency: places });
    });
    report(`work ${places}`, messages, began, used);
  }
  await queue.close();
}

main();
