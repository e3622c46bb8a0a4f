// SPDX-License-Identifier: Apache-2.0
// A client of one or several nodes.
"use strict";

const os = require("node:os");
const codec = require("./codec");
const { calls } = require("./calls");
const { invalid } = require("./errors");
const { watch } = require("./events");
const { Queue } = require("./queue");
const { Renewer } = require("./renewer");
const { Transport } = require("./transport");

const OPTIONS = ["token", "timeout", "codec", "tls"];

class Client {
  // url: "http://127.0.0.1:7333", or several nodes: "http://a:7333,b:7333".
  constructor(url = process.env.SLUICE_STORE, options = {}) {
    for (const name of Object.keys(options))
      if (!OPTIONS.includes(name)) throw invalid(name, `a client has no option "${name}"`);
    this.url = url;
    this.options = { token: process.env.SLUICE_TOKEN || undefined, ...options };
    this.codec = options.codec ?? codec.json;
    this.workerName = `${os.hostname()}-${process.pid}`.slice(0, 128);
    this.transport = new Transport(url, this.options);
    this.queues = new Map();
  }

  queue(name) {
    if (!this.queues.has(name)) this.queues.set(name, new Queue(this, name));
    return this.queues.get(name);
  }

  // The thread that renews the locks of the client's workers.
  renewer() {
    return (this.renewals ??= new Renewer(this));
  }

  ask(name, params, options) {
    return this.transport.ask(name, params, options);
  }

  // Makes any call of the interface: client.call("purgeQueue", { queue: "mail", dead: true }).
  async call(name, params = {}, options = {}) {
    if (!Object.hasOwn(calls, name) || calls[name].stream) throw invalid("call", `there is no call "${name}"`);
    return (await this.ask(name, params, options)).json;
  }

  async create(name, settings = {}) {
    await this.call("createQueue", { queue: name, settings });
    return this.queue(name);
  }

  async list(options) {
    return (await this.call("listQueues", options)).queues;
  }

  node() {
    return this.call("showNode");
  }

  // Waits for what send() returned, of any queues. The rows have the order of `sent`.
  async collect(sent, options) {
    const rows = new Map();
    await Promise.all(
      [...new Set(sent.map(({ queue }) => queue))].map(async (name) => {
        const ids = sent.filter(({ queue }) => queue === name).map(({ id }) => id);
        for (const row of await this.queue(name).collect(ids, options)) rows.set(row.id, row);
      }),
    );
    return sent.map(({ id }) => rows.get(id));
  }

  watch(name, { signal, from, ...params } = {}) {
    return watch(this.transport, name, { from, ...params }, signal);
  }

  // The events of several queues, or of all: client.stream({ queue: ["mail", "tasks"] }).
  stream(options) {
    return this.watch("watchQueues", options);
  }

  clusterEvents(options) {
    return this.watch("watchCluster", options);
  }

  // Closes the connections. Calls that run end with an error.
  async close() {
    this.transport.close();
  }
}

if (Symbol.asyncDispose)
  Client.prototype[Symbol.asyncDispose] = function dispose() {
    return this.close();
  };

exports.Client = Client;
