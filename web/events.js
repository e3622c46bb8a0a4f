// SPDX-License-Identifier: Apache-2.0
// What an event says, as a row of a table.
import { h } from "./dom.js";
import { clockTime, count, moment } from "./format.js";
import { queueLink } from "./queues.js";

const until = (event) => (event.until ? ` until ${clockTime(event.until)}` : "");
const by = (event) => (event.worker ? ` by ${event.worker}` : "");
const why = (event) => (event.reason ? `: ${event.reason}` : "");

const cameFrom = ({ queue, id, reason }) =>
  reason ? `died in ${queue}: ${reason}` : `redriven: it was ${id}`;

// type -> [the colour of its dot, words]
const KINDS = {
  "message-enqueued": ["ready", (event) => (event.from ? cameFrom(event.from) : "sent")],
  "message-claimed": ["locked", (event) => `locked${by(event)}${until(event)}`],
  "message-released": ["ready", (event) => `given back${by(event)}`],
  "message-moved": ["dead", () => "arrived in the dead-letter queue"],
  "lock-renewed": ["locked", (event) => `lock renewed${by(event)}${until(event)}`],
  "lock-renewal-rejected": ["dead", (event) => `renewal refused${why(event)}`],
  "outcome-rejected": ["dead", (event) => `outcome refused${why(event)}`],
  "lock-expired": ["dead", (event) => `lock of ${event.worker ?? "somebody"} expired`],
  "ordering-best-effort": ["delayed", (event) => `handed out past ${count(event.count)} open ones`],
  "tickets-published": ["locked", (event) => `ticket for ${event.worker ?? "a worker"}`],
  "tickets-recovered": ["ready", () => "ticket taken back"],
  "queue-configured": ["delayed", () => "settings changed"],
  "queue-paused": ["delayed", () => "queue paused"],
  "queue-resumed": ["ready", () => "queue resumed"],
  "queue-purged": ["dead", (event) => `purged ${count(event.count)}`],
  "queue-deleted": ["dead", () => "queue deleted"],
};
const OUTCOMES = {
  processed: ["done", () => "processed"],
  retrying: [
    "delayed",
    (event) => `failed, tried again${event.until ? ` at ${clockTime(event.until)}` : ""}`,
  ],
  "dead-lettered": ["dead", () => "given up: dead"],
};

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
    h("td", { class: "wide" }, words(event)),
  );
}
