// SPDX-License-Identifier: Apache-2.0
// Shows the workflows of a queue: a list, and one workflow with its messages and its history.
import { askStopWorkflow } from "./acts.js";
import * as api from "./api.js";
import { empty, factList, h, keyedRows, setText, stateBadge, table } from "./dom.js";
import { EVENT_COLUMNS, eventOf, eventRow } from "./events.js";
import { count, duration, moment } from "./format.js";
import { queueLink, workflowLink } from "./links.js";
import { live, may } from "./live.js";
import { makeReader } from "./reader.js";
import { progressText } from "./signals.js";

const LIST_MAX = 100;
const HISTORY_MAX = 200; // events on the page

// What became of the messages of a workflow, in the order of the bar.
const PARTS = [
  ["done", "Processed"],
  ["failed", "Dead"],
  ["cancelled", "Cancelled"],
  ["open", "Unfinished"],
];

// A bar of the parts, as wide as their numbers. The numbers stand beside it as text.
function makeBar() {
  const pieces = PARTS.map(([key]) => [key, h("i", { class: `piece piece-${key}` })]);
  const node = h("span", { class: "parts", "aria-hidden": "true" }, pieces.map(([, one]) => one));
  const update = (workflow) => {
    for (const [key, piece] of pieces) piece.style.flexGrow = String(workflow[key] ?? 0);
  };
  return { node, update };
}

const ago = (at) => `${duration(Math.max(0, api.nodeNow() - at))} ago`;

// ---- the list

const COLUMNS = [
  { label: "Workflow" },
  { label: "State" },
  { label: "Messages", class: "picture" },
  ...PARTS.map(([, label]) => ({ label, class: "number" })),
  { label: "Begun", class: "number" },
  { label: "Last event", class: "number" },
];

function makeRow(queue) {
  return ({ id }) => {
    const cell = (label, name) => h("td", { class: name, "data-label": label });
    const state = cell("State", "");
    const bar = makeBar();
    const numbers = PARTS.map(([key, label]) => [key, cell(label, "number")]);
    const [begun, seen] = [cell("Begun", "number"), cell("Last event", "number")];
    const link = h("a", { class: "row-link", href: workflowLink(queue, id) }, id);
    const node = h(
      "tr",
      {},
      h("th", { scope: "row" }, link),
      state,
      h("td", { class: "picture" }, bar.node),
      numbers.map(([, one]) => one),
      begun,
      seen,
    );
    const update = (workflow) => {
      if (state.textContent !== workflow.state) state.replaceChildren(stateBadge(workflow.state));
      bar.update(workflow);
      for (const [key, one] of numbers) {
        setText(one, count(workflow[key]));
        one.classList.toggle("zero", !workflow[key]);
        one.classList.toggle("bad", key === "failed" && workflow[key] > 0);
      }
      setText(begun, ago(workflow.begunAt));
      setText(seen, ago(workflow.seenAt));
    };
    return { node, update };
  };
}

export function workflowsView({ name }) {
  const body = h("tbody", {});
  const rows = keyedRows(body, makeRow(name));
  const list = table("Workflows", COLUMNS, body);
  const nothing = empty("No workflow. A message names its workflow when it is sent.");
  const limit = h("p", { class: "muted" });
  const problem = h("p", { class: "problem", role: "alert" });
  let workflows = null;

  const reader = makeReader(async () => {
    try {
      ({ workflows } = await api.workflows(name, LIST_MAX));
      setText(problem, "");
    } catch (error) {
      setText(problem, error.message);
    }
    show();
  });
  function show() {
    if (!workflows) return;
    rows(workflows, ({ id }) => id);
    list.hidden = workflows.length === 0;
    nothing.hidden = workflows.length > 0;
    setText(
      limit,
      workflows.length < LIST_MAX ? "" : `The ${LIST_MAX} workflows with the newest events.`,
    );
  }
  list.hidden = nothing.hidden = true;
  return {
    node: h("section", { class: "panel", "aria-label": "Workflows" }, problem, list, nothing, limit),
    update: ({ stats }) => {
      show(); // ages change
      reader.look(stats);
    },
  };
}

// ---- one workflow

const TASK_COLUMNS = [
  { label: "Message" },
  { label: "State" },
  { label: "Attempt", class: "number" },
  { label: "Worker" },
  { label: "Progress", class: "number" },
  { label: "Until", class: "number" },
];
const UNTIL = { locked: "lock ends in", delayed: "due in", retrying: "next attempt in" };

