// SPDX-License-Identifier: Apache-2.0
"use strict";

const { Client } = require("./lib/client");
const { Queue, Sent } = require("./lib/queue");
const { Job, Snooze, LockLost, Interrupted, Stopping } = require("./lib/job");
const { Worker } = require("./lib/worker");
const errors = require("./lib/errors");
const { testNode, runUntilEmpty } = require("./lib/testing");

// One assignment, so that an ECMAScript module can import each name.
module.exports = {
  Client,
  Queue,
  Sent,
  Job,
  Worker,
  Snooze,
  LockLost,
  Interrupted,
  Stopping,
  testNode,
  runUntilEmpty,
  SluiceError: errors.SluiceError,
  NotProcessed: errors.NotProcessed,
  Invalid: errors.Invalid,
  Denied: errors.Denied,
  NotFound: errors.NotFound,
  Conflict: errors.Conflict,
  Fenced: errors.Fenced,
  Limit: errors.Limit,
  Corrupt: errors.Corrupt,
  Unavailable: errors.Unavailable,
  OutcomeUnknown: errors.OutcomeUnknown,
};
