// SPDX-License-Identifier: Apache-2.0
// Keeps the node's state, and the last five minutes of it for the charts. The state is read when an
// event arrives on the stream, or once per second while there is no stream. Nothing is stored, so a
// reload starts again.
import { Refused, listQueues, ready } from "./api.js";
import { followAll } from "./stream.js";

export const SPAN_MS = 300000;
const EVERY_MS = 1000; // without a stream
const EVENTS_MS = 400; // with a stream, while events arrive
const TIME_MS = 5000; // with a stream, while locks or delays may end
const POINT_MS = 900; // between two points of a chart
const TICK_MS = 1000;
const HIDDEN_MS = 10000; // while the page is hidden; the charts then have no gap
const BUSY_TIMES = 4; // a slow node is asked less often: one part asking, three parts waiting
const RATE_MS = 5000; // a rate is the mean of this time
const READY_MS = 30000; // the node may have to write to its store for this answer
const IDLE_MS = READY_MS + 500; // with a stream: what no event tells, as receives that wait
const SILENT_MS = 5000; // a request that takes longer counts as an outage

export const live = {
  queues: new Map(), // name -> {name, id, paused, scopes, letters, sources, stats, points}
  scopes: [], // what the token may do with at least one queue
  totals: [],
  following: true,
  eventsShown: 0, // events of the stream that the list has
  streaming: false, // events arrive, and nothing is polled
  streamLost: "", // the stream broke, and cannot be opened again
  streamWhy: "", // why there is no stream, if that is no fault
  error: null,
  bus: null, // whether events reach the bus; null: the node has none
  notReady: "", // why the store accepts no writes
  listed: false,
  seenAt: 0, // time of the node's last answer
  events: new EventTarget(), // "change"
};

let timer = 0;
let askedAt = 0;
let restUntil = 0; // a slow node is asked less often
let events = 0; // of the stream
let told = false; // an event arrived that the list does not show yet
let stream = null;
let openings = 0; // of the stream, and its ends
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
    dead: stats.dead,
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

// A point is replaced if the one before it is less than a second old.
function dropNear(points, now) {
  if (points.length > 1 && now - points.at(-2).at < POINT_MS) points.pop();
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
  queue.listedAge = queue.stats?.oldestAgeMs ?? 0;
  queue.listedAt = now;
  if (!row.stats) return;
  dropNear(queue.points, now);
  keep(queue.points, pointOf(row.stats, queue.points.at(-1), now));
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

// True if dead letters of other queues arrived here, or will. Then all of its messages are dead
// letters. A token may hide the queues that they come from.
export const isLetterQueue = ({ sources, stats }) =>
  sources.length > 0 || (stats?.takesDeadLetters ?? false);

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
  dropNear(live.totals, now);
  keep(live.totals, total(now));
}

// Takes an answer of /readyz, which has the state of the bus too.
export function takeReady({ bus = null }) {
  live.bus = bus && { ...bus, since: Date.now() - bus.degradedMs };
}

// Reads may work while writes fail, for example on a full disk or in an emptied bucket.
const isFaulty = () => live.notReady !== "" || (live.bus?.degraded ?? false);

async function pollReady() {
  const every = isFaulty() ? TIME_MS : READY_MS;
  if (document.hidden || performance.now() - readyAt < every) return;
  readyAt = performance.now();
  try {
    takeReady(await ready());
    live.notReady = "";
  } catch (error) {
    if (error instanceof Refused) live.notReady = error.message;
  }
  live.events.dispatchEvent(new Event("change"));
}

// ---- when to ask for the list

// Locks expire and delays end without an event, so such queues are asked for now and then.
const changesByTime = () =>
  [...live.queues.values()].some(({ stats }) => stats && (stats.locked || stats.delayed));

// Milliseconds from the start of one request to the start of the next.
function pace() {
  if (document.hidden) return HIDDEN_MS;
  if (!live.streaming || live.error) return EVERY_MS;
  if (told) return EVENTS_MS;
  return isFaulty() || changesByTime() ? TIME_MS : IDLE_MS;
}

function schedule() {
  clearTimeout(timer);
  if (asking || !live.following) return;
  const now = performance.now();
  timer = setTimeout(poll, Math.max(askedAt + pace() - now, restUntil - now, live.streaming ? 0 : 50));
}

async function poll() {
  asking = true;
  askedAt = performance.now();
  again = told = false;
  const asked = waiting;
  waiting = [];
  const before = events;
  try {
    take(await listQueues());
    live.eventsShown = before;
    if (live.error) stream?.retry();
    live.error = null;
    stream ??= followAll(readable, takeEvent);
    stream.queuesChanged(readable());
    pollReady();
  } catch (error) {
    live.error = error;
  }
  asking = false;
  restUntil = performance.now() + (performance.now() - askedAt) * (BUSY_TIMES - 1);
  live.events.dispatchEvent(new Event("change"));
  for (const tell of asked) tell();
  if (again) poll();
  else schedule();
}

const readable = () => [...live.queues.keys()];

// ---- the stream

function takeEvent(news) {
  if (news.seen) live.seenAt = Date.now();
  if (news.open !== undefined) takeOpening(news);
  if (!news.event && !news.all) return;
  events++;
  told = true;
  if (live.streaming) schedule();
}

// Polling ends with a list that was requested after the stream opened: it has all earlier events.
async function takeOpening({ open, why, planned, tries }) {
  const mine = ++openings;
  live.streamLost = !open && !planned && tries > 0 ? streamWords(why) : "";
  live.streamWhy = planned ? (why?.message ?? "") : "";
  if (open) await refresh();
  if (mine !== openings) return;
  live.streaming = open;
  live.events.dispatchEvent(new Event("change"));
  schedule();
}

const streamWords = (why) =>
  why instanceof Refused
    ? `The stream of events is refused: ${why.message}.`
    : "The stream of events broke off.";

// While no event arrives, nothing has changed but ages: the charts go on without a request.
function tick() {
  if (!live.streaming || !live.following || asking || told || live.error || document.hidden) return;
  const now = Date.now();
  if (now - (live.totals.at(-1)?.at ?? now) < TICK_MS / 2) return;
  for (const queue of live.queues.values()) {
    if (!queue.stats) continue;
    const age = queue.listedAge ? queue.listedAge + now - queue.listedAt : 0;
    queue.stats = { ...queue.stats, oldestAgeMs: age };
    keep(queue.points, pointOf(queue.stats, queue.points.at(-1), now));
  }
  keep(live.totals, total(now));
  live.events.dispatchEvent(new Event("change"));
}
setInterval(tick, TICK_MS);

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && live.following) refresh();
});
addEventListener("token-changed", () => stream?.restart());

// For data that no event tells. Returns a function that is true if it is time to ask again: with
// each update while the dashboard polls, else every `ms`.
export function slowly(ms) {
  let at = -Infinity;
  return () => {
    const now = performance.now();
    if (live.streaming && now - at < ms) return false;
    at = now;
    return true;
  };
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
