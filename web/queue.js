// SPDX-License-Identifier: Apache-2.0
// Shows one queue: its problems, and one of several views: a summary, messages by state, workers,
// events, settings.
import * as api from "./api.js";
import { activityView } from "./activity.js";
import { askRedrive, askSend } from "./dialogs.js";
import { act, empty, h, setText, toast } from "./dom.js";
import { count } from "./format.js";
import { deadIn, lettersWait, problemBadges } from "./health.js";
import { queueLink } from "./links.js";
import { isLetterQueue, live, may, refresh } from "./live.js";
import { finishedView } from "./finished.js";
import { messagesView } from "./messages.js";
import { makeLetterMark } from "./queues.js";
import { settingsView } from "./settings.js";
import { summaryView } from "./summary.js";
import { workersView } from "./workers.js";
import { workflowsView } from "./workflows.js";

// The digits from 1 open the views in this order, those with a key of their own left out.
const VIEWS = [
  { key: "summary", label: "Summary", make: summaryView },
  { key: "ready", label: "Ready", number: (stats) => stats.ready, make: messagesView },
  { key: "locked", label: "Locked", number: (stats) => stats.locked, make: messagesView },
  { key: "delayed", label: "Delayed", number: (stats) => stats.delayed, make: messagesView },
  { key: "dead", label: "Dead", number: (stats) => stats.dead, make: messagesView },
  { key: "processed", label: "Processed", number: (stats) => stats.processed, make: activityView },
  { key: "finished", label: "Finished", shortcut: "f", make: finishedView },
  { key: "workers", label: "Workers", number: (stats) => stats.workers, make: workersView },
  { key: "workflows", label: "Workflows", shortcut: "w", make: workflowsView },
  { key: "activity", label: "Activity", make: activityView },
  { key: "settings", label: "Settings", make: settingsView },
];

VIEWS.filter(({ shortcut }) => !shortcut).forEach((view, index) => (view.shortcut = `${index + 1}`));

const NEAREST = { block: "nearest", inline: "nearest" };

function makeTabs(name, chosen) {
  const numbers = new Map();
  const links = VIEWS.map((view) => {
    const number = view.number && h("b", { class: "zero" }, "0");
    if (number) numbers.set(view, number);
    return h(
      "a",
      {
        href: queueLink(name, `/${view.key}`),
        class: `tab tab-${view.key}`,
        "aria-current": view === chosen ? "page" : null,
        "aria-keyshortcuts": view.shortcut,
      },
      view.label,
      number && " ",
      number,
    );
  });
  const update = (stats) => {
    for (const [view, number] of numbers) {
      setText(number, count(view.number(stats)));
      number.classList.toggle("zero", !view.number(stats));
    }
  };
  const node = h("nav", { class: "tabs", "aria-label": `Views of ${name}` }, links);
  const seen = () => node.querySelector("[aria-current]")?.scrollIntoView(NEAREST);
  return { node, update, seen };
}

// The badge and the button change together, when the button is enabled again. So a queue that shows
// as paused can be resumed.
function makePause(name) {
  const isPaused = () => live.queues.get(name)?.paused ?? false;
  const badge = h("span", { class: "badge paused", hidden: true }, "paused");
  const change = async () => {
    const pausing = !isPaused();
    await (pausing ? api.pauseQueue(name) : api.resumeQueue(name));
    await refresh();
    toast(pausing ? `Paused ${name}: it accepts messages and delivers none` : `Resumed ${name}`);
  };
  const button = h(
    "button",
    {
      type: "button",
      "aria-keyshortcuts": "p",
      onclick: () => act(button, change).then(update),
    },
    "Pause",
  );
  function update() {
    if (button.disabled) return;
    badge.hidden = !isPaused();
    setText(button, isPaused() ? "Resume" : "Pause");
  }
  return { badge, button, update };
}

// Messages that moved to the dead-letter queue are in no tab of this queue. Without them the
// numbers would not add up.
function makeLetters(name) {
  const number = h("span", {});
  const to = h("a", {}, "the dead-letter queue");
  const node = h("span", { class: "muted letters", hidden: true }, number, " to ", to);
  const update = (queue) => {
    const { stats, letters } = queue;
    node.hidden = !stats.moved || !letters;
    node.classList.toggle("bad", lettersWait(queue));
    if (node.hidden) return;
    setText(number, `${count(stats.moved)} dead-lettered`);
    setText(to, letters);
    to.href = queueLink(letters);
  };
  return { node, update };
}

