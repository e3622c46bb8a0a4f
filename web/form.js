// SPDX-License-Identifier: Apache-2.0
// The settings of a queue as a form, with groups, a sentence per setting, units next to the
// numbers, and each error at its field. New and existing queues use the same form.
import { h, setText } from "./dom.js";
import { setting } from "./format.js";
import { GROUPS } from "./setting-table.js";

const TIMES = [
  ["ms", "ms"],
  ["s", "seconds"],
  ["m", "minutes"],
  ["h", "hours"],
  ["d", "days"],
];
const SIZES = [
  ["", "bytes"],
  ["KiB", "KiB"],
  ["MiB", "MiB"],
];

const UNITS = { duration: TIMES, bytes: SIZES };

// Splits a value into the largest unit that gives a whole number: 2097152 is 2 MiB, "90s" is 90 s.
function split(value, units) {
  const text = setting(value);
  if (units === SIZES) {
    const size = Number(text);
    if (size && size % 1048576 === 0) return [String(size / 1048576), "MiB"];
    return size && size % 1024 === 0 ? [String(size / 1024), "KiB"] : [text, ""];
  }
  const found = /^(\d+)(ms|s|m|h|d)$/.exec(text);
  if (found?.[2] === "h" && found[1] % 24 === 0) return [String(found[1] / 24), "d"];
  return found ? found.slice(1) : [text, "s"];
}

const option = ([value, words]) => h("option", { value }, words);

// Returns {node, control, get, set}. get returns the text that the node accepts.
function makeControl({ key, kind, choices, suffix }) {
  const units = UNITS[kind];
  if (choices) {
    const select = h("select", {}, choices.map(option));
    return { node: select, control: select, get: () => select.value, set: (v) => (select.value = v) };
  }
  const input = h("input", {
    type: "text",
    inputmode: units || suffix ? "decimal" : null,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: kind === "name" ? "none" : null,
  });
  if (!units) {
    const node = suffix
      ? h("div", { class: "with-unit" }, input, h("span", { class: "unit" }, suffix))
      : input;
    return { node, control: input, get: () => input.value.trim(), set: (v) => (input.value = v) };
  }
  const unit = h("select", { "aria-label": `Unit of ${key}` }, units.map(option));
  return {
    node: h("div", { class: "with-unit" }, input, unit),
    control: input,
    more: unit,
    // The user may type a unit, too: "90s".
    get: () => input.value.trim() + (/^[\d.]+$/.test(input.value.trim()) ? unit.value : ""),
    set: (value) => ([input.value, unit.value] = split(value, units)),
  };
}

let last = 0;

function makeField(field, readonly) {
  const made = makeControl(field);
  const id = `setting-${++last}`;
  const error = h("p", { class: "problem", id: `${id}-error`, role: "alert" });
  const words = h("small", { id: `${id}-words` }, field.words);
  made.control.id = id;
  made.control.setAttribute("aria-describedby", `${id}-words ${id}-error`);
  made.control.dataset.key = field.key;
  for (const one of [made.control, made.more].filter(Boolean)) one.disabled = readonly;
  const node = h(
    "div",
    { class: "field setting" },
    h("label", { for: id }, field.label, " ", h("code", {}, field.key)),
    made.node,
    words,
    error,
  );
  const complain = (text) => {
    setText(error, text);
    if (text) made.control.setAttribute("aria-invalid", "true");
    else made.control.removeAttribute("aria-invalid");
  };
  return { ...field, ...made, node, complain };
}

// Turns {a: {b: 1}} into [["a.b", "1"]].
function flatten(settings, prefix = "") {
  return Object.entries(settings).flatMap(([key, value]) =>
    value !== null && typeof value === "object"
      ? flatten(value, `${prefix}${key}.`)
      : [[prefix + key, String(value)]],
  );
}

// mode is "new", "change" or "read".
export function settingsForm(mode) {
  const fields = new Map();
  const groups = GROUPS.map(({ title, fields: some }) => {
    const made = some.map((field) => {
      const one = makeField(field, mode === "read" || (mode === "change" && field.fixed === true));
      fields.set(field.key, one);
      return one;
    });
    return h(
      "fieldset",
      { class: "group" },
      h("legend", {}, title),
      h("div", { class: "grid" }, made.map(({ node }) => node)),
    );
  });
  const before = new Map();
  const settle = () => fields.forEach((field, key) => before.set(key, field.get()));

  // The node's values. A setting that the form does not know stays as it is.
  function set(settings) {
    for (const [key, value] of flatten(settings)) fields.get(key)?.set(value);
    settle();
  }
  const changes = () =>
    Object.fromEntries(
      [...fields]
        .filter(([key, field]) => field.get() !== before.get(key))
        .map(([key, field]) => [key, field.get()]),
    );
  const clear = () => fields.forEach((field) => field.complain(""));

  // Returns true if the error is shown at its field. A hidden field is made visible.
  function complain({ field, message }) {
    const one = fields.get(field);
    if (!one) return false;
    one.complain(message);
    for (let at = one.node; at; at = at.parentElement) if (at.localName === "details") at.open = true;
    one.control.focus();
    return true;
  }
  for (const { usual, set: put } of fields.values()) put(usual);
  settle();
  return {
    node: h("div", { class: "groups" }, groups),
    set,
    changes,
    clear,
    complain,
    put: (key, value) => fields.get(key).set(value),
    get: (key) => fields.get(key).get(),
  };
}
