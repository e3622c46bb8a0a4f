// SPDX-License-Identifier: Apache-2.0
// A queue: sends, receives by hand, results, and what an operator does.
"use strict";

const { stringify, resultOf } = require("./codec");
const { current, Job } = require("./job");
const { errorOf, invalid, NotProcessed } = require("./errors");
const { limits } = require("./calls");
const { now, toMs } = require("./util");

const PART_BYTES_MAX = 8 << 20; // of messages in one request, unless one message is larger
const ITEMS_MAX = limits["sendMessages.messages"];
const WAIT_MAX_MS = limits["receiveMessages.wait"];
const COLLECT_MAX = 1000; // ids in one collect, so that their results fit in one answer
const SEND_FIELDS = [
  "group",
  "dedup",
  "priority",
  "delay",
  "due",
  "workflow",
  "workflowLast",
  "requires",
  "contentType",
  "headers",
];

class Sent {
  constructor(queue, { id, duplicate }) {
    this.queue = queue.name;
    this.id = id;
    this.duplicate = duplicate === true;
    Object.defineProperty(this, "source", { value: queue });
  }

  // Waits for the end of the message and returns its result. If it was not processed: NotProcessed.
  async result({ timeout, signal } = {}) {
    const [ended] = await this.source.collect([this.id], { timeout, signal });
    if (ended.state === "processed" || ended.state === "finished") return ended.result;
    throw new NotProcessed(ended);
  }
}

// The JSON text of a message. `options` are those of send().
function messageText(client, body, options) {
  const { type, at, ...rest } = options;
  for (const name of Object.keys(rest))
    if (!SEND_FIELDS.includes(name)) throw invalid(name, `send has no option "${name}"`);
  const headers = { ...rest.headers };
  const trace = current.getStore()?.headers.traceparent;
  if (trace && headers.traceparent === undefined) headers.traceparent = trace;
  if (type !== undefined) headers["sluice-type"] = type;
  if (at !== undefined) rest.due = at instanceof Date ? at.getTime() : at;
  if (Object.keys(headers).length > 0) rest.headers = headers;
  return stringify({ ...client.codec.encode(body), ...rest }, "body", body);
}

class Queue {
  constructor(client, name) {
    this.client = client;
    this.name = name;
    this.waiting = []; // sends of this tick: { text, grouped, resolve, reject }
  }

  call(name, params, options) {
    return this.client.call(name, { queue: this.name, ...params }, options);
  }

  // Sends one message. Sends of one tick share a request.
  async send(body, options = {}) {
    const text = messageText(this.client, body, options);
    return new Promise((resolve, reject) => {
      if (this.waiting.length === 0) setImmediate(() => this.flush());
      this.waiting.push({ text, grouped: Boolean(options.group), resolve, reject });
    });
  }

  // Sends several bodies with the same options in one request. If one is refused, the error is its
  // error, and `sent` of the error has what became of each.
  async sendMany(bodies, options = {}) {
    if (!Array.isArray(bodies)) throw invalid("bodies", "sendMany needs a list of bodies");
    const results = await Promise.allSettled(bodies.map((body) => this.send(body, options)));
    const refused = results.find(({ status }) => status === "rejected");
    if (!refused) return results.map(({ value }) => value);
    throw Object.assign(refused.reason, { sent: results.map(({ value, reason }) => value ?? reason) });
  }

  flush() {
    const all = this.waiting;
    this.waiting = [];
    for (let first = 0, next; first < all.length; first = next) {
      let bytes = 0;
      for (next = first; next < all.length && next - first < ITEMS_MAX; next++) {
        bytes += all[next].text.length;
        if (next > first && bytes > PART_BYTES_MAX) break;
      }
      void this.sendPart(all.slice(first, next));
    }
  }

  async sendPart(part) {
    const grouped = part.some((one) => one.grouped);
    const json = part.length === 1 ? part[0].text : `{"messages":[${part.map(({ text }) => text).join()}]}`;
    try {
      const { json: answer } = await this.client.ask("sendMessages", { queue: this.name, json }, { grouped });
      if (part.length === 1) return part[0].resolve(new Sent(this, answer));
      part.forEach((one, i) => {
        const row = answer.sent[i];
        if (row.code === "OK") one.resolve(new Sent(this, row));
        else one.reject(errorOf(row));
      });
    } catch (error) {
      // The sends share a request and nothing else. If one is malformed, the others are sent again.
      const wrong = /^messages\[(\d+)\]\.?(.*)$/.exec(error.field ?? "");
      if (error.code !== "INVALID" || !wrong || part.length === 1) return part.forEach(({ reject }) => reject(error));
      const [bad] = part.splice(Number(wrong[1]), 1);
      bad.reject(Object.assign(error, { field: wrong[2] }));
      void this.sendPart(part);
    }
  }

