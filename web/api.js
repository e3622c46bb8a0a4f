// SPDX-License-Identifier: Apache-2.0
// Calls the node's HTTP interface (docs/http.md). Addresses are relative, so that a proxy may serve
// the node under a path.

const PATIENCE_MS = 15000;
const TOKEN = "sluice-token";

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail ?? problem.title ?? `the node answered ${status}`);
    this.status = status;
    this.code = problem.code ?? "";
    this.reason = problem.reason ?? "";
    this.field = problem.field ?? "";
  }
}

let token = sessionStorage.getItem(TOKEN) ?? "";
let skew = 0; // the node's clock minus the browser's

export const hasToken = () => token !== "";

export function setToken(text) {
  token = text;
  dispatchEvent(new Event("token-changed"));
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
}

// The time by the node's clock, as exact as its whole seconds allow. The browser's clock may be
// hours off.
export const nodeNow = () => Date.now() + skew;

function noteClock(answer) {
  const date = Date.parse(answer.headers.get("Date") ?? "");
  const off = date - Date.now();
  if (!Number.isNaN(off)) skew = Math.abs(off) > 3000 ? off : 0;
}

function headersWith(more) {
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

async function problemOf(answer) {
  try {
    return await answer.json();
  } catch {
    return {};
  }
}

// A refusal of a token that was replaced meanwhile does not concern the new token.
function checkStatus(answer, problem, used) {
  if (answer.status === 401 && used === token)
    dispatchEvent(new CustomEvent("token-wanted", { detail: problem.detail }));
  throw new Refused(answer.status, problem);
}

// Browsers report a lost connection in different words.
async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    throw new Error("The node does not answer.", { cause: error });
  }
}

// Parses a message. Its body may be JSON, and a number that JavaScript cannot hold keeps its
// digits.
const readExactly = async (answer) => parseExactly(await answer.text());

export function parseExactly(text) {
  const keep = (key, value, context) =>
    typeof value === "number" && context && String(value) !== context.source
      ? JSON.rawJSON(context.source)
      : value;
  try {
    return JSON.parse(text, JSON.rawJSON ? keep : undefined);
  } catch (error) {
    if (error instanceof RangeError) return JSON.parse(text); // nested too deep for the walk
    throw error;
  }
}

async function once(method, path, body, headers, read = (answer) => answer.json()) {
  const used = token;
  const answer = await reach(path, {
    method,
    cache: "no-store",
    headers: headersWith(
      body === undefined ? headers : { ...headers, "Content-Type": "application/json" },
    ),
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(PATIENCE_MS),
  });
  noteClock(answer);
  if (!answer.ok) checkStatus(answer, await problemOf(answer), used);
  if (answer.status === 204) return null;
  const isJson = (answer.headers.get("Content-Type") ?? "").includes("json");
  return isJson ? read(answer) : answer.text();
}

function requestId() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// If the answer to a send is lost, it is sent again with the same request id. The node applies it
// once.
async function safely(method, path, body) {
  const headers = { "Sluice-Request": requestId() };
  try {
    return await once(method, path, body, headers);
  } catch (error) {
    if (error instanceof Refused && ![502, 503, 504].includes(error.status)) throw error;
    return once(method, path, body, headers);
  }
}

const queuePath = (queue, rest = "") => `v1/queues/${encodeURIComponent(queue)}${rest}`;

export const listQueues = () => once("GET", "v1/queues?stats=1");
export const showQueue = (queue) => once("GET", queuePath(queue));
export const createQueue = (queue, settings) => once("PUT", queuePath(queue), settings);
export const changeQueue = (queue, settings) => once("PATCH", queuePath(queue), settings);
export const deleteQueue = (queue) => once("DELETE", queuePath(queue));
export const pauseQueue = (queue) => once("POST", queuePath(queue, "/pause"));
export const resumeQueue = (queue) => once("POST", queuePath(queue, "/resume"));
export const purge = (queue, dead) => once("POST", queuePath(queue, "/purge"), { dead });
export const redrive = (queue, options) => once("POST", queuePath(queue, "/redrive"), options);
export const signal = (queue, options) => safely("POST", queuePath(queue, "/signals"), options);
export const withdrawSignal = (queue, message, id) =>
  once("DELETE", queuePath(queue, `/messages/${encodeURIComponent(message)}/signals/${id}`));
