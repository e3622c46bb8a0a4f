// SPDX-License-Identifier: Apache-2.0
// The nodes of one URL, "http://a:7333,b:7333", and the owners of shards that their answers tell.
// All nodes serve the same store, so a call may go to any of them. A node that does not answer is
// left out until it answers a probe. Owners are only a hint: another node forwards the call.
// Only nodes of the URL are used: an answer cannot direct a client to another host.
"use strict";

const { Connection } = require("./http");
const { invalid } = require("./errors");
const { now } = require("./util");

const NODES_MAX = 64;
const QUEUES_MAX = 256; // whose owners are kept
const PROBE_MIN_MS = 500;
const PROBE_MAX_MS = 4000;
const PROBE_TIMEOUT_MS = 1000;
const EVIDENCE_MS = 5000; // how long an answer to another request counts
const ASK_OWNERS_MS = 1000; // how often answers tell the owners of a queue
const PLACES = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

function readUrls(text) {
  const scheme = /^(https?:\/\/)(.*)$/s.exec(text ?? "");
  const example = "such as http://127.0.0.1:7333 or http://a:7333,b:7333";
  if (!text) throw invalid("url", `the URL of a node is missing: give one ${example}, or set SLUICE_STORE`);
  if (!scheme) throw invalid("url", `"${text}" is not the URL of a node, ${example}`);
  const names = scheme[2]
    .replace(/\/+$/, "")
    .split(",")
    .map((name) => name.replace(scheme[1], ""));
  const urls = names.map((name) => {
    const url = (URL.canParse?.(scheme[1] + name) ?? true) ? scheme[1] + name : "";
    if (/@/.test(name))
      throw invalid("url", "the URL of a node may not contain a user; put the token into SLUICE_TOKEN");
    if (!name || !url || /[?#\s]/.test(name)) throw invalid("url", `"${text}" is not the URL of a node, ${example}`);
    return names.length > 1 ? url.toLowerCase() : url;
  });
  if (urls.length > NODES_MAX) throw invalid("url", `the URL names more than ${NODES_MAX} nodes`);
  if (new Set(urls).size < urls.length) throw invalid("url", `"${text}" names a node twice`);
  return urls;
}

// The shard of a lock is in its token: <mark>-<shard>-<number>-<secret>.
const shardOf = (token) => Number(token.split("-", 2)[1]);

class Nodes {
  constructor(url, tls) {
    this.all = readUrls(url).map((one) => ({
      url: one,
      connection: new Connection(one, tls),
      failures: 0,
      probeAt: 0,
      answeredAt: 0,
      probing: false,
    }));
    this.turn = Math.floor(Math.random() * this.all.length);
    this.owners = new Map(); // of queues: { ordered, shards: [node or undefined], askedAt }
  }

  // The node of the next attempt: the preferred one, or the next in turn that was not tried.
  next(tried, preferred) {
    if (tried.size === this.all.length) tried.clear();
    this.turn = (this.turn + 1) % this.all.length;
    const order = [...this.all.slice(this.turn), ...this.all.slice(0, this.turn)];
    if (preferred) order.unshift(preferred);
    const left = order.filter((node) => !tried.has(node));
    const node = left.find(({ probeAt }) => probeAt === 0) ?? left[0];
    tried.add(node);
    return node;
  }

  report(node, answered) {
    if (answered) return void Object.assign(node, { answeredAt: now(), failures: 0, probeAt: 0 });
    node.probeAt = now() + Math.min(PROBE_MIN_MS * 2 ** node.failures, PROBE_MAX_MS);
    node.failures++;
  }

  async answers(node) {
    const { end } = await node.connection.request("GET", "/healthz", {
      timeoutMs: PROBE_TIMEOUT_MS,
      connectMs: PROBE_TIMEOUT_MS,
      fresh: true,
    });
    return end === "answered";
  }

  // Asks nodes that were left out, in the background.
  probe() {
    for (const node of this.all) {
      if (this.all.length === 1 || node.probeAt === 0 || now() < node.probeAt || node.probing) continue;
      node.probing = true;
      this.answers(node).then((answered) => {
        node.probing = false;
        this.report(node, answered);
      });
    }
  }

  // Whether a request that began at `began` has no chance: the node answers nothing else, either.
  async isHopeless(node, began) {
    if (node.answeredAt > began && now() - node.answeredAt < EVIDENCE_MS) return false;
    return !(await this.answers(node));
  }

  // The header that asks for the owners, or undefined.
  ask(queue) {
    if (this.all.length === 1) return undefined;
    const known = this.owners.get(queue);
    return known && now() - known.askedAt < ASK_OWNERS_MS ? undefined : "?";
  }

  // Reads a line such as "01-1 unordered http://a:7333 http://b:7333".
  learn(queue, line) {
    const [places, order, ...urls] = (line ?? "").split(" ");
    if (this.all.length === 1 || !places || !/^(un)?ordered$/.test(order)) return;
    const nodes = urls.map((url) => this.all.find((node) => node.url === url));
    const before = this.owners.get(queue)?.shards ?? [];
    // A node that does not know an owner says nothing against another node's word.
    const shards = [...places].map((place, i) => (place === "-" ? before[i] : nodes[PLACES.indexOf(place)]));
    this.owners.delete(queue);
    this.owners.set(queue, { ordered: order === "ordered", shards, askedAt: now() });
    if (this.owners.size > QUEUES_MAX) this.owners.delete(this.owners.keys().next().value);
  }

  // The owner of most tokens. Without tokens it is the owner of a random shard, so that receives
  // spread over the owners.
  forTokens(queue, tokens) {
    const shards = this.owners.get(queue)?.shards;
    if (!shards) return undefined;
    if (tokens.length === 0) return shards[Math.floor(Math.random() * shards.length)];
    const votes = new Map();
    for (const token of tokens) {
      const node = shards[shardOf(token)];
      if (node) votes.set(node, (votes.get(node) ?? 0) + 1);
    }
    return [...votes].sort((a, b) => b[1] - a[1])[0]?.[0];
  }

  // The node for a send. A queue of several shards places messages by a hash, which only nodes
  // compute. So the node is known only if all messages go to shard 0.
  forSends(queue, grouped) {
    const known = this.owners.get(queue);
    const first = known && (known.shards.length === 1 || (known.ordered && !grouped));
    return first ? known.shards[0] : undefined;
  }

  close() {
    for (const { connection } of this.all) connection.close();
  }
}

exports.Nodes = Nodes;
