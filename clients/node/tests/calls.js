// SPDX-License-Identifier: Apache-2.0
// Calls of a client at a real node: sends, receives, errors, results, tokens.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { execFileSync } = require("node:child_process");
const sluice = require("..");
const { test } = require("./tap");

const { Client, Worker, testNode } = sluice;

// Runs the test with a client of a new node and a queue.
function withQueue(name, run, settings = {}) {
  test(name, async () => {
    const client = await testNode();
    try {
      await run(await client.create("mail", settings), client);
    } finally {
      await client.close();
    }
  });
}
exports.withQueue = withQueue;

const throwsSync = (code, part, run) =>
  assert.throws(run, (error) => error.code === code && error.message.includes(part));
const rejects = (name, part, promise) =>
  assert.rejects(promise, (error) => error instanceof sluice[name] && error.message.includes(part));

// docs/clients.md has the text of the error.
const PAGE = fs.readFileSync(path.join(__dirname, "..", "..", "..", "docs", "clients.md"), "utf8");
const onPage = (name, promise) =>
  assert.rejects(promise, (error) => error instanceof sluice[name] && PAGE.includes(`| ${error.message} |`));

withQueue("a message comes back with its fields", async (q) => {
  await q.send({ to: "ann" }, { group: "g", priority: 3, headers: { tenant: "7" }, workflow: "w", type: "welcome" });
  const [job] = await q.receive();
  assert.deepEqual(job.body, { to: "ann" });
  assert.deepEqual(
    [job.queue, job.group, job.priority, job.workflow, job.type, job.attempt],
    ["mail", "g", 3, "w", "welcome", 1],
  );
  assert.equal(job.headers.tenant, "7");
  assert.equal((await job.ack()).status, "processed");
  assert.equal((await q.stats()).processed, 1);
});

withQueue("bytes come back as bytes, also if they are text", async (q) => {
  const bodies = [Buffer.from("text"), Buffer.from([255, 0, 97]), "text", null, 7, [1], ""];
  await q.sendMany(bodies);
  const jobs = await q.receive({ max: 10 });
  assert.deepEqual(
    jobs.map(({ body }) => body),
    bodies,
  );
});

withQueue("sends of one tick share a request", async (q, client) => {
  let requests = 0;
  const { ask } = client.transport;
  client.transport.ask = (...all) => (requests++, ask.apply(client.transport, all));
  const sent = await Promise.all([1, 2, 3].map((body) => q.send(body)));
  assert.equal(requests, 1);
  assert.equal(new Set(sent.map(({ id }) => id)).size, 3);
});

withQueue("a malformed send fails alone", async (q) => {
  const results = await Promise.allSettled([q.send(1), q.send(2, { priority: 77 }), q.send(3)]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ["fulfilled", "rejected", "fulfilled"],
  );
  assert.equal(results[1].reason.field, "priority");
  assert.equal((await q.stats()).ready, 2);
});

withQueue("a dedup key makes a duplicate", async (q) => {
  const first = await q.send(1, { dedup: "k" });
  const second = await q.send(1, { dedup: "k" });
  assert.deepEqual([first.duplicate, second.duplicate, second.id], [false, true, first.id]);
});

withQueue("delay and at delay a message", async (q) => {
  await q.send(1, { delay: "1h" });
  await q.send(2, { at: new Date(Date.now() + 3600000) });
  assert.equal((await q.stats()).delayed, 2);
});

withQueue(
  "fail counts an attempt, release does not",
  async (q) => {
    await q.send(1);
    let [job] = await q.receive();
    await job.release();
    [job] = await q.receive();
    assert.equal(job.attempt, 1);
    await job.fail("no such address");
    [job] = await q.receive();
    assert.equal(job.attempt, 2);
    assert.equal((await q.message(job.id)).failures[0].reason, "no such address");
  },
  { failureStrategy: { backoff: { initial: "0ms" } } },
);

withQueue("a second settle is refused", async (q) => {
  await q.send(1);
  const [job] = await q.receive();
  await job.ack();
  await assert.rejects(job.ack(), (error) => ["CONFLICT", "FENCED"].includes(error.code) && error.reason !== "");
  await assert.rejects(job.renew());
  assert.equal(job.lost, true);
  assert.equal(job.signal.aborted, true);
});

withQueue("renew extends the lock and shows the progress", async (q) => {
  await q.send(1);
  const [job] = await q.receive();
  const { until } = await job.renew({ visibility: "1h" });
  assert.ok(until > job.deadline + 3000000);
  await job.progress(42, "half way");
  const shown = await q.message(job.id);
  assert.deepEqual([shown.progress, shown.progressText], [42, "half way"]);
});

withQueue("results of all kinds come back", async (q, client) => {
  const results = [{ steps: 50 }, "text", 7, [1, 2], true, Buffer.from("bytes"), undefined, "7"];
  const sent = await q.sendMany(results.map((_, i) => i));
  for (const job of await q.receive({ max: 10 })) await job.ack(results[job.body]);
  assert.deepEqual(await Promise.all(sent.map((one) => one.result())), results);
  const rows = await client.collect(sent);
  assert.deepEqual(
    rows.map(({ state }) => state),
    results.map(() => "processed"),
  );
});

withQueue("the result of a cancelled message is an error", async (q) => {
  const sent = await q.send(1);
  await q.cancel([sent.id], "not wanted");
  await assert.rejects(
    sent.result(),
    (error) =>
      error instanceof sluice.NotProcessed && error.reason === "cancelled" && error.message.includes("not wanted"),
  );
});

