// SPDX-License-Identifier: Apache-2.0
// Runs several files with one browser: to start one takes longer than most cases.
//
//   all.mjs test_dashboard.mjs test_failures.mjs
import { runFiles } from "./harness.mjs";

await runFiles(process.argv.slice(2));
