// SPDX-License-Identifier: Apache-2.0
// Shows why a message failed: one row per failed attempt, and a sentence about its death.
import { h, table } from "./dom.js";
import { count, moment } from "./format.js";
import { queueLink } from "./links.js";

const COLUMNS = [
  { label: "Attempt", class: "number" },
  { label: "Time" },
  { label: "Worker" },
  { label: "Reason", class: "wide" },
];

// An expired lock has no reason of its own. A reason that is null is no longer kept.
export function reasonOf({ reason, kind }) {
  if (reason === "lock-expired" || kind === "lock-expired")
    return "the lock expired: the worker did not answer in time";
  return reason || (reason === null ? "no longer kept" : "the worker gave no reason");
}

function row(failure) {
  return h(
    "tr",
    {},
    h(
      "td",
      { class: "number", "data-label": "Attempt" },
      failure.attempt ? count(failure.attempt) : "–",
    ),
    h("td", { class: "time" }, failure.at ? moment(failure.at) : "–"),
    h("td", { class: "worker", "data-label": "Worker" }, failure.worker),
    h("td", { class: "wide reason" }, reasonOf(failure)),
  );
}

// Merges the failures, one per attempt, the oldest first. The node lists the newest failures, and
// the events list those that the journal keeps. An expiry may be reported twice, by itself and by
// the death it caused: the entry with a reason counts.
export function eachAttemptOnce(failures) {
  const byAttempt = new Map();
  for (const failure of failures) {
    const key = failure.attempt || failure.at;
    if (failure.reason || !byAttempt.get(key)?.reason) byAttempt.set(key, failure);
  }
  return [...byAttempt.values()].sort((a, b) => a.at - b.at);
}

export function failuresPanel() {
  const body = h("tbody", {});
  const list = table("Failures", COLUMNS, body);
  const node = h(
    "section",
    { class: "panel failures", "aria-label": "Failures", hidden: true },
    h("h2", {}, "Failures"),
    list,
  );
  let shown = "";
  const update = (failures) => {
    const fresh = JSON.stringify(failures);
    if (fresh === shown) return;
    shown = fresh;
    node.hidden = failures.length === 0;
    body.replaceChildren(...failures.map(row));
  };
  return { node, update };
}

// The red sentence at the top of the page. A dead letter names its queue, a message dead in place
// its last failure.
export function deathNote({ state, from }, failures) {
  if (from?.reason)
    return [
      h("strong", {}, "Dead letter. "),
      "Died in ",
      h("a", { href: queueLink(from.queue) }, from.queue),
      ` at ${moment(from.diedAt)} after ${count(from.retries)} `,
      from.retries === 1 ? "retry" : "retries",
      `: ${reasonOf(from)}`,
    ];
  const last = failures.at(-1);
  if (state !== "dead" || !last) return [];
  return [
    h("strong", {}, "Dead. "),
    `Attempt ${count(last.attempt)} was the last, at ${moment(last.at)}`,
    last.worker ? ` by ${last.worker}` : "",
    `: ${reasonOf(last)}`,
  ];
}
