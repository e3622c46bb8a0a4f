// SPDX-License-Identifier: Apache-2.0
// The workloads of `sluice bench` on BullMQ: bulk, drain, cycle, paced. Prints one JSON object per
// workload. NODE_PATH must have the package bullmq.
//
//     node bullmq.js PORT WORKLOADS MESSAGES CLIENTS
"use strict";
const { Queue, Worker } = require("bullmq");

const [port, workloads, messages, clients] = [
  Number(process.argv[2]), process.argv[3].split(","), Number(process.argv[4]), Number(process.argv[5] || 8),
];
const BATCH = 100;
const body = { text: "x".repeat(300) };
const done = { removeOnComplete: true, removeOnFail: true };
const connection = () => ({ host: "127.0.0.1", port, maxRetriesPerRequest: null });
const now = () => Number(process.hrtime.bigint()) / 1e6;
const say = (workload, facts) => console.log(JSON.stringify({ workload, ...facts }));

function each(count, one) {
  return Promise.all(Array.from({ length: count }, (_, i) => one(i)));
}

async function bulk(queues) {
  const start = now();
  await each(clients, async (i) => {
    for (let sent = 0; sent < messages / clients; sent += BATCH) {
      await queues[i].addBulk(Array.from({ length: BATCH }, () => ({ name: "m", data: body, opts: done })));
    }
  });
  say("bulk", { perSecond: Math.round((messages * 1000) / (now() - start)) });
}

async function drain(name) {
  const start = now();
  let left = messages;
  await new Promise((resolve) => {
    const workers = Array.from({ length: clients }, () => new Worker(name, async () => {
      if (--left === 0) setTimeout(resolve, 0);
    }, { connection: connection(), concurrency: 16 }));
    resolve.workers = workers;
    drain.workers = workers;
  });
  say("drain", { perSecond: Math.round((messages * 1000) / (now() - start)) });
  await Promise.all(drain.workers.map((worker) => worker.close()));
}

async function cycle(name, queues) {
  const rounds = Math.max(1, Math.floor(messages / 8 / clients));
  const workers = Array.from({ length: clients }, () => new Worker(name, null, { connection: connection() }));
  await Promise.all(workers.map((worker) => worker.waitUntilReady()));
  const start = now();
  await each(clients, async (i) => {
    for (let round = 0; round < rounds; round++) {
      await queues[i].add("m", body, done);
      let job;
      while (!(job = await workers[i].getNextJob(`token-${i}`)));
      await job.moveToCompleted("", `token-${i}`, false);
    }
  });
  say("cycle", { perSecond: Math.round((rounds * clients * 1000) / (now() - start)) });
  await Promise.all(workers.map((worker) => worker.close()));
}

async function paced(name, queues) {
  const count = Math.max(100, Math.floor(messages / 200)), took = [];
  const worker = new Worker(name, async (job) => { took.push(now() - job.data.at); }, { connection: connection() });
  await worker.waitUntilReady();
  const start = now();
  for (let i = 0; i < count; i++) {
    const wait = start + i * 10 - now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    queues[0].add("m", { ...body, at: now() }, done);
  }
  while (took.length < count) await new Promise((resolve) => setTimeout(resolve, 5));
  took.sort((a, b) => a - b);
  say("paced", { p50Ms: took[Math.floor(count / 2)], p99Ms: took[Math.floor(count * 0.99)] });
  await worker.close();
}

(async () => {
  for (const workload of workloads) {
    const name = `bench-${workload}-${process.pid}`;
    const queues = Array.from({ length: clients }, () => new Queue(name, { connection: connection() }));
    await Promise.all(queues.map((queue) => queue.waitUntilReady()));
    if (workload === "bulk") {
      await bulk(queues);
      await drain(name);
    }
    if (workload === "cycle") await cycle(name, queues);
    if (workload === "paced") await paced(name, queues);
    await Promise.all(queues.map((queue) => queue.close()));
  }
  process.exit(0);
})();
