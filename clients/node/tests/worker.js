// SPDX-License-Identifier: Apache-2.0
// Workers at a real node: places, outcomes, renewals, lost locks, signals, orders, and the end.
"use strict";

const assert = require("node:assert/strict");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const readline = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");
const sluice = require("..");
const { test } = require("./tap");
const { withQueue } = require("./calls");

const { Worker, Snooze, runUntilEmpty, testNode } = sluice;
const QUICK = { failureStrategy: { mode: "retry", maxRetries: 3, backoff: { initial: "0ms" } } };
const options = { log: () => undefined, handleSignals: false };

// A promise with its resolve.
function later() {
  const it = {};
  it.promise = new Promise((resolve) => (it.resolve = resolve));
  return it;
}

// Waits until the condition holds. The limit of the test bounds it.
async function until(condition) {
  for (;;) {
    const value = await condition();
    if (value) return value;
    await sleep(5);
  }
}

// Work that ends early if the signal aborts.
const untilAbort = (signal) =>
  new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason));
  });

withQueue("a worker returns results and acks the rest with its receives", async (q, client) => {
  const sent = await q.sendMany(Array.from({ length: 50 }, (_, i) => i));
  const calls = [];
  const { ask } = client.transport;
  client.transport.ask = (name, ...rest) => (calls.push(name), ask.call(client.transport, name, ...rest));
  const worker = new Worker(client, "mail", (job) => (job.body % 10 === 0 ? job.body * 2 : undefined), {
    ...options,
    concurrency: 10,
  });
  await runUntilEmpty(worker);
  assert.equal(await sent[20].result(), 40);
  assert.equal(await sent[21].result(), undefined);
  assert.equal(worker.counts.processed, 50);
  const acks = calls.filter((name) => name === "ackMessages").length;
  assert.ok(acks <= 12, `${acks} requests for acks alone`);
});

withQueue("a worker never runs more jobs than it has places", async (q, client) => {
  await q.sendMany(Array.from({ length: 40 }, (_, i) => i));
  let running = 0,
    most = 0;
  const worker = new Worker(
    client,
    "mail",
    async () => {
      most = Math.max(most, ++running);
      await sleep(1);
      running--;
    },
    { ...options, concurrency: 7 },
  );
  await runUntilEmpty(worker);
  assert.equal(most, 7);
});

withQueue(
  "an error fails the job with its class",
  async (q, client) => {
    const { id } = await q.send(1);
    const worker = new Worker(
      client,
      "mail",
      () => {
        throw new TypeError("no such address");
      },
      options,
    );
    await until(async () => (await q.stats()).dead === 1);
    await worker.stop();
    const shown = await q.message(id);
    assert.deepEqual(
      shown.failures.map(({ reason }) => reason),
      Array(4).fill("TypeError: no such address"),
    );
  },
  QUICK,
);

withQueue("a result that is not JSON fails the job", async (q, client) => {
  const { id } = await q.send(1);
  const worker = new Worker(client, "mail", () => 1n, options);
  await until(async () => (await q.message(id)).failures?.[0].reason.includes("the result is not JSON"));
  await worker.stop();
});

withQueue("a result that is too large fails its job, and the others are acked in one request", async (q, client) => {
  const sent = await q.sendMany([0, 1, 2, 3]);
  const asked = [];
  const { ask } = client.transport;
  client.transport.ask = (name, ...rest) => (asked.push(name), ask.call(client.transport, name, ...rest));
  await runUntilEmpty(
    new Worker(client, "mail", (job) => "x".repeat(job.body === 2 ? 300000 : 3), { ...options, concurrency: 4 }),
  );
  assert.equal(await sent[3].result(), "xxx");
  const { failures } = await q.message(sent[2].id);
  assert.ok(failures[0].reason.includes("result has 300000 bytes"), failures[0].reason);
  assert.equal((await q.stats()).processed, 3);
  const acks = () => asked.filter((name) => name === "ackMessages").length;
  const before = acks();
  await (await client.create("other")).sendMany([4, 5, 6]);
  const worker = new Worker(client, "other", (job) => job.body, { ...options, concurrency: 4 });
  await runUntilEmpty(worker);
  assert.equal(acks() - before, 1, "three results travel together");
});

withQueue("Snooze releases the message with a delay and counts no attempt", async (q, client) => {
  const { id } = await q.send(1);
  const worker = new Worker(
    client,
    "mail",
    () => {
      throw new Snooze("1h");
    },
    options,
  );
  await until(async () => (await q.stats()).delayed === 1);
  await worker.stop();
  const shown = await q.message(id);
  assert.equal(shown.attempt, 0);
  assert.ok(shown.deadline > Date.now() + 3000000);
});

withQueue("types choose a function, and an unknown type is released and logged", async (q, client) => {
  const seen = [],
    said = [];
  await q.send("a", { type: "welcome" });
  await q.send("b", { type: "invoice" });
  await q.send("c", { type: "toString" });
  const handlers = {
    welcome: (job) => void seen.push(`w${job.body}`),
    invoice: (job) => void seen.push(`i${job.body}`),
  };
  const worker = new Worker(client, "mail", handlers, { ...options, log: (text) => said.push(text) });
  await until(async () => (await q.stats()).delayed === 1);
  await worker.stop();
  assert.deepEqual(seen.sort(), ["ib", "wa"]);
  assert.ok(said.some((text) => text.includes('the type "toString"')));
});

