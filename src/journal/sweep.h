// SPDX-License-Identifier: Apache-2.0
// The last part of a collector's round: objects under <prefix>/data/ that nobody needs any more.
// Inside the journal; collect.c is the only caller.
#pragma once

#include "journal/inside.h"

struct sweep {
    int64_t next_at;     // not before this; TIME_UNKNOWN: not known yet
    uint64_t seen_slot;  // how far the fold was when it last swept
    bool begun;          // at least once
    bool leftovers;      // it did not come to the end, or left objects that will be nobody's
    bool stays;          // ... as far as it has come
    bool waits_for_time; // ... among them such as only the fold's time keeps
    bool deleting;       // what the last page had
    bool more;           // pages
    char after[ASKING_KEY_MAX];
    struct buf doomed;   // keys of the last page, a zero byte after each
    uint64_t doomed_len; // how many
    uint64_t deleted;    // objects, so far
};

void sweep_init(struct sweep *s);
void sweep_done(struct sweep *s);
bool sweep_is_possible(const struct journal *j);
// When a sweep is due for its own sake: an hour after the last, if anything has happened since.
int64_t sweep_wake_at(const struct sweep *s, const struct journal *j);
void sweep_begin(struct sweep *s, struct journal *j, struct interval now);
bool sweep_ask(struct sweep *s, struct journal *j, struct asking *ask); // false: it is done
void sweep_respond(struct sweep *s, struct journal *j, const struct response *r,
                   struct interval now);
