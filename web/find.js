// SPDX-License-Identifier: Apache-2.0
// What a list of messages is searched for: by a text in the body, a header, the time or the id. The
// conditions are part of the address, so that a search can be linked.
import { h, keyedRows } from "./dom.js";
import { bytes, count } from "./format.js";
import { queueLink } from "./links.js";

// kind -> [what the menu says, an example, what the condition says]
const KINDS = {
  contains: ["Body contains", "text", (value) => `body contains “${value}”`],
  header: ["Header", "name=value", (value) => `header ${value}`],
  before: ["Sent before", "2030-12-31 18:00", (value) => `sent before ${value}`],
  id: ["Message id", "3f9a01cc-0-17", (value) => `id ${value}`],
};

// The conditions of an address, as [kind, value].
export const conditionsOf = (query) =>
  [...query].filter(([kind]) => kind !== "id" && Object.hasOwn(KINDS, kind));

// The parameters of the request. A time is typed in the browser's time zone.
export function parametersOf(conditions) {
  return conditions.map(([kind, value]) => {
    if (kind !== "before") return [kind, value];
    const time = Date.parse(value.trim().replace(" ", "T"));
    if (Number.isNaN(time)) throw new Error(`"${value}" is not a time; one is 2030-12-31 18:00`);
    return [kind, String(time)];
  });
}

// The address of a list with other conditions. The outcome of finished messages stays.
export function addressOf(queue, state, query, conditions) {
  const outcome = query.get("outcome");
  const all = new URLSearchParams([...(outcome ? [["outcome", outcome]] : []), ...conditions]);
  return queueLink(queue, `/${state}${all.size ? `?${all}` : ""}`);
}

// The conditions, each with a button that removes it, and a field for one more.
export function findBar({ name, state, query, go }) {
  const conditions = conditionsOf(query);
  const kind = h(
    "select",
    { "aria-label": "Find by", onchange: () => (text.placeholder = KINDS[kind.value][1]) },
    Object.entries(KINDS).map(([key, [label]]) => h("option", { value: key }, label)),
  );
  const text = h("input", {
    type: "search",
    "aria-label": "Find",
    placeholder: KINDS.contains[1],
    autocomplete: "off",
    spellcheck: "false",
    "aria-keyshortcuts": "/",
  });
  const search = (event) => {
    event.preventDefault();
    const value = text.value.trim();
    if (!value) return;
    if (kind.value === "id") return go(queueLink(name, `/message/${encodeURIComponent(value)}`));
    // Only headers may be several.
    const kept = conditions.filter(([key]) => key === "header" || key !== kind.value);
    go(addressOf(name, state, query, [...kept, [kind.value, value]]));
  };
  const chips = h("ul", { class: "chips", "aria-label": "Conditions" });
  keyedRows(chips, ([key, value]) => {
    const rest = conditions.filter(([k, v]) => k !== key || v !== value);
    const words = KINDS[key][2](value);
    const remove = h(
      "a",
      {
        class: "remove",
        href: addressOf(name, state, query, rest),
        "aria-label": `Remove: ${words}`,
      },
      "×",
    );
    return { node: h("li", { class: "chip" }, words, remove) };
  })(conditions, (one) => one.join("="));
  const button = h("button", { type: "submit" }, "Find");
  const form = h("form", { class: "find", role: "search", onsubmit: search }, kind, text, button);
  return { node: h("div", { class: "finder" }, form, chips), focus: () => text.focus() };
}

// How far the search came. The node reads some messages per request, so a search may continue.
export function progressBar(onContinue, onAgain) {
  const words = h("span", { class: "muted" });
  const more = h("button", { type: "button", onclick: onContinue }, "Continue");
  const again = h("button", { type: "button", onclick: onAgain }, "Search again");
  const node = h("div", { class: "tools searched", hidden: true }, words, more, again);
  const update = ({ read, size, found, next, busy }) => {
    node.hidden = false;
    const state = busy ? "searching" : next ? "not all messages were read yet" : "all were read";
    words.textContent =
      `Found ${count(found)} in ${count(read)} messages (${bytes(size)}); ${state}.`;
    more.hidden = !next;
    more.disabled = again.disabled = busy;
  };
  return { node, update };
}
