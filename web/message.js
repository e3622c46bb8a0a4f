// SPDX-License-Identifier: Apache-2.0
// Shows one message: its fields, its body, and its history from the journal.
import * as api from "./api.js";
import { MESSAGE_ACTS } from "./acts.js";
import { bodyView } from "./body.js";
import { empty, factList, h, setText, stateBadge, table, toast } from "./dom.js";
import { HISTORY_COLUMNS, eventRow, failureOf } from "./events.js";
import { deathNote, eachAttemptOnce, failuresPanel } from "./failures.js";
import { duration, moment } from "./format.js";
import { live, may } from "./live.js";
import { queueLink, workflowLink } from "./links.js";
import { makeReader } from "./reader.js";
import { progressBar, resultPanel, signalsPanel } from "./signals.js";

// [label, text(message), link(queue, message)]; an empty text hides the line.
const FACTS = [
  ["State", (message) => message.state],
  [
    "Sent",
    (message) =>
      message.sentAt &&
      `${moment(message.sentAt)} (${duration(api.nodeNow() - message.sentAt)} ago)`,
  ],
  [
    "Finished",
    (message) =>
      message.finishedAt &&
      `${moment(message.finishedAt)} (${duration(api.nodeNow() - message.finishedAt)} ago)`,
  ],
  ["Reason", (message) => message.finishedAt && message.reason],
  ["Held by", (message) => !message.finishedAt && message.worker],
  ["Last worker", (message) => message.finishedAt && message.worker],
  [
    "Lock ends",
    (message) =>
      message.state === "locked" && `in ${duration(Math.max(0, message.deadline - api.nodeNow()))}`,
  ],
  [
    "Due",
    (message) =>
      message.state === "delayed" &&
      `in ${duration(Math.max(0, message.deadline - api.nodeNow()))}`,
  ],
  [
    "Attempts",
    (message) =>
      message.finishedAt ? String(message.attempts) : message.attempt && String(message.attempt),
  ],
  ["Retries counted", (message) => message.retries && String(message.retries)],
  ["Group", (message) => message.group],
  ["Priority", (message) => message.priority && String(message.priority)],
  ["Content type", (message) => message.contentType],
  ["Dedup key", (message) => message.dedup],
  ["Workflow", (message) => message.workflow, (queue, { workflow }) => workflowLink(queue, workflow)],
  ["Requires", (message) => message.requires],
  ["Ticket", (message) => message.order && String(message.order)],
  ["Fence", (message) => message.fence && String(message.fence)],
];

const pairs = (rows) =>
  rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)));

// The origin of a dead letter is a link.
function headerValue(name, value, headers) {
  const from = headers["sluice-dead-queue"];
  if (name === "sluice-dead-at" && /^\d+$/.test(value)) return moment(Number(value));
  if (name === "sluice-dead-queue") return h("a", { href: queueLink(value) }, value);
  if (name === "sluice-dead-id" && from)
    return h("a", { href: queueLink(from, `/message/${encodeURIComponent(value)}`) }, value);
  return value;
}

function showHeaders(headers) {
  const rows = Object.entries(headers ?? {}).map(([name, value]) => [
    name,
    headerValue(name, value, headers),
  ]);
  if (!rows.length) return [];
  return [h("h2", {}, "Headers"), h("dl", { class: "facts headers" }, pairs(rows))];
}

// The buttons of what can be done with the message now.
function makeActs(name, after) {
  let message = null;
  const buttons = MESSAGE_ACTS.map(({ label, kind, work }) =>
    h("button", { type: "button", class: kind, onclick: () => work(name, [message], after) }, label),
  );
  const update = (fresh) => {
    message = fresh;
    MESSAGE_ACTS.forEach(
      ({ offered }, index) => (buttons[index].hidden = !message || !offered(name, [message])),
    );
  };
  update(null);
  return { node: h("span", { class: "acts" }, buttons), update };
}

// Withdraws a pending signal of the message, and reads again.
function makeWithdraw(name, id, after) {
  return async (signal) => {
    try {
      await api.withdrawSignal(name, id, signal.id);
      toast(`Withdrew the ${signal.kind}`);
    } catch (error) {
      toast(error.message, "bad");
    }
    after();
  };
}

