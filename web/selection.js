// SPDX-License-Identifier: Apache-2.0
// The selection of several messages of a list, and what can be done with them.
import { h, setText } from "./dom.js";
import { count } from "./format.js";

// acts: [{label, kind, offered(messages), work(messages)}]. changed() is called when the user selects;
// it must call update(), as every refresh of the list does. The selection is kept by id over
// refreshes; a message that leaves the list leaves the selection.
export function makeSelection(acts, changed) {
  const chosen = new Set();
  let shown = []; // the messages of the list
  const boxes = new Map(); // id -> check box
  const all = h("input", { type: "checkbox", "aria-label": "Select all on this page" });
  const words = h("span", { class: "muted" });
  const buttons = acts.map(({ label, kind, work }) =>
    h("button", { type: "button", class: kind, onclick: () => work(picked()) }, label),
  );
  const clear = h("button", { type: "button", class: "quiet", onclick: () => choose([]) }, "Clear");
  const node = h("div", { class: "tools selected", hidden: true }, words, buttons, clear);

  const picked = () => shown.filter(({ id }) => chosen.has(id));

  function choose(ids) {
    chosen.clear();
    for (const id of ids) chosen.add(id);
    changed();
  }
  function show() {
    const some = picked();
    for (const [id, box] of boxes) box.checked = chosen.has(id);
    all.checked = shown.length > 0 && some.length === shown.length;
    all.indeterminate = some.length > 0 && !all.checked;
    node.hidden = some.length === 0;
    setText(words, `${count(some.length)} selected`);
    acts.forEach(({ offered }, index) => (buttons[index].hidden = !offered(some)));
  }
  all.addEventListener("change", () => choose(all.checked ? shown.map(({ id }) => id) : []));

  return {
    node,
    all,
    // The check box of a row.
    boxOf(id) {
      const toggle = () => {
        if (!chosen.delete(id)) chosen.add(id);
        changed();
      };
      const box = h("input", { type: "checkbox", "aria-label": `Select ${id}`, onchange: toggle });
      boxes.set(id, box);
      return box;
    },
    update(messages) {
      shown = messages;
      const ids = new Set(messages.map(({ id }) => id));
      for (const id of [...boxes.keys()]) if (!ids.has(id)) boxes.delete(id);
      for (const id of [...chosen]) if (!ids.has(id)) chosen.delete(id);
      show();
    },
    some: () => picked().length > 0,
    clear: () => choose([]),
  };
}
