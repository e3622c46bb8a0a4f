// SPDX-License-Identifier: Apache-2.0
// Shows the signals of a message, and the progress and the result of its job.
import * as api from "./api.js";
import { bodyText, bodyView } from "./body.js";
import { empty, h, keyedRows, setText, stateBadge, table } from "./dom.js";
import { count, duration, moment } from "./format.js";

const COLUMNS = [
  { label: "Number", class: "number" },
  { label: "Kind" },
  { label: "State" },
  { label: "Sent" },
  { label: "Ends" },
  { label: "Delivered", class: "number" },
  { label: "What it says", class: "wide" },
  { label: "Answer", class: "wide" },
  { label: "Actions", unseen: true },
];

// A payload or an answer: a JSON value, a text, or bytes.
function textOf(row, name) {
  if (row[`${name}Base64`] !== undefined) return "binary";
  return row[name] === undefined ? "" : bodyText({ body: row[name] });
}

function endWords({ endedAt, until }) {
  if (endedAt) return moment(endedAt);
  return until ? `in ${duration(Math.max(0, until - api.nodeNow()))}` : "–";
}

// withdraw(signal) is called by the button of a pending signal, if allowed().
function makeRow(withdraw, allowed) {
  return (first) => {
    const cell = (label, name) => h("td", { class: name, "data-label": label });
    const [state, ends, deliveries, says, answer, acts] = [
      cell("State", ""),
      cell("Ends", "time"),
      cell("Delivered", "number"),
      cell("What it says", "wide"),
      cell("Answer", "wide"),
      h("td", {}),
    ];
    const button = h(
      "button",
      { type: "button", class: "small", onclick: () => withdraw(first) },
      "Withdraw",
    );
    acts.append(button);
    let said = ""; // the queue forgets it when the signal ends; the page does not
    const update = (row) => {
      said = textOf(row, "payload") || said;
      if (state.textContent !== row.state) state.replaceChildren(stateBadge(row.state));
      setText(ends, endWords(row));
      setText(deliveries, count(row.deliveries ?? 0));
      setText(says, said || (row.endedAt ? "not kept after its end" : "–"));
      setText(answer, textOf(row, "answer") || "–");
      button.hidden = row.state !== "pending" || !allowed();
    };
    const node = h(
      "tr",
      {},
      h("td", { class: "number", "data-label": "Number" }, first.number ? count(first.number) : "–"),
      h("th", { scope: "row" }, first.kind),
      state,
      h("td", { class: "time", "data-label": "Sent" }, first.sentAt ? moment(first.sentAt) : "–"),
      ends,
      deliveries,
      says,
      answer,
      acts,
    );
    return { node, update };
  };
}

export function signalsPanel(withdraw, allowed) {
  const body = h("tbody", {});
  const rows = keyedRows(body, makeRow(withdraw, allowed));
  const node = h(
    "section",
    { class: "panel signals", "aria-label": "Signals", hidden: true },
    h("h2", {}, "Signals"),
    table("Signals", COLUMNS, body),
  );
  const update = (signals) => {
    node.hidden = signals.length === 0;
    rows(signals, ({ id }) => id);
  };
  return { node, update };
}

// "40 %, resizing"; "" if the job has told nothing.
export function progressText({ progress, progressText: words }) {
  return progress === undefined ? "" : [`${progress} %`, words].filter(Boolean).join(", ");
}

export function progressBar() {
  const bar = h("progress", { max: "100", "aria-label": "Progress" });
  const words = h("span", {});
  const node = h("p", { class: "progress", hidden: true }, bar, words);
  const update = (message) => {
    const text = progressText(message);
    node.hidden = text === "" || message.state !== "locked";
    if (node.hidden) return;
    bar.value = message.progress;
    const age = message.progressAt && duration(Math.max(0, api.nodeNow() - message.progressAt));
    setText(words, age ? `${text} (${age} ago)` : text);
  };
  return { node, update };
}

// What the worker gave back with its ack.
export function resultPanel() {
  const view = h("div", {});
  const node = h(
    "section",
    { class: "panel result", "aria-label": "Result", hidden: true },
    h("h2", {}, "Result"),
    view,
  );
  let shown = "";
  const update = ({ result, resultBase64, resultType }) => {
    node.hidden = result === undefined && resultBase64 === undefined;
    const fresh = node.hidden ? "" : JSON.stringify([result, resultBase64]);
    if (fresh === shown) return;
    shown = fresh;
    const known = { body: result, bodyBase64: resultBase64, contentType: resultType };
    view.replaceChildren(result === null ? empty("The result is empty.") : bodyView(known));
  };
  return { node, update };
}
