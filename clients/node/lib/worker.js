// SPDX-License-Identifier: Apache-2.0
// A worker: a loop with places. It asks for as many messages as it has free places, and calls the
// handler with each. Nothing lies in a buffer.
//
//              message            handler ends           answer
//     (place) ---------> RUNNING --------------> SETTLING ------> done
//                           |                        ^
//        lock lost,         | abort                  | only after an interrupt: release
//        interrupt, stop    '----> (handler ends) ---'
//
// A job without a result is acked with the next receive, or alone after 10 ms. Results travel together
// after this time, because a receive takes none along. Every request that
// settles something is repeated with its id until its outcome is known.
"use strict";

const { randomBytes } = require("node:crypto");
const { current, Job, JobSignal, Snooze, LockLost, Interrupted, Stopping } = require("./job");
const { codeRepeated, errorOf, invalid, SluiceError } = require("./errors");
const { resultFields, stringify } = require("./codec");
const { requestId } = require("./transport");
const { now, pause, toMs } = require("./util");

const ACK_ALONE_MS = 10;
const ACKS_MAX = 10000;
const GRACE_MS = 25000;
const WAIT_MAX_MS = 20000;
const WAIT_PER_LEASE = 8; // a receive waits at most 1/8 of the lock's time, which counts from the request
const LEASE_UNKNOWN_MS = 4000;
const LEASE_MS = 30000; // asked for when a lock has expired on its way and no lease is known
const PAUSE_MIN_MS = 50;
const PAUSE_MAX_MS = 2000;
const PAUSE_ORDER_MS = 500; // of a worker that an operator paused
const AT_ONCE_MS = 1000; // for the last requests after a second signal
const LISTEN_AFTER_MS = 100; // a shorter job gets only the signals that come with its message
const LISTEN_MS = 500; // how long a poll for signals takes while a place is free
const UNREAD_MS = 30000; // a signal that the handler does not read in this time is declined
const UNKNOWN_TYPE_MS = 10000;
const REASON_MAX = 1000;
const TTL_MS = 60000;
const OPTIONS = [
  "concurrency",
  "name",
  "visibility",
  "labels",
  "register",
  "ttl",
  "grace",
  "handleSignals",
  "autorun",
  "log",
];

const isUndecided = (error) => error instanceof SluiceError && ["UNAVAILABLE", "UNKNOWN", "LIMIT"].includes(error.code);

function reasonOf(error) {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return text.slice(0, REASON_MAX);
}

