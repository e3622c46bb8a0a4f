// SPDX-License-Identifier: Apache-2.0
// A retry waits a random time in [0, cap], and cap doubles: clients that failed together do not
// retry together. The budget keeps retries a small part of the load on a store that is down.
#include "store/s3/pace.h"

#include "base/check.h"

void s3_pace_init(struct s3_pace *p)
{
    *p = (struct s3_pace){.budget = S3_BUDGET_MAX};
}

int64_t s3_pace_admit(struct s3_pace *p, int64_t now_ms)
{
    if (p->gap_ms == 0) return now_ms;
    int64_t at = p->next_ms > now_ms ? p->next_ms : now_ms;
    p->next_ms = at + p->gap_ms;
    return at;
}

void s3_pace_good(struct s3_pace *p)
{
    if (p->budget < S3_BUDGET_MAX) p->budget++;
    p->gap_ms -= (p->gap_ms + 7) / 8; // about five requests halve it
}

void s3_pace_slow(struct s3_pace *p, int64_t now_ms)
{
    if (p->gap_ms > 0 && now_ms - p->raised_ms < S3_GAP_STEP_MS) return;
    p->raised_ms = now_ms;
    p->gap_ms = p->gap_ms ? 2 * p->gap_ms : S3_GAP_FIRST_MS;
    if (p->gap_ms > S3_GAP_MAX_MS) p->gap_ms = S3_GAP_MAX_MS;
    if (p->next_ms < now_ms + p->gap_ms) p->next_ms = now_ms + p->gap_ms;
}

int64_t s3_pace_retry(struct s3_pace *p, int tries, int64_t retry_after_ms, int64_t now_ms,
                      int64_t end_ms, struct rng *rng)
{
    CHECK(tries >= 1);
    if (p->budget < S3_BUDGET_RETRY) return -1;
    int64_t cap = S3_RETRY_FIRST_MS;
    for (int i = 1; i < tries && cap < S3_RETRY_MAX_MS; i++)
        cap *= 2;
    if (cap > S3_RETRY_MAX_MS) cap = S3_RETRY_MAX_MS;
    int64_t wait = rng_range(rng, 0, cap);
    if (retry_after_ms > 0) wait += retry_after_ms; // clients with the same Retry-After also spread
    if (now_ms + wait >= end_ms) return -1;
    p->budget -= S3_BUDGET_RETRY;
    return wait;
}
