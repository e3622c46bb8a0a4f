// SPDX-License-Identifier: Apache-2.0
// A reader is identified by its log and its next slot. One log can have several readers.
#include "store/s3/ahead.h"

#define CALM_READS 3 // a writer at a busy tail wins or loses slot by slot

static const struct s3_reader *find(const struct s3_readahead *a, uint64_t log, uint64_t slot)
{
    for (size_t i = 0; i < S3_AHEAD_ROWS; i++) {
        const struct s3_reader *r = &a->rows[i];
        if (r->used && r->log == log && r->next == slot) return r;
    }
    return NULL;
}

static struct s3_reader *find_or_oldest(struct s3_readahead *a, uint64_t log, uint64_t slot)
{
    struct s3_reader *oldest = &a->rows[0];
    for (size_t i = 0; i < S3_AHEAD_ROWS; i++) {
        struct s3_reader *r = &a->rows[i];
        if (r->used && r->log == log && r->next == slot) return r;
        if (r->used < oldest->used) oldest = r;
    }
    *oldest = (struct s3_reader){.log = log, .ahead = 1};
    return oldest;
}

size_t s3_ahead_plan(const struct s3_readahead *a, uint64_t log, uint64_t slot, size_t bytes_max)
{
    const struct s3_reader *r = find(a, log, slot);
    if (!r) return 1;
    size_t fit = bytes_max / (r->size + 1);
    size_t ahead = r->ahead < fit ? r->ahead : fit;
    if (ahead > UINT64_MAX - slot) ahead = (size_t)(UINT64_MAX - slot);
    return ahead > 0 ? ahead : 1;
}

void s3_ahead_note(struct s3_readahead *a, uint64_t log, uint64_t slot, size_t asked, size_t found,
                   size_t kept, size_t bytes)
{
    struct s3_reader *r = find_or_oldest(a, log, slot);
    r->used = ++a->uses;
    r->next = slot + kept;
    if (found > 0) r->size = r->size ? (r->size + bytes / found) / 2 : bytes / found;
    if (found < asked) {
        r->ahead = 1;
        r->calm = CALM_READS;
    } else if (r->calm > 0) {
        r->calm--;
    } else if (kept == found && asked == r->ahead && r->ahead < S3_AHEAD_MAX) {
        r->ahead *= 2;
    }
}