class Worker {
  constructor(client, queue, handler, options = {}) {
    for (const name of Object.keys(options))
      if (!OPTIONS.includes(name)) throw invalid(name, `a worker has no option "${name}"`);
    const { concurrency = 1, labels = "" } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 10000)
      throw invalid("concurrency", `concurrency is 1 to 10000, not ${JSON.stringify(concurrency)}`);
    if (typeof queue !== "string" || queue === "") throw invalid("queue", "a worker needs the name of a queue");
    const isMap =
      typeof handler === "object" &&
      handler !== null &&
      Object.values(handler).every((one) => typeof one === "function");
    if (typeof handler !== "function" && !isMap)
      throw invalid("handler", "the handler is a function, or an object with a function for each type of job");
    this.client = client;
    this.queue = client.queue(queue);
    this.handler = handler;
    this.concurrency = concurrency;
    this.name = options.name ?? `${client.workerName.slice(0, 110)}-${randomBytes(3).toString("hex")}`;
    this.labels =
      typeof labels === "string"
        ? labels
        : Object.entries(labels)
            .map((pair) => pair.join("="))
            .join();
    this.visibilityMs = toMs(options.visibility, "visibility");
    this.graceMs = options.grace === undefined ? GRACE_MS : toMs(options.grace, "grace");
    this.ttlMs = toMs(options.ttl, "ttl") || TTL_MS;
    this.register = options.register;
    this.handleSignals = options.handleSignals ?? true;
    this.log = options.log ?? ((sentence) => console.error(`sluice: ${this.queue.name}: ${sentence}`));
    this.leaseMs = this.visibilityMs;
    this.running = new Set(); // jobs whose handlers run
    this.settling = new Set(); // promises of outcomes on their way
    this.acks = []; // jobs that are done and have no result
    this.changes = []; // callbacks that wait for a free place, an ack or an order
    this.stopping = false; // no more receives
    this.atOnce = false; // no more waiting
    this.counts = { processed: 0, failed: 0, released: 0, lost: 0, interrupted: 0 };
    if (options.autorun ?? true) setImmediate(() => this.run());
  }

  // Works until stop(), a signal of the system, or an operator's drain. Rejects if the worker cannot
  // go on, because the queue does not exist, say.
  run() {
    return (this.end ??= this.main());
  }

  async stop({ grace } = {}) {
    if (grace !== undefined) this.graceMs = Math.min(this.graceMs, toMs(grace, "grace"));
    this.order(this.graceMs === 0);
    return this.run();
  }

  order(atOnce) {
    this.stopping = true;
    this.atOnce ||= atOnce;
    this.poll?.abort();
    this.changed();
  }

  changed() {
    for (const call of this.changes.splice(0)) call();
  }

  // Resolves at the next change, or after `ms`.
  change(ms) {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      this.changes.push(() => (clearTimeout(timer), resolve()));
    });
  }

  fail(error) {
    this.failure ??= error;
    this.order(false);
  }

  async main() {
    await this.learn();
    this.renewer = this.client.renewer();
    await this.renewer.begin();
    try {
      await this.join();
      await this.work();
    } finally {
      this.renewer.end();
    }
    if (this.failure) throw this.failure;
  }

  async work() {
    const raised = this.catchSignals();
    const beat = this.instance && setInterval(() => this.beat(), this.ttlMs / 2);
    const listening = this.listen();
    await this.receive();
    await this.finish();
    clearInterval(beat);
    this.over = true;
    this.listening?.abort();
    this.changed();
    await listening;
    await this.leave();
    raised.done();
    // A second signal, or a handler that ignores job.signal, must not keep the process.
    if (raised.signal && (this.atOnce || this.running.size > 0)) process.kill(process.pid, raised.signal);
  }

  catchSignals() {
    const raised = { done: () => undefined };
    if (!this.handleSignals) return raised;
    const names = ["SIGTERM", "SIGINT"];
    const take = (name) => {
      if (raised.signal) this.order(true);
      else this.order(false);
      raised.signal = name;
    };
    for (const name of names) process.on(name, take);
    raised.done = () => names.forEach((name) => process.off(name, take));
    return raised;
  }

  // The time of the queue's locks. A token may lack the scope for it.
  async learn() {
    try {
      const { settings } = await this.queue.show();
      this.leaseMs ||= toMs(settings.visibilityTimeout, "visibilityTimeout");
    } catch (error) {
      if (error.code !== "DENIED") throw error;
    }
  }

  async join() {
    if (this.register === false) return;
    this.instance ??= randomBytes(8).toString("hex");
    try {
      await this.queue.call("joinWorker", {
        worker: this.name,
        instance: this.instance,
        capacity: this.concurrency,
        ttl: this.ttlMs,
        labels: this.labels || undefined,
      });
      this.header = `${this.instance} ${this.name}`;
    } catch (error) {
      if (this.register || error.code !== "DENIED") throw error;
      this.instance = undefined; // it works without registration
      this.log(`not registered: ${error.message}`);
    }
  }

  async beat() {
    try {
      await this.queue.call("joinWorker", { worker: this.name, instance: this.instance, beat: true });
    } catch (error) {
      if (error.code === "FENCED") this.fail(error);
      else if (error.code === "NOT_FOUND" && !this.over)
        await this.join().catch((why) => this.log(`not registered: ${why.message}`));
    }
  }

  async leave() {
    if (!this.header) return;
    const timeout = this.atOnce ? AT_ONCE_MS : 5000;
    await this.queue
      .call("leaveWorker", { worker: this.name, instance: this.instance }, { timeout })
      .catch((error) => this.log(`the registration ends by itself: ${error.message}`));
  }

  // The loop of receives. While the outcome of one is unknown, the same request is repeated, because
  // it may have locked messages.
  async receive() {
    let request;
    for (let pauseMs = PAUSE_MIN_MS; (!this.stopping || request) && !this.atOnce;) {
      const free = this.concurrency - this.running.size;
      if (!request && free === 0) {
        await this.change();
        continue;
      }
      request ??= this.newRequest(free);
      if (this.stopping) request.params.wait = 0;
      try {
        const answer = await this.ask(request);
        this.takeAnswer(request, answer);
        request = undefined;
        pauseMs = PAUSE_MIN_MS;
        if (answer.json.error) throw errorOf(answer.json.error);
      } catch (error) {
        if (error instanceof SluiceError && error.code !== "UNKNOWN" && request) {
          this.acks.unshift(...request.acks);
          request = undefined;
        }
        if (this.obey(error)) await this.change(error.reason === "worker-paused" ? PAUSE_ORDER_MS : pauseMs);
        pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS);
      }
    }
  }

  // A receive with acks does not wait, so that the outcomes are known at once. A receive that waits
  // counts the time of its locks from the beginning, so it does not wait long.
  newRequest(free) {
    const acks = this.takeAcks(({ result }) => result === undefined); // a receive takes no results along
    const most = Math.min((this.leaseMs || LEASE_UNKNOWN_MS) / WAIT_PER_LEASE, WAIT_MAX_MS);
    const params = {
      queue: this.queue.name,
      max: free,
      wait: acks.length > 0 ? 0 : Math.round(most),
      worker: this.name,
      visibility: this.visibilityMs || undefined,
      ack: acks.length > 0 ? acks.map(({ token }) => token) : undefined,
    };
    return { id: requestId(), params, acks };
  }

  async ask({ id, params }) {
    this.poll = params.wait > 0 ? new AbortController() : undefined;
    try {
      return await this.client.ask("receiveMessages", params, {
        request: id,
        waitMs: params.wait,
        worker: this.header,
        tokens: params.ack ?? [],
        signal: this.poll?.signal,
      });
    } finally {
      this.poll = undefined;
    }
  }

  takeAnswer({ acks }, { json, askedAt, again }) {
    acks.forEach((job, i) => {
      const row = json.acked[i];
      // A refusal without a reason says nothing about an earlier attempt. The ack is sent again.
      const code = again && !row.reason ? codeRepeated(row.code) : row.code;
      if (["UNKNOWN", "UNAVAILABLE", "LIMIT"].includes(code)) this.queueAck(job);
      else if (code === "OK") this.settled(job, "processed");
      else this.settled(job, "lost", errorOf({ ...row, code }));
    });
    const jobs = json.messages.map((message) => this.admit(message, askedAt));
    this.renew(jobs.filter(({ times }) => now() < times.deadline));
    for (const job of jobs) this.track(this.start(job));
  }

  admit(message, askedAt) {
    const job = new Job(this.queue, message, this);
    const times = { asked: askedAt, deadline: askedAt + message.leaseMs, started: now() };
    Object.defineProperty(job, "times", { value: times });
    this.leaseMs ||= message.leaseMs;
    this.running.add(job);
    return job;
  }

  // The thread has all locks before the first handler begins, because that one may block.
  renew(jobs) {
    const byToken = new Map(jobs.map((job) => [job.token, job]));
    const locks = jobs.map(({ token, queue, times: { asked, deadline } }) => {
      const leaseMs = deadline - asked;
      return { token, queue, worker: this.header, leaseMs, deadline, renewAt: asked + leaseMs / 3 };
    });
    if (locks.length > 0) this.renewer.add(locks, (token, news) => this.told(byToken.get(token), news));
  }

  // What an error of a receive means. Returns whether the loop pauses and goes on.
  obey(error) {
    if (!(error instanceof SluiceError)) {
      if (!this.stopping) this.fail(error); // else stop() aborted the poll
      return false;
    }
    if (error.reason === "worker-draining") {
      this.log("an operator drains this worker: it finishes its jobs and ends");
      this.order(false);
      return false;
    }
    if (!isUndecided(error)) {
      this.fail(error);
      if (error.reason === "worker-evicted")
        for (const job of this.running) this.abort(job, new LockLost(error.message));
      return false;
    }
    const isOrder = ["worker-paused", "queue-paused"].includes(error.reason);
    if (error.message !== this.said)
      this.log(isOrder ? `waits: ${error.message}` : `no answer to a receive: ${error.message}`);
    this.said = error.message;
    return true;
  }

  // Runs one job to its outcome.
  async start(job) {
    try {
      if (this.stopping) return await this.settle(job, "releaseMessages", {}, "released");
      this.renewer.catchUp(); // an earlier handler may have blocked
      if (job.signal.aborted || (now() >= job.times.deadline && !(await this.renewAtOnce(job))))
        return this.settled(job, "lost", { message: "the lock had expired before the job started" });
      job.times.started = now();
      this.changed();
      for (const signal of job.signals.rows) this.arrived(job, signal);
      await this.conclude(job, await this.handle(job));
    } finally {
      this.running.delete(job);
      this.renewer.drop(job.token);
      job.signals.end();
      this.changed();
    }
  }

  // The answer took so long that the lock may have expired. A renewal decides.
  async renewAtOnce(job) {
    const asked = now(),
      leaseMs = this.leaseMs || LEASE_MS;
    try {
      await job.renew({ visibility: leaseMs });
    } catch {
      return false;
    }
    Object.assign(job.times, { asked, deadline: asked + leaseMs });
    this.renew([job]);
    return now() < job.times.deadline;
  }

  told(job, { deadline, signals, lost }) {
    if (deadline) job.times.deadline = deadline;
    if (signals) this.deaf = false;
    if (lost) this.abort(job, new LockLost(lost));
  }

  abort(job, reason) {
    if (!job.signal.aborted && this.running.has(job)) job.controller.abort(reason);
  }

  handlerOf(job) {
    if (typeof this.handler === "function") return this.handler;
    return Object.hasOwn(this.handler, job.type) ? this.handler[job.type] : undefined;
  }

  takeAcks(fits) {
    const taken = this.acks.filter(fits).slice(0, ACKS_MAX);
    const gone = new Set(taken);
    this.acks = this.acks.filter((job) => !gone.has(job));
    return taken;
  }

  // Calls the handler. Returns { call, params, end }, or { ack } with the fields of the result.
  async handle(job) {
    const handler = this.handlerOf(job);
    if (!handler) {
      this.log(`${job.id} has the type "${job.type}", for which there is no handler: it is released`);
      return { call: "releaseMessages", params: { delay: UNKNOWN_TYPE_MS }, end: "released" };
    }
    try {
      if (job.unreadable) throw job.unreadable;
      const value = await current.run(job, () => handler(job));
      if (value === undefined) return { ack: undefined };
      const fields = resultFields(this.client.codec, value);
      stringify(fields, "result", value);
      return { ack: fields };
    } catch (error) {
      if (error instanceof Snooze)
        return { call: "releaseMessages", params: { delay: error.delayMs }, end: "released" };
      return { call: "failMessages", params: { reason: reasonOf(error) }, end: "failed" };
    }
  }

  // Sends the outcome, unless the lock is lost or the job was interrupted.
  async conclude(job, { ack: result, call, params, end }) {
    this.renewer.catchUp();
    if (!job.signal.aborted && now() >= job.times.deadline) job.controller.abort(new LockLost("the lock has expired"));
    const { reason } = job.signal;
    if (reason instanceof Stopping || job.settled) return undefined; // finish() or the handler settled it
    if (reason instanceof LockLost) return this.settled(job, "lost", reason);
    if (reason instanceof Interrupted) {
      await job.interruptAcked;
      return this.settle(job, "releaseMessages", {}, "interrupted");
    }
    if (!call)
      return new Promise((resolve) => {
        Object.assign(job, { result, concluded: resolve });
        this.running.delete(job); // its place is free: the ack travels with the next receive
        this.queueAck(job);
      });
    this.running.delete(job);
    this.changed();
    return this.settle(job, call, params, end);
  }

  queueAck(job) {
    this.acks.push(job);
    this.ackTimer ??= setTimeout(() => {
      this.ackTimer = undefined;
      this.track(this.flushAcks());
    }, ACK_ALONE_MS);
    this.changed();
  }

  flushAcks() {
    return this.sendAcks(this.takeAcks(() => true));
  }

  async sendAcks(jobs) {
    if (jobs.length === 0) return;
    const tokens = jobs.map(({ token }) => token);
    const hasResults = jobs.some(({ result }) => result !== undefined);
    const params = hasResults ? { acks: jobs.map(({ token, result }) => ({ token, ...result })) } : { tokens };
    let rows, failure;
    try {
      ({ outcomes: rows } = await this.until("ackMessages", params, tokens));
    } catch (error) {
      failure = error;
      if (hasResults && ["INVALID", "LIMIT"].includes(error.code)) return this.refused(jobs, error);
    }
    jobs.forEach((job, i) => {
      const row = rows?.[i] ?? failure;
      this.settled(job, row.code === "OK" ? "processed" : "lost", row.code === "OK" || failure ? row : errorOf(row));
    });
  }

  // A result is too large, or all of them are too large for one request. A job whose own result is
  // refused fails.
  async refused(jobs, error) {
    if (jobs.length === 1) return this.settle(jobs[0], "failMessages", { reason: reasonOf(error) }, "failed");
    for (const job of jobs) await this.sendAcks([job]);
  }

  async settle(job, call, params, end) {
    try {
      await this.until(call, { token: job.token, ...params }, [job.token]);
      this.settled(job, end);
    } catch (error) {
      this.settled(job, "lost", error);
    }
  }

  settled(job, end, why) {
    this.counts[end]++;
    if (end === "lost") this.log(`${job.id} is not settled: ${why.message}`);
    this.renewer.drop(job.token);
    job.concluded?.();
  }

  // Repeats the call with the same id until its outcome is known.
  async until(name, params, tokens) {
    const request = requestId();
    for (let pauseMs = PAUSE_MIN_MS; ; pauseMs = Math.min(pauseMs * 2, PAUSE_MAX_MS)) {
      try {
        return await this.queue.call(name, params, { request, tokens, timeout: this.atOnce ? AT_ONCE_MS : undefined });
      } catch (error) {
        // A limit that does not say when it is over is one of the size.
        const isSize = error.code === "LIMIT" && error.retryAfterMs === undefined;
        if (!isUndecided(error) || isSize || this.atOnce) throw error;
        this.log(`repeats ${name}: ${error.message}`);
      }
      await this.change(pauseMs);
    }
  }

  // A promise that the end of the worker waits for.
  track(promise) {
    const kept = promise
      .catch((error) => this.fail(error))
      .finally(() => {
        this.settling.delete(kept);
        this.changed();
      });
    this.settling.add(kept);
  }

  // The end: waits for the handlers, releases what is left, and sends the last acks.
  async finish() {
    const until = now() + this.graceMs;
    while (this.running.size > 0 && !this.atOnce && now() < until) await this.change(until - now());
    const left = [...this.running].filter((job) => !job.signal.aborted && !job.settled);
    for (const job of left) job.controller.abort(new Stopping());
    if (left.length > 0) await pause(0); // a handler that stops at once does so before the release
    for (const job of left) this.track(this.settle(job, "releaseMessages", {}, "released"));
    // Handlers that ignore the abort are not waited for. Everything else is.
    const isOpen = () =>
      this.acks.length > 0 ||
      left.some((job) => this.renewer.locks.has(job.token)) ||
      this.settling.size > this.running.size;
    const last = now() + (this.atOnce ? 2 * AT_ONCE_MS : this.client.transport.timeoutMs);
    while (isOpen() && now() < last) await this.change(last - now());
  }

  // Gets the signals to all jobs by one poll. A lock that ends also ends the poll. If a place is free,
  // the next job does not, so the poll is short.
  async listen() {
    while (!this.over) {
      const jobs = [...this.running].filter(
        (job) => !job.signal.aborted && now() - job.times.started >= LISTEN_AFTER_MS,
      );
      if (jobs.length === 0 || this.deaf) {
        await (this.running.size > 0 ? this.change(LISTEN_AFTER_MS) : this.change());
        continue;
      }
      const waitMs = jobs.length === this.concurrency && !this.stopping ? WAIT_MAX_MS : LISTEN_MS;
      const tokens = jobs.map(({ token }) => token);
      this.listening = new AbortController();
      try {
        const { json } = await this.client.ask(
          "receiveSignals",
          { queue: this.queue.name, tokens, after: jobs.map(({ signals }) => signals.last), wait: waitMs },
          { waitMs, tokens, signal: this.listening.signal },
        );
        for (const row of json.signals)
          this.takeSignal(
            jobs.find(({ token }) => token === row.token),
            row,
          );
      } catch (error) {
        if (this.over) return;
        if (isUndecided(error)) await this.change(2 * LISTEN_MS);
        else this.deaf = true; // until a renewal says that a signal waits
      }
    }
  }

  takeSignal(job, row) {
    if (!job || !this.running.has(job)) return;
    if (row.code !== "OK") return this.abort(job, new LockLost(`the lock is gone: ${row.reason}`));
    const signal = new JobSignal(job, row);
    if (job.signals.put(signal)) this.arrived(job, signal);
  }

  // An interrupt is acknowledged here. Other signals are for the handler.
  arrived(job, signal) {
    const note = (error) => this.log(`signal ${signal.number} of ${job.id}: ${error.message}`);
    if (signal.kind === "interrupt") {
      job.interruptAcked = signal.ack().catch(note);
      return this.abort(job, new Interrupted(signal.payload));
    }
    setTimeout(() => {
      if (this.running.has(job) && job.signals.take(signal)) signal.decline("not-listening").catch(note);
    }, UNREAD_MS).unref();
  }
}

exports.Worker = Worker;
