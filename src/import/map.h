// SPDX-License-Identifier: Apache-2.0
// What a job of beanstalkd is in Sluice: its place, its state, its priority, its dedup key.
#pragma once

#include "base/bytes.h"

#define TUBE_MAX       200
#define IMPORT_KEY_LEN 39 // "import:" and 32 digits
#define LINEAGE_MAX    64

struct tube_place {
    char host[256];
    char port[6];
    char tube[TUBE_MAX + 1];
};

// Reads "beanstalkd://host:port/tube"; the port may be missing. On false, `why` is the sentence.
bool tube_place_read(const char *url, struct tube_place *out, char *why, size_t why_len);

// The states that an import copies, combined with |.
#define JOBS_READY   1u
#define JOBS_DELAYED 2u
#define JOBS_BURIED  4u
#define JOBS_DEFAULT (JOBS_READY | JOBS_DELAYED)
#define JOBS_ALL     (JOBS_READY | JOBS_DELAYED | JOBS_BURIED)
// Reads "ready", "delayed,buried" or "all". Returns 0 for any other text.
unsigned jobs_states(const char *text);
unsigned jobs_state(struct bytes name); // of one job; 0: "reserved", or another word

// beanstalkd: 0 is the most urgent of 2^32. Sluice: 9 is the most urgent of 10. From 1024 on, which
// is where beanstalkd's own "urgent" ends, a job has the default 0. Between, each step doubles.
int jobs_priority(uint64_t beanstalk);

// The dedup key of a job: the same in every run of an import.
void import_key(const char *lineage, const char *tube, uint64_t id, char out[IMPORT_KEY_LEN + 1]);
