// SPDX-License-Identifier: Apache-2.0
// Reads the node's state once per second and keeps the last five minutes for the charts. Nothing is
// stored, so a reload starts again.
import { Refused, listQueues, ready } from "./api.js";

export const SPAN_MS = 300000;
const EVERY_MS = 1000;
const HIDDEN_MS = 10000; // while the page is hidden; the charts then have no gap
const BUSY_TIMES = 4; // a slow node is asked less often: one part asking, three parts waiting
const RATE_MS = 5000; // a rate is the mean of this time
const READY_MS = 30000; // the node may have to write to its store for this answer
const SILENT_MS = 5000; // a request that takes longer counts as an outage

export const live = {
  queues: new Map(), // name -> {name, id, paused, scopes, letters, sources, stats, points}
  scopes: [], // what the token may do with at least one queue
  totals: [],
  following: true,
  error: null,
  notReady: "", // why the store accepts no writes
  listed: false,
  seenAt: 0, // time of the node's last answer
  events: new EventTarget(), // "change"
};

let timer = 0;
let askedAt = 0;
let readyAt = -READY_MS;
let asking = false;
let again = false;
let waiting = []; // callers that wait for the next list

function pointOf(stats, before, now) {
  const point = {
    at: now,
    ready: stats.ready,
    locked: stats.locked,
    delayed: stats.delayed,
    dead: stats.dead + stats.outbound,
    age: stats.oldestAgeMs,
    sentTotal: stats.sent,
    doneTotal: stats.processed,
    diedTotal: stats.dead + stats.outbound + stats.moved + stats.redriven,
  };
  if (before) {
    const seconds = Math.max((now - before.at) / 1000, 0.001);
    point.sent = Math.max(0, stats.sent - before.sentTotal) / seconds;
    point.done = Math.max(0, stats.processed - before.doneTotal) / seconds;
    point.died = Math.max(0, point.diedTotal - before.diedTotal) / seconds;
  }
  return point;
}

function keep(points, point) {
  points.push(point);
  while (points[0].at < point.at - SPAN_MS - 5000) points.shift();
}

function takeQueue(row, now) {
  let queue = live.queues.get(row.name);
  if (!queue || (row.id && queue.id !== row.id)) {
    queue = { name: row.name, id: row.id, points: [] };
    live.queues.set(row.name, queue);
  }
  queue.paused = row.paused;
  queue.scopes = row.scopes;
  queue.letters = row.deadLetterQueue ?? ""; // the target of its dead letters
  queue.sources = []; // the queues that send their dead letters here
  queue.problem = row.detail; // why it cannot be read
  queue.stats = row.stats ?? queue.stats;
  if (row.stats) keep(queue.points, pointOf(row.stats, queue.points.at(-1), now));
}

function total(now) {
  const sum = { at: now, ready: 0, locked: 0, delayed: 0, dead: 0, age: 0 };
  for (const queue of live.queues.values()) {
    const last = queue.points.at(-1);
    if (!last) continue;
    const letters = isLetterQueue(queue);
    for (const key of ["ready", "locked", "delayed", "dead"])
      sum[letters ? "dead" : key] += last[key];
    if (!letters) sum.age = Math.max(sum.age, last.age);
    for (const key of ["sent", "done", "died"])
      if (last[key] !== undefined) sum[key] = (sum[key] ?? 0) + last[key];
  }
  return sum;
}

// True if other queues send their dead letters here. Then all of its messages are dead letters.
export const isLetterQueue = (queue) => queue.sources.length > 0;

function take({ queues: rows, scopes }) {
  const now = Date.now();
  const sorted = new Map();
  for (const row of rows) takeQueue(row, now);
  for (const row of rows) sorted.set(row.name, live.queues.get(row.name));
  live.queues = sorted;
  for (const { name, letters } of sorted.values()) sorted.get(letters)?.sources.push(name);
  live.scopes = scopes ?? [];
  live.listed = true;
  live.seenAt = now;
  keep(live.totals, total(now));
}

// Reads may work while writes fail, for example on a full disk or in an emptied bucket.
async function pollReady() {
  if (document.hidden || performance.now() - readyAt < READY_MS) return;
  readyAt = performance.now();
  try {
    await ready();
    live.notReady = "";
  } catch (error) {
    if (error instanceof Refused) live.notReady = error.message;
  }
  live.events.dispatchEvent(new Event("change"));
}

async function poll() {
  asking = true;
  askedAt = performance.now();
  again = false;
  const asked = waiting;
  waiting = [];
  const began = performance.now();
  try {
    take(await listQueues());
    live.error = null;
    pollReady();
  } catch (error) {
    live.error = error;
  }
  asking = false;
  live.events.dispatchEvent(new Event("change"));
  for (const tell of asked) tell();
  const busy = (performance.now() - began) * BUSY_TIMES;
  const every = document.hidden ? HIDDEN_MS : EVERY_MS;
  clearTimeout(timer);
  if (again) poll();
  else if (live.following)
    timer = setTimeout(poll, Math.max(every - (performance.now() - began), busy, 50));
}

// Why the data is old: "", or what is wrong with the node. A missing token is not counted.
export function outage() {
  if (live.error?.status === 401) return "";
  if (live.error instanceof Refused) return `The node answers with an error: ${live.error.message}.`;
  const silent = asking && performance.now() - askedAt > SILENT_MS;
  return live.error || silent ? "The node does not answer." : "";
}

// Each list says what the token may do. Before the first list nothing is offered.
export const may = (name, scope) => live.queues.get(name)?.scopes?.includes(scope) ?? false;
export const mayCreate = () => live.scopes.includes("admin");

// Refreshes now, after a change. Resolves with a list that was requested after the call.
export function refresh() {
  const seen = new Promise((resolve) => waiting.push(resolve));
  if (asking) again = true;
  else {
    clearTimeout(timer);
    poll();
  }
  return seen;
}

export function setFollowing(on) {
  live.following = on;
  clearTimeout(timer);
  if (on) refresh();
  else live.events.dispatchEvent(new Event("change"));
}

// The mean of a rate over the last seconds.
export function meanRate(points, key) {
  const last = points.at(-1);
  if (!last || last[key] === undefined) return undefined;
  let sum = 0;
  let some = 0;
  for (let i = points.length - 1; i >= 0 && points[i].at > last.at - RATE_MS; i--) {
    if (points[i][key] === undefined) break;
    sum += points[i][key];
    some++;
  }
  return sum / some;
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && live.following) refresh();
});
