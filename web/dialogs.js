// SPDX-License-Identifier: Apache-2.0
// Modal dialogs. Escape closes a dialog, and the focus returns to its previous place.
import * as api from "./api.js";
import { bodyText } from "./body.js";
import { h, toast } from "./dom.js";
import { settingsForm } from "./form.js";
import { count } from "./format.js";
import { live, refresh } from "./live.js";

let last = 0;

export function field(label, control, hint) {
  control.id ||= `field-${++last}`;
  const note = hint && h("small", { id: `${control.id}-hint` }, hint);
  if (note) control.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, note);
}

// Another page means other things by "this queue": the dialogs of the page before it close. The
// question for a token belongs to no page.
export function closeDialogs() {
  for (const dialog of document.querySelectorAll("dialog:not([data-lasting])")) dialog.close();
}

// done() does the work. If it is refused, the dialog stays open and shows the error. refused(error)
// returns true if it has shown the error at a field.
export function ask({
  title,
  parts,
  verb,
  kind = "primary",
  done,
  ready = () => true,
  refused = () => false,
  wide = false,
  lasting = false,
  dismiss = "Cancel",
}) {
  const problem = h("p", { class: "problem", role: "alert" });
  const go = h("button", { class: kind, type: "submit" }, verb);
  const stop = h("button", { type: "button", onclick: () => dialog.close() }, dismiss);
  const heading = `dialog-${++last}`;
  const form = h(
    "form",
    { method: "dialog", novalidate: true },
    h("h2", { id: heading }, title),
    parts,
    problem,
    h("div", { class: "actions" }, stop, go),
  );
  const dialog = h(
    "dialog",
    { "aria-labelledby": heading, class: wide ? "wide" : null, "data-lasting": lasting },
    form,
  );
  const updateButton = () => (go.disabled = !ready());
  form.addEventListener("input", updateButton);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    go.disabled = true;
    problem.textContent = "";
    try {
      await done();
      dialog.close("done"); // the returnValue; empty if the dialog was dismissed
    } catch (error) {
      if (!dialog.open) toast(error.message, "bad"); // the user went to another page meanwhile
      else if (!refused(error)) problem.textContent = error.message;
    }
    updateButton();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  updateButton();
  dialog.showModal();
  form.querySelector("input, textarea, select")?.focus();
  return dialog;
}

// ---- a message

// Headers with this beginning are the node's own.
const OWN_HEADER = "sluice-";

// Fills in what a message has. The dedup key is left out: the node would drop the second message.
function fillParts(parts, message) {
  const binary = message.bodyBase64 !== undefined;
  parts.body.value = binary ? "" : bodyText(message);
  parts.body.disabled = binary;
  parts.body.placeholder = binary ? "The body is binary. It is sent as it is." : "";
  for (const name of ["group", "contentType", "workflow"]) parts[name].value = message[name] ?? "";
  parts.priority.value = String(message.priority ?? 0);
  parts.headers.value = Object.entries(message.headers ?? {})
    .filter(([name]) => !name.startsWith(OWN_HEADER))
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n");
}

// A body that was JSON is sent as JSON again, and every number keeps its digits.
function bodyOf(text, message) {
  if (message?.bodyBase64 !== undefined) return { bodyBase64: message.bodyBase64 };
  if (message === undefined || typeof message.body === "string") return { body: text };
  try {
    return { body: api.parseExactly(text) };
  } catch {
    throw new Error("The body is not JSON any more. The message that you send again had JSON.");
  }
}

