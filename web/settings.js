// SPDX-License-Identifier: Apache-2.0
// How a queue is set: read, change, and what cannot be taken back.
import * as api from "./api.js";
import { askDelete, askPurge, field } from "./dialogs.js";
import { act, h, setText, toast } from "./dom.js";
import { count, setting } from "./format.js";
import { refresh } from "./live.js";

const CHOICES = {
  orderingMode: ["fifo", "lifo"],
  orderingGuarantee: ["false", "true"],
  "failureStrategy.mode": ["retry", "dead-letter", "hybrid"],
  backpressure: ["reject", "block"],
};
const FIXED = ["shards"]; // at creation

// {a: {b: 1}} as [["a.b", "1"]]
function flatten(settings, prefix = "") {
  return Object.entries(settings).flatMap(([key, value]) =>
    value !== null && typeof value === "object"
      ? flatten(value, `${prefix}${key}.`)
      : [[prefix + key, setting(value)]],
  );
}

function control(key, value) {
  const choices = CHOICES[key];
  if (choices)
    return h(
      "select",
      {},
      choices.map((choice) => h("option", { value: choice, selected: choice === value }, choice)),
    );
  return h("input", {
    type: "text",
    value,
    autocomplete: "off",
    spellcheck: "false",
    readonly: FIXED.includes(key),
  });
}

// What the store was asked for this queue's sake; the prices are those of S3 Standard.
export function costWords(stats) {
  const spent = stats?.spent;
  if (!spent || spent.writes + spent.reads + spent.deletes === 0) return "";
  const done = stats.processed || stats.sent || 1;
  const dollars = (spent.writes * 0.005) / 1000 + (spent.reads * 0.0004) / 1000;
  const million = ((dollars / done) * 1e6).toFixed(2);
  return (
    `The store was asked for ${count(spent.writes)} writes, ${count(spent.reads)} reads and ` +
    `${count(spent.deletes)} deletes: $${million} per million messages at the prices of S3 Standard.`
  );
}

export function settingsView({ name, go }) {
  const fields = h("div", { class: "grid" });
  const save = h("button", { type: "submit", class: "primary", disabled: true }, "Save changes");
  const problem = h("p", { class: "problem", role: "alert" });
  const cost = h("p", { class: "muted" });
  const form = h(
    "form",
    { class: "settings" },
    fields,
    problem,
    h("div", { class: "actions" }, save),
  );
  let before = new Map();
  const controls = new Map();
  const changes = () =>
    [...controls]
      .filter(([key, one]) => one.value !== before.get(key))
      .map(([key, one]) => [key, one.value]);

  // What is there stays: the focus is in one of them.
  function show({ settings }) {
    before = new Map(flatten(settings));
    for (const [key, value] of before) {
      if (controls.has(key)) controls.get(key).value = value;
      else {
        controls.set(key, control(key, value));
        fields.append(
          field(key, controls.get(key), FIXED.includes(key) ? "fixed at creation" : null),
        );
      }
    }
    save.disabled = true;
  }
  form.addEventListener("input", () => (save.disabled = changes().length === 0));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setText(problem, "");
    act(save, async () => {
      try {
        show(await api.changeQueue(name, Object.fromEntries(changes())));
        toast(`Changed ${name}`);
        refresh();
      } catch (error) {
        setText(problem, error.message);
      }
    }).then(() => (save.disabled = changes().length === 0));
  });
  api.showQueue(name).then(show, (error) => setText(problem, error.message));
  const danger = h(
    "section",
    { class: "danger-zone", "aria-label": "What cannot be taken back" },
    h(
      "button",
      { type: "button", class: "danger", onclick: () => askPurge(name, false) },
      "Purge what waits…",
    ),
    h(
      "button",
      { type: "button", class: "danger", onclick: () => askPurge(name, true) },
      "Purge the dead…",
    ),
    h(
      "button",
      { type: "button", class: "danger", onclick: () => askDelete(name, () => go("#/")) },
      "Delete the queue…",
    ),
  );
  return {
    node: h("section", { class: "panel", "aria-label": "Settings" }, form, cost, danger),
    update: ({ stats }) => setText(cost, costWords(stats)),
  };
}
