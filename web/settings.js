// SPDX-License-Identifier: Apache-2.0
// The settings of a queue: show, change, and actions that cannot be undone.
import * as api from "./api.js";
import { askDelete, askPurge } from "./dialogs.js";
import { act, h, setText, toast } from "./dom.js";
import { settingsForm } from "./form.js";
import { count } from "./format.js";
import { may, refresh } from "./live.js";

// The store requests of this queue. The prices are those of S3 Standard.
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

function dangerZone(name, go) {
  const button = (words, onclick) =>
    h("button", { type: "button", class: "danger", onclick }, words);
  return h(
    "section",
    { class: "danger-zone", "aria-label": "Permanent actions" },
    h("h2", {}, "Permanent actions"),
    h(
      "div",
      { class: "tools" },
      button("Purge waiting messages…", () => askPurge(name, false)),
      button("Purge dead messages…", () => askPurge(name, true)),
      button("Delete the queue…", () => askDelete(name, () => go("#/"))),
    ),
  );
}

function makeForm(name, mode) {
  const settings = settingsForm(mode);
  const save = h("button", { type: "submit", class: "primary", disabled: true }, "Save changes");
  const problem = h("p", { class: "problem", role: "alert" });
  const form = h(
    "form",
    { class: "settings", novalidate: true, hidden: true },
    mode === "read" &&
      h("p", { class: "muted" }, "This token may not change the settings: it has no scope admin."),
    settings.node,
    problem,
    mode !== "read" && h("div", { class: "actions" }, save),
  );
  const updateButton = () => (save.disabled = Object.keys(settings.changes()).length === 0);
  const send = async () => {
    try {
      settings.set((await api.changeQueue(name, settings.changes())).settings);
      toast(`Changed ${name}`);
      refresh();
    } catch (error) {
      if (!settings.complain(error)) setText(problem, error.message);
    }
  };
  form.addEventListener("input", updateButton);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setText(problem, "");
    settings.clear();
    act(save, send).then(updateButton);
  });
  const load = async () => {
    try {
      settings.set((await api.showQueue(name)).settings);
    } catch (error) {
      settings.node.hidden = save.hidden = true;
      setText(problem, error.message);
    }
    form.hidden = false; // shown only now, because defaults are not the queue's settings
  };
  load();
  return form;
}

export function settingsView({ name, go }) {
  const cost = h("p", { class: "muted" });
  const node = h("section", { class: "panel", "aria-label": "Settings" });
  let mode = "";
  return {
    node,
    update: ({ stats }) => {
      setText(cost, costWords(stats));
      const now = may(name, "admin") ? "change" : "read";
      if (now === mode) return; // typed values stay
      mode = now;
      const danger = mode === "change" && dangerZone(name, go);
      node.replaceChildren(...[makeForm(name, mode), cost, danger].filter(Boolean));
    },
  };
}
