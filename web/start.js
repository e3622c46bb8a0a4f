// SPDX-License-Identifier: Apache-2.0
// Shows the commands for a first queue, ready to copy, if the store has no queue.
import { hasToken } from "./api.js";
import { h, setText, toast } from "./dom.js";

function commands() {
  const node = location.href.split("#")[0].replace(/\/$/, "");
  const sluice = `sluice --store ${node}`;
  return [
    ["Create a queue", `${sluice} queue create mail`],
    ["Send a message", `${sluice} send mail 'hello'`],
    ["Process messages", `${sluice} work mail -- cat`],
  ];
}

// Browsers deny the clipboard to pages over plain HTTP from another host. Then the command is
// selected, to be copied with the keyboard.
async function copy(text, code) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    getSelection().selectAllChildren(code);
    toast("Selected; copy it with Ctrl+C");
  }
}

function commandRow([title, text]) {
  const code = h("code", {}, text);
  const button = h(
    "button",
    { type: "button", "aria-label": `Copy: ${title}`, onclick: () => copy(text, code) },
    "Copy",
  );
  return h("li", {}, h("span", { class: "muted" }, title), h("pre", {}, code), button);
}

export function startPanel() {
  const node = h(
    "section",
    { class: "panel start", "aria-label": "First steps" },
    h("h2", {}, "This store has no queue yet"),
    h("p", { class: "muted" }, "Create one with New queue, or run these commands in a terminal:"),
    h("ol", {}, commands().map(commandRow)),
    hasToken() &&
      h("p", { class: "muted" }, "Put your token into the environment variable SLUICE_TOKEN first."),
  );
  return node;
}

// A token that may not create a queue gets a sentence instead.
export function nothingPanel() {
  const words = h("p", { class: "empty" });
  const start = startPanel();
  const node = h("div", {}, start, words);
  const update = (mayCreate, filtered) => {
    start.hidden = filtered || !mayCreate;
    words.hidden = !start.hidden;
    setText(words, filtered ? "No queue matches." : "There is no queue that this token may read.");
  };
  return { node, update };
}
