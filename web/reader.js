// SPDX-License-Identifier: Apache-2.0
// Decides when to read messages again: when the journal has new entries. Bodies may be large, so a
// slow answer is followed by a longer pause.

const STALE_MS = 5000; // messages also change by time alone: locks expire, delays end
const REST_TIMES = 5;

export function makeReader(read) {
  let entries = -1; // entries in the journal at the last read
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
      if (stats?.entries === entries && began < staleAt) return;
      busy = true;
      entries = stats?.entries;
      await read();
      busy = false;
      const ended = performance.now();
      staleAt = ended + STALE_MS;
      restUntil = ended + (ended - began) * REST_TIMES;
    },
  };
}
