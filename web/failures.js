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

// What differs from one job to the next: quoted texts, URLs, paths, ids, numbers. The numbers of a
// protocol or of an exit status say what happened, so they stay: "HTTP 503", "exit status 2".
const CODE = /\b(?:[A-Z]{3,}|[Ss]tatus|[Cc]ode|[Ss]ignal|errno)(?:[ :=]+|\/[\d.]+ )\d{1,3}\b/.source;
const VARIABLE = [
  /"[^"]*"|(?<!\w)'[^']*'(?!\w)|`[^`]*`/, // a quote inside a word is an apostrophe
  /\b[a-zA-Z][\w+.-]*:\/\/\S+/,
  /(?<![\w<])~?(?:\/[^\s/:;,()]+){2,}\/?/,
  /\S+@\S+\.\w+/,
  /\b[\da-fA-F]{8}-(?:[\da-fA-F]{4}-){3}[\da-fA-F]{12}\b/,
  /\b(?:0x)?(?=[\da-fA-F-]*\d)[\da-fA-F]{7,}(?:-\d+)*\b/,
  /\d+(?:[.,:_-]\d+)*/,
].map(({ source }) => source);
const PARTS = new RegExp(`(${CODE})|${VARIABLE.join("|")}`, "g");

// The part of a reason that failures of the same cause share. It is the key of their group.
export const patternOf = (reason) => reason.replace(PARTS, (all, code) => code ?? "…");

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
