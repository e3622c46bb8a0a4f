// SPDX-License-Identifier: Apache-2.0
// What a user can do with chosen messages: the same on the page of a message and in a list.
import * as api from "./api.js";
import { ask, askSend, field } from "./dialogs.js";
import { h, toast } from "./dom.js";
import { count } from "./format.js";
import { may, refresh } from "./live.js";

const NAMED_MAX = 5; // ids in a dialog

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

export const MESSAGE_ACTS = [REDRIVE, SEND_AGAIN, CANCEL, PURGE]; // on the page of a message
export const LIST_ACTS = [REDRIVE, CANCEL, PURGE]; // for a selection
