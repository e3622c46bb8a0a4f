// SPDX-License-Identifier: Apache-2.0
// The settings of a queue as a form, with groups, a sentence per setting, units next to the
// numbers, and each error at its field. New and existing queues use the same form.
import { h, setText } from "./dom.js";
import { setting } from "./format.js";

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

// key, label, sentence, default, and one of: choices [[value, text]], units [[unit, text]], suffix
const GROUPS = [
  {
    title: "Delivery",
    fields: [
      {
        key: "visibilityTimeout",
        label: "Lock time",
        words: "A worker must finish or renew within this time, else the message returns.",
        usual: "30s",
        units: TIMES,
      },
      {
        key: "orderingMode",
        label: "Order",
        words: "Which ready message is delivered first.",
        usual: "fifo",
        choices: [
          ["fifo", "oldest first (fifo)"],
          ["lifo", "newest first (lifo)"],
        ],
      },
      {
        key: "orderingGuarantee",
        label: "Strict order",
        words: "A message waits until the one before it in its group ends. Needs an empty queue.",
        usual: "false",
        choices: [
          ["false", "no"],
          ["true", "yes, in each group"],
        ],
      },
    ],
  },
  {
    title: "Failures",
    fields: [
      {
        key: "failureStrategy.mode",
        label: "When a message fails",
        words: "A dead message stays in this queue, or moves to the dead-letter queue.",
        usual: "retry",
        choices: [
          ["retry", "retry, then keep as dead"],
          ["hybrid", "retry, then dead-letter queue"],
          ["dead-letter", "dead-letter queue at once"],
        ],
      },
      {
        key: "failureStrategy.deadLetterQueue",
        label: "Dead-letter queue",
        words: "Required by both modes that move. It is created if it does not exist.",
        usual: "",
        placeholder: "none",
      },
      {
        key: "failureStrategy.maxRetries",
        label: "Retries",
        words: "Attempts after the first one.",
        usual: "5",
        suffix: "retries",
      },
      {
        key: "failureStrategy.backoff.initial",
        label: "First wait",
        words: "The time before the first retry.",
        usual: "1s",
        units: TIMES,
      },
      {
        key: "failureStrategy.backoff.multiplier",
        label: "Growth of the wait",
        words: "Each wait is the one before times this number.",
        usual: "2",
        suffix: "times",
      },
      {
        key: "failureStrategy.backoff.max",
        label: "Longest wait",
        words: "No wait is longer than this.",
        usual: "5m",
        units: TIMES,
      },
      {
        key: "failureStrategy.backoff.jitter",
        label: "Spread of the wait",
        words: "As a part of the wait, 0 to 1: 0.2 is up to 20 % shorter or longer.",
        usual: "0.2",
        suffix: "of the wait",
      },
      {
        key: "maxDeliveries",
        label: "Delivery limit",
        words: "A message that was delivered this often and not finished is dead. 0: no limit.",
        usual: "0",
        suffix: "deliveries",
      },
    ],
  },
  {
    title: "Limits",
    fields: [
      {
        key: "maxMessageBytes",
        label: "Largest body",
        words: "A larger message is refused. At most 64 MiB.",
        usual: "1048576",
        units: SIZES,
      },
      {
        key: "capacity",
        label: "Capacity",
        words: "Messages that the queue holds at most, in each shard.",
        usual: "10000000",
        suffix: "messages",
      },
      {
        key: "backpressure",
        label: "When the queue is full",
        words: "What happens to a message that is sent then.",
        usual: "reject",
        choices: [
          ["reject", "refuse the message"],
          ["block", "wait for space"],
        ],
      },
      {
        key: "dedupWindow",
        label: "Deduplication time",
        words: "A second message with the same dedup key is dropped within this time. 0: never.",
        usual: "5m",
        units: TIMES,
      },
      {
        key: "shards",
        label: "Shards",
        words: "Journals that share the load. Fixed when the queue is created.",
        usual: "1",
        suffix: "shards",
        fixed: true,
      },
    ],
  },
];

// Splits a value into the largest unit that gives a whole number: 2097152 is 2 MiB, "90s" is 90 s.
function split(value, units) {
  const text = setting(value);
  if (units === SIZES) {
    const size = Number(text);
    if (size && size % 1048576 === 0) return [String(size / 1048576), "MiB"];
    return size && size % 1024 === 0 ? [String(size / 1024), "KiB"] : [text, ""];
  }
  const found = /^(\d+)(ms|s|m|h|d)$/.exec(text);
  return found ? found.slice(1) : [text, "s"];
}

const option = ([value, words]) => h("option", { value }, words);

// Returns {node, control, get, set}. get returns the text that the node accepts.
function makeControl({ key, choices, units, suffix, placeholder }) {
  if (choices) {
    const select = h("select", {}, choices.map(option));
    return { node: select, control: select, get: () => select.value, set: (v) => (select.value = v) };
  }
  const input = h("input", {
    type: "text",
    inputmode: units || suffix ? "decimal" : null,
    autocomplete: "off",
    spellcheck: "false",
    placeholder,
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
