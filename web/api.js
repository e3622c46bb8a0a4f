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
    this.field = problem.field ?? "";
  }
}

let token = sessionStorage.getItem(TOKEN) ?? "";
let skew = 0; // the node's clock minus the browser's

export const hasToken = () => token !== "";

export function setToken(text) {
  token = text;
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
async function readExactly(answer) {
  const text = await answer.text();
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
export const orderWorker = (queue, worker, order) =>
  once("POST", queuePath(queue, `/workers/${order}`), { worker });
export const workers = (queue) => once("GET", queuePath(queue, "/workers"));
export const showMessage = (queue, id) =>
  once("GET", queuePath(queue, `/messages/${encodeURIComponent(id)}`), undefined, {}, readExactly);
export const sendMessage = (queue, message) =>
  safely("POST", queuePath(queue, "/messages"), message);
export const node = () => once("GET", "v1/node");
export const cluster = () => once("GET", "v1/cluster");
export const ready = () => once("GET", "readyz");
export const metrics = () => once("GET", "metrics");

export function peek(queue, state, after, max) {
  const query = new URLSearchParams({ state, max });
  if (after) query.set("after", after);
  return once("GET", queuePath(queue, `/messages?${query}`));
}

// ---- events

// Yields the parts of an event stream as objects {id, event, data}.
async function* readStream(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let event = {};
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (event.data !== undefined || event.id) yield event;
        event = {};
      } else if (!line.startsWith(":")) {
        const colon = line.indexOf(":");
        event[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
      }
    }
  }
}

// Follows a queue's events, over lost connections, until the caller calls the returned function. It
// uses fetch, because EventSource cannot send a token. It calls tell({event}) or tell({open: true
// or false}). After the queue is deleted it reports nothing, not even about a new queue of the same
// name: the page is rebuilt for that one.
export function follow(queue, query, tell) {
  const ends = new AbortController();
  let last = null;
  const connect = async () => {
    const used = token;
    const headers = headersWith(last ? { "Last-Event-ID": last } : {});
    const path = queuePath(queue, `/events?${new URLSearchParams(query)}`);
    const answer = await fetch(path, { headers, cache: "no-store", signal: ends.signal });
    if (!answer.ok) checkStatus(answer, await problemOf(answer), used);
    tell({ open: true });
    for await (const { id, event, data } of readStream(answer.body)) {
      if (event === "end" || event === "gap") return ends.abort();
      if (id) last = id;
      if (data !== undefined) tell({ event: JSON.parse(data) });
    }
  };
  const run = async () => {
    while (!ends.signal.aborted) {
      let why = null;
      await connect().catch((error) => (why = error));
      if (ends.signal.aborted) return;
      tell({ open: false, why });
      if (why instanceof Refused && why.status === 404) return;
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
  };
  run();
  return () => ends.abort();
}
