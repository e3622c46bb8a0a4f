// SPDX-License-Identifier: Apache-2.0
// Shows the messages of a queue in one state, page by page.
import * as api from "./api.js";
import { bodyText } from "./body.js";
import { askPurge, askRedrive } from "./dialogs.js";
import { empty, h, keyedRows, setText, table } from "./dom.js";
import { reasonOf } from "./failures.js";
import { duration } from "./format.js";
import { queueLink } from "./links.js";
import { may } from "./live.js";
import { makeReader } from "./reader.js";

const PAGE = 25;
const PREVIEW = 120;

const COLUMNS = [
  { label: "Message" },
  { label: "Body", class: "wide" },
  { label: "Attempt", class: "number" },
  { label: "Age", class: "number" },
];
const MORE = {
  locked: [{ label: "Held by" }, { label: "Lock ends in", class: "number" }],
  delayed: [{ label: "Due in", class: "number" }],
  dead: [],
  ready: [],
};

export function preview(message) {
  if (message.bodyBase64 !== undefined)
    return `binary, ${Math.floor((message.bodyBase64.length * 3) / 4)} bytes`;
  if (message.body === null || message.body === undefined) return "not kept";
  return bodyText(message).slice(0, PREVIEW) || "empty";
}

function note(message) {
  const notes = [];
  if (message.group) notes.push(`group ${message.group}`);
  if (message.priority) notes.push(`priority ${message.priority}`);
  if (message.from?.reason)
    notes.push(`died in ${message.from.queue}: ${reasonOf(message.from)}`);
  else if (message.failures?.length) notes.push(`failed: ${reasonOf(message.failures.at(-1))}`);
  return notes.join(" · ");
}

function makeRow(queue, state) {
  return (message) => {
    const text = h("code", { class: "preview" });
    const notes = h("small", {});
    const cell = (label, name) => h("td", { class: name, "data-label": label });
    const [attempt, age, worker, until] = [
      cell("Attempt", "number"),
      cell("Age", "number"),
      cell("Held by", ""),
      cell(state === "locked" ? "Lock ends in" : "Due in", "number"),
    ];
    const more = { locked: [worker, until], delayed: [until] }[state] ?? [];
    const node = h(
      "tr",
      {},
      h(
        "th",
        { scope: "row" },
        h(
          "a",
          { class: "row-link id", href: queueLink(queue, `/message/${message.id}`) },
          message.id,
        ),
      ),
      h("td", { class: "wide" }, text, notes),
      attempt,
      age,
      more,
    );
    const update = (fresh) => {
      const now = api.nodeNow();
      setText(text, preview(fresh));
      setText(notes, note(fresh));
      setText(attempt, fresh.attempt || "–"); // a dead letter has no attempt in its new queue
      setText(age, duration(Math.max(0, now - fresh.sentAt)));
      setText(worker, fresh.worker ?? "");
      setText(until, duration(Math.max(0, fresh.deadline - now)));
    };
    return { node, update };
  };
}

function makeActions(name, state, again) {
  const redrive = h(
    "button",
    { type: "button", "aria-keyshortcuts": "r", onclick: () => askRedrive(name, again) },
    "Redrive…",
  );
  const purge = h(
    "button",
    { type: "button", class: "danger", onclick: () => askPurge(name, state === "dead", again) },
    "Purge…",
  );
  redrive.hidden = purge.hidden = true;
  // Actions without messages, and actions that the token does not allow, are not offered.
  const update = (messages) => {
    const some = messages.length > 0 && may(name, "admin");
    const dead = state === "dead" || messages.some((message) => message.from);
    redrive.hidden = !some || !dead;
    purge.hidden = !some || state === "locked";
  };
  return { redrive, purge, update };
}

export function messagesView({ name, state, query }) {
  const after = query.get("after") ?? "";
  const body = h("tbody", {});
  const rows = keyedRows(body, makeRow(name, state));
  const list = table(`Messages that are ${state}`, [...COLUMNS, ...MORE[state]], body);
  const nothing = empty("");
  const reader = makeReader(read);
  const actions = makeActions(name, state, () => reader.soon());
  const next = h("a", { class: "button", hidden: true }, "Next page");
  const first = h(
    "a",
    { class: "button", href: queueLink(name, `/${state}`), hidden: !after },
    "First page",
  );
  const problem = h("p", { class: "problem", role: "alert" });
  const node = h(
    "section",
    { class: "panel", "aria-label": `Messages that are ${state}` },
    h("div", { class: "tools" }, actions.redrive, actions.purge),
    problem,
    list,
    nothing,
    h("nav", { class: "pager", "aria-label": "Pages" }, first, next),
  );
  let messages = null;

  async function read() {
    try {
      messages = (await api.peek(name, state, after, PAGE)).messages;
      setText(problem, "");
      show();
    } catch (error) {
      setText(problem, error.message);
    }
  }
  function show() {
    if (!messages) return;
    rows(messages, (message) => message.id);
    list.hidden = messages.length === 0;
    nothing.hidden = messages.length > 0;
    setText(nothing, after ? "There are no further messages." : `No message is ${state}.`);
    next.hidden = messages.length < PAGE;
    if (messages.length) next.href = queueLink(name, `/${state}?after=${messages.at(-1).id}`);
    actions.update(messages);
  }
  const update = ({ stats }) => {
    if (!stats) return;
    show(); // ages and remaining times change
    reader.look(stats);
  };
  const keys = { r: () => actions.redrive.hidden || actions.redrive.click() };
  return { node, update, keys };
}
