// SPDX-License-Identifier: Apache-2.0
// Streams of events at a real node, and streams that break.
"use strict";

const assert = require("node:assert/strict");
const http = require("node:http");
const { once } = require("node:events");
const { Client } = require("..");
const { test } = require("./tap");
const { withQueue } = require("./calls");

async function take(events, count) {
  const got = [];
  for await (const event of events) if (got.push(event) === count) return got;
  return got;
}

withQueue("events of a queue come in their order", async (q) => {
  const { id } = await q.send(1);
  const [job] = await q.receive();
  await job.ack();
  const types = (await take(q.events({ message: id }), 3)).map(({ type, message }) => [type, message]);
  assert.deepEqual(types, [
    ["message-enqueued", id],
    ["message-claimed", id],
    ["message-outcome", id],
  ]);
});

withQueue("a stream of several queues continues after an event", async (q, client) => {
  await client.create("other");
  await q.sendMany([1, 2]);
  await client.queue("other").send(3);
  const all = await take(client.stream({ queue: ["mail", "other"], from: "0", type: "message-enqueued" }), 3);
  const [first, ...rest] = all;
  const again = await take(
    client.stream({ queue: ["mail", "other"], from: first.eventId, type: "message-enqueued" }),
    2,
  );
  assert.deepEqual(again.map(({ event_id }) => event_id).sort(), rest.map(({ event_id }) => event_id).sort());
});

withQueue("a stream ends when its queue is deleted", async (q) => {
  const events = q.events({ from: "now" });
  const last = take(events, 10);
  await q.send(1);
  await q.delete();
  assert.equal((await last).at(-1).type, "end");
});

withQueue("a stream ends when its signal aborts", async (q) => {
  const controller = new AbortController();
  const events = q.events({ signal: controller.signal });
  await q.send(1);
  await events.next();
  setImmediate(() => controller.abort());
  for await (const _ of events);
});

// The server gives two events and breaks in the middle of the third.
test("a stream that breaks is opened again after its last event", async () => {
  const asked = [];
  const block = (number) => `id: ${number}\nevent: message-enqueued\ndata: {"number":${number}}\n\n`;
  const server = http.createServer((req, res) => {
    asked.push(req.headers["last-event-id"]);
    res.writeHead(200, { "Content-Type": "text/event-stream" });
    if (asked.length === 1) res.write(block(1) + block(2) + block(3).slice(0, 20), () => res.destroy());
    else res.write(`: all events were sent\nid: 2\n\n${block(3)}`);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = new Client(`http://127.0.0.1:${server.address().port}`);
  const events = await take(client.queue("mail").events(), 3);
  server.closeAllConnections();
  server.close();
  assert.deepEqual(
    events.map(({ number, eventId }) => [number, eventId]),
    [
      [1, "1"],
      [2, "2"],
      [3, "3"],
    ],
  );
  assert.deepEqual(asked, [undefined, "2"]);
});
