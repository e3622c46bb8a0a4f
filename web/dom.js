// SPDX-License-Identifier: Apache-2.0
// Builds the page. Every text becomes a text node, so the content of a queue never becomes markup.

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false),
  );
  return node;
}

export function h(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

export function s(tag, properties, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);
}

// Changes the text only if it differs: an unchanged node keeps its selection and is not read out
// again.
export function setText(node, text) {
  const words = String(text);
  if (node.textContent !== words) node.textContent = words;
}

// Keeps one row per key, in the order of the items. Existing rows are updated in place, so that the
// focus and the reader's position survive a refresh. Rows without an item are removed first, so
// that others do not move. A moved row gets the focus back. make(item) returns {node,
// update(item)}.
export function keyedRows(parent, make) {
  const rows = new Map();
  return (items, keyOf) => {
    const focused = parent.contains(document.activeElement) ? document.activeElement : null;
    const wanted = new Set(items.map(keyOf));
    for (const [key, row] of rows) {
      if (wanted.has(key)) continue;
      row.node.remove();
      rows.delete(key);
    }
    let at = parent.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      let row = rows.get(key);
      if (!row) rows.set(key, (row = make(item)));
      row.update?.(item);
      if (row.node === at) at = at.nextElementSibling;
      else parent.insertBefore(row.node, at);
    }
    if (focused?.isConnected && focused !== document.activeElement)
      focused.focus({ preventScroll: true });
  };
}

// A list of facts that is updated in place. update() takes rows [label, text, href]; a row without
// text is left out.
export function factList(name = "") {
  const node = h("dl", { class: `facts ${name}`.trim() });
  const rows = keyedRows(node, ([label, , href]) => {
    const value = href ? h("a", {}) : h("span", {});
    const update = ([, text, to]) => {
      setText(value, text);
      if (to) value.href = to;
    };
    return { node: h("div", {}, h("dt", {}, label), h("dd", {}, value)), update };
  });
  return { node, update: (facts) => rows(facts.filter(([, text]) => text), ([label, , href]) => `${label} ${Boolean(href)}`) };
}

export function stateBadge(state) {
  return h("span", { class: `badge state-${state}` }, state);
}

export function table(caption, columns, body) {
  // A screen reader has no other name for a column of buttons.
  const labelOf = ({ label, unseen }) => (unseen ? h("span", { class: "hidden" }, label) : label);
  const heads = columns.map((column) =>
    h("th", { scope: "col", class: column.class }, column.button ?? labelOf(column)),
  );
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, heads)),
      body,
    ),
  );
}

export function empty(...words) {
  return h("p", { class: "empty" }, words);
}

export function toast(text, kind = "ok") {
  const box = document.getElementById("toasts");
  const note = h(
    "p",
    { class: `toast ${kind}` },
    text,
    h(
      "button",
      { class: "quiet", type: "button", "aria-label": "Dismiss", onclick: () => note.remove() },
      "×",
    ),
  );
  box.append(note);
  while (box.childElementCount > 4) box.firstElementChild.remove();
  setTimeout(() => note.remove(), kind === "bad" ? 15000 : 6000);
}

// Runs the action of a button. The button is disabled meanwhile, and an error is shown. A disabled
// button loses the focus, so it gets the focus back.
export async function act(button, work) {
  const focused = document.activeElement === button;
  button.disabled = true;
  try {
    return await work();
  } catch (error) {
    toast(error.message, "bad");
    return undefined;
  } finally {
    button.disabled = false;
    if (focused && document.activeElement === document.body) button.focus({ preventScroll: true });
  }
}
