// SPDX-License-Identifier: Apache-2.0
// The harness itself: a case that fails once fails the run, for it is never tried again.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { holds, run, same } from "./harness.mjs";

const SAMPLE = fileURLToPath(new URL("sample_flaky.mjs", import.meta.url));

await run({
  async a_case_that_would_pass_at_the_second_try_fails_the_run() {
    const { status, stdout } = spawnSync(process.execPath, [SAMPLE], { encoding: "utf8" });
    const lines = stdout.split("\n").filter((line) => /^(not )?ok /.test(line));
    same(lines, ["not ok 1 - it fails at the first try alone", "ok 2 - it passes"], "its cases");
    same(status, 1, "the status of the run");
    holds(stdout.includes("# Error: the first try"), `it does not say why: ${stdout}`);
  },
});
