// SPDX-License-Identifier: Apache-2.0
// Shows the messages of a queue in one state, page by page.
import * as api from "./api.js";
import { LIST_ACTS } from "./acts.js";
import { bodyText } from "./body.js";
import { askPurge, askRedrive } from "./dialogs.js";
import { empty, h, keyedRows, setText, stateBadge, table } from "./dom.js";
import { reasonOf } from "./failures.js";
import { addressOf, conditionsOf, findBar, parametersOf, progressBar } from "./find.js";
import { duration } from "./format.js";
import { queueLink } from "./links.js";
import { may } from "./live.js";
import { makeReader } from "./reader.js";
import { makeSelection } from "./selection.js";
import { progressText } from "./signals.js";

const PAGE = 25;
const PREVIEW = 120;

const COLUMNS = [
  { label: "Message" },
  { label: "Body", class: "wide" },
  { label: "Attempt", class: "number" },
];
const AGE = { label: "Age", class: "number" };
const MORE = {
  locked: [AGE, { label: "Held by" }, { label: "Lock ends in", class: "number" }],
  delayed: [AGE, { label: "Due in", class: "number" }],
  dead: [AGE],
  ready: [AGE],
  finished: [{ label: "Outcome" }, { label: "Worker" }, { label: "Finished", class: "number" }],
};

export function preview(message) {
  if (message.bodyBase64 !== undefined)
    return `binary, ${Math.floor((message.bodyBase64.length * 3) / 4)} bytes`;
  if (message.body === null || message.body === undefined) return "not kept";
  return bodyText(message).slice(0, PREVIEW) || "empty";
}

function note(message) {
  const notes = [];
  if (message.state === "locked" && progressText(message)) notes.push(progressText(message));
  if (message.group) notes.push(`group ${message.group}`);
  if (message.priority) notes.push(`priority ${message.priority}`);
  if (message.from?.reason)
    notes.push(`died in ${message.from.queue}: ${reasonOf(message.from)}`);
  else if (message.failures?.length) notes.push(`failed: ${reasonOf(message.failures.at(-1))}`);
  if (message.finishedAt && message.reason) notes.push(message.reason);
  if (message.result !== undefined)
    notes.push(`result ${bodyText({ body: message.result }).slice(0, PREVIEW)}`);
  return notes.join(" · ");
}

