// SPDX-License-Identifier: Apache-2.0
// A worker of its own process: worker_program.js URL. A job takes `ms` of its body. A job with
// `block` blocks the event loop.
"use strict";

const { setTimeout: sleep } = require("node:timers/promises");
const { Client, Worker } = require("..");

const client = new Client(process.argv[2]);

new Worker(
  client,
  "mail",
  async (job) => {
    console.log("started");
    const end = Date.now() + job.body.ms;
    if (job.body.block) while (Date.now() < end);
    else await sleep(job.body.ms);
  },
  { concurrency: 2, log: () => undefined },
);