function makeTask(queue) {
  return ({ id }) => {
    const cell = (label, name) => h("td", { class: name, "data-label": label });
    const [state, attempt, worker, progress, until] = [
      cell("State", ""),
      cell("Attempt", "number"),
      cell("Worker", "worker"),
      cell("Progress", "number"),
      cell("Until", "number"),
    ];
    const link = h("a", { class: "row-link id", href: queueLink(queue, `/message/${id}`) }, id);
    const update = (task) => {
      if (state.textContent !== task.state) state.replaceChildren(stateBadge(task.state));
      setText(attempt, task.attempt || "–");
      setText(worker, task.worker ?? "");
      setText(progress, progressText(task) || "–");
      const left = task.until && duration(Math.max(0, task.until - api.nodeNow()));
      setText(until, left && UNTIL[task.state] ? `${UNTIL[task.state]} ${left}` : "–");
    };
    const cells = [state, attempt, worker, progress, until];
    const node = h("tr", {}, h("th", { scope: "row" }, link), cells);
    return { node, update };
  };
}

function makeHistory(queue, id) {
  const body = h("tbody", {});
  const list = table("History", EVENT_COLUMNS, body);
  const nothing = empty("The events of this workflow are no longer kept.");
  const update = () => {
    nothing.hidden = body.childElementCount > 0;
    list.hidden = !nothing.hidden;
  };
  const stop = api.followWorkflow(queue, id, ({ event }) => {
    if (!event) return;
    body.prepend(eventRow(queue, eventOf(event)));
    if (body.childElementCount > HISTORY_MAX) body.lastElementChild.remove();
    update();
  });
  const node = h(
    "section",
    { class: "panel", "aria-label": "History" },
    h("h2", {}, "History"),
    h("p", { class: "muted" }, "Newest first. Events are kept for at least an hour."),
    list,
    nothing,
  );
  return { node, update, stop };
}

const facts = (workflow) => [
  ...PARTS.map(([key, label]) => [label, count(workflow[key])]),
  ["Begun", `${moment(workflow.begunAt)} (${ago(workflow.begunAt)})`],
  ["Last event", `${moment(workflow.seenAt)} (${ago(workflow.seenAt)})`],
  ["Last message", workflow.last ? "was sent" : "not sent yet, so more messages may come"],
  ["Run", workflow.run > 1 ? `${count(workflow.run)}: the id was used before` : ""],
  ["Shard", String(workflow.shard)],
];

export function workflowPage({ go, parts: [name, , id] }) {
  const badge = h("span", {});
  const bar = makeBar();
  const about = factList();
  const body = h("tbody", {});
  const rows = keyedRows(body, makeTask(name));
  const list = table("Messages", TASK_COLUMNS, body);
  const nothing = empty("All messages of this workflow have ended.");
  const problem = h("p", { class: "problem", role: "alert" });
  const history = makeHistory(name, id);
  const back = queueLink(name, "/workflows");
  let workflow = null;
  const stop = h("button", { type: "button", class: "danger" }, "Stop…");
  stop.hidden = true;
  stop.onclick = () => askStopWorkflow(name, id, workflow.open, reader.soon);

  function show() {
    if (!workflow) return;
    stop.hidden = !workflow.open || !may(name, "signal");
    if (badge.textContent !== workflow.state) badge.replaceChildren(stateBadge(workflow.state));
    bar.update(workflow);
    about.update(facts(workflow));
    rows(workflow.tasks, (task) => task.id);
    list.hidden = workflow.tasks.length === 0;
    nothing.hidden = workflow.tasks.length > 0;
  }
  const reader = makeReader(async () => {
    try {
      workflow = await api.showWorkflow(name, id);
      setText(problem, "");
    } catch (error) {
      setText(problem, error.message);
    }
    panels.hidden = !workflow && problem.textContent !== "";
    show();
  });
  const panels = h(
    "div",
    {},
    h("section", { class: "panel", "aria-label": "About" }, bar.node, about.node),
    h(
      "section",
      { class: "panel", "aria-label": "Messages" },
      h("h2", {}, "Messages"),
      h("p", { class: "muted" }, "Unfinished and dead messages. The history names the others."),
      list,
      nothing,
    ),
    history.node,
  );
  const crumb = (href, words) => h("a", { href }, words);
  const node = h(
    "div",
    {},
    h(
      "div",
      { class: "head" },
      h(
        "span",
        { class: "crumbs" },
        [crumb("#/", "Queues"), " / ", crumb(queueLink(name), name), " / "],
        [crumb(back, "Workflows"), " /"],
      ),
      h("h1", { tabindex: "-1" }, id),
      badge,
      h("span", { class: "gap" }),
      h("span", { class: "acts" }, stop),
    ),
    problem,
    panels,
  );
  list.hidden = nothing.hidden = true;
  return {
    title: `${id} in ${name}`,
    nav: "queues",
    node,
    update() {
      history.update();
      show(); // ages and remaining times change
      reader.look(live.queues.get(name)?.stats);
    },
    leave: history.stop,
    keys: { u: () => go(back) },
  };
}
