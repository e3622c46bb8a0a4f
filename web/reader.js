// SPDX-License-Identifier: Apache-2.0
// When to ask for messages again: as soon as the journal moved, but bodies may be large, so a slow
// answer is followed by a longer rest.

const STALE_MS = 5000; // time alone moves messages: locks end, delays pass
const REST_TIMES = 5;

export function makeReader(read) {
  let entries = -1; // of the journal, when it was read last
  let restUntil = 0;
  let staleAt = 0;
  let busy = false;
  return {
    // Something happened that must be seen at the next look.
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
