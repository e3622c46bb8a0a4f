// SPDX-License-Identifier: Apache-2.0
// A job: a message with its lock.
"use strict";

const { AsyncLocalStorage } = require("node:async_hooks");
const { resultFields, stringify } = require("./codec");
const { SluiceError } = require("./errors");
const { toMs } = require("./util");

// The job whose handler runs. Its traceparent travels with what the handler sends.
const current = new AsyncLocalStorage();

// A handler throws it to get the message again after a delay. No attempt is counted.
class Snooze extends Error {
  constructor(delay) {
    super(`again after ${delay}`);
    this.name = "Snooze";
    this.delayMs = toMs(delay, "delay");
  }
}

// The reasons of job.signal.
class LockLost extends Error {
  constructor(why) {
    super(why);
    this.name = "LockLost";
  }
}
class Interrupted extends Error {
  constructor(why) {
    super(why ? `interrupted: ${why}` : "interrupted");
    this.name = "Interrupted";
  }
}
class Stopping extends Error {
  constructor() {
    super("the worker stops");
    this.name = "Stopping";
  }
}

// A signal to the job: steer, ask or interrupt.
class JobSignal {
  constructor(job, { number, kind, id, payload, payloadBase64 }) {
    Object.assign(this, { number, kind, id, payload });
    if (payloadBase64 !== undefined) this.payload = Buffer.from(payloadBase64, "base64");
    Object.defineProperty(this, "job", { value: job });
  }
  ack(answer) {
    return this.settle({ answer });
  }
  decline(reason) {
    return this.settle({ answer: reason, decline: true });
  }
  settle(fields) {
    return this.job.call("ackSignals", { token: this.job.token, number: this.number, ...fields });
  }
}

// The signals of a job in their order, as an async iterable. It ends with the job.
class Signals {
  constructor() {
    this.rows = [];
    this.last = 0; // the number of the newest one
    this.ended = false;
  }
  put(signal) {
    if (signal.number <= this.last) return false;
    this.last = signal.number;
    this.rows.push(signal);
    this.wake?.();
    return true;
  }
  // Takes the signal out. Returns whether it was not read yet.
  take(signal) {
    const place = this.rows.indexOf(signal);
    if (place >= 0) this.rows.splice(place, 1);
    return place >= 0;
  }
  end() {
    this.ended = true;
    this.wake?.();
  }
  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.rows.length > 0) yield this.rows.shift();
      if (this.ended) return;
      await new Promise((resolve) => (this.wake = resolve));
    }
  }
}

class Job {
  constructor(queue, message, worker) {
    const { body, bodyBase64, signals = [], queue: _, ...fields } = message;
    Object.assign(this, fields);
    this.queue = queue.name;
    let unreadable; // why a worker fails the job
    try {
      this.body = queue.client.codec.decode(message);
    } catch (error) {
      if (!worker) throw error;
      unreadable = error;
    }
    this.type = message.headers["sluice-type"] ?? "";
    this.settled = false; // by ack(), fail() or release()
    this.signals = new Signals();
    const controller = new AbortController();
    this.signal = controller.signal;
    for (const [name, value] of Object.entries({ source: queue, worker, controller, unreadable }))
      Object.defineProperty(this, name, { value });
    for (const name of ["interruptAcked", "concluded", "result"]) Object.defineProperty(this, name, { writable: true });
    for (const row of signals) this.signals.put(new JobSignal(this, row));
  }

  // The lock is gone: another worker may have the message.
  get lost() {
    return this.signal.reason instanceof LockLost;
  }

  call(name, params, options) {
    return this.source.call(name, params, { tokens: [this.token], ...options });
  }

  async settle(name, params) {
    const outcome = await this.call(name, { token: this.token, ...params });
    this.settled = true;
    this.signals.end();
    return outcome;
  }

  // The job is done. The result is kept for the queue's retention.
  ack(result) {
    const fields = resultFields(this.source.client.codec, result);
    if (result !== undefined) stringify(fields, "result", result);
    return this.settle("ackMessages", fields);
  }
  fail(reason) {
    return this.settle("failMessages", { reason: reason === undefined ? undefined : String(reason) });
  }
  release({ delay } = {}) {
    return this.settle("releaseMessages", { delay: delay === undefined ? undefined : toMs(delay, "delay") });
  }

  // Extends the lock. If it is gone, `signal` aborts, too.
  async renew({ visibility, ...progress } = {}) {
    try {
      return await this.call("renewLocks", { token: this.token, visibility, ...progress });
    } catch (error) {
      if (error instanceof SluiceError && ["FENCED", "NOT_FOUND", "CONFLICT"].includes(error.code))
        this.controller.abort(new LockLost(error.message));
      throw error;
    }
  }

  // Shows how far the job is, 0 to 100. A worker tells it with the next renewal of its locks.
  async progress(percent, text) {
    const fields = { progress: Math.round(percent), progressText: text };
    if (this.worker) this.worker.renewer.progress(this.token, fields);
    else await this.renew(fields);
  }
}

module.exports = { current, Job, JobSignal, Snooze, LockLost, Interrupted, Stopping };