function sendParts() {
  const text = (placeholder) =>
    h("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder });
  return {
    body: h("textarea", { rows: "7", spellcheck: "false" }),
    group: text("none"),
    priority: h("input", { type: "number", min: "0", max: "9", value: "0" }),
    delay: text("none, or 30s, 5m"),
    contentType: text("none"),
    dedup: text("none"),
    workflow: text("none"),
    headers: h("textarea", {
      rows: "2",
      spellcheck: "false",
      placeholder: "one name: value per line",
    }),
  };
}

function headersOf(text) {
  const headers = {};
  for (const line of text.split("\n").filter((some) => some.trim())) {
    const colon = line.indexOf(":");
    if (colon < 1) throw new Error(`"${line.trim()}" is not a header; one looks like name: value`);
    headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return headers;
}

// Empty fields are not sent, so that the queue's own rules apply.
function messageOf(parts, from) {
  const message = bodyOf(parts.body.value, from);
  for (const name of ["group", "delay", "contentType", "dedup", "workflow"])
    if (parts[name].value.trim()) message[name] = parts[name].value.trim();
  if (Number(parts.priority.value)) message.priority = Number(parts.priority.value);
  const headers = headersOf(parts.headers.value);
  if (Object.keys(headers).length) message.headers = headers;
  return message;
}

// from: a message to send again, or undefined.
export function askSend(queue, from) {
  const parts = sendParts();
  if (from) fillParts(parts, from);
  ask({
    title: from ? `Send ${from.id} again` : `Send to ${queue}`,
    wide: true,
    verb: "Send",
    parts: [
      field("Body", parts.body, "Ctrl+Enter sends the message"),
      h(
        "details",
        { open: from !== undefined },
        h("summary", {}, "Options"),
        h(
          "div",
          { class: "grid" },
          field("Group", parts.group),
          field("Priority", parts.priority, "0 to 9, higher first"),
          field("Delay", parts.delay),
          field("Content type", parts.contentType),
          field("Dedup key", parts.dedup),
          field("Workflow", parts.workflow),
        ),
        field("Headers", parts.headers),
      ),
    ],
    done: async () => {
      const sent = await api.sendMessage(queue, messageOf(parts, from));
      toast(sent.duplicate ? `Not sent again, the dedup key is known: ${sent.id}` : `Sent ${sent.id}`);
      refresh();
    },
  });
  parts.body.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) parts.body.form.requestSubmit();
  });
}

// ---- queues

// The most common choice in one line. It fills in three fields of the form.
function deadLetterPreset(name, settings) {
  const chosen = h("input", { type: "checkbox" });
  const tries = h("input", { type: "number", min: "1", value: "5", "aria-label": "Attempts" });
  let offered = ""; // the suggested name, unless the user typed another
  const fill = () => {
    const letters = settings.get("failureStrategy.deadLetterQueue");
    const ours = letters === "" || letters === offered;
    if (ours) offered = chosen.checked && name.value.trim() ? `${name.value.trim()}-dead` : "";
    if (ours) settings.put("failureStrategy.deadLetterQueue", offered);
    if (!chosen.checked) return;
    settings.put("failureStrategy.mode", "hybrid");
    settings.put("failureStrategy.maxRetries", String(Math.max(0, Number(tries.value) - 1)));
  };
  chosen.addEventListener("change", () => {
    if (!chosen.checked) settings.put("failureStrategy.mode", "retry");
    fill();
  });
  tries.addEventListener("input", () => {
    chosen.checked = true;
    fill();
  });
  name.addEventListener("input", fill);
  return h(
    "div",
    { class: "choice" },
    h("label", { class: "choice" }, chosen, "Move messages to a dead-letter queue after"),
    tries,
    "failed attempts",
  );
}

export function askCreate(go) {
  const name = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const settings = settingsForm("new");
  const preset = deadLetterPreset(name, settings);
  ask({
    title: "New queue",
    verb: "Create",
    wide: true,
    parts: [
      field("Name", name, "Letters, digits, _ . and -"),
      preset,
      h("details", {}, h("summary", {}, "All settings"), settings.node),
    ],
    ready: () => name.value.trim() !== "",
    refused: (error) => settings.complain(error),
    done: async () => {
      settings.clear();
      await api.createQueue(name.value.trim(), settings.changes());
      await refresh(); // otherwise its page would report a missing queue and ignore keys
      go(name.value.trim());
    },
  });
}

// For permanent actions the user types the name.
function askSurely({ title, words, queue, verb, done }) {
  const name = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  ask({
    title,
    verb,
    kind: "danger",
    parts: [h("p", {}, words), field(`Type ${queue} to confirm`, name)],
    ready: () => name.value === queue,
    done,
  });
}

