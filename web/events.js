// SPDX-License-Identifier: Apache-2.0
// Formats an event as a row of a table.
import { h } from "./dom.js";
import { clockTime, count, moment } from "./format.js";
import { queueLink } from "./links.js";

const until = (event) => (event.until ? ` until ${clockTime(event.until)}` : "");
const because = (words, { reason }) => (reason ? `${words}: ${reason}` : words);
const next = ({ until: at }) => (at ? `; next attempt at ${clockTime(at)}` : "; next attempt soon");

const cameFrom = ({ queue, id, reason }) =>
  reason ? `died in ${queue}: ${reason}` : `redriven: it was ${id}`;

// "steer 1"; an interrupt that ends its message at once has no number.
const signalOf = ({ signalKind = "signal", count: number }) =>
  number ? `${signalKind} ${number}` : signalKind;

// type -> [colour of the dot, text]
const KINDS = {
  "message-enqueued": ["ready", (event) => (event.from ? cameFrom(event.from) : "sent")],
  "message-claimed": ["locked", (event) => `locked${until(event)}`],
  "message-released": ["ready", () => "released without counting a retry"],
  "message-moved": ["dead", () => "arrived in the dead-letter queue"],
  "lock-renewed": ["locked", (event) => `lock renewed${until(event)}`],
  "lock-renewal-rejected": ["dead", (event) => because("lock renewal refused", event)],
  "outcome-rejected": ["dead", (event) => because("outcome refused", event)],
  "lock-expired": ["dead", () => "lock expired without an answer"],
  "ordering-best-effort": [
    "delayed",
    (event) => `delivered before ${count(event.count)} unfinished messages`,
  ],
  "tickets-published": ["locked", () => "ticket granted"],
  "tickets-recovered": ["ready", () => "ticket returned"],
  "queue-configured": ["delayed", () => "settings changed"],
  "queue-paused": ["delayed", () => "queue paused"],
  "queue-resumed": ["ready", () => "queue resumed"],
  "queue-purged": ["dead", (event) => `purged ${count(event.count)} messages`],
  "queue-deleted": ["dead", () => "queue deleted"],
  "queue-upgraded": ["ready", (event) => `raised to version ${count(event.count)} of the rules`],
  "signal-sent": ["delayed", (event) => because(`${signalOf(event)} sent`, event)],
  "signal-delivered": ["locked", (event) => `${signalOf(event)} delivered to the worker`],
  "signal-acked": ["done", (event) => `${signalOf(event)} acknowledged by the worker`],
  "signal-ended": ["dead", (event) => because(`${signalOf(event)} ${event.status}`, event)],
  "workflow-submitted": ["ready", () => "workflow begun"],
  "workflow-completed": ["done", () => "workflow completed"],
  "workflow-failed": ["dead", () => "workflow ended with a dead message"],
  "claim-rejected": ["dead", (event) => because("claim refused", event)],
};
const OUTCOMES = {
  processed: ["done", () => "processed"],
  retrying: ["delayed", (event) => because("failed", event) + next(event)],
  "dead-lettered": ["dead", (event) => because("dead, no attempt left", event)],
  cancelled: ["delayed", (event) => because("cancelled", event)],
  purged: ["dead", (event) => because("deleted", event)],
};

// Converts an envelope of /v1/stream to the form of the events of one queue.
export function eventOf({ event_type, timestamp, task_id, attempt, workflow_id, payload = {} }) {
  return {
    ...payload,
    type: event_type,
    time: Date.parse(timestamp),
    message: task_id,
    attempt,
    workflow: workflow_id,
    until: payload.until && Date.parse(payload.until),
    signalKind: payload.signal_kind,
  };
}

function kindOf(event) {
  if (event.type === "message-outcome")
    return OUTCOMES[event.status] ?? ["done", () => event.status ?? "finished"];
  return KINDS[event.type] ?? ["ready", () => ""];
}

export const EVENT_COLUMNS = [
  { label: "Time" },
  { label: "Event" },
  { label: "Message" },
  { label: "Attempt", class: "number" },
  { label: "Worker" },
  { label: "What happened", class: "wide" },
];
export const HISTORY_COLUMNS = EVENT_COLUMNS.filter(({ label }) => label !== "Message");

export function eventRow(queue, event, withMessage = true) {
  const [ink, words] = kindOf(event);
  const link =
    event.message &&
    h(
      "a",
      { class: "id row-link", href: queueLink(queue, `/message/${event.message}`) },
      event.message,
    );
  return h(
    "tr",
    {},
    h("td", { class: "time", title: moment(event.time) }, clockTime(event.time)),
    h("td", {}, h("span", { class: `mark key-${ink}` }, event.type)),
    withMessage && h("td", {}, link || "–"),
    h(
      "td",
      { class: "number", "data-label": "Attempt" },
      event.attempt ? count(event.attempt) : "–",
    ),
    h("td", { class: "worker", "data-label": "Worker" }, event.worker),
    h("td", { class: "wide" }, words(event)),
  );
}

// Converts the failed attempts of a history to the form of a message's "failures".
export function failureOf({ type, status, attempt, time, worker, reason }) {
  const failed =
    type === "message-outcome" && !["processed", "cancelled", "purged"].includes(status);
  if (!failed && type !== "lock-expired") return null;
  return { attempt, at: time, worker, reason, kind: failed ? "failed" : type };
}
