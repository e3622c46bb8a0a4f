// SPDX-License-Identifier: Apache-2.0
// One HTTP request to one node, over a connection that is kept. The end of a request is one of:
//   not-sent  no connection: the node has not seen the request
//   lost      the node may have seen it, and no whole answer came
//   answered
"use strict";

const http = require("node:http");
const https = require("node:https");

const IDLE_MS = 30000; // a node closes a connection that is idle for 60 s
const ANSWER_MAX = 2 ** 29; // a longer text is no string of the engine

class Connection {
  constructor(url, tls) {
    this.url = new URL(url);
    this.secure = this.url.protocol === "https:";
    this.tls = tls;
    const { Agent } = this.secure ? https : http;
    this.agent = new Agent({ ...tls, keepAlive: true, timeout: IDLE_MS });
  }

  open(path, options) {
    const base = this.url.pathname.replace(/\/$/, "");
    const host = this.url.hostname.replace(/^\[|\]$/g, "");
    return (this.secure ? https : http).request({
      agent: this.agent,
      ...this.tls,
      host,
      port: this.url.port || (this.secure ? 443 : 80),
      path: base + path,
      ...options,
    });
  }

  // Resolves with { end, why } or { end, status, headers, text }. It never rejects.
  // connectMs: the time for a connection; isHopeless: asked every silentMs without an answer.
  // fresh: on a new connection, because the node may be about to close one that was idle.
  request(method, path, { headers, body, timeoutMs, connectMs, signal, silentMs, isHopeless, fresh }) {
    return new Promise((resolve) => {
      let connected = false,
        over = false;
      const timers = [];
      const stop = (why) => req.destroy(new Error(why));
      const abort = () => stop("the call was aborted");
      const finish = (result) => {
        over = true;
        timers.forEach(clearTimeout);
        signal?.removeEventListener("abort", abort);
        resolve(result);
      };
      const fail = (error) =>
        finish({ end: connected ? "lost" : "not-sent", why: `${this.url.origin}: ${error.message || error.code}` });
      const req = this.open(path, fresh ? { method, headers, agent: false } : { method, headers });
      req.on("socket", (socket) => {
        if (req.reusedSocket) connected = true;
        else socket.once(this.secure ? "secureConnect" : "connect", () => (connected = true));
      });
      req.on("error", fail);
      req.on("response", (res) => {
        const parts = [];
        let size = 0;
        res.on("data", (part) => {
          size += part.length;
          if (size > ANSWER_MAX) stop("the answer is too long");
          else parts.push(part);
        });
        res.on("error", fail);
        res.on("end", () =>
          finish({
            end: "answered",
            status: res.statusCode,
            headers: res.headers,
            text: (parts.length === 1 ? parts[0] : Buffer.concat(parts)).toString(),
          }),
        );
      });
      timers.push(setTimeout(stop, timeoutMs, `no answer within ${Math.round(timeoutMs)} ms`));
      if (connectMs)
        timers.push(setTimeout(() => connected || stop(`no connection within ${connectMs} ms`), connectMs));
      if (isHopeless) {
        const ask = async () => {
          const hopeless = await isHopeless();
          if (over) return;
          if (hopeless) stop("the node does not answer");
          else timers.push(setTimeout(ask, silentMs));
        };
        timers.push(setTimeout(ask, silentMs));
      }
      if (signal?.aborted) return abort();
      signal?.addEventListener("abort", abort);
      req.end(body);
    });
  }

  // Resolves with the answer as a stream of texts, or with an end as above.
  stream(path, { headers, connectMs, signal }) {
    return new Promise((resolve) => {
      const req = this.open(path, { method: "GET", headers, signal, agent: false });
      const timer = setTimeout(() => req.destroy(new Error(`no answer within ${connectMs} ms`)), connectMs);
      req.on(
        "error",
        (error) => (clearTimeout(timer), resolve({ end: "lost", why: `${this.url.origin}: ${error.message}` })),
      );
      req.on("response", (res) => {
        clearTimeout(timer);
        res.setEncoding("utf8");
        resolve({ end: "answered", status: res.statusCode, headers: res.headers, res });
      });
      req.end();
    });
  }

  close() {
    this.agent.destroy();
  }
}

exports.Connection = Connection;
