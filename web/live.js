// SPDX-License-Identifier: Apache-2.0
// What the pages show is asked for once a second; the last five minutes are kept for the charts.
// Nothing is kept anywhere else: a reload begins anew.
import { listQueues } from "./api.js";

export const SPAN_MS = 300000;
const EVERY_MS = 1000;
const HIDDEN_MS = 10000; // nobody looks, but the charts shall have no hole
const BUSY_TIMES = 4; // a slow node is asked less often: one part asking, three parts rest
const RATE_MS = 5000; // a shown rate is the mean of so long

export const live = {
  queues: new Map(), // name -> {name, id, paused, stats, points}
  totals: [],
  following: true,
  error: null,
  listed: false,
  events: new EventTarget(), // "change"
};

let timer = 0;
let asking = false;
let again = false;
let waiting = []; // for a list that is yet to be asked for

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
  };
  if (before) {
    const seconds = Math.max((now - before.at) / 1000, 0.001);
    point.sent = Math.max(0, stats.sent - before.sentTotal) / seconds;
    point.done = Math.max(0, stats.processed - before.doneTotal) / seconds;
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
  queue.problem = row.detail; // why it cannot be read
  queue.stats = row.stats ?? queue.stats;
  if (row.stats) keep(queue.points, pointOf(row.stats, queue.points.at(-1), now));
}

function total(now) {
  const sum = { at: now, ready: 0, locked: 0, delayed: 0, dead: 0, age: 0 };
  for (const { points } of live.queues.values()) {
    const last = points.at(-1);
    if (!last) continue;
    for (const key of ["ready", "locked", "delayed", "dead"]) sum[key] += last[key];
    sum.age = Math.max(sum.age, last.age);
    if (last.sent !== undefined) {
      sum.sent = (sum.sent ?? 0) + last.sent;
      sum.done = (sum.done ?? 0) + last.done;
    }
  }
  return sum;
}

function take(rows) {
  const now = Date.now();
  const sorted = new Map();
  for (const row of rows) takeQueue(row, now);
  for (const row of rows) sorted.set(row.name, live.queues.get(row.name));
  live.queues = sorted;
  live.listed = true;
  keep(live.totals, total(now));
}

async function poll() {
  asking = true;
  again = false;
  const asked = waiting;
  waiting = [];
  const began = performance.now();
  try {
    take((await listQueues()).queues);
    live.error = null;
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

// Now, because something was changed here; done when a list has come that was asked for afterwards.
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