withQueue("traceparent travels to what a handler sends", async (q, client) => {
  const other = await client.create("other");
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  await q.send(1, { headers: { traceparent } });
  await runUntilEmpty(new Worker(client, "mail", async () => void (await other.send(2)), options));
  const [job] = await other.receive();
  assert.equal(job.headers.traceparent, traceparent);
});

withQueue(
  "a handler that blocks the event loop keeps its lock",
  async (q, client) => {
    await q.send(1);
    const runs = [];
    const worker = new Worker(
      client,
      "mail",
      (job) => {
        runs.push(job.attempt);
        const end = Date.now() + 6000;
        while (Date.now() < end);
      },
      options,
    );
    await runUntilEmpty(worker);
    assert.deepEqual(runs, [1]);
    assert.equal((await q.stats()).processed, 1);
  },
  { visibilityTimeout: "2s" },
);

withQueue(
  "a lost lock aborts the handler, and its outcome is not sent",
  async (q, client) => {
    const { id } = await q.send(1);
    const started = later(),
      ended = later();
    const worker = new Worker(
      client,
      "mail",
      async (job) => {
        started.resolve(job);
        await untilAbort(job.signal).catch(() => undefined);
        ended.resolve(job.lost);
        return "late";
      },
      { ...options, name: "pod-1", register: true },
    );
    const job = await started.promise;
    await client.call("evictWorker", { queue: "mail", worker: "pod-1" });
    assert.equal(await ended.promise, true);
    await assert.rejects(worker.run(), (error) => error.code === "FENCED");
    assert.equal(job.signal.reason.name, "LockLost");
    assert.equal((await q.message(id)).state, "ready");
    assert.equal(worker.counts.lost, 1);
  },
  { visibilityTimeout: "1s" },
);

test("a job is told before the deadline if its lock cannot be renewed", async () => {
  const client = await testNode({ timeout: "2s" });
  try {
    const q = await client.create("mail", { visibilityTimeout: "4s" });
    await q.send(1);
    const told = later();
    const handler = async (job) => {
      const deadline = performance.now() + job.leaseMs;
      client.server.kill("SIGKILL");
      await untilAbort(job.signal).catch(() => undefined);
      told.resolve(deadline - performance.now());
    };
    const worker = new Worker(client, "mail", handler, options);
    const left = await told.promise;
    assert.ok(left > 0 && left < 2000, `told ${left} ms before the deadline`);
    await worker.stop({ grace: 0 });
  } finally {
    await client.close();
  }
});

withQueue(
  "a handler that blocks does not cost the other messages of its answer their locks",
  async (q, client) => {
    await q.sendMany([1, 2, 3]);
    const attempts = [];
    const handler = (job) => {
      attempts.push(job.attempt);
      const end = Date.now() + (job.body === 1 ? 5000 : 0);
      while (Date.now() < end);
    };
    await runUntilEmpty(new Worker(client, "mail", handler, { ...options, concurrency: 3 }));
    assert.deepEqual(attempts, [1, 1, 1]);
  },
  { visibilityTimeout: "2s" },
);

withQueue("a body that the codec cannot read fails the job alone", async (q, client) => {
  client.codec = { ...client.codec };
  client.codec.decode = ({ body }) => {
    if (body === "bad") throw new RangeError("no date");
    return body;
  };
  const [bad, good] = await q.sendMany(["bad", "good"]);
  const worker = new Worker(client, "mail", (job) => job.body, { ...options, concurrency: 2 });
  assert.equal(await good.result(), "good");
  await until(async () => (await q.message(bad.id)).failures?.[0].reason === "RangeError: no date");
  await worker.stop();
});

withQueue("progress travels with a renewal", async (q, client) => {
  const { id } = await q.send(1);
  const go = later();
  const worker = new Worker(
    client,
    "mail",
    async (job) => {
      await job.progress(42, "half way");
      await go.promise;
    },
    options,
  );
  await until(async () => (await q.message(id)).progress === 42);
  go.resolve();
  await worker.stop();
});

withQueue("a handler gets signals in their order and answers them", async (q, client) => {
  const { id } = await q.send(1);
  await q.signal(id, { kind: "steer", payload: { pace: 2 } }); // it comes with the message
  let pace = 1;
  const worker = new Worker(
    client,
    "mail",
    async (job) => {
      for await (const signal of job.signals) {
        if (signal.kind === "steer") {
          pace = signal.payload.pace;
          await signal.ack();
        } else {
          await signal.ack({ pace });
          return "done";
        }
      }
    },
    options,
  );
  await until(async () => (await q.message(id)).state === "locked");
  assert.deepEqual(await q.ask(id, "how fast?"), { pace: 2 });
  await until(async () => (await q.message(id)).state === "processed");
  await worker.stop();
});

