// SPDX-License-Identifier: Apache-2.0
// A worker of the storm: storm_worker.js URL LOG CONCURRENCY LABELS. It appends the begin and the end
// of each handler to the log, with a clock that all processes of the machine share.
"use strict";

const fs = require("node:fs");
const { Client, Worker } = require("..");

const [url, file, concurrency, labels] = process.argv.slice(2);
const log = fs.openSync(file, "a");

function note(what, job) {
  const row = { what, id: job.id, attempt: job.attempt, pid: process.pid, at: Number(process.hrtime.bigint()) };
  fs.writeSync(log, `${JSON.stringify(row)}\n`);
}

function nap(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

async function handle(job) {
  note("begin", job);
  try {
    const end = Date.now() + job.body.ms;
    if (job.body.block) while (Date.now() < end);
    else await nap(job.body.ms, job.signal);
    return job.body.returns;
  } finally {
    note("end", job);
  }
}

new Worker(new Client(url), "storm", handle, { concurrency: Number(concurrency), labels, log: () => undefined });
