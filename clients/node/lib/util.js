// SPDX-License-Identifier: Apache-2.0
// Durations, clocks and pauses.
"use strict";

const { invalid } = require("./errors");

const UNITS = { ms: 1, s: 1000, m: 60000, h: 3600000, d: 86400000 };

// Milliseconds of a number or of a text with a unit, such as "30s".
exports.toMs = function toMs(value, field) {
  if (value === undefined || value === null) return 0;
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) return Math.round(value);
  const parts = typeof value === "string" && /^(\d+(?:\.\d{1,3})?)(ms|s|m|h|d)$/.exec(value);
  if (parts) return Math.round(Number(parts[1]) * UNITS[parts[2]]);
  throw invalid(field, `${field} is a number of milliseconds or a text such as "30s", not ${JSON.stringify(value)}`);
};

// A clock that never goes back and is the same in all threads of the process.
exports.now = () => Number(process.hrtime.bigint() / 1000n) / 1000;

// Resolves after `ms`, or as soon as the signal aborts.
exports.pause = function pause(ms, signal) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    if (signal?.aborted) end();
    else signal?.addEventListener("abort", end);
  });
};