export function messagePage({ go, parts: [name, , id] }) {
  const badge = h("span", {});
  const facts = factList();
  const headers = h("div", {});
  const body = h("div", {});
  const history = h("tbody", {});
  const problem = h("p", { class: "problem", role: "alert" });
  const nothing = empty("The events of this message are no longer kept.");
  const list = table("History", HISTORY_COLUMNS, history);
  const back = queueLink(name);
  let shown = ""; // the data from which the body and the headers were drawn
  let outcome = ""; // the outcome of a finished message
  let why = ""; // ... and its reason, from its events
  let attempts = 0; // from its events, because the record of a finished message has none
  const failed = []; // from its events, because the node lists only the newest failures
  const failures = failuresPanel();
  const note = h("p", { class: "banner bad", role: "alert", hidden: true });
  let message = null;
  const again = () => {
    reader.soon();
    reader.look();
  };
  const acts = makeActs(name, again);
  const told = signalsPanel(makeWithdraw(name, id, again), () => may(name, "signal"));
  const progress = progressBar();
  const result = resultPanel();

  function show() {
    acts.update(message);
    if (!message) return;
    const state = message.state === "finished" && outcome ? outcome : message.state;
    if (badge.textContent !== state) badge.replaceChildren(stateBadge(state));
    const attempt = Math.max(message.attempt, attempts);
    const known = { ...message, state, attempt, reason: message.reason || why };
    facts.update(FACTS.map(([label, words, link]) => [label, words(known), link?.(name, known)]));
    showFailures();
    progress.update(message);
    result.update(message);
    told.update(message.signals ?? []);
    const fresh = JSON.stringify([message.body, message.bodyBase64, message.headers]);
    if (fresh === shown) return;
    shown = fresh;
    headers.replaceChildren(...showHeaders(message.headers));
    body.replaceChildren(bodyView(message));
  }

  function showFailures() {
    const all = eachAttemptOnce([...failed, ...(message.failures ?? [])]);
    failures.update(all);
    const words = deathNote(message, all);
    note.hidden = words.length === 0;
    if (note.textContent !== h("p", {}, words).textContent) note.replaceChildren(...words);
  }

  const reader = makeReader(async () => {
    try {
      message = await api.showMessage(name, id);
      setText(problem, "");
      show();
    } catch (error) {
      setText(problem, error.message);
    }
    panels.hidden = !message && problem.textContent !== "";
  });
  function update() {
    nothing.hidden = history.childElementCount > 0;
    list.hidden = !nothing.hidden;
    show(); // ages and remaining times change
    reader.look(live.queues.get(name)?.stats);
  }

  const stop = api.follow(name, { from: 0, message: id }, ({ event }) => {
    if (!event) return;
    history.append(eventRow(name, event, false));
    if (event.type === "message-outcome") [outcome, why] = [event.status, event.reason ?? ""];
    if (failureOf(event)) failed.push(failureOf(event));
    attempts = Math.max(attempts, event.attempt ?? 0);
    nothing.hidden = true;
    list.hidden = false;
    again();
  });

  const panels = h(
    "div",
    {},
    h(
      "div",
      { class: "split" },
      h("section", { class: "panel", "aria-label": "Body" }, h("h2", {}, "Body"), body),
      h(
        "section",
        { class: "panel", "aria-label": "Attributes" },
        h("h2", {}, "Attributes"),
        progress.node,
        facts.node,
        headers,
      ),
    ),
    result.node,
    told.node,
    failures.node,
    h(
      "section",
      { class: "panel", "aria-label": "History" },
      h("h2", {}, "History"),
      list,
      nothing,
    ),
  );
  const node = h(
    "div",
    {},
    h(
      "div",
      { class: "head" },
      h(
        "span",
        { class: "crumbs" },
        h("a", { href: "#/" }, "Queues"),
        " / ",
        h("a", { href: back }, name),
        " /",
      ),
      h("h1", { tabindex: "-1", class: "id" }, id),
      badge,
      h("span", { class: "gap" }),
      acts.node,
    ),
    problem,
    note,
    panels,
  );
  return {
    title: `${id} in ${name}`,
    nav: "queues",
    node,
    update,
    leave: stop,
    keys: { u: () => go(back) },
  };
}
