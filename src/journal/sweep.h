// SPDX-License-Identifier: Apache-2.0
// The last part of a collector's round: deletes objects under <prefix>/data/ that no message refers
// to. Private to the journal; only collect.c calls it.
#pragma once

#include "journal/inside.h"

struct sweep {
    int64_t next_at;     // not before this time; TIME_UNKNOWN: not known yet
    uint64_t seen_slot;  // the fold's slot at the last sweep
    bool begun;          // a sweep was made at least once
    bool leftovers;      // the sweep did not end, or left objects that will become unreferenced
    bool stays;          // ... as far as this sweep has come
    bool waits_for_time; // ... and only the fold's time keeps some of them
    bool deleting;       // the objects of the last page are being deleted
    bool more;           // there are more pages
    char after[OPEN_REQUEST_KEY_MAX];
    struct buf to_delete;   // keys to delete of the last page, a zero byte after each
    uint64_t to_delete_len; // their number
    uint64_t deleted;       // objects deleted so far
};

void sweep_init(struct sweep *s);
void sweep_done(struct sweep *s);
bool sweep_is_possible(const struct journal *j);
// When a sweep is due without another reason: an hour after the last one, if anything has happened
// since.
int64_t sweep_wake_at(const struct sweep *s, const struct journal *j);
void sweep_begin(struct sweep *s, struct journal *j, struct interval now);
// False: the sweep has ended.
bool sweep_ask(struct sweep *s, struct journal *j, struct open_request *ask);
void sweep_respond(struct sweep *s, struct journal *j, const struct response *r,
                   struct interval now);