  // Receives up to `max` messages. Waits up to `wait` (default 20 s) if none is ready.
  async receive({ max = 1, wait = WAIT_MAX_MS, visibility, worker, signal } = {}) {
    const until = now() + toMs(wait, "wait");
    for (;;) {
      const waitMs = Math.max(Math.min(Math.round(until - now()), WAIT_MAX_MS), 0);
      const params = { queue: this.name, max, wait: waitMs, visibility, worker: worker ?? this.client.workerName };
      const { json } = await this.client.ask("receiveMessages", params, { waitMs, signal, tokens: [] });
      if (json.messages.length > 0 || now() >= until) return json.messages.map((message) => new Job(this, message));
    }
  }

  // Waits until all messages have ended, and returns a row for each, in the order of the ids. At the
  // timeout (default: none) it throws Unavailable, whose `ended` has the rows that came.
  async collect(ids, { timeout, signal } = {}) {
    const until = timeout === undefined ? Infinity : now() + toMs(timeout, "timeout");
    const left = new Set(ids.map((one) => (typeof one === "string" ? one : one.id))),
      rows = new Map();
    const order = [...left];
    while (left.size > 0) {
      const waitMs = Math.max(Math.min(Math.round(until - now()), WAIT_MAX_MS), 0);
      const some = [...left].slice(0, COLLECT_MAX);
      const { json } = await this.client.ask(
        "collectMessages",
        { queue: this.name, ids: some, wait: waitMs },
        { waitMs, signal, reads: true },
      );
      for (const row of json.messages) {
        left.delete(row.id);
        rows.set(row.id, { ...row, result: resultOf(this.client.codec, row) });
      }
      if (left.size > 0 && now() >= until)
        throw Object.assign(
          errorOf({
            code: "UNAVAILABLE",
            reason: "not-ended",
            field: "timeout",
            detail: `${left.size} of ${order.length} messages had not ended at the timeout: ${[...left][0]}`,
          }),
          { ended: [...rows.values()] },
        );
    }
    return order.map((id) => rows.get(id));
  }

  // The events of the queue, without end: for await (const event of q.events({ from: "now" })).
  events(options) {
    return this.client.watch("watchEvents", { queue: this.name, ...options });
  }

  signal(id, signal) {
    return this.call("signalMessage", { id, ...signal });
  }

  // Asks a running job and waits for its answer.
  async ask(id, payload, { timeout = 30000, ...rest } = {}) {
    const until = now() + toMs(timeout, "timeout");
    const { id: signal } = await this.signal(id, { kind: "ask", payload, ttl: timeout, ...rest });
    for (;;) {
      const waitMs = Math.max(Math.min(Math.round(until - now()), WAIT_MAX_MS), 0);
      const { json } = await this.client.ask(
        "waitForSignal",
        { queue: this.name, signal, message: id, wait: waitMs },
        { waitMs },
      );
      const [row] = json.signals;
      if (row.state === "acked") return row.answer;
      if (row.state !== "pending" || now() >= until)
        throw errorOf({
          code: "CONFLICT",
          reason: row.state,
          detail: `the question is ${row.state}: ${row.answer ?? ""}`,
        });
    }
  }

  show() {
    return this.call("showQueue");
  }
  change(settings) {
    return this.call("changeQueue", { settings });
  }
  delete({ id } = {}) {
    return this.call("deleteQueue", { id });
  }
  stats() {
    return this.call("queueStats");
  }
  pause() {
    return this.call("pauseQueue");
  }
  resume() {
    return this.call("resumeQueue");
  }
  purge(options) {
    return this.call("purgeQueue", options);
  }
  redrive(options) {
    return this.call("redrive", options);
  }
  upgrade(options) {
    return this.call("upgradeQueue", options);
  }
  message(id) {
    return this.call("showMessage", { id });
  }
  async messages(options) {
    return (await this.call("peekMessages", options)).messages;
  }
  cancel(ids, reason) {
    return this.call("cancelMessages", { ids, reason });
  }
  workers() {
    return this.call("listWorkers");
  }
}

exports.Queue = Queue;
exports.Sent = Sent;
