// SPDX-License-Identifier: Apache-2.0
// Shows the newest events of a queue's journal, live.
import * as api from "./api.js";
import { empty, h, setText, table } from "./dom.js";
import { EVENT_COLUMNS, eventRow, failureOf } from "./events.js";
import { queueLink } from "./links.js";
import { live } from "./live.js";

const SHOWN = 200; // events on the page
const RECENT = 200; // entries per shard at the start

// Which events the page shows. With parallel workers a third of them tell about the order only.
const KINDS = [
  ["", "All but notes on order", ({ type }) => type !== "ordering-best-effort"],
  ["failures", "Failures", (event) => failureOf(event) !== null],
  ["outcomes", "Outcomes", ({ type }) => type === "message-outcome"],
  ["all", "All events", () => true],
];

// Draws once per frame: a busy queue has thousands of events per second.
function makeTape(queue, body, wanted) {
  let waiting = [];
  let frame = 0;
  const show = () => {
    frame = 0;
    if (!live.following) return;
    const some = waiting
      .slice(-SHOWN)
      .reverse()
      .map((event) => eventRow(queue, event));
    waiting = [];
    body.prepend(...some);
    while (body.childElementCount > SHOWN) body.lastElementChild.remove();
  };
  return {
    add(event) {
      if (!wanted(event)) return;
      waiting.push(event);
      if (waiting.length > 2 * SHOWN) waiting = waiting.slice(-SHOWN);
      frame ||= requestAnimationFrame(show);
    },
    show: () => waiting.length && show(),
  };
}

// The start position in every shard, for the newest events.
export async function recentEntry(name, stats) {
  const { settings } = await api.showQueue(name);
  return Math.max(0, Math.floor(stats.entries / (settings.shards ?? 1)) - RECENT);
}

// The choice is in the address. So the list is read again from its start.
function makeKinds(name, query, go) {
  const chosen = KINDS.find(([key]) => key === query.get("show")) ?? KINDS[0];
  const choose = () => go(queueLink(name, `/activity${pick.value && `?show=${pick.value}`}`));
  const pick = h(
    "select",
    { "aria-label": "Events", onchange: choose },
    KINDS.map(([value, words]) => h("option", { value, selected: value === chosen[0] }, words)),
  );
  return { node: pick, wanted: chosen[2] };
}

export function activityView({ name, state, query, go }) {
  const body = h("tbody", {});
  const onlyProcessed = state === "processed";
  const list = table("Events", EVENT_COLUMNS, body);
  const nothing = empty(
    onlyProcessed ? "No message was processed recently." : "No recent events.",
  );
  const status = h("span", { class: "muted" }, "connecting");
  const kinds = makeKinds(name, query, go);
  const isProcessed = (event) => event.status === "processed";
  const tape = makeTape(name, body, onlyProcessed ? isProcessed : kinds.wanted);
  const words = onlyProcessed
    ? "Finished messages are removed; their history is kept for at least an hour."
    : "Newest first. Events are kept for at least an hour.";
  let stop = null;
  let left = false;
  let loaded = false; // all existing events were seen

  async function begin(stats) {
    stop = () => {};
    const from = await recentEntry(name, stats).catch(() => 0);
    if (left) return;
    stop = api.follow(
      name,
      { from, ...(onlyProcessed && { type: "message-outcome" }) },
      ({ event, caughtUp, open, why }) => {
        if (event) tape.add(event);
        else if (caughtUp) loaded = true;
        else
          setText(
            status,
            open ? "following" : `not connected, trying again${why ? `: ${why.message}` : ""}`,
          );
      },
    );
  }
  return {
    node: h(
      "section",
      { class: "panel", "aria-label": "Events" },
      h(
        "div",
        { class: "tools" },
        h("p", { class: "muted" }, words),
        h("span", { class: "gap" }),
        status,
        !onlyProcessed && kinds.node,
      ),
      list,
      nothing,
    ),
    update({ stats }) {
      if (!stop && stats) begin(stats);
      if (live.following) tape.show();
      const none = body.childElementCount === 0;
      nothing.hidden = !none || !loaded;
      list.hidden = none;
    },
    leave() {
      left = true;
      stop?.();
    },
  };
}
