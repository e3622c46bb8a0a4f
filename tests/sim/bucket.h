// SPDX-License-Identifier: Apache-2.0
// The simulated store itself: objects and the slots of one log, each with the true time of its
// making. It performs one request at one moment and is honest unless told to lie; delays and losses
// are the wire's business.
#pragma once

#include "base/rng.h"
#include "journal/request.h"

#define BUCKET_KEY_MAX 256

struct bucket_object {
    char key[BUCKET_KEY_MAX];
    struct bytes body; // owned
    int64_t made_at;
};

struct bucket_slot {
    bool there;
    struct bytes body; // owned
    int64_t made_at;
};

// Told of every change, before it is made. NULL members are skipped.
struct bucket_watch {
    void *ctx;
    void (*slot_made)(void *ctx, uint64_t slot, struct bytes body);
    void (*slot_dropped)(void *ctx, uint64_t slot, int64_t made_at);
    void (*object_made)(void *ctx, const char *key, struct bytes body);
    void (*object_deleted)(void *ctx, const char *key);
};

// Ways in which a store may break its contract. Each happens with the chance given, in hundredths
// of a percent.
struct bucket_lies {
    uint32_t overwrite;  // an append or put_new of an existing key replaces it and answers ok
    uint32_t two_win;    // ... or keeps the first and answers ok all the same
    uint32_t stale_404;  // a slot that is there is not found
    uint32_t lost;       // the last slot is gone before an append, as after a crash of the store
    int64_t lost_at;     // 0: never; from then on the store notices a gap, as file: and redis: do
    uint32_t told_total; // how often it lied
};

struct bucket {
    struct bucket_object **objects; // sorted by key
    size_t objects_len;
    size_t objects_cap;
    struct bucket_slot *slots; // slots[n - 1] is slot n
    uint64_t slots_len;
    uint64_t slots_cap;
    struct bucket_watch watch;
    struct rng *rng;
    int64_t tick_ms;     // resolution of the store's clock
    uint32_t run_max;    // most slots that one read brings
    int64_t list_lag_ms; // listings may miss what is younger
    uint32_t partial;    // chance that a drop stops halfway, hundredths of a percent
    struct bucket_lies lies;
};

// An answer that owns what its response points to.
struct bucket_answer {
    struct response response;
    struct response_row *rows;
    struct buf text; // bodies and keys, at the places in `at`
};

void bucket_init(struct bucket *b, struct rng *rng);
void bucket_done(struct bucket *b);
struct interval bucket_time(const struct bucket *b, int64_t at); // as the store's clock shows it

void bucket_answer_init(struct bucket_answer *a);
void bucket_answer_done(struct bucket_answer *a);
// Performs q at the true moment now. The id and the views of the answer are set; a is initialised
// or used before.
void bucket_perform(struct bucket *b, const struct request *q, int64_t now,
                    struct bucket_answer *a);

const struct bucket_object *bucket_object(const struct bucket *b, const char *key);
const struct bucket_slot *bucket_slot(const struct bucket *b, uint64_t slot); // NULL: not there
