// SPDX-License-Identifier: Apache-2.0
// A node for tests: a process of its own, with its store in memory, on a free port.
"use strict";

const { spawn } = require("node:child_process");
const { once } = require("node:events");
const readline = require("node:readline");
const { Client } = require("./client");
const { errorOf } = require("./errors");
const { pause } = require("./util");

const POLL_MS = 10;

// Starts `sluice serve` and returns a client of it. close() ends both.
// program: default $SLUICE, else "sluice" of the PATH.
async function testNode({
  program = process.env.SLUICE || "sluice",
  store = "mem:",
  listen = "127.0.0.1:0",
  args = [],
  ...options
} = {}) {
  const child = spawn(program, ["serve", "--store", store, "--listen", listen, "--json", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  child.stderr.on("data", (part) => (said = (said + part).slice(-2000)));
  const kill = () => child.kill("SIGKILL");
  process.once("exit", kill);
  const lines = readline.createInterface({ input: child.stdout });
  const [first] = await Promise.race([
    once(lines, "line"),
    once(child, "error").then(([error]) => [error]),
    once(child, "exit").then(() => [new Error(said.trim() || "it ended")]),
  ]);
  if (first instanceof Error)
    throw errorOf({
      code: "UNAVAILABLE",
      field: "program",
      detail: `cannot start a node with ${program}: ${first.message}`,
    });
  const { address, scheme } = JSON.parse(first);
  const client = new Client(`${scheme}://${address}`, { token: undefined, ...options });
  client.server = child;
  const close = client.close;
  client.close = async function closeNode() {
    await close.call(client);
    process.off("exit", kill);
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGTERM");
    await once(child, "exit");
  };
  return client;
}

// Runs the worker until its queue has no message that is ready or locked, then stops it. With
// { delayed: true } it also waits for messages that are delayed.
async function runUntilEmpty(worker, { delayed = false } = {}) {
  const end = worker.run();
  let failed = false;
  end.catch(() => (failed = true));
  while (!failed) {
    const stats = await worker.queue.stats();
    if (stats.ready + stats.locked + (delayed ? stats.delayed : 0) === 0) break;
    await pause(POLL_MS);
  }
  if (!failed) await worker.stop();
  return end;
}

module.exports = { testNode, runUntilEmpty };
