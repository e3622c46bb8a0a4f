// SPDX-License-Identifier: Apache-2.0
// The thread that renews locks. It has its own connections, so a handler that blocks the event loop
// of the main thread keeps its lock. One request renews all locks of a queue that are due. A lock
// that cannot be renewed is reported before its deadline.
//
// Messages to the thread:   { adds: locks, drops: tokens }, { progress: fields, token }, { stop }
// Messages from the thread: { ready }, { token, deadline }, { token, signals }, { token, lost: a sentence }
"use strict";

const { workerData } = require("node:worker_threads");
const { Transport } = require("./transport");
const { now } = require("./util");

const { port, url, options } = workerData;
const BATCH_MAX = 1000;
const RETRY_MIN_MS = 20;
const MARGIN_MAX_MS = 2000; // how long before the deadline a job is told

const transport = new Transport(url, options);
const locks = new Map(); // by token: { token, queue, worker, leaseMs, deadline, renewAt, busy, progress }
let timer;

const marginOf = ({ leaseMs }) => Math.min(leaseMs / 8, MARGIN_MAX_MS);

function lose(lock, why) {
  if (locks.get(lock.token) !== lock) return; // the main thread has dropped it
  locks.delete(lock.token);
  port.postMessage({ token: lock.token, lost: why });
}

function schedule() {
  clearTimeout(timer);
  let next = Infinity;
  for (const lock of locks.values())
    next = Math.min(next, lock.deadline - marginOf(lock), lock.busy ? Infinity : lock.renewAt);
  if (next < Infinity) timer = setTimeout(tick, Math.max(next - now(), 1));
}

function tick() {
  const groups = new Map();
  for (const lock of locks.values()) {
    if (now() >= lock.deadline - marginOf(lock)) lose(lock, "the lock could not be renewed in time");
    // Locks that are due soon come along, so that one request renews them all.
    else if (!lock.busy && lock.renewAt - lock.leaseMs / 12 <= now()) {
      const key = `${lock.queue} ${lock.worker ?? ""}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(lock);
    }
  }
  for (const all of groups.values())
    for (let i = 0; i < all.length; i += BATCH_MAX) void renew(all.slice(i, i + BATCH_MAX));
  schedule();
}

// The code of each lock decides. If the request failed as a whole, its code is that of all.
async function renew(some) {
  const { queue, worker } = some[0],
    tokens = some.map(({ token }) => token);
  const leaseMs = Math.max(...some.map((lock) => lock.leaseMs));
  const shortest = Math.min(...some.map((lock) => lock.leaseMs));
  const progress = some.map((lock) => lock.progress);
  for (const lock of some) Object.assign(lock, { busy: true, progress: undefined });
  const carries = progress.some(Boolean);
  const params = carries ? { renewals: tokens.map((token, i) => ({ token, ...progress[i] })) } : { tokens };
  const asked = now();
  let rows, failure;
  try {
    const answer = await transport.ask(
      "renewLocks",
      { queue, visibility: Math.round(leaseMs), ...params },
      { tokens, worker, timeout: Math.max(shortest / 3, 50), graceMs: 0 },
    );
    rows = answer.json.outcomes ?? [answer.json];
  } catch (error) {
    failure = error;
  }
  some.forEach((lock, i) => {
    const { code = "UNAVAILABLE", reason = "", signals = 0 } = rows?.[i] ?? failure;
    const passes = ["UNAVAILABLE", "UNKNOWN", "LIMIT"].includes(code);
    lock.busy = false;
    if (code === "OK") {
      Object.assign(lock, { leaseMs, deadline: asked + leaseMs, renewAt: asked + leaseMs / 3 });
      port.postMessage({ token: lock.token, deadline: lock.deadline, signals });
    } else if (passes) {
      lock.progress ??= progress[i];
      lock.renewAt = now() + Math.max(lock.leaseMs / 12, RETRY_MIN_MS);
    } else {
      lose(lock, `the lock is gone: ${reason || failure?.message || code}`);
    }
  });
  schedule();
}

port.on("message", ({ adds = [], drops = [], progress, token, stop }) => {
  for (const lock of adds) locks.set(lock.token, { ...lock, busy: false });
  for (const dropped of drops) locks.delete(dropped);
  if (progress && locks.has(token)) Object.assign(locks.get(token), { progress, renewAt: now() });
  if (stop) {
    transport.close();
    port.close();
  }
  schedule();
});
port.postMessage({ ready: true });
