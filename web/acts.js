// SPDX-License-Identifier: Apache-2.0
// What a user can do with chosen messages: the same on the page of a message and in a list.
import * as api from "./api.js";
import { ask, askSend, field } from "./dialogs.js";
import { h, toast } from "./dom.js";
import { count } from "./format.js";
import { may, refresh } from "./live.js";

const NAMED_MAX = 5; // ids in a dialog

const isLocked = ({ state }) => state === "locked";
const isWaiting = ({ state }) => state === "ready" || state === "delayed";
const isDead = ({ state, from }) => state === "dead" || (state === "ready" && from?.reason);

const plural = (messages) =>
  messages.length === 1 ? "1 message" : `${count(messages.length)} messages`;

function names(messages) {
  const some = messages.slice(0, NAMED_MAX).map(({ id }) => h("li", {}, h("code", {}, id)));
  const more = messages.length - some.length;
  return h("ul", { class: "named-ids" }, some, more > 0 && h("li", {}, `and ${count(more)} more`));
}

// The node answers a row per message. Some may be refused: another client was faster.
function tell(verb, { outcomes, error }) {
  const done = outcomes.filter(({ code }) => code === "OK").length;
  const refused = outcomes.length - done;
  if (!refused) return toast(`${verb} ${count(done)}`);
  const why = error?.detail ?? outcomes.find(({ reason }) => reason)?.reason ?? "";
  return toast(`${verb} ${count(done)}, refused ${count(refused)}: ${why}`, "bad");
}

const idsOf = (messages) => messages.map(({ id }) => id);

// An act has {label, kind, offered(queue, messages), work(queue, messages, after)}. after() is called
// when it is done.
export const REDRIVE = {
  label: "Redrive…",
  offered: (queue, messages) => may(queue, "admin") && messages.some(isDead),
  work(queue, messages, after) {
    const dead = messages.filter(isDead);
    ask({
      title: `Redrive ${plural(dead)}`,
      verb: "Redrive",
      parts: [
        h("p", {}, "Each is sent again as a new message: a dead letter to the queue it died in."),
        names(dead),
      ],
      done: async () => {
        tell("Redrove", await api.redrive(queue, { ids: idsOf(dead) }));
        await refresh();
        after?.();
      },
    });
  },
};

function reasonField() {
  const control = h("input", { type: "text", autocomplete: "off", maxlength: "4096" });
  return { node: field("Reason", control, "Kept with the message. May be empty."), control };
}

// Messages that no worker holds.
export const CANCEL = {
  label: "Cancel…",
  kind: "danger",
  offered: (queue, messages) => may(queue, "signal") && messages.some(isWaiting),
  work(queue, messages, after) {
    const some = messages.filter(isWaiting);
    const reason = reasonField();
    ask({
      title: `Cancel ${plural(some)}`,
      verb: some.length === 1 ? "Cancel the message" : "Cancel the messages",
      dismiss: "Keep",
      kind: "danger",
      parts: [h("p", {}, "No worker gets a cancelled message."), names(some), reason.node],
      done: async () => {
        tell("Cancelled", await api.cancel(queue, idsOf(some), reason.control.value.trim()));
        await refresh();
        after?.();
      },
    });
  },
};

const ENDS = [
  ["cancel", "is cancelled"],
  ["retry", "is tried again"],
  ["dead-letter", "is dead"],
];

function stopParts() {
  const reason = reasonField();
  const grace = h("input", { type: "text", autocomplete: "off", value: "30s" });
  const now = h("input", { type: "checkbox", onchange: () => (grace.disabled = now.checked) });
  const then = h(
    "select",
    {},
    ENDS.map(([value, words]) => h("option", { value }, words)),
  );
  const nodes = [
    reason.node,
    field("Grace", grace, "Until then the worker may still finish the message. Up to 24h."),
    h("label", { class: "choice" }, now, "At once, without a grace"),
    field("Then the message", then),
  ];
  const options = () => ({
    ...(reason.control.value.trim() && { reason: reason.control.value.trim() }),
    ...(now.checked ? { now: true } : { grace: grace.value.trim() || "30s" }),
    then: then.value,
  });
  return { nodes, options };
}

// Messages that a worker holds: a signal ends their jobs.
export const STOP = {
  label: "Stop…",
  kind: "danger",
  offered: (queue, messages) => may(queue, "signal") && messages.some(isLocked),
  work(queue, messages, after) {
    const some = messages.filter(isLocked);
    const parts = stopParts();
    ask({
      title: `Stop ${plural(some)}`,
      verb: "Stop",
      dismiss: "Keep running",
      kind: "danger",
      parts: [h("p", {}, "The worker is told to end the job."), names(some), ...parts.nodes],
      done: async () => {
        const to = { kind: "interrupt", ids: idsOf(some), ...parts.options() };
        const { signals, error } = await api.signal(queue, to);
        tell("Interrupted", { outcomes: signals, error });
        await refresh();
        after?.();
      },
    });
  },
};

// All messages of a workflow that have not ended: those that wait are cancelled at once.
export function askStopWorkflow(queue, workflow, open, after) {
  const parts = stopParts();
  const words = "Messages that wait end at once. Workers are told to end the jobs that run.";
  ask({
    title: `Stop workflow ${workflow}`,
    verb: "Stop",
    dismiss: "Keep running",
    kind: "danger",
    parts: [h("p", {}, `${count(open)} unfinished. ${words}`), ...parts.nodes],
    done: async () => {
      const to = { kind: "interrupt", workflow, ...parts.options() };
      const { signals, error } = await api.signal(queue, to);
      tell("Interrupted", { outcomes: signals, error });
      await refresh();
      after?.();
    },
  });
}

// Dead messages of this queue. A dead letter is a ready message, so it is cancelled.
export const PURGE = {
  label: "Delete…",
  kind: "danger",
  offered: (queue, messages) =>
    may(queue, "signal") && messages.some(({ state }) => state === "dead"),
  work(queue, messages, after) {
    const dead = messages.filter(({ state }) => state === "dead");
    ask({
      title: `Delete ${plural(dead)}`,
      verb: "Delete",
      kind: "danger",
      parts: [h("p", {}, "This deletes dead messages permanently."), names(dead)],
      done: async () => {
        tell("Deleted", await api.cancel(queue, idsOf(dead)));
        await refresh();
        after?.();
      },
    });
  },
};

// Opens the dialog for a new message with the content of this one.
export const SEND_AGAIN = {
  label: "Send again…",
  offered: (queue, [message]) =>
    may(queue, "send") && (message.body !== undefined || message.bodyBase64 !== undefined),
  work: (queue, [message]) => askSend(queue, message),
};

export const MESSAGE_ACTS = [REDRIVE, SEND_AGAIN, STOP, CANCEL, PURGE]; // on the page of a message
export const LIST_ACTS = [REDRIVE, STOP, CANCEL, PURGE]; // for a selection
