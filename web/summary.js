// SPDX-License-Identifier: Apache-2.0
// An overview of one queue: its charts, recent reasons of failures, counts of its messages, and its
// settings in words.
import * as api from "./api.js";
import { recentEntry } from "./activity.js";
import { h, keyedRows, setText, table } from "./dom.js";
import { failureOf } from "./events.js";
import { patternOf, reasonOf } from "./failures.js";
import { clockTime, count, setting } from "./format.js";
import { queueLink } from "./links.js";
import { isLetterQueue, live } from "./live.js";
import { makeCharts } from "./queues.js";

const REASONS_MAX = 100; // groups of reasons
const REASONS_SHOWN = 8;

const link = (name, view, words) => h("a", { href: queueLink(name, `/${view}`) }, words);

function panel(title, ...parts) {
  return h("section", { class: "panel", "aria-label": title }, h("h2", {}, title), parts);
}

// ---- what became of the messages

const ENDS = [
  ["Sent", (stats) => stats.sent],
  ["Waiting", (stats) => stats.ready + stats.delayed + stats.locked],
  ["Processed", (stats) => stats.processed],
  ["Dead in this queue", (stats) => stats.dead, "dead"],
  ["Moved to the dead-letter queue", (stats) => stats.outbound + stats.moved],
  ["Redriven", (stats) => stats.redriven],
  ["Cancelled", (stats) => stats.cancelled],
  ["Purged", (stats) => stats.purged],
  ["Duplicates dropped", (stats) => stats.duplicates],
];

function makeCounts() {
  const rows = ENDS.map(([label, of, view]) => {
    const value = h("dd", { class: "amount" });
    return { of, view, value, node: h("div", {}, h("dt", {}, label), value) };
  });
  const node = panel(
    "Messages",
    h("dl", { class: "facts amounts" }, rows.map(({ node: row }) => row)),
  );
  const update = (stats) => {
    for (const { of, view, value } of rows) {
      setText(value, count(of(stats)));
      value.classList.toggle("bad", view === "dead" && of(stats) > 0);
    }
  };
  return { node, update };
}

// ---- how it is set

function failureWords({ mode, maxRetries, backoff, deadLetterQueue }) {
  const retries = `${count(maxRetries)} ${maxRetries === 1 ? "retry" : "retries"}`;
  const waits = `${setting(backoff.initial)} to ${setting(backoff.max)} apart`;
  if (mode === "dead-letter") return ["moved to ", letterLink(deadLetterQueue), " at once"];
  const tried = maxRetries ? `${retries}, ${waits}, then ` : "no retry: ";
  return mode === "hybrid"
    ? [`${tried}moved to `, letterLink(deadLetterQueue)]
    : [`${tried}kept here as dead`];
}

const letterLink = (name) => h("a", { href: queueLink(name) }, name);

function orderWords({ orderingMode, orderingGuarantee }) {
  if (orderingGuarantee) return "strict in each group";
  return orderingMode === "lifo" ? "newest first" : "oldest first";
}

function makeSettings(name) {
  const list = h("dl", { class: "facts" });
  const node = panel("Settings", list, h("p", {}, link(name, "settings", "All settings")));
  api.showQueue(name).then(
    ({ settings }) => {
      const rows = [
        ["Order", orderWords(settings)],
        ["Lock time", setting(settings.visibilityTimeout)],
        ["Failures", failureWords(settings.failureStrategy)],
        ["Deduplication", settings.dedupWindow === "0ms" ? "off" : setting(settings.dedupWindow)],
        ["Shards", count(settings.shards)],
      ];
      list.replaceChildren(
        ...rows.map(([label, words]) => h("div", {}, h("dt", {}, label), h("dd", {}, words))),
      );
    },
    () => {}, // the list reports problems of the queue
  );
  return { node };
}

// ---- why messages failed

const COLUMNS = [
  { label: "Times", class: "number" },
  { label: "Reason", class: "wide" },
  { label: "Last worker" },
  { label: "Last at" },
  { label: "Last message" },
];