withQueue("a result that does not come in time is Unavailable", async (q) => {
  const sent = await q.send(1);
  await rejects("Unavailable", "had not ended", sent.result({ timeout: 50 }));
});

withQueue("a receive ends when its signal aborts", async (q) => {
  const controller = new AbortController();
  const receiving = q.receive({ signal: controller.signal });
  setImmediate(() => controller.abort());
  await assert.rejects(receiving, { name: "AbortError" });
});

withQueue("an operator's calls", async (q, client) => {
  await q.send(1);
  await q.pause();
  assert.equal((await q.show()).paused, true);
  await q.resume();
  assert.equal((await q.messages())[0].body, 1);
  assert.equal((await q.purge()).purged, 1);
  assert.equal((await q.redrive()).redriven, 0);
  await q.change({ visibilityTimeout: "5s" });
  assert.equal((await q.show()).settings.visibilityTimeout, "5s");
  assert.deepEqual(
    (await client.list()).map(({ name }) => name),
    ["mail"],
  );
  assert.equal((await client.node()).store, "mem:");
  assert.equal((await client.call("queueStats", { queue: "mail" })).queue, "mail");
  await q.delete();
  await rejects("NotFound", "does not exist", q.stats());
});

withQueue("wrong calls name what is wrong", async (q, client) => {
  await onPage("NotFound", client.queue("nosuch").send(1));
  await onPage("Invalid", q.send(1n));
  await onPage("Invalid", q.send(1, { priority: 10 }));
  await onPage("Invalid", client.create("other", { visibilityTimout: "3s" }));
  await onPage("Invalid", Promise.resolve().then(() => new Worker(client, "mail", () => 1, { concurrency: 0 })));
  await onPage("Invalid", Promise.resolve().then(() => new Client("localhost:7333")));
  await rejects("NotFound", "did you mean mail", client.queue("mial").send(1));
  await rejects("Invalid", "is not the name of a queue", client.queue("no/queue").send(1));
  await rejects("Invalid", "the body is not JSON", q.send(undefined));
  await rejects("Invalid", 'send has no option "prioritty"', q.send(1, { prioritty: 3 }));
  await rejects("Invalid", "delay", q.send(1, { delay: "5" }));
  await rejects("Invalid", "max", q.receive({ max: 0 }));
  await rejects("Invalid", 'there is no call "fly"', client.call("fly"));
  await rejects("Invalid", 'has no parameter "ded"', client.call("purgeQueue", { queue: "mail", ded: true }));
  await rejects("Invalid", "visibilityTimeout", client.create("other", { visibilityTimeout: "soon" }));
});

test("wrong URLs are refused with an example", async () => {
  for (const url of ["", "127.0.0.1:7333", "redis://a", "http://", "http://a:1,", "http://a,a", "http://a b"])
    throwsSync("INVALID", "", () => new Client(url));
  throwsSync("INVALID", "such as http://127.0.0.1:7333", () => new Client("tcp://a"));
  throwsSync("INVALID", "SLUICE_TOKEN", () => new Client("http://me:secret@a"));
  throwsSync("INVALID", 'no option "tokn"', () => new Client("http://a", { tokn: "x" }));
});

test("a dead node is Unavailable and named", async () => {
  const client = new Client("http://127.0.0.1:1", { timeout: 50 });
  await onPage("Unavailable", client.queue("mail").send(1));
});

test("a token without the scope is Denied", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "sluice-node-"));
  const file = path.join(folder, "tokens");
  const text = execFileSync(
    process.env.SLUICE || "sluice",
    ["token", "new", "--scope", "read", "--queue", "mail", "--name", "web", "--json"],
    { encoding: "utf8" },
  );
  const { token, line } = JSON.parse(text);
  fs.writeFileSync(file, `${line}\n`, { mode: 0o600 });
  const client = await testNode({ args: ["--tokens", file], token });
  try {
    await onPage("Denied", client.queue("mail").send(1));
    await rejects("Denied", "", new Client(client.url, { token: "wrong" }).queue("mail").stats());
  } finally {
    await client.close();
    fs.rmSync(folder, { recursive: true });
  }
});

test("a codec of the user encodes and decodes", async () => {
  const codec = {
    encode: (value) => ({ body: `date:${value.toISOString()}`, contentType: "text/x-date" }),
    decode: ({ body }) => new Date(body.slice("date:".length)),
  };
  const client = await testNode({ codec });
  try {
    const q = await client.create("dates");
    await q.send(new Date(0));
    const [job] = await q.receive();
    assert.deepEqual([job.body, job.contentType], [new Date(0), "text/x-date"]);
  } finally {
    await client.close();
  }
});

test("several nodes share a store, and a killed one is left out", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "sluice-node-"));
  const nodes = [await testNode({ store: folder }), await testNode({ store: folder })];
  const client = new Client(
    nodes
      .map(({ url }) => url)
      .join()
      .replace(",http://", ","),
    { timeout: "10s" },
  );
  try {
    const q = await client.create("mail", { shards: 4 });
    await q.sendMany(Array.from({ length: 20 }, (_, i) => i));
    nodes[0].server.kill("SIGKILL");
    const bodies = [];
    while (bodies.length < 20)
      for (const job of await q.receive({ max: 3 })) {
        bodies.push(job.body);
        await job.ack();
      }
    assert.deepEqual(
      bodies.sort((a, b) => a - b),
      Array.from({ length: 20 }, (_, i) => i),
    );
  } finally {
    await client.close();
    nodes[1].server.kill("SIGKILL"); // its orderly end may wait for the node that was killed
    for (const node of nodes) await node.close();
    fs.rmSync(folder, { recursive: true });
  }
});
