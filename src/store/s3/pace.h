// SPDX-License-Identifier: Apache-2.0
// Decides when to send and when to repeat a request: full jitter, Retry-After, a budget for
// retries, and a slow-down of the whole handle when the store reports overload. This file only
// decides: the caller passes in time and randomness.
#pragma once

#include "base/rng.h"

#include <stdint.h>

#define S3_RETRY_FIRST_MS 50
#define S3_RETRY_MAX_MS   2000
#define S3_BUDGET_MAX     500 // as in the AWS SDKs: a retry costs 5, a success adds 1
#define S3_BUDGET_RETRY   5
#define S3_GAP_FIRST_MS   20 // between two requests, at the first slow-down
#define S3_GAP_MAX_MS     1000
// Shortest time between two doublings of the gap: one wave of refusals counts once.
#define S3_GAP_STEP_MS    200

// s3_pace_init sets the budget; all other fields start as zero.
struct s3_pace {
    int64_t budget;
    int64_t gap_ms;  // between two requests; 0: not slowed down
    int64_t next_ms; // when the next request may start
    int64_t raised_ms;
};

void s3_pace_init(struct s3_pace *p);
// Reserves a start time for a request and returns it: now_ms unless the handle is slowed down.
int64_t s3_pace_admit(struct s3_pace *p, int64_t now_ms);
// The store answered and did not report overload.
void s3_pace_good(struct s3_pace *p);
// The store answered 503 SlowDown or 429.
void s3_pace_slow(struct s3_pace *p, int64_t now_ms);
// Returns how long to wait before try number `tries` + 1, or -1 if there is no further try. tries
// counts from 1. retry_after_ms: the store's Retry-After, 0 if it sent none. If it ends past
// end_ms, there is no further try.
int64_t s3_pace_retry(struct s3_pace *p, int tries, int64_t retry_after_ms, int64_t now_ms,
                      int64_t end_ms, struct rng *rng);
