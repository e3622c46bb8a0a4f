// SPDX-License-Identifier: Apache-2.0
// Sends a call until it is answered. Decides which calls may be repeated, and whether a call without
// an answer may have taken effect. At the deadline the error is Unavailable if no attempt can have
// taken effect, else OutcomeUnknown.
"use strict";

const { randomBytes } = require("node:crypto");
const { calls } = require("./calls");
const { errorOf, invalid, codeRepeated } = require("./errors");
const { Nodes } = require("./nodes");
const { now, pause, toMs } = require("./util");

const TIMEOUT_MS = 30000;
const PAUSE_MIN_MS = 10;
const PAUSE_MAX_MS = 1000;
const GRACE_MS = 1000; // a node whose time runs out together with ours can still answer
const CONNECT_MS = 1000; // for a connection, if there are other nodes
const ATTEMPT_MS = 5000; // for an answer, if there are other nodes
const SILENT_MS = { "http:": 1000, "https:": 6000 }; // then another request asks whether the node lives
const QUEUE = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,79}$/;
// An error with one of these reasons does not pass by itself within a call's time.
const FINAL_REASONS = ["upgrade-needed", "no-owner", "worker-paused", "worker-draining"];

exports.requestId = () => randomBytes(16).toString("hex");

function pathOf(name, row, params) {
  const path = row.path.replace(/\{(\w+)\}/g, (_, field) => {
    const value = params[field];
    if (typeof value !== "string" || value === "") throw invalid(field, `${name} needs ${field}`);
    if (field === "queue" && !QUEUE.test(value))
      throw invalid("queue", `"${value}" is not the name of a queue: it has 1 to 80 of A-Z a-z 0-9 . _ -`);
    return encodeURIComponent(value);
  });
  const query = new URLSearchParams();
  for (const field of row.query ?? [])
    for (const value of [params[field] ?? []].flat())
      query.append(field, field === "wait" ? `${toMs(value, field)}ms` : String(value));
  return query.size === 0 || `${query}` === "" ? path : `${path}?${query}`;
}

function bodyOf(name, row, params) {
  if (typeof params.json === "string") return params.json;
  if (!row.body) return undefined;
  if (row.body === "settings") return JSON.stringify(params.settings ?? {});
  const fields = row.body.filter((field) => params[field] !== undefined);
  return JSON.stringify(Object.fromEntries(fields.map((field) => [field, params[field]])));
}

// A misspelt parameter is an error here, as a misspelt field is one at the node.
function check(name, row, params) {
  for (const field of Object.keys(params)) {
    const known =
      row.query?.includes(field) ||
      row.path.includes(`{${field}}`) ||
      field === "json" ||
      (row.body === "settings" ? field === "settings" : row.body?.includes(field));
    if (!known) throw invalid(field, `${name} has no parameter "${field}"`);
  }
}

function retryAfter(headers) {
  const seconds = Number(headers["retry-after"]);
  return seconds >= 0 ? seconds * 1000 : undefined;
}

// The error of an answer that is not 2xx. It may come from a proxy or another server.
function problemOf(node, { status, headers, text }) {
  let problem;
  try {
    problem = JSON.parse(text);
  } catch {
    problem = {};
  }
  if (["unknown-path", "method-not-allowed"].includes(problem?.reason))
    return {
      code: "UNAVAILABLE",
      reason: "upgrade-needed",
      field: "store",
      status,
      detail: `upgrade needed: the node at ${node.url} does not know this call; use a newer release there`,
    };
  if (typeof problem?.code === "string") return { ...problem, status, retryAfterMs: retryAfter(headers) };
  const code =
    status === 401 || status === 403
      ? "DENIED"
      : status === 413 || status === 429
        ? "LIMIT"
        : [500, 502, 503, 504].includes(status)
          ? "UNKNOWN"
          : "INVALID";
  const detail =
    code === "INVALID"
      ? `${node.url} answered ${status} and is not a Sluice node; check the URL (a node listens on 7333 by default)`
      : `${node.url} answered ${status}, but not like a Sluice node`;
  return { code, field: "store", detail, status, retryAfterMs: retryAfter(headers) };
}

class Transport {
  constructor(url, { token, timeout, tls } = {}) {
    if (token !== undefined && !/^[\x21-\x7e]+$/.test(token))
      throw invalid("token", "the token has a character that no token has");
    this.nodes = new Nodes(url, tls);
    this.token = token;
    this.timeoutMs = toMs(timeout, "timeout") || TIMEOUT_MS;
    this.closed = false;
  }

  headers(name, row, params, { request, worker, lastEventId }, body) {
    const headers = {};
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (request) headers["Sluice-Request"] = request;
    if (worker && row.worker) headers["Sluice-Worker"] = worker;
    if (lastEventId) headers["Last-Event-ID"] = lastEventId;
    const owners = row.owned && this.nodes.ask(params.queue);
    if (owners) headers["Sluice-Owners"] = owners;
    return headers;
  }

