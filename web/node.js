// SPDX-License-Identifier: Apache-2.0
// Shows the node that answers: its name, whether it is ready, its counters and their cost.
import * as api from "./api.js";
import { askToken } from "./dialogs.js";
import { empty, factList, h, keyedRows, setText, table, toast } from "./dom.js";
import { bytes, count, duration, rate } from "./format.js";
import { live, slowly, takeReady } from "./live.js";
import { labelsOf, meanMs, readSamples, summing } from "./metrics.js";

const COUNTERS_MS = 3000; // no event tells the counters

const time = (ms) => {
  if (!Number.isFinite(ms)) return "–";
  return ms < 10 ? `${ms.toFixed(2)} ms` : duration(ms);
};
const number = (value) => (Number.isFinite(value) ? count(value) : "–");
const dollars = (writes, reads) =>
  `$${((writes * 0.005) / 1000 + (reads * 0.0004) / 1000).toFixed(4)}`;

// ---- facts

function nodeFacts(node, ready) {
  return [
    ["Node", node.node],
    ["State", ready],
    ["Version", node.version],
    ["Store", node.store],
    ["Address", node.address],
    ["Up for", duration(node.uptimeMs)],
    ["Queues", count(node.queues)],
    ["Waiting receives", count(node.waiting)],
  ];
}

function workFacts(sum) {
  const ops = sum("sluice_entry_ops_sum") / sum("sluice_entry_ops_count");
  const durable = sum("sluice_store_durable") !== 0;
  return [
    ["Durability", !durable && "a crash may lose acknowledged messages: the store's URL accepts it"],
    ["Mean commit time", time(meanMs(sum, "sluice_commit_duration_seconds"))],
    ["Operations per entry", Number.isFinite(ops) ? ops.toFixed(2) : ""],
    ["Locks expired", number(sum("sluice_locks_expired_total"))],
    ["Late acks refused", number(sum("sluice_late_acks_total"))],
    ["Fenced attempts", number(sum("sluice_fenced_total"))],
    ["Event streams", number(sum("sluice_event_streams"))],
    ["Memory", bytes(sum("process_resident_memory_bytes"))],
    ["CPU time", duration(sum("process_cpu_seconds_total") * 1000)],
  ];
}

// Only if the store bills requests. The prices are those of S3 Standard.
function costFacts(sum) {
  const [writes, reads, deletes] = ["write", "read", "delete"].map((kind) =>
    sum("sluice_store_charged_requests_total", { class: kind }),
  );
  if (!(writes + reads + deletes > 0)) return [];
  return [
    [
      "Charged requests",
      `${count(writes)} writes, ${count(reads)} reads, ${count(deletes)} deletes: ` +
        `${dollars(writes, reads)} at the prices of S3 Standard`,
    ],
  ];
}

// ---- the bus

// Whether events reach the bus. A node without a bus has no such box.
function makeBus() {
  const state = h("span", { class: "badge" });
  const list = factList();
  const node = h(
    "section",
    { class: "panel", "aria-label": "Bus", hidden: true },
    h("h2", {}, "Bus ", state),
    list.node,
  );
  const update = (bus) => {
    node.hidden = !bus;
    if (!bus) return;
    setText(state, bus.degraded ? "degraded" : "connected");
    state.className = `badge ${bus.degraded || bus.overdue ? "bad" : "good"}`;
    list.update([
      ["Degraded for", bus.degraded && duration(bus.degradedMs)],
      ["Reason", bus.degraded && bus.reason],
      ["Lag", `${count(bus.lagEvents)} events, ${duration(bus.lagMs)}`],
      ["Overdue", bus.overdue && "events wait for longer than publishKeep"],
      ["Dropped", `${count(bus.dropped)} events`],
    ]);
  };
  return { node, update };
}

// ---- the flags

// "bus=on stream=off": how far each capability is rolled out.
function makeFlags() {
  const list = h("ul", { class: "flags" });
  const rows = keyedRows(list, ([name]) => {
    const state = h("span", { class: "badge" });
    const update = ([, value]) => {
      setText(state, value);
      state.className = `badge ${value === "on" ? "good" : "warn"}`;
    };
    return { node: h("li", {}, h("code", {}, `flags.${name}`), " ", state), update };
  });
  const node = h(
    "section",
    { class: "panel", "aria-label": "Flags", hidden: true },
    h("h2", {}, "Flags"),
    list,
  );
  const update = (text = "") => {
    const flags = text.split(" ").filter(Boolean);
    node.hidden = flags.length === 0;
    rows(
      flags.map((one) => one.split("=")),
      ([name]) => name,
    );
  };
  return { node, update };
}

// ---- tables

