// SPDX-License-Identifier: Apache-2.0
// One row per log. When the slot changes, the gap starts over.
#include "store/s3/polls.h"

static struct s3_poll *find(const struct s3_polls *p, uint64_t log)
{
    for (size_t i = 0; i < S3_POLLS_ROWS; i++)
        if (p->rows[i].used && p->rows[i].log == log) return (struct s3_poll *)&p->rows[i];
    return NULL;
}

static struct s3_poll *oldest(struct s3_polls *p)
{
    struct s3_poll *found = &p->rows[0];
    for (size_t i = 0; i < S3_POLLS_ROWS; i++)
        if (p->rows[i].used < found->used) found = &p->rows[i];
    return found;
}

int64_t s3_polls_due(const struct s3_polls *p, uint64_t log, uint64_t slot, int64_t now_ms)
{
    const struct s3_poll *r = find(p, log);
    return r && r->slot == slot && r->due_ms > now_ms ? r->due_ms : now_ms;
}

void s3_polls_note(struct s3_polls *p, uint64_t log, uint64_t slot, int64_t now_ms)
{
    struct s3_poll *r = find(p, log);
    if (!r) {
        r = oldest(p);
        *r = (struct s3_poll){.log = log};
    }
    r->used = ++p->uses;
    r->gap_ms = r->slot == slot ? r->gap_ms + r->gap_ms / 2 : S3_POLL_FIRST_MS;
    if (r->gap_ms > S3_POLL_MAX_MS) r->gap_ms = S3_POLL_MAX_MS;
    r->slot = slot;
    r->due_ms = now_ms + r->gap_ms;
}

bool s3_polls_tail(struct s3_polls *p, uint64_t log, uint64_t next, int64_t now_ms)
{
    struct s3_poll *r = find(p, log);
    if (!r || next <= r->slot) return false;
    r->slot = next;
    r->gap_ms = S3_POLL_FIRST_MS;
    r->due_ms = now_ms + r->gap_ms;
    return true;
}