function reasonRow(queue) {
  return () => {
    const cell = (label, name) => h("td", { class: name, "data-label": label });
    const [times, worker, at, message] = [
      cell("Times", "number"),
      cell("Last worker", "worker"),
      cell("Last at", "time"),
      cell("Last message", ""),
    ];
    const pattern = h("span", {});
    const example = h("small", { class: "muted" });
    const reason = h("td", { class: "wide reason" }, pattern, " ", example);
    const update = (one) => {
      setText(times, count(one.times));
      setText(pattern, one.varies ? one.pattern : one.reason);
      setText(example, one.varies ? `last: ${one.reason}` : "");
      setText(worker, one.worker ?? "");
      setText(at, clockTime(one.at));
      if (message.textContent === one.message) return;
      const href = queueLink(queue, `/message/${one.message}`);
      message.replaceChildren(h("a", { class: "id row-link", href }, one.message));
    };
    return { node: h("tr", {}, times, reason, worker, at, message), update };
  };
}

// A dead letter that arrived failed in another queue.
function arrivalOf({ type, time, from }) {
  if (type !== "message-enqueued" || !from?.reason) return null;
  return { at: time, worker: from.worker, words: `died in ${from.queue}: ${reasonOf(from)}` };
}

const sum = (groups) => groups.reduce((all, { times }) => all + times, 0);

function failuresWords(groups, shown, loaded) {
  if (groups.length === 0) return loaded ? "No recent failures." : "Loading";
  const rest = groups.slice(shown);
  const more = rest.length ? ` ${count(sum(rest))} of them have other reasons.` : "";
  return `${count(sum(groups))} failed attempts in the newest events.${more}`;
}

// Groups failures by what their reasons share, the most frequent first. It uses the newest events
// that the journal keeps.
function makeFailures(name) {
  const groups = new Map();
  const body = h("tbody", {});
  const rows = keyedRows(body, reasonRow(name));
  const list = table("Recent failures", COLUMNS, body);
  const words = h("p", { class: "muted" }, "Loading");
  const node = panel("Recent failures", list, words);
  let stop = null;
  let left = false;
  let loaded = false; // all existing events were seen

  function add(event) {
    const failure = failureOf(event) ?? arrivalOf(event);
    if (!failure) return;
    const reason = failure.words ?? reasonOf(failure);
    const pattern = patternOf(reason);
    const before = groups.get(pattern) ?? { times: 0, varies: false, reason };
    if (before.times === 0 && groups.size >= REASONS_MAX) return;
    const varies = before.varies || before.reason !== reason;
    const times = before.times + 1;
    groups.set(pattern, { ...failure, pattern, reason, varies, times, message: event.message });
  }
  async function begin(queue) {
    stop = () => {};
    const from = await recentEntry(name, queue.stats).catch(() => 0);
    if (left) return;
    const types = ["message-outcome", "lock-expired", isLetterQueue(queue) && "message-enqueued"];
    const query = types.filter(Boolean).map((type) => ["type", type]);
    query.push(["from", from]);
    stop = api.follow(name, query, ({ event, caughtUp }) => {
      if (event) add(event);
      if (caughtUp && !loaded) {
        loaded = true;
        draw();
      }
    });
  }
  function draw() {
    const most = [...groups.values()].sort((a, b) => b.times - a.times || b.at - a.at);
    const shown = most.slice(0, REASONS_SHOWN);
    rows(shown, ({ pattern }) => pattern);
    list.hidden = most.length === 0;
    setText(words, failuresWords(most, shown.length, loaded));
  }
  function update(queue) {
    if (!stop) begin(queue);
    draw();
  }
  const leave = () => {
    left = true;
    stop?.();
  };
  return { node, update, leave };
}

export function summaryView({ name }) {
  const charts = makeCharts(() => live.queues.get(name)?.points ?? []);
  const counts = makeCounts();
  const failures = makeFailures(name);
  const node = h(
    "div",
    { class: "summary" },
    charts.node,
    failures.node,
    h("div", { class: "pair" }, counts.node, makeSettings(name).node),
  );
  const update = (queue) => {
    charts.update();
    if (!queue.stats) return;
    counts.update(queue.stats);
    failures.update(queue);
  };
  return { node, update, leave: failures.leave };
}