const REQUESTS = {
  title: "Requests",
  columns: ["Request", "Answered", "Per second", "Refused", "Failed", "Mean time"],
  rows: (samples, sum, rates) =>
    labelsOf(samples, "sluice_http_requests_total", ["method", "route"]).map((like) => {
      const all = sum("sluice_http_requests_total", like);
      const key = `${like.method} ${like.route}`;
      return {
        key,
        order: all,
        cells: [
          count(all),
          rate(rates(key, all)),
          number(sum("sluice_http_requests_total", { ...like, status: /^4/ })),
          number(sum("sluice_http_requests_total", { ...like, status: /^5/ })),
          time(meanMs(sum, "sluice_http_request_duration_seconds", like)),
        ],
      };
    }),
};
const STORE = {
  title: "Store calls",
  columns: ["Call", "Made", "Per second", "Sent", "Received", "Mean time"],
  rows: (samples, sum, rates) =>
    labelsOf(samples, "sluice_store_requests_total", ["call"])
      .map((like) => {
        const all = sum("sluice_store_requests_total", like);
        return {
          key: like.call,
          order: all,
          cells: [
            count(all),
            rate(rates(like.call, all)),
            bytes(sum("sluice_store_sent_bytes_total", like)),
            bytes(sum("sluice_store_received_bytes_total", like)),
            time(meanMs(sum, "sluice_store_request_duration_seconds", like)),
          ],
        };
      })
      .filter(({ order }) => order > 0),
};

// The growth of a counter since the last sample.
function makeRates() {
  const seen = new Map();
  return (key, value) => {
    const before = seen.get(key);
    const now = performance.now();
    seen.set(key, { value, now });
    return before && now > before.now
      ? Math.max(0, value - before.value) / ((now - before.now) / 1000)
      : undefined;
  };
}

function makeTable({ title, columns, rows }) {
  const body = h("tbody", {});
  const rates = makeRates();
  const show = keyedRows(body, ({ key }) => {
    const cells = columns
      .slice(1)
      .map((label) => h("td", { class: "number", "data-label": label }));
    return {
      node: h("tr", {}, h("th", { scope: "row" }, h("code", {}, key)), cells),
      update: (row) => row.cells.forEach((text, index) => setText(cells[index], text)),
    };
  });
  const heads = columns.map((label, index) => ({ label, class: index ? "number" : null }));
  const node = h(
    "section",
    { class: "panel", "aria-label": title },
    h("h2", {}, title),
    table(title, heads, body),
  );
  const update = (samples, sum) =>
    show(
      rows(samples, sum, rates).sort((a, b) => b.order - a.order || (a.key < b.key ? -1 : 1)),
      ({ key }) => key,
    );
  return { node, update };
}

// ---- the page

export function nodePage() {
  const [about, work] = [factList(), factList()];
  const [bus, flags] = [makeBus(), makeFlags()];
  const problem = h("p", { class: "problem", role: "alert" });
  const tables = [makeTable(REQUESTS), makeTable(STORE)];
  const nothing = empty("The counters need a token with the scope read for all queues (*).");
  const token = h("button", { type: "button", onclick: () => askToken() }, "Enter a token");
  const forget = h(
    "button",
    {
      type: "button",
      onclick: () => {
        api.setToken("");
        toast("Removed the token");
      },
    },
    "Remove the token",
  );
  const counted = h(
    "div",
    { hidden: true },
    tables.map(({ node }) => node),
  );
  nothing.hidden = true;
  const due = slowly(COUNTERS_MS);
  let busy = false;
  let shown = true; // a node that shows no counters is not asked again

  async function readFacts() {
    const [node, ready] = await Promise.all([
      api.node(),
      api.ready().then(
        (told) => told ?? {},
        (error) => ({ status: error.message }),
      ),
    ]);
    about.update(nodeFacts(node, ready.status ?? "ready"));
    if (ready.status === "ready") takeReady(ready);
    bus.update(ready.bus);
    flags.update(node.flags);
  }
  async function readCounters() {
    const samples = readSamples(await api.metrics());
    const sum = summing(samples);
    work.update([...workFacts(sum), ...costFacts(sum)]);
    for (const one of tables) one.update(samples, sum);
    counted.hidden = false;
  }
  async function update() {
    forget.hidden = !api.hasToken();
    // a node without tokens needs none
    token.hidden = !api.hasToken() && live.error?.status !== 401;
    if (busy || !due()) return;
    busy = true;
    await readFacts().then(
      () => setText(problem, ""),
      (error) => setText(problem, error.message),
    );
    if (shown) await readCounters().catch((error) => (shown = !(error instanceof api.Refused)));
    nothing.hidden = shown;
    busy = false;
  }
  const node = h(
    "div",
    {},
    h(
      "div",
      { class: "head" },
      h("h1", { tabindex: "-1" }, "Node"),
      h("span", { class: "gap" }),
      token,
      forget,
    ),
    problem,
    h("section", { class: "panel halves", "aria-label": "About" }, about.node, work.node),
    bus.node,
    flags.node,
    counted,
    nothing,
  );
  return { title: "Node", nav: "node", node, update, keys: {} };
}
