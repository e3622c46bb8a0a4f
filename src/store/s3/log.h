// SPDX-License-Identifier: Apache-2.0
// Logs in a bucket. Each slot is an object. A read fetches several slots; a wait polls.
#pragma once

#include "store/s3/ahead.h"
#include "store/s3/polls.h"
#include "store/s3/request.h"

struct s3_logs {
    pthread_mutex_t lock; // guards the other fields
    pthread_cond_t wrote;
    struct s3_readahead ahead;
    struct s3_polls polls;
};

void s3_logs_init(struct s3_logs *l);
void s3_logs_done(struct s3_logs *l);
// This handle has written the slot: its waiters poll at once.
void s3_logs_wrote(struct s3_logs *l, const char *log, uint64_t slot);

MUST_USE enum err s3_read_log(struct s3_client *c, struct s3_logs *l, const char *log,
                              uint64_t slot, size_t bytes_max, struct store_answer *a);
MUST_USE enum err s3_wait(struct s3_client *c, struct s3_logs *l, const char *log, uint64_t slot,
                          int64_t wait_ms, struct store_answer *a);