// The red part at the top: the number of dead messages, and the possible actions.
function makeDeadNote(name) {
  const words = h("strong", {});
  const look = h("a", {}, "Show them");
  const redrive = h("button", { type: "button", onclick: () => askRedrive(name) }, "Redrive…");
  const node = h(
    "div",
    { class: "banner bad dead-note", hidden: true },
    h("span", {}, words, " ", look),
    h("span", { class: "gap" }),
    redrive,
  );
  const update = (queue, shown) => {
    const dead = deadIn(queue);
    const letters = isLetterQueue(queue);
    const view = letters ? "ready" : "dead";
    node.hidden = dead === 0 || shown === view; // that view has the button itself
    const what = letters ? "dead letter" : "dead message";
    setText(words, `${count(dead)} ${what}${dead === 1 ? "" : "s"}.`);
    setText(look, `Show ${dead === 1 ? "it" : "them"}`);
    look.href = queueLink(name, `/${view}`);
    redrive.hidden = !may(name, "admin");
  };
  return { node, update };
}

function makeHead(name) {
  const pause = makePause(name);
  const badges = problemBadges();
  const mark = makeLetterMark();
  const sums = h("span", { class: "muted sums" });
  const letters = makeLetters(name);
  const send = h(
    "button",
    { type: "button", class: "primary", "aria-keyshortcuts": "s", onclick: () => askSend(name) },
    "Send a message",
  );
  const node = h(
    "div",
    { class: "head" },
    h("span", { class: "crumbs" }, h("a", { href: "#/" }, "Queues"), " /"),
    h("h1", { tabindex: "-1" }, name),
    pause.badge,
    badges.node,
    mark.node,
    sums,
    letters.node,
    h("span", { class: "gap" }),
    h("span", { class: "acts" }, send, pause.button),
  );
  send.hidden = pause.button.hidden = true;
  const update = (queue) => {
    send.hidden = !queue || !may(name, "send");
    pause.button.hidden = !queue || !may(name, "admin");
    if (!queue) return;
    pause.update();
    badges.update(queue, ["paused", "dead", "moved"]); // these have their own places
    mark.update(queue);
    if (!queue.stats) return;
    letters.update(queue);
    setText(sums, `${count(queue.stats.sent)} sent in all`);
  };
  return { node, update, send, pause: pause.button };
}

export function queuePage({ go, again, parts: [name, key], query }) {
  const chosen = VIEWS.find((view) => view.key === (key ?? "summary"));
  const tabs = makeTabs(name, chosen);
  const head = makeHead(name);
  const note = makeDeadNote(name);
  const missing = empty(
    api.hasToken()
      ? `There is no queue ${name} in this store, or this token may not read it.`
      : `There is no queue ${name} in this store.`,
  );
  const view = chosen?.make({ name, state: chosen.key, query, go }) ?? {
    node: empty("There is no such view."),
  };
  const content = h("div", {}, note.node, tabs.node, view.node);
  const node = h("div", {}, head.node, missing, content);

  let id = null;

  let numbered = false;

  function update() {
    const queue = live.queues.get(name);
    if (queue?.id && id && queue.id !== id) return again(); // deleted and created again
    id = queue?.id ?? id;
    const gone = live.listed && queue === undefined;
    missing.hidden = !gone;
    content.hidden = gone;
    head.update(queue);
    if (!queue) return;
    note.update(queue, chosen?.key);
    if (queue.stats) tabs.update(queue.stats);
    if (queue.stats && !numbered) tabs.seen(); // numbers make the tabs wider
    numbered ||= queue.stats !== undefined;
    view.update?.(queue);
  }
  const keys = {
    s: () => head.send.hidden || askSend(name),
    p: () => head.pause.hidden || head.pause.click(),
    u: () => go("#/"),
    r: () => note.node.hidden || (may(name, "admin") && askRedrive(name)),
    ...view.keys,
  };
  for (const { key: other, shortcut } of VIEWS)
    keys[shortcut] = () => go(queueLink(name, `/${other}`));
  return { title: name, nav: "queues", node, update, keys, leave: () => view.leave?.() };
}
