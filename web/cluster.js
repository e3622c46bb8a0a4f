// SPDX-License-Identifier: Apache-2.0
// Shows the cluster as the node sees it: the nodes and their health, the leader, a map of shards by
// owner, and the moves under way.
import * as api from "./api.js";
import { empty, h, keyedRows, setText, table } from "./dom.js";
import { count, duration } from "./format.js";
import { queueLink } from "./links.js";
import { slowly } from "./live.js";

const CLUSTER_MS = 3000; // the stream has events of queues, not of nodes
const COLOURS = 8; // classes owner-0 to owner-7 of style.css
const BAD = ["suspect", "unhealthy", "gone"];

function clusterFacts(cluster) {
  const plan = `number ${count(cluster.planNumber)} of epoch ${count(cluster.planEpoch)}`;
  const moves = `${count(cluster.moves)} ${cluster.moves === 1 ? "move" : "moves"}`;
  const waiting = cluster.waiting ? `, ${count(cluster.waiting)} put off` : "";
  return [
    ["Leader", cluster.leader ? `${cluster.leader}, epoch ${count(cluster.epoch)}` : "none"],
    ["Coordination", cluster.backend],
    ["Lease", duration(cluster.leaseMs)],
    ["Plan", cluster.planNumber ? `${plan}, with ${moves}${waiting}` : "none"],
    ["As seen by", cluster.node],
  ];
}

// What an operator must know before all else.
function warnings(cluster) {
  const why = cluster.degradedWhy || "it does not answer";
  return [
    cluster.degraded && `Coordination is away for ${duration(cluster.degradedMs)}: ${why}.`,
    cluster.replaced && `A later start of ${cluster.node} has replaced this node.`,
    cluster.draining && `${cluster.node} gives its shards away.`,
    cluster.observeOnly && `${cluster.node} only observes: it claims no shard.`,
  ].filter(Boolean);
}

// ---- nodes

function healthTone(status) {
  if (BAD.includes(status)) return "bad";
  return status === "healthy" ? "good" : "warn";
}

const NODE_COLUMNS = ["Node", "Health", "Shards", "Capacity", "Last seen", "Version", "Address"];

function makeNodes() {
  const body = h("tbody", {});
  const show = keyedRows(body, ({ name }) => {
    const cells = NODE_COLUMNS.slice(1).map((label, index) =>
      h("td", { class: index > 0 && index < 4 ? "number" : null, "data-label": label }),
    );
    const health = h("span", { class: "badge" });
    const leads = h("span", { class: "badge" }, "leads");
    cells[0].append(h("span", { class: "badges" }, health, leads));
    return {
      node: h("tr", {}, h("th", { scope: "row" }, name), cells),
      update(row) {
        setText(health, row.status);
        health.className = `badge ${healthTone(row.status)}`;
        leads.hidden = !row.leads;
        const texts = [row.shards, row.capacity].map(count);
        [...texts, duration(row.beatAgeMs), row.version, row.url].forEach((text, index) =>
          setText(cells[index + 1], text),
        );
      },
    };
  });
  const heads = NODE_COLUMNS.map((label, index) => ({
    label,
    class: index > 1 && index < 5 ? "number" : null,
  }));
  const node = h(
    "section",
    { class: "panel", "aria-label": "Nodes" },
    h("h2", {}, "Nodes"),
    table("Nodes", heads, body),
  );
  return { node, update: (members) => show(members, ({ name }) => name) };
}

// ---- the shards, one by one

const SHARD_COLUMNS = ["Queue", "Shard", "Owner", "Epoch", "Ready", "Open", "Refused claims"];
const ROWS_MAX = 200;
const isNumber = (index) => index === 1 || index > 2;

function makeShards() {
  const body = h("tbody", {});
  const show = keyedRows(body, ({ queue }) => {
    const cells = SHARD_COLUMNS.slice(1).map((label, index) =>
      h("td", { class: isNumber(index + 1) ? "number" : null, "data-label": label }),
    );
    return {
      node: h("tr", {}, h("th", { scope: "row" }, queue), cells),
      update(row) {
        const counts = [row.ready, row.open, row.refusedClaims];
        const texts = counts.map((n) => (row.counted ? count(n) : "–"));
        [String(row.shard), row.owner || "–", count(row.epoch), ...texts].forEach((text, index) =>
          setText(cells[index], text),
        );
      },
    };
  });
  const heads = SHARD_COLUMNS.map((label, index) => ({
    label,
    class: isNumber(index) ? "number" : null,
  }));
  const node = h("div", {}, table("Owners of shards", heads, body));
  const update = (shards) =>
    show(shards.slice(0, ROWS_MAX), ({ queue, shard }) => `${queue}/${shard}`);
  return { node, update };
}

// ---- the map

// The node that a shard is drawn under. If this node does not know the owner, it is the planned one.
const holder = (shard) => shard.owner || shard.planned;
const words = (shard) =>
  `${shard.queue}/${shard.shard}: ` +
  (shard.owner ? `owned by ${shard.owner}, epoch ${shard.epoch}` : "owner not known") +
  (shard.planned && shard.planned !== shard.owner ? `, planned for ${shard.planned}` : "") +
  (shard.moving ? ", moving" : "");

