// SPDX-License-Identifier: Apache-2.0
// Follows GET /v1/stream, which has the events of all queues, whichever node they happen at. While
// it is open, the dashboard asks for nothing that events can tell.
import { Refused, node, openStream, whenVisible } from "./api.js";

const SILENT_MS = 35000; // the node sends a comment at least every 15 s
const RETRY_MS = [0, 1000, 2000, 5000, 10000, 30000];
const LAGGED_MS = 1000; // a page that cannot keep up waits before it opens the stream again
const NAMED_MAX = 60; // a request has at most 64 parameters

// Refusals that the operator chose, or that the number of queues explains. They are no fault.
const isPlanned = (error) =>
  error instanceof Refused &&
  ([401, 403, 404].includes(error.status) ||
    ["off", "too-many-queues"].includes(error.reason));

// The node offers the stream to the dashboard only with flags.stream=on. An older node has no flags.
async function checkFlag() {
  const { flags = "" } = await node();
  const state = /\bstream=(\w+)/.exec(flags)?.[1] ?? "off";
  if (state !== "on") throw new Refused(503, { detail: `flags.stream is ${state}`, reason: "off" });
}

// namesOf() returns the queues that the token may read. tell() gets one of these:
//   {open: true}                   all later events will arrive
//   {open: false, why, planned, tries}  the stream is closed: why, or null; attempts since then
//   {seen: true}                   the node has sent something
//   {event: true}                  something happened in a queue
//   {all: true}                    events were missed, or the set of queues has changed
export function followAll(namesOf, tell) {
  let last = ""; // the id to resume after
  let lives = null; // how many queues that id has; a queue without events appears there
  let named = null; // the queues that were asked for; null: all
  let current = null; // of the connection
  let fails = 0;
  let lagged = false;
  let wake = () => {};

  const pause = (ms) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  function take({ id, event, data, comment }) {
    tell({ seen: true });
    if (id !== undefined) {
      const count = id === "" ? 0 : id.split("-").length; // "": the store has no queue
      if (lives !== null && count !== lives) tell({ all: true });
      [last, lives] = [id, count];
    }
    if (comment || data === undefined) return;
    // The page reads the state instead: to read the events from there on would only lag again.
    if (event === "lagged") [last, lives, lagged] = ["", null, true];
    if (["lagged", "gap", "end"].includes(event)) return tell({ all: true });
    tell({ event: true });
  }

  const pathOf = () => {
    const query = (named ?? []).map((name) => ["queue", name]);
    return `v1/stream?${new URLSearchParams(last ? query : [...query, ["from", "now"]])}`;
  };

  async function connect() {
    const ends = (current = new AbortController());
    let quiet = 0;
    const listen = () => {
      clearTimeout(quiet);
      quiet = setTimeout(() => ends.abort(new Error("the stream was silent")), SILENT_MS);
    };
    const hide = () => document.hidden && ends.abort();
    document.addEventListener("visibilitychange", hide);
    listen();
    try {
      let begun = false;
      for await (const part of openStream(pathOf(), last, ends.signal)) {
        listen();
        if (!begun && part.comment) {
          begun = true;
          fails = 0;
          tell({ open: true });
        }
        if (!part.open) take(part);
      }
    } finally {
      clearTimeout(quiet);
      document.removeEventListener("visibilitychange", hide);
    }
  }

  // A token for some queues may follow those by name.
  async function connectByScope() {
    try {
      await connect();
    } catch (error) {
      const names = namesOf();
      const byName = error instanceof Refused && error.status === 403 && names.length > 0;
      if (!byName || named || names.length > NAMED_MAX) throw error;
      named = names;
      await connect();
    }
  }

  function delay(why) {
    if (document.hidden) return 0; // then it waits until the tab is visible
    if (lagged) return LAGGED_MS;
    if (isPlanned(why)) return RETRY_MS.at(-1);
    return RETRY_MS[Math.min(fails, RETRY_MS.length - 1)];
  }

  // After an open stream breaks, the first attempt is made at once.
  async function run() {
    for (;;) {
      let why = null;
      await whenVisible();
      try {
        await checkFlag();
        await connectByScope();
      } catch (error) {
        why = error;
      }
      if (document.hidden) last = ""; // the page reads everything when it is visible again
      if (why instanceof Refused && why.status === 400) last = ""; // the node does not know the id
      const planned = document.hidden || lagged || isPlanned(why);
      tell({ open: false, why, planned, tries: fails });
      await pause(delay(why));
      fails++;
      lagged = false;
    }
  }

  const restart = () => {
    [last, lives, named, fails] = ["", null, null, 0];
    current?.abort();
    wake();
  };
  run();
  return {
    restart,
    // The node answers again after an outage.
    retry: () => wake(),
    // A stream of named queues must be opened again for another set.
    queuesChanged(names) {
      if (named && names.join() !== named.join()) restart();
    },
  };
}