export function askDelete(queue, go) {
  askSurely({
    title: `Delete ${queue}`,
    words: "This deletes the queue and all its messages permanently.",
    queue,
    verb: "Delete the queue",
    done: async () => {
      await api.deleteQueue(queue);
      toast(`Deleted ${queue}`);
      await refresh(); // otherwise the list would still show it
      go();
    },
  });
}

export function askPurge(queue, dead, after) {
  const what = dead ? "dead messages" : "messages that are ready or delayed";
  askSurely({
    title: dead ? `Purge dead messages of ${queue}` : `Purge waiting messages of ${queue}`,
    words: `This deletes all ${what} permanently.`,
    queue,
    verb: "Purge",
    done: async () => {
      const { purged } = await api.purge(queue, dead);
      toast(`Purged ${count(purged)} of ${queue}`);
      refresh();
      after?.();
    },
  });
}

const ORDERS = {
  pause: ["Pause", "It gets no message until it is resumed. What it holds goes on."],
  resume: ["Resume", "It gets messages again."],
  drain: ["Drain", "It finishes what it holds and gets nothing more."],
  evict: [
    "Evict",
    "Its locks end at once, and other workers get its messages. What its jobs do meanwhile is lost.",
  ],
};

export function askOrder(queue, worker, order, after) {
  const [verb, words] = ORDERS[order];
  ask({
    title: `${verb} worker ${worker}`,
    parts: [h("p", {}, words)],
    verb,
    kind: order === "evict" ? "danger" : "primary",
    done: async () => {
      await api.orderWorker(queue, worker, order);
      toast(`${verb}: ${worker}`);
      after?.();
    },
  });
}

export function askRedrive(queue, after) {
  const all = h("input", { type: "radio", name: "how-many", checked: true });
  const some = h("input", { type: "radio", name: "how-many" });
  const most = h("input", { type: "number", min: "1", value: "1", "aria-label": "How many" });
  const names = h(
    "datalist",
    { id: "queue-names" },
    [...live.queues.keys()].map((name) => h("option", { value: name })),
  );
  const to = h("input", {
    type: "text",
    list: "queue-names",
    autocomplete: "off",
    placeholder: "the queue it died in",
  });
  most.addEventListener("input", () => (some.checked = true));
  ask({
    title: `Redrive dead messages of ${queue}`,
    verb: "Redrive",
    parts: [
      h(
        "fieldset",
        {},
        h("legend", {}, "How many"),
        h("label", { class: "choice" }, all, "All"),
        h("label", { class: "choice" }, some, "Only the first", most),
      ),
      field("To", to, "A queue. Empty: each message returns to the queue it died in."),
      names,
    ],
    done: async () => {
      const { redriven } = await api.redrive(queue, {
        max: some.checked ? Number(most.value) : 0,
        ...(to.value.trim() && { to: to.value.trim() }),
      });
      toast(
        redriven ? `Redrove ${count(redriven)}` : "No dead messages to redrive",
        redriven ? "ok" : "bad",
      );
      refresh();
      after?.();
    },
  });
}

// ---- the node

export function askToken(why) {
  const token = h("input", { type: "password", autocomplete: "off", spellcheck: "false" });
  const dialog = ask({
    title: "This node requires a token",
    verb: "Use it",
    lasting: true,
    parts: [why && h("p", {}, why), field("Token", token, "Kept until this tab is closed")],
    ready: () => token.value !== "",
    done: async () => {
      api.setToken(token.value.trim());
      refresh();
    },
  });
  return dialog;
}

export function showHelp(shortcuts) {
  const rows = shortcuts.map(([keys, words]) =>
    h(
      "div",
      {},
      h(
        "dt",
        {},
        keys.map((key) => h("kbd", {}, key)),
      ),
      h("dd", {}, words),
    ),
  );
  const close = h(
    "button",
    { class: "primary", type: "button", onclick: () => dialog.close() },
    "Close",
  );
  const dialog = h(
    "dialog",
    { "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, "Keyboard shortcuts"),
    h("dl", { class: "keys" }, rows),
    h("div", { class: "actions" }, close),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}
