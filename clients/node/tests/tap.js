// SPDX-License-Identifier: Apache-2.0
// Runs tests one after another and prints TAP. A test has 30 s, or the time that it names.
"use strict";

const TEST_MS = 30000;
const tests = [];
let count = 0,
  failures = 0;

exports.test = (name, run, ms = TEST_MS) => tests.push({ name, run, ms });

function line(ok, name, why = "") {
  count++;
  if (!ok) failures++;
  console.log(`${ok ? "ok" : "not ok"} ${count} - ${name}`);
  for (const text of why ? String(why).split("\n") : []) console.log(`# ${text}`);
}

// With CI=true everything must be there (tools/deps.sh clients).
exports.skip = (name, why) =>
  process.env.CI === "true" ? line(false, name, why) : line(true, `${name} # SKIP ${why}`);
exports.result = line;

async function runOne({ name, run, ms }) {
  let timer;
  const late = new Promise(
    (_, reject) => (timer = setTimeout(reject, ms, new Error(`it took more than ${ms} ms`))),
  );
  try {
    await Promise.race([run(), late]);
    line(true, name);
  } catch (error) {
    line(false, name, error.stack ?? error);
  }
  clearTimeout(timer);
}

exports.run = async function run() {
  const only = process.env.ONLY;
  for (const test of tests.splice(0)) if (!only || test.name.includes(only)) await runOne(test);
};

exports.end = function end() {
  console.log(`1..${count}`);
  process.exitCode = failures > 0 ? 1 : 0;
};
