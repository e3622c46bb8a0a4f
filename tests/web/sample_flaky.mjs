// SPDX-License-Identifier: Apache-2.0
// What test_harness.mjs runs: a case that fails at its first try and would pass at the second.
import { run } from "./harness.mjs";

let tries = 0;

await run({
  async it_fails_at_the_first_try_alone() {
    if (++tries === 1) throw new Error("the first try");
  },
  async it_passes() {},
});
