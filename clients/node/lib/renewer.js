// SPDX-License-Identifier: Apache-2.0
// The main thread's side of the thread that renews locks. The workers of a client share it.
"use strict";

const path = require("node:path");
const threads = require("node:worker_threads");

const DROP_MS = 20;

class Renewer {
  constructor(client) {
    this.client = client;
    this.locks = new Map(); // by token: { lock, told }
    this.drops = []; // tokens that the thread still renews
    this.users = 0;
  }

  // Every worker that uses it calls begin(), and end() when it stops. The thread is ready when the
  // promise resolves, so that the first handler may block the event loop.
  begin() {
    if (this.users++ === 0) this.ready = new Promise((resolve) => this.start(resolve));
    return this.ready;
  }

  end() {
    if (--this.users > 0) return;
    this.send({ stop: true });
    this.port = undefined;
  }

  start(ready = () => undefined) {
    const { port1, port2 } = new threads.MessageChannel();
    const { token, timeout, tls } = this.client.options;
    const workerData = { port: port2, url: this.client.url, options: { token, timeout, tls } };
    // No environment and no arguments of the program: the thread needs none of them.
    const thread = new threads.Worker(path.join(__dirname, "renewer_thread.js"), {
      workerData,
      transferList: [port2],
      execArgv: [],
      argv: [],
      stdin: false,
    });
    port1.on("message", (message) => {
      if (!message.ready) return this.take(message);
      port1.unref(); // from now on the thread does not keep the process
      thread.unref();
      ready();
    });
    // The thread never ends by itself. If it does, for want of memory, say, another one takes over.
    thread.on("error", () => undefined);
    thread.on("exit", () => {
      if (this.port !== port1) return;
      this.start();
      this.send({ adds: [...this.locks.values()].map(({ lock }) => lock) });
    });
    this.port = port1;
  }

  send(message) {
    this.port?.postMessage(message);
  }

  // Renews the locks from now on. The handlers may begin after this: the thread knows the locks.
  // told(token, { deadline }), told(token, { signals }) or told(token, { lost }) says what became of one.
  add(locks, told) {
    for (const lock of locks) this.locks.set(lock.token, { lock, told });
    this.send({ adds: locks, drops: this.drops.splice(0) });
  }

  // The thread learns of it with the next locks, or soon. A renewal that is refused until then does
  // no harm.
  drop(token) {
    if (!this.locks.delete(token)) return;
    if (this.drops.push(token) === 1) setTimeout(() => this.flush(), DROP_MS).unref();
  }

  flush() {
    if (this.drops.length > 0) this.send({ drops: this.drops.splice(0) });
  }

  progress(token, fields) {
    this.send({ progress: fields, token });
  }

  take({ token, ...news }) {
    const known = this.locks.get(token);
    if (!known) return;
    if (news.deadline) known.lock.deadline = news.deadline;
    if (news.lost) this.locks.delete(token);
    known.told(token, news);
  }

  // Takes what the thread has said until now. A handler that blocked the event loop calls for it:
  // the news lie in the port.
  catchUp() {
    for (let got; this.port && (got = threads.receiveMessageOnPort(this.port));) this.take(got.message);
  }
}

exports.Renewer = Renewer;
