// SPDX-License-Identifier: Apache-2.0
// What kv.c and claims.c share.
#pragma once

#include "coord/kv/kv.h"

#define KV_LIVE    "live/"
#define KV_MEMBER  "live/member/"
#define KV_HOLDER  "/holder"
#define KV_TOKEN   "/token"
#define KV_PLAN    "live/plan/version"
#define KV_PLANS   "plan/"
#define KV_CURRENT "plan/current"

// The exchanges of one call: when they must end, and whether a write may have been applied.
struct attempts {
    int64_t until_ms;
    bool doubt;
};
void attempts_begin(struct attempts *t, const struct kv *k);
bool attempts_pause(struct attempts *t); // false: no time is left
// The result of the call: ERR_UNKNOWN instead of a refusal, if an earlier write is in doubt.
enum err attempts_end(const struct attempts *t, enum err e);

struct kv *kv_of(struct coord *c);
enum err kv_read_under(struct kv *k, const char *under, struct kv_items *items, struct attempts *t,
                       struct coord_answer *a);
// Reads "<epoch> <number>". Returns false if the text is not that.
bool plan_version_parse(struct bytes text, uint64_t *epoch, uint64_t *number);
// Returns whether the node has joined, and its session.
bool session_now(struct kv *k, char session[KV_SESSION_MAX + 1], struct coord_answer *a);
