// SPDX-License-Identifier: Apache-2.0
// Runs the cases of clients/spec. scripted_node.py plays the nodes and checks the requests.
"use strict";

const assert = require("node:assert/strict");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const readline = require("node:readline");
const { setTimeout: sleep } = require("node:timers/promises");
const sluice = require("..");
const { test } = require("./tap");

const SCRIPTED_NODE = path.join(__dirname, "..", "..", "spec", "scripted_node.py");

const bodyOf = (body) => (body?.$bytes === undefined ? body : Buffer.from(body.$bytes, "base64"));
const shown = (value) => (value instanceof Uint8Array ? { $bytes: Buffer.from(value).toString("base64") } : value);

function sendOptions({ delay_ms: delay, at_ms: at, ...rest } = {}) {
  return { ...rest, ...(delay === undefined ? {} : { delay }), ...(at === undefined ? {} : { at: new Date(at) }) };
}

const CALLS = {
  send: ({ q, body, options }) => q.send(bodyOf(body), sendOptions(options)),
  send_many: async ({ q, bodies }) => ({ sent: await q.sendMany(bodies.map(bodyOf)) }),
  receive: async ({ q, jobs, max, wait_ms: wait = 0 }) => {
    const got = await q.receive({ max, wait });
    jobs.push(...got);
    return { jobs: got.map((job) => ({ ...job, body: shown(job.body) })) };
  },
  ack: ({ jobs, job, result_value: value }) => jobs[job].ack(value),
  fail: ({ jobs, job, reason }) => jobs[job].fail(reason),
  release: ({ jobs, job, delay_ms: delay }) => jobs[job].release({ delay }),
  renew: ({ jobs, job, visibility_ms: visibility }) => jobs[job].renew({ visibility }),
  stats: ({ q }) => q.stats(),
  redrive: ({ q }) => q.redrive(),
  delete: ({ q, id }) => q.delete({ id }),
  create: ({ client, queue, settings }) => client.create(queue, settings),
  collect: ({ q, ids }) => q.collect(ids),
  result: async ({ q, id, timeout_ms: timeout }) => ({ value: await new sluice.Sent(q, { id }).result({ timeout }) }),
  pause_ms: ({ ms }) => sleep(ms),
};

// Of an object, only the fields that the case names count.
function compare(want, got, place) {
  if (Array.isArray(want)) {
    assert.equal(got?.length, want.length, `${place} has another length`);
    want.forEach((one, i) => compare(one, got[i], `${place}[${i}]`));
  } else if (typeof want === "object" && want !== null) {
    for (const [key, value] of Object.entries(want)) compare(value, got?.[key], `${place}.${key}`);
  } else {
    assert.deepEqual(got, want, place);
  }
}

function compareError(want, error) {
  assert.ok(error instanceof sluice[want.class], `it is ${error.name}, not ${want.class}: ${error.stack}`);
  const { class: _, detail_has: part, retry_after_ms: retryAfterMs, ...fields } = want;
  compare({ ...fields, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }, error, "error");
  if (part) assert.ok(error.detail.includes(part), `"${error.detail}" does not have "${part}"`);
}

async function runCase(url, one) {
  const { timeout_ms: timeout = 10000, token } = one.options ?? {};
  const client = new sluice.Client(url, { timeout, token });
  const jobs = [];
  for (const { do: name, result, error, ...call } of one.calls) {
    assert.ok(CALLS[name], `the runner does not know "${name}"`);
    const made = CALLS[name]({ ...call, client, jobs, q: client.queue(call.queue) });
    if (error)
      compareError(
        error,
        await made.then(
          () => assert.fail(`${name} has no error`),
          (why) => why,
        ),
      );
    else compare(result ?? {}, await made, name);
  }
  await client.close();
}

exports.begin = async function begin() {
  const child = spawn("python3", ["-B", SCRIPTED_NODE], { stdio: ["pipe", "pipe", "inherit"] });
  const [control] = await once(readline.createInterface({ input: child.stdout }), "line");
  const ask = async (method, target) => (await fetch(control + target, { method })).json();
  const cases = await ask("GET", "/__cases");
  cases.forEach((one, number) =>
    test(`spec: ${one.name}`, async () => {
      const { url } = await ask("POST", `/__case/${number}`);
      await runCase(url, one);
      const { wrong } = await ask("GET", "/__check");
      assert.deepEqual(wrong, []);
    }),
  );
  return () => child.stdin.end();
};
