// SPDX-License-Identifier: Apache-2.0
// Shows the finished messages that the queue still knows, of all outcomes or of one.
import { h } from "./dom.js";
import { queueLink } from "./links.js";
import { messagesView } from "./messages.js";

const OUTCOMES = ["processed", "cancelled", "dead-lettered", "purged", "redriven"];

export function finishedView({ name, query, go }) {
  const chosen = OUTCOMES.find((outcome) => outcome === query.get("outcome")) ?? "";
  const choose = () => go(queueLink(name, `/finished${pick.value && `?outcome=${pick.value}`}`));
  const pick = h(
    "select",
    { "aria-label": "Outcome", onchange: choose },
    h("option", { value: "" }, "Every outcome"),
    OUTCOMES.map((value) => h("option", { value, selected: value === chosen }, value)),
  );
  return messagesView({
    name,
    state: "finished",
    asked: chosen || "finished",
    query,
    go,
    more: pick,
    none:
      "No finished message is known. A queue knows them for its retention, from version 4 of the " +
      "rules on.",
  });
}