  // Makes the call `name`. Resolves with { json, askedAt, again }. again: an earlier attempt may have
  // taken effect. askedAt: when the attempt that was answered began, by now().
  //
  // options: request (the id of the call; a new one by default), timeout, waitMs (how long the node may
  // wait on purpose), signal (AbortSignal), worker (the header Sluice-Worker), tokens or grouped (for
  // the choice of the node), graceMs (how long after the timeout a node may still answer), reads (this
  // use of the call changes nothing).
  async ask(name, params = {}, options = {}) {
    const row = calls[name];
    check(name, row, params);
    const path = pathOf(name, row, params),
      body = bodyOf(name, row, params);
    const changes = row.repeat !== "read" && !options.reads;
    const once = row.repeat === "once" && params[row.sameWith] === undefined;
    const request = row.repeat === "id" ? (options.request ?? exports.requestId()) : undefined;
    const until = now() + (options.timeout === undefined ? this.timeoutMs : toMs(options.timeout, "timeout"));
    const others = this.nodes.all.length > 1 && !once;
    const { waitMs = 0, graceMs = GRACE_MS, signal } = options;
    const preferred = options.tokens
      ? this.nodes.forTokens(params.queue, options.tokens)
      : options.grouped !== undefined
        ? this.nodes.forSends(params.queue, options.grouped)
        : undefined;
    const tried = new Set();
    let maybe = false,
      last;
    this.nodes.probe();
    for (let rounds = 0; ;) {
      if (this.closed) throw invalid("client", "the client is closed");
      signal?.throwIfAborted();
      const node = this.nodes.next(tried, preferred);
      const askedAt = now(),
        left = Math.max(until - askedAt, 0);
      const answer = await node.connection.request(row.method, path, {
        headers: this.headers(name, row, params, { ...options, request }, body),
        body,
        signal,
        fresh: once,
        timeoutMs: (others ? Math.min(left, ATTEMPT_MS) : left) + waitMs + graceMs,
        connectMs: others ? CONNECT_MS : 0,
        silentMs: SILENT_MS[node.connection.url.protocol],
        isHopeless: others ? () => this.nodes.isHopeless(node, askedAt) : undefined,
      });
      signal?.throwIfAborted();
      this.nodes.report(node, answer.end === "answered");
      if (answer.end === "answered") {
        if (row.owned) this.nodes.learn(params.queue, answer.headers["sluice-owners"]);
        if (answer.status >= 200 && answer.status < 300)
          return { json: this.parse(node, answer, request), askedAt, again: maybe };
        last = problemOf(node, answer);
      } else {
        last = { code: answer.end === "lost" ? "UNKNOWN" : "UNAVAILABLE", field: "store", detail: answer.why };
      }
      const unknown = last.code === "UNKNOWN" && changes;
      if (last.code === "UNKNOWN" && !changes) last.code = "UNAVAILABLE";
      maybe ||= unknown;
      const passes = last.code === "UNAVAILABLE" || last.code === "UNKNOWN";
      if (!passes || (unknown && once)) break;
      if (others && tried.size < this.nodes.all.length && now() < until) continue; // another node may answer at once
      if (FINAL_REASONS.includes(last.reason)) break;
      const most = Math.min(PAUSE_MIN_MS * 2 ** rounds++, PAUSE_MAX_MS, until - now());
      if (most <= 0) break;
      await pause(Math.random() * most, signal);
      if (now() >= until) break;
    }
    throw errorOf({ ...last, code: maybe ? codeRepeated(last.code) : last.code, requestId: request });
  }

  parse(node, { text, status }, requestId) {
    if (status === 204 || text === "") return undefined;
    try {
      return JSON.parse(text);
    } catch {
      throw errorOf({
        code: "CORRUPT",
        field: "store",
        requestId,
        detail: `cannot read the answer of ${node.url}: ${text.length} characters that are no JSON`,
      });
    }
  }

  // Opens the stream `name` once. Resolves with the answer's stream, or throws.
  async open(name, params, { lastEventId, signal }) {
    const row = calls[name];
    check(name, row, params);
    const node = this.nodes.next(new Set());
    const headers = { ...this.headers(name, row, params, { lastEventId }), Accept: "text/event-stream" };
    const answer = await node.connection.stream(pathOf(name, row, params), { headers, signal, connectMs: ATTEMPT_MS });
    this.nodes.report(node, answer.end === "answered");
    signal?.throwIfAborted();
    if (answer.end !== "answered") throw errorOf({ code: "UNAVAILABLE", field: "store", detail: answer.why });
    if (answer.status === 200) return answer.res;
    let text = "";
    for await (const part of answer.res) text += part;
    throw errorOf(problemOf(node, { ...answer, text }));
  }

  close() {
    this.closed = true;
    this.nodes.close();
  }
}

exports.Transport = Transport;
