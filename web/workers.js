// SPDX-License-Identifier: Apache-2.0
// Shows the workers of a queue: their locks, and which of them wait for messages.
import * as api from "./api.js";
import { askOrder } from "./dialogs.js";
import { empty, h, keyedRows, setText, table } from "./dom.js";
import { count, duration } from "./format.js";
import { queueLink } from "./links.js";
import { may } from "./live.js";
import { makeReader } from "./reader.js";
import { progressText } from "./signals.js";

const LOCKS_MAX = 200; // locks read, over all workers
const WAITING_MS = 3000; // no event tells that a receive waits
const SHOWN_MAX = 12; // locks shown per worker

const COLUMNS = [
  { label: "Worker" },
  { label: "State" },
  { label: "Since", class: "number" },
  { label: "Last seen", class: "number" },
  { label: "Node" },
  { label: "Holds", class: "number" },
  { label: "Capacity", class: "number" },
  { label: "Done", class: "number" },
  { label: "Failed", class: "number" },
  { label: "Labels" },
  { label: "Actions" },
  { label: "Next lock ends in", class: "number" },
  { label: "Messages it holds", class: "wide" },
];

// Orders to a registered worker, for a token that may give them.
function makeOrders(queue, worker, after) {
  const button = (order, label) => {
    const node = h("button", { type: "button", class: "small" }, label);
    node.onclick = () => askOrder(queue, worker, order, after);
    return node;
  };
  const [pause, resume, drain, evict] = [
    button("pause", "Pause"),
    button("resume", "Resume"),
    button("drain", "Drain"),
    button("evict", "Evict"),
  ];
  const update = ({ capacity, mode }) => {
    const allowed = capacity > 0 && may(queue, "admin");
    pause.hidden = drain.hidden = !allowed || mode !== "running";
    resume.hidden = !allowed || (mode !== "paused" && mode !== "draining");
    evict.hidden = !allowed || mode === "evicted";
  };
  return { node: h("span", {}, pause, resume, drain, evict), update };
}

function makeRow(queue, read) {
  return ({ name }) => {
    const cell = (label, kind) => h("td", { class: kind, "data-label": label });
    const [state, since, seen, node, open, capacity, done, failed, labels, orders, ends, holds] = [
      cell("State", ""),
      cell("Since", "number"),
      cell("Last seen", "number"),
      cell("Node", ""),
      cell("Holds", "number"),
      cell("Capacity", "number"),
      cell("Done", "number"),
      cell("Failed", "number"),
      cell("Labels", ""),
      cell("Actions", "orders"),
      cell("Next lock ends in", "number"),
      cell("Messages it holds", "wide locks"),
    ];
    const lock = ({ id }) => {
      const words = h("small", { class: "muted" });
      const link = h("a", { class: "id", href: queueLink(queue, `/message/${id}`) }, id);
      const update = (message) => setText(words, progressText(message) && ` ${progressText(message)}`);
      return { node: h("span", { class: "lock" }, link, words), update };
    };
    const links = h("span", {});
    const more = h("span", { class: "muted" });
    const show = keyedRows(links, lock);
    holds.append(links, more);
    const buttons = makeOrders(queue, name, read);
    orders.append(buttons.node);
    const update = (worker) => {
      const now = api.nodeNow();
      const soonest = Math.min(...worker.locks.map((message) => message.deadline));
      setText(state, stateOf(worker));
      setText(since, worker.since ? duration(Math.max(0, now - worker.since)) : "–");
      setText(seen, seenWords(worker, now));
      setText(node, worker.node ?? "–");
      setText(open, count(worker.open));
      setText(capacity, worker.capacity ? count(worker.capacity) : "–");
      setText(done, worker.capacity ? count(worker.done) : "–");
      setText(failed, worker.capacity ? count(worker.failed) : "–");
      setText(labels, worker.labels ?? "–");
      buttons.update(worker);
      setText(ends, worker.locks.length ? duration(Math.max(0, soonest - now)) : "–");
      show(worker.locks.slice(0, SHOWN_MAX), (message) => message.id);
      setText(
        more,
        worker.locks.length > SHOWN_MAX ? ` and ${worker.locks.length - SHOWN_MAX} more` : "",
      );
    };
    return {
      node: h(
        "tr",
        {},
        h("th", { scope: "row" }, name || "without a name"),
        state,
        since,
        seen,
        node,
        open,
        capacity,
        done,
        failed,
        labels,
        orders,
        ends,
        holds,
      ),
      update,
    };
  };
}

function stateOf({ open, waiting, capacity, mode }) {
  if (mode && mode !== "running") return mode;
  if (open) return waiting ? "working, waiting for more" : "working";
  if (waiting) return "waiting for messages";
  return capacity ? "registered" : "between two receives";
}

function seenWords({ waiting, seenAt }, now) {
  if (waiting) return "now";
  return seenAt ? `${duration(Math.max(0, now - seenAt))} ago` : "–";
}

// Holders of locks, registered workers, and those that wait in a receive at a node.
function join(workers, locked) {
  const held = Map.groupBy(locked, (message) => message.worker ?? "");
  const rows = new Map(workers.map((worker) => [worker.name, worker]));
  for (const [name, locks] of held) {
    if (name && !rows.has(name)) rows.set(name, { name, open: 0, capacity: 0, waiting: 0 });
    if (name) rows.get(name).open ||= locks.length;
  }
  return [...rows.values()]
    .map((worker) => ({ ...worker, locks: held.get(worker.name) ?? [] }))
    .sort((a, b) => b.locks.length - a.locks.length || (a.name < b.name ? -1 : 1));
}

export function workersView({ name }) {
  const body = h("tbody", {});
  const rows = keyedRows(body, makeRow(name, read));
  const list = table("Workers", COLUMNS, body);
  const nothing = empty("No active workers, and no receive waits at a node.");
  const absent = h("p", { class: "muted" });
  const problem = h("p", { class: "problem", role: "alert" });
  const reader = makeReader(read, WAITING_MS);
  nothing.hidden = true;
  let joined = null;

  async function read() {
    try {
      const [{ workers, missing }, { messages }] = await Promise.all([
        api.workers(name),
        api.peek(name, "locked", "", LOCKS_MAX),
      ]);
      joined = join(workers, messages);
      setText(problem, "");
      setText(absent, missing?.length ? `Without an answer: ${missing.join(", ")}` : "");
    } catch (error) {
      setText(problem, error.message);
    }
    show();
  }
  function show() {
    if (!joined) return;
    rows(joined, (worker) => worker.name);
    list.hidden = joined.length === 0;
    nothing.hidden = joined.length > 0;
  }
  return {
    node: h("section", { class: "panel", "aria-label": "Workers" }, problem, list, nothing, absent),
    update: ({ stats }) => {
      show(); // remaining times change
      reader.look(stats);
    },
  };
}
