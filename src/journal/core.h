// SPDX-License-Identifier: Apache-2.0
// The part of a shard's state that belongs to the journal itself: position, chain, time, owner, and
// the last committed batch of each writer. It is folded before the machine sees an entry.
#pragma once

#include "journal/entry.h"

enum journal_op {
    JOURNAL_OP_DIGEST = 1, // u64: digest of the state after the previous slot
    JOURNAL_OP_OWN = 2,    // u64 expected epoch, 16 bytes coord, u64 token, sized address
    JOURNAL_OP_COORD = 3,  // 16 bytes coord: accept the tokens of this service from now on
    JOURNAL_OP_TOUCH = 4,  // empty: only time passes
};

// A writer's row in the session table: its last committed batch, and when.
struct session {
    struct hash128 writer;
    uint64_t sequence;
    int64_t time;
};

struct core {
    uint64_t slot;
    struct hash128 chain; // hash of the entry in slot
    int64_t now;
    uint64_t epoch;
    uint8_t coord[16];
    bool coord_set;
    uint64_t token;
    uint8_t address[JOURNAL_ADDRESS_MAX];
    size_t address_len;
    // Sorted by writer. A missing row means "never committed" only for writers born after the
    // horizon.
    struct session *sessions;
    size_t sessions_len;
    size_t sessions_cap;
    int64_t horizon;
    int64_t oldest;         // no row is older; saves a scan
    uint64_t sessions_hash; // exclusive or over the rows, so that the digest is cheap
};

void core_init(struct core *c);
void core_done(struct core *c);

// Folds the entry's header and the journal's own ops. The caller has checked slot and chain.
// Returns false if the entry is void as a whole: the machine must not see its ops. results (may be
// NULL) gets the outcomes of the journal's own ops.
bool core_apply(struct core *c, const struct journal_rules *rules, const struct entry *e,
                struct op_result *results);

enum session_outcome { SESSION_COMMITTED, SESSION_NOT_COMMITTED, SESSION_UNDECIDABLE };
// Returns whether the writer's batch with this sequence was committed. born: a store time before
// the writer's first entry.
enum session_outcome core_session(const struct core *c, struct hash128 writer, uint64_t sequence,
                                  int64_t born);

uint64_t core_digest(const struct core *c);
void core_save(const struct core *c, struct buf *out);
MUST_USE enum err core_load(struct core *c, struct reader *r); // c must be initialised; ERR_CORRUPT