withQueue("an interrupt aborts the handler and cancels the message", async (q, client) => {
  const sent = await q.send(1);
  const reason = later();
  const worker = new Worker(
    client,
    "mail",
    async (job) => {
      await untilAbort(job.signal).catch((why) => reason.resolve(why));
      return "late";
    },
    options,
  );
  await until(async () => (await q.message(sent.id)).state === "locked");
  await q.signal(sent.id, { kind: "interrupt", reason: "wrong input", grace: "1h" });
  const why = await reason.promise;
  assert.deepEqual([why.name, why.message], ["Interrupted", "interrupted: wrong input"]);
  await assert.rejects(sent.result(), (error) => error.reason === "cancelled");
  const { signals } = await client.call("listMessageSignals", { queue: "mail", id: sent.id });
  assert.equal(signals[0].state, "acked");
  await worker.stop();
});

withQueue("a worker is registered, and obeys pause, resume and drain", async (q, client) => {
  const order = (name) => client.call(name, { queue: "mail", worker: "pod-1" });
  const done = [];
  const worker = new Worker(client, "mail", (job) => void done.push(job.body), {
    ...options,
    name: "pod-1",
    concurrency: 3,
    labels: { kind: "gpu" },
    register: true,
  });
  const row = await until(async () => (await q.workers()).workers.find(({ name }) => name === "pod-1"));
  assert.deepEqual([row.capacity, row.labels], [3, "kind=gpu"]);
  await q.send(1);
  await until(() => done.length === 1);
  await order("pauseWorker");
  await q.send(2);
  await sleep(50); // a paused worker gets nothing, so there is nothing to wait for
  assert.equal((await q.stats()).ready, 1);
  await order("resumeWorker");
  await until(() => done.length === 2);
  await order("drainWorker");
  await worker.run();
  const rows = (await q.workers()).workers.filter(({ name, capacity }) => name === "pod-1" && capacity > 0);
  assert.deepEqual(rows, [], "it has left");
});

withQueue("stop waits for the handlers within the grace", async (q, client) => {
  await q.send(1);
  const started = later();
  const worker = new Worker(
    client,
    "mail",
    async () => {
      started.resolve();
      await sleep(200);
    },
    options,
  );
  await started.promise;
  await worker.stop();
  assert.equal((await q.stats()).processed, 1);
});

withQueue("stop releases what is left after the grace, and no attempt counts", async (q, client) => {
  const { id } = await q.send(1);
  const started = later();
  let reason;
  const worker = new Worker(
    client,
    "mail",
    async (job) => {
      started.resolve();
      await untilAbort(job.signal).catch((why) => (reason = why.name));
    },
    options,
  );
  await started.promise;
  await worker.stop({ grace: 20 });
  assert.equal(reason, "Stopping");
  const shown = await q.message(id);
  assert.deepEqual([shown.state, shown.attempt], ["ready", 0]);
  assert.equal(worker.counts.released, 1);
});

withQueue("wrong workers name what is wrong", async (q, client) => {
  const wrong = (part, ...rest) =>
    assert.throws(
      () => new Worker(client, ...rest),
      (error) => error instanceof sluice.Invalid && error.message.includes(part),
    );
  wrong("concurrency is 1 to 10000, not 0", "mail", () => 1, { concurrency: 0 });
  wrong('no option "concurency"', "mail", () => 1, { concurency: 3 });
  wrong("needs the name of a queue", "", () => 1);
  wrong("the handler is a function", "mail", 7);
  const worker = new Worker(client, "mial", () => 1, { ...options, autorun: false });
  await assert.rejects(
    worker.run(),
    (error) => error instanceof sluice.NotFound && error.message.includes("did you mean mail"),
  );
});

// Starts tests/worker_program.js, a process of its own.
async function program(client, ...args) {
  const child = spawn(process.execPath, [path.join(__dirname, "worker_program.js"), client.url, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit").then(() => ["it ended"]);
  const [line] = await Promise.race([once(readline.createInterface({ input: child.stdout }), "line"), ended]);
  assert.equal(line, "started");
  return child;
}

withQueue("SIGTERM lets the handler finish, and the process ends", async (q, client) => {
  await q.send({ ms: 300 });
  const child = await program(client);
  child.kill("SIGTERM");
  const [code] = await once(child, "exit");
  assert.equal(code, 0);
  const stats = await q.stats();
  assert.deepEqual([stats.processed, stats.workers], [1, 0]);
});

withQueue("a second signal releases and ends the process at once", async (q, client) => {
  const { id } = await q.send({ ms: 60000 });
  const child = await program(client);
  child.kill("SIGTERM");
  await sleep(50); // the first signal has an effect that only the process sees
  child.kill("SIGTERM");
  const [, signal] = await once(child, "exit");
  assert.equal(signal, "SIGTERM");
  const shown = await q.message(id);
  assert.deepEqual([shown.state, shown.attempt], ["ready", 0]);
});

withQueue("a process that has no work left ends after SIGTERM", async (q, client) => {
  await q.send({ ms: 0 });
  const child = await program(client);
  await until(async () => (await q.stats()).processed === 1);
  child.kill("SIGTERM");
  const [code] = await once(child, "exit");
  assert.equal(code, 0);
});
