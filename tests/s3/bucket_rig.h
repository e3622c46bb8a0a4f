// SPDX-License-Identifier: Apache-2.0
// What the tests of the S3 store share: an environment of their own, a handle, checks that show the
// answer they got.
#pragma once

#include "store/s3/s3.h"

#define RIG_SECRET "kT9/very+secret/KEY0123456789abcdefghij"
#define RIG_TOKEN  "FwoGsession//token=="

// Only what the test says counts: no profile, no endpoint, no proxy from outside.
void rig_environment(void);
struct store *rig_open(const char *url, const struct s3_options *options); // must succeed

// The answer must be this, and must not tell a secret.
void rig_answers(enum err want, enum err got, const struct store_answer *a, const char *file,
                 int line);
#define ANSWERS(want, a, got) rig_answers((want), (got), (a), __FILE__, __LINE__)

void rig_costs(const struct store_answer *a, unsigned writes, unsigned reads, unsigned deletes,
               const char *file, int line);
#define COSTS(a, writes, reads, deletes)                                                           \
    rig_costs((a), (writes), (reads), (deletes), __FILE__, __LINE__)