// Ends chosen messages: one that waits is cancelled, a dead one is deleted.
export const cancel = (queue, ids, reason) =>
  safely("POST", queuePath(queue, "/cancel"), { ids, ...(reason && { reason }) });
export const orderWorker = (queue, worker, order) =>
  once("POST", queuePath(queue, `/workers/${order}`), { worker });
export const workers = (queue) => once("GET", queuePath(queue, "/workers"));
export const showMessage = (queue, id) =>
  once("GET", queuePath(queue, `/messages/${encodeURIComponent(id)}`), undefined, {}, readExactly);
export const sendMessage = (queue, message) =>
  safely("POST", queuePath(queue, "/messages"), message);
export const workflows = (queue, max) => once("GET", queuePath(queue, `/workflows?max=${max}`));
export const showWorkflow = (queue, id) =>
  once("GET", queuePath(queue, `/workflows/${encodeURIComponent(id)}`));
export const node = () => once("GET", "v1/node");
export const cluster = () => once("GET", "v1/cluster");
export const ready = () => once("GET", "readyz");
export const metrics = () => once("GET", "metrics");

// conditions: pairs of a parameter and its value, to find messages. The answer then says how much
// was read, and where to continue.
export function peek(queue, state, after, max, conditions = []) {
  const query = new URLSearchParams([["state", state], ["max", max], ...conditions]);
  if (after) query.set("after", after);
  return once("GET", queuePath(queue, `/messages?${query}`));
}

// ---- events

// Yields the parts of an event stream as objects {id, event, data, comment}.
async function* readParts(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let part = {};
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (part.data !== undefined || part.comment) yield part;
        part = {};
      } else if (line.startsWith(":")) {
        part.comment = true;
      } else {
        const colon = line.indexOf(":");
        part[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
      }
    }
  }
}

// Opens an event stream and yields its parts. It uses fetch, because EventSource cannot send a
// token. last: the id to resume after, or "".
export async function* openStream(path, last, signal) {
  const used = token;
  const headers = headersWith(last ? { "Last-Event-ID": last } : {});
  const answer = await fetch(path, { headers, cache: "no-store", signal });
  noteClock(answer);
  if (!answer.ok) checkStatus(answer, await problemOf(answer), used);
  yield { open: true };
  yield* readParts(answer.body);
}

// Resolves when the tab is visible. A browser has few connections to one host for all its tabs, so
// a hidden tab must not keep one.
export function whenVisible() {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
  });
}

// Follows an event stream, over lost connections, until the caller calls the returned function. It
// calls tell({event}), tell({open: true or false}), or tell({caughtUp: true}) when all existing
// events were told. After the end of the stream's queue it reports nothing, not even about a new
// queue of the same name: the page is rebuilt for that one.
function followPath(path, tell) {
  const ends = new AbortController();
  let last = "";
  const connect = async () => {
    const away = new AbortController();
    const hide = () => document.hidden && away.abort();
    document.addEventListener("visibilitychange", hide);
    try {
      const signal = AbortSignal.any([ends.signal, away.signal]);
      for await (const { open, id, event, data, comment } of openStream(path, last, signal)) {
        if (event === "end" || event === "gap") return ends.abort();
        if (open) tell({ open });
        if (id) last = id;
        if (data !== undefined) tell({ event: JSON.parse(data) });
        else if (comment) tell({ caughtUp: true });
      }
    } finally {
      document.removeEventListener("visibilitychange", hide);
    }
  };
  const run = async () => {
    while (!ends.signal.aborted) {
      let why = null;
      await whenVisible();
      await connect().catch((error) => (why = error));
      if (ends.signal.aborted) return;
      if (document.hidden) continue;
      tell({ open: false, why });
      if (why instanceof Refused && why.status === 404) return;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  };
  run();
  return () => ends.abort();
}

// Its events are envelopes (docs/events.md).
export const followWorkflow = (queue, workflow, tell) =>
  followPath(`v1/stream?${new URLSearchParams({ queue, workflow, from: 0 })}`, tell);

export const follow = (queue, query, tell) =>
  followPath(queuePath(queue, `/events?${new URLSearchParams(query)}`), tell);
