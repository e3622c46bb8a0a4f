// SPDX-License-Identifier: Apache-2.0
// One queue: its charts, and below them one of several views: messages by state, workers, what
// happens, settings.
import * as api from "./api.js";
import { activityView } from "./activity.js";
import { askSend } from "./dialogs.js";
import { act, empty, h, setText, toast } from "./dom.js";
import { count } from "./format.js";
import { live, refresh } from "./live.js";
import { messagesView } from "./messages.js";
import { makeCharts, queueLink } from "./queues.js";
import { settingsView } from "./settings.js";
import { workersView } from "./workers.js";

const VIEWS = [
  { key: "ready", label: "Ready", number: (stats) => stats.ready, make: messagesView },
  { key: "locked", label: "Locked", number: (stats) => stats.locked, make: messagesView },
  { key: "delayed", label: "Delayed", number: (stats) => stats.delayed, make: messagesView },
  { key: "dead", label: "Dead", number: (stats) => stats.dead, make: messagesView },
  { key: "processed", label: "Processed", number: (stats) => stats.processed, make: activityView },
  { key: "workers", label: "Workers", number: (stats) => stats.workers, make: workersView },
  { key: "activity", label: "Activity", make: activityView },
  { key: "settings", label: "Settings", make: settingsView },
];

const NEAREST = { block: "nearest", inline: "nearest" };

function makeTabs(name, chosen) {
  const numbers = new Map();
  const links = VIEWS.map((view, index) => {
    const number = view.number && h("b", { class: "zero" }, "0");
    if (number) numbers.set(view, number);
    return h(
      "a",
      {
        href: queueLink(name, `/${view.key}`),
        class: `tab tab-${view.key}`,
        "aria-current": view === chosen ? "page" : null,
        "aria-keyshortcuts": String(index + 1),
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

// The badge and the button change when the button can be pressed again, never before: whoever sees
// that a queue is paused can resume it.
function makePause(name) {
  const isPaused = () => live.queues.get(name)?.paused ?? false;
  const badge = h("span", { class: "badge paused", hidden: true }, "paused");
  const change = async () => {
    const pausing = !isPaused();
    await (pausing ? api.pauseQueue(name) : api.resumeQueue(name));
    await refresh();
    toast(pausing ? `Paused ${name}: it takes messages and gives none out` : `Resumed ${name}`);
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

// What left for the dead-letter queue is in no tab of this one: without it the numbers do not add up.
function makeLetters(name) {
  const node = h("span", { class: "muted letters", hidden: true });
  const number = h("span");
  let asked = false;
  function update({ moved }) {
    node.hidden = !moved;
    if (!moved) return;
    setText(number, `${count(moved)} dead-lettered`);
    if (asked) return;
    asked = true;
    node.replaceChildren(number);
    api.showQueue(name).then(
      ({ settings }) => {
        const to = settings.failureStrategy?.deadLetterQueue;
        if (to) node.replaceChildren(number, " to ", h("a", { href: queueLink(to) }, to));
      },
      () => (asked = false),
    );
  }
  return { node, update };
}

export function queuePage({ go, again, parts: [name, key], query }) {
  const chosen = VIEWS.find((view) => view.key === (key ?? "ready"));
  const charts = makeCharts(() => live.queues.get(name)?.points ?? []);
  const tabs = makeTabs(name, chosen);
  const pause = makePause(name);
  const sums = h("span", { class: "muted sums" });
  const letters = makeLetters(name);
  const missing = empty(
    api.hasToken()
      ? `There is no queue ${name} in this store, or this token may not read it.`
      : `There is no queue ${name} in this store.`,
  );
  const view = chosen?.make({ name, state: chosen.key, query, go }) ?? {
    node: empty("There is no such view."),
  };
  const content = h("div", {}, charts.node, tabs.node, view.node);
  const send = h(
    "button",
    { type: "button", class: "primary", "aria-keyshortcuts": "s", onclick: () => askSend(name) },
    "Send a message",
  );
  const node = h(
    "div",
    {},
    h(
      "div",
      { class: "head" },
      h("span", { class: "crumbs" }, h("a", { href: "#/" }, "Queues"), " /"),
      h("h1", { tabindex: "-1" }, name),
      pause.badge,
      sums,
      letters.node,
      h("span", { class: "gap" }),
      send,
      pause.button,
    ),
    missing,
    content,
  );

  let id = null;

  function update() {
    const queue = live.queues.get(name);
    if (queue?.id && id && queue.id !== id) return again(); // deleted, and another one made
    id = queue?.id ?? id;
    const gone = live.listed && queue === undefined;
    missing.hidden = !gone;
    content.hidden = send.hidden = pause.button.hidden = gone;
    if (!queue) return;
    pause.update();
    charts.update();
    if (queue.stats) {
      tabs.update(queue.stats);
      letters.update(queue.stats);
      if (!sums.textContent) tabs.seen(); // numbers make the tabs wider
      setText(sums, `${count(queue.stats.sent)} sent in all`);
    }
    view.update?.(queue);
  }
  const keys = {
    s: () => send.hidden || askSend(name),
    p: () => pause.button.hidden || pause.button.click(),
    u: () => go("#/"),
    ...view.keys,
  };
  VIEWS.forEach(
    ({ key: other }, index) => (keys[index + 1] = () => go(queueLink(name, `/${other}`))),
  );
  return { title: name, nav: "queues", node, update, keys, leave: () => view.leave?.() };
}
