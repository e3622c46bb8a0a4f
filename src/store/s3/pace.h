// SPDX-License-Identifier: Apache-2.0
// When to send, and when to send again: full jitter, what Retry-After asks for, a budget for
// retries, and a slow-down of the whole handle when the store says that it is too much. Decisions
// only: time and chance are handed in.
#pragma once

#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>

#define S3_RETRY_FIRST_MS 50
#define S3_RETRY_MAX_MS   2000
#define S3_BUDGET_MAX     500 // as the AWS SDKs: a retry costs 5, a success gives 1 back
#define S3_BUDGET_RETRY   5
#define S3_GAP_FIRST_MS   20 // between two requests, once we are to slow down
#define S3_GAP_MAX_MS     1000
#define S3_GAP_STEP_MS    200 // the gap doubles at most this often: one wave of refusals, one step

// All zero but the budget: s3_pace_init.
struct s3_pace {
    int64_t budget;
    int64_t gap_ms;  // 0: not slowed down
    int64_t next_ms; // when the next request may start
    int64_t raised_ms;
};

void s3_pace_init(struct s3_pace *p);
// When a request may start; takes that place. now_ms when nothing holds it back.
int64_t s3_pace_admit(struct s3_pace *p, int64_t now_ms);
// The store answered without complaint.
void s3_pace_good(struct s3_pace *p);
// The store said 503 SlowDown or 429.
void s3_pace_slow(struct s3_pace *p, int64_t now_ms);
// How long to wait before try number `tries` + 1 (tries counts from 1), or -1: no more.
// retry_after_ms: what the store asked for, 0 when it did not; it may not lie past end_ms.
int64_t s3_pace_retry(struct s3_pace *p, int tries, int64_t retry_after_ms, int64_t now_ms,
                      int64_t end_ms, struct rng *rng);