function square(shard, colourOf) {
  const known = shard.owner ? "" : " guessed";
  const moving = shard.moving ? " moving" : "";
  const colour = holder(shard) ? `owner-${colourOf(holder(shard))}` : "owner-none";
  return h("li", { class: `shard ${colour}${known}${moving}`, title: words(shard) }, shard.shard);
}

// The messages of a queue, of the shards whose counts this node knows.
const depthOf = (shards) =>
  shards.reduce((sum, { counted, ready, open }) => sum + (counted ? ready + open : 0), 0);

const depthWords = (shards) => {
  const unknown = shards.filter(({ counted }) => !counted).length;
  if (unknown === shards.length) return "not counted here";
  const known = `${count(depthOf(shards))} waiting or open`;
  return unknown ? `${known}, ${count(unknown)} shards not counted here` : known;
};

function queuesOf(cluster, byDepth) {
  const queues = [...Map.groupBy(cluster.shards, ({ queue }) => queue)];
  if (!byDepth) return queues;
  return queues.toSorted(([, a], [, b]) => depthOf(b) - depthOf(a));
}

// One line for each queue. The squares are made again only if they changed, the counts each time.
function makeMap() {
  const owners = h("ul", { class: "owners", "aria-label": "Owners" });
  const order = h(
    "select",
    { "aria-label": "Order of the queues", onchange: () => shown && update(shown) },
    h("option", { value: "" }, "by name"),
    h("option", { value: "depth" }, "most messages first"),
  );
  const lines = h("div", { class: "shard-map" });
  let colourOf = () => 0;
  let shown = null;
  const rows = keyedRows(lines, ([queue]) => {
    const squares = h("ul", { class: "shards", "aria-label": `Shards of ${queue}` });
    const depth = h("span", { class: "muted depth" });
    const link = h("a", { href: queueLink(queue) }, queue);
    let drawn = "";
    const draw = ([, shards]) => {
      setText(depth, depthWords(shards));
      const now = JSON.stringify(shards.map((one) => [words(one), colourOf(holder(one))]));
      if (now === drawn) return;
      drawn = now;
      squares.replaceChildren(...shards.map((shard) => square(shard, colourOf)));
    };
    return { node: h("div", { class: "shard-row" }, h("h3", {}, link), squares, depth), update: draw };
  });
  function update(cluster) {
    shown = cluster;
    const names = cluster.members.map(({ name }) => name);
    colourOf = (name) => Math.max(0, names.indexOf(name)) % COLOURS;
    if (owners.childElementCount !== names.length || owners.textContent !== names.join(""))
      owners.replaceChildren(
        ...names.map((name) => h("li", { class: `owner-name owner-${colourOf(name)}` }, name)),
      );
    rows(queuesOf(cluster, order.value === "depth"), ([queue]) => queue);
  }
  const tools = h("div", { class: "tools" }, owners, h("span", { class: "gap" }), order);
  return { node: h("div", {}, tools, lines), update };
}

const movesOf = (cluster) =>
  cluster.shards.filter((s) => s.moving || (s.owner && s.planned && s.owner !== s.planned));

// ---- the page

export function clusterPage() {
  const facts = h("dl", { class: "facts" });
  const warning = h("p", { class: "problem", role: "alert" });
  const nodes = makeNodes();
  const shards = makeShards();
  const map = makeMap();
  const details = h("details", {}, h("summary", {}, "Every shard, with its counts"), shards.node);
  const moves = h("ul", { class: "moves" });
  const still = empty("No shard moves.");
  const unused = empty("No shard is used yet.");
  const due = slowly(CLUSTER_MS);
  let busy = false;

  function show(cluster) {
    setText(warning, warnings(cluster).join(" "));
    facts.replaceChildren(
      ...clusterFacts(cluster).map(([name, value]) =>
        h("div", {}, h("dt", {}, name), h("dd", {}, value)),
      ),
    );
    nodes.update(cluster.members);
    shards.update(cluster.shards);
    map.node.hidden = details.hidden = cluster.shards.length === 0;
    unused.hidden = cluster.shards.length > 0;
    const under = movesOf(cluster);
    still.hidden = under.length > 0;
    map.update(cluster);
    moves.replaceChildren(...under.map((shard) => h("li", {}, words(shard))));
  }
  async function update() {
    if (busy || !due()) return;
    busy = true;
    await api.cluster().then(show, (error) => setText(warning, error.message));
    busy = false;
  }
  const node = h(
    "div",
    {},
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Cluster")),
    warning,
    h("section", { class: "panel", "aria-label": "About" }, facts),
    nodes.node,
    h(
      "section",
      { class: "panel", "aria-label": "Shards" },
      h("h2", {}, "Shards"),
      unused,
      map.node,
      details,
    ),
    h("section", { class: "panel", "aria-label": "Moves" }, h("h2", {}, "Moves"), still, moves),
  );
  return { title: "Cluster", nav: "cluster", node, update, keys: {} };
}
