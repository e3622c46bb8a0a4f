// SPDX-License-Identifier: Apache-2.0
// Decides when to read messages again: when the numbers of the queue have changed. Bodies may be
// large, so a slow answer is followed by a longer pause.
import { live } from "./live.js";

const STALE_MS = 5000; // without a stream: messages also change by time alone
const REST_TIMES = 5;

// Entries of the journal, and what changes by time alone: locks expire, delays end.
const printOf = (stats) =>
  stats && [stats.entries, stats.ready, stats.locked, stats.delayed, stats.waiting].join();

// staleMs: the age of an answer that is read again even if a stream tells no event.
export function makeReader(read, staleMs = Infinity) {
  let seen = null; // the numbers at the last read
  let restUntil = 0;
  let staleAt = 0;
  let busy = false;
  return {
    // Something changed that the next read must show.
    soon() {
      staleAt = 0;
      restUntil = 0;
    },
    async look(stats) {
      const began = performance.now();
      if (busy || began < restUntil) return;
      if (printOf(stats) === seen && began < staleAt) return;
      busy = true;
      seen = printOf(stats);
      await read();
      busy = false;
      const ended = performance.now();
      staleAt = ended + (live.streaming ? staleMs : STALE_MS);
      restUntil = ended + (ended - began) * REST_TIMES;
    },
  };
}