function makeRow(queue, state, selection) {
  return (message) => {
    const text = h("code", { class: "preview" });
    const notes = h("small", {});
    const cell = (label, name) => h("td", { class: name, "data-label": label });
    const [attempt, age, worker, until, outcome, ended] = [
      cell("Attempt", "number"),
      cell("Age", "number"),
      cell(state === "locked" ? "Held by" : "Worker", "worker"),
      cell(state === "locked" ? "Lock ends in" : "Due in", "number"),
      cell("Outcome", ""),
      cell("Finished", "number"),
    ];
    const all = { locked: [age, worker, until], delayed: [age, until] };
    all.finished = [outcome, worker, ended]; // when it was sent is not kept
    const more = all[state] ?? [age];
    const node = h(
      "tr",
      {},
      h("td", { class: "pick" }, selection.boxOf(message.id)),
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
      more,
    );
    const update = (fresh) => {
      const now = api.nodeNow();
      setText(text, preview(fresh));
      setText(notes, note(fresh));
      // A dead letter has no attempt in its new queue.
      setText(attempt, fresh.attempt || fresh.attempts || "–");
      setText(age, fresh.sentAt ? duration(Math.max(0, now - fresh.sentAt)) : "–");
      setText(worker, fresh.worker ?? "");
      setText(until, duration(Math.max(0, fresh.deadline - now)));
      if (outcome.textContent !== fresh.state) outcome.replaceChildren(stateBadge(fresh.state));
      setText(ended, `${duration(Math.max(0, now - (fresh.finishedAt ?? now)))} ago`);
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
    purge.hidden = !some || state === "locked" || state === "finished";
  };
  return { node: h("span", { class: "acts" }, redrive, purge), redrive, update };
}

// Reads a page of the list, and again when the queue has changed.
function makePages(name, { asked }, after, take, complain) {
  const reader = makeReader(async () => {
    try {
      take((await api.peek(name, asked, after, PAGE)).messages);
      complain(null);
    } catch (error) {
      complain(error);
    }
  });
  return { update: (stats) => reader.look(stats), again: () => reader.soon() };
}

// Reads what matches the conditions. It costs more, so it reads again only when the user says so.
function makeSearch(name, { asked }, conditions, take, complain) {
  const done = { read: 0, size: 0, found: 0, next: "", busy: false };
  const bar = progressBar(go, again);
  let found = [];
  let begun = false;

  async function go() {
    if (done.busy) return;
    done.busy = begun = true;
    bar.update(done);
    try {
      const parameters = parametersOf(conditions);
      const answer = await api.peek(name, asked, done.next, PAGE, parameters);
      found = [...found, ...answer.messages];
      done.read += answer.messagesRead;
      done.size += answer.bytesRead;
      done.next = answer.next ?? "";
      done.found = found.length;
      complain(null);
    } catch (error) {
      complain(error);
    }
    done.busy = false;
    bar.update(done);
    take(found);
  }
  function again() {
    found = [];
    Object.assign(done, { read: 0, size: 0, found: 0, next: "" });
    go();
  }
  return { node: bar.node, update: () => begun || go(), again };
}

// asked: the state that the node is asked for, if it is not that of the view. more: nodes beside the
// field to find messages. none: the words for an empty list.
export function messagesView({ name, state, query, go, asked = state, more, none }) {
  const after = query.get("after") ?? "";
  const conditions = conditionsOf(query);
  const finding = conditions.length > 0;
  const body = h("tbody", {});
  const source = finding
    ? makeSearch(name, { asked }, conditions, take, complain)
    : makePages(name, { asked }, after, take, complain);
  const selection = makeSelection(
    LIST_ACTS.map(({ label, kind, offered, work }) => ({
      label,
      kind,
      offered: (messages) => messages.length > 0 && offered(name, messages),
      work: (messages) => work(name, messages, () => done()),
    })),
    () => show(),
  );
  const rows = keyedRows(body, makeRow(name, state, selection));
  const pick = { label: "", button: selection.all, class: "pick" };
  const list = table(`Messages that are ${state}`, [pick, ...COLUMNS, ...MORE[state]], body);
  const nothing = empty("");
  const actions = makeActions(name, state, () => source.again());
  const finder = findBar({ name, state, query, go });
  const next = h("a", { class: "button", hidden: true }, "Next page");
  const first = h(
    "a",
    { class: "button", href: addressOf(name, state, query, []), hidden: !after || finding },
    "First page",
  );
  const problem = h("p", { class: "problem", role: "alert" });
  const node = h(
    "section",
    { class: "panel", "aria-label": `Messages that are ${state}` },
    h("div", { class: "tools" }, finder.node, more, h("span", { class: "gap" }), actions.node),
    source.node,
    selection.node,
    problem,
    list,
    nothing,
    h("nav", { class: "pager", "aria-label": "Pages" }, first, next),
  );
  let messages = null;
  list.hidden = nothing.hidden = true;

  function complain(error) {
    setText(problem, error?.message ?? "");
  }
  function take(fresh) {
    messages = fresh;
    show();
  }
  function done() {
    selection.clear();
    source.again();
  }
  function emptyWords() {
    if (finding) return "No message that was read matches.";
    return after ? "There are no further messages." : (none ?? `No message is ${state}.`);
  }
  function show() {
    if (!messages) return;
    rows(messages, (message) => message.id);
    selection.update(messages);
    // Without an act that applies, there is nothing to select for.
    const useful = LIST_ACTS.some(({ offered }) => messages.some((one) => offered(name, [one])));
    list.classList.toggle("unpicked", !useful);
    list.hidden = messages.length === 0;
    nothing.hidden = messages.length > 0;
    setText(nothing, emptyWords());
    next.hidden = finding || messages.length < PAGE;
    if (messages.length) next.href = addressOf(name, state, query, [["after", messages.at(-1).id]]);
    // The actions for all messages would mislead beside a selection or a search.
    actions.update(finding || selection.some() ? [] : messages);
  }
  const update = ({ stats }) => {
    if (!stats) return;
    show(); // ages and remaining times change
    source.update(stats);
  };
  const toggle = () => document.activeElement?.closest("tr")?.querySelector(".pick input")?.click();
  const keys = {
    r: () => actions.redrive.hidden || actions.redrive.click(),
    x: toggle,
    "/": finder.focus,
  };
  return { node, update, keys };
}
