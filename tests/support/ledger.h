// SPDX-License-Identifier: Apache-2.0
// Named counters on a real store: the register machine, a journal, a collector and the driver
// joined. For tests and benches of the journal; any number of threads and processes may share one.
#pragma once

#include "journal/journal.h"
#include "store/store.h"

struct ledger;

struct ledger_options {
    struct journal_rules rules; // all zero: the defaults
    int64_t memory_ms;          // how long request ids are remembered; 0: 10 minutes
    int64_t patience_ms;        // 0: 30 s
};

// Borrows the store; options may be NULL.
MUST_USE enum err ledger_open(struct store *s, const char *prefix,
                              const struct ledger_options *options, struct ledger **out);
void ledger_close(struct ledger *l);

// Adds by to the counter. request is 16 bytes; the same one may be sent again. value (may be NULL):
// the new value.
MUST_USE enum err ledger_add(struct ledger *l, const char *name, int64_t by,
                             const uint8_t request[16], int64_t *value);
// The value after everything committed before the call. ERR_NOT_FOUND: never written.
MUST_USE enum err ledger_read(struct ledger *l, const char *name, int64_t *value);
MUST_USE enum err ledger_sync(struct ledger *l);
void ledger_collect(struct ledger *l); // starts one round in the background

uint64_t ledger_slot(struct ledger *l);
uint64_t ledger_dropped(struct ledger *l);
uint64_t ledger_digest(struct ledger *l); // of the state after ledger_slot
