// SPDX-License-Identifier: Apache-2.0
// What the server says about itself, and whether Sluice may rely on it.
#pragma once

#include "store/redis/resp.h"
#include "store/redis/url.h"
#include "store/store.h"

#define REDIS_ID_LEN 48

struct redis_facts {
    char version[24];
    char role[16];
    char run_id[REDIS_ID_LEN];     // new at each start of the server
    char history_id[REDIS_ID_LEN]; // master_replid: new when another server took over
    int64_t used_memory;
    int64_t startup_memory;
    int64_t maxmemory; // 0: no limit
    int64_t time_ms;   // the server's clock
    bool cluster;
};

// The questions: redis_facts_ask appends the commands to a request and returns their number.
#define REDIS_QUESTIONS 9
size_t redis_facts_ask(struct buf *to);
// Reads the replies to them. Returns ERR_OK; ERR_INVALID if the server is set up so that an answer
// would not be as durable as asked, or if it is no server of the form that the URL says; or the
// outcome of a reply that is an error. why has one sentence: the setting, the value found and the
// right one.
MUST_USE enum err redis_facts_read(struct resp *const replies[REDIS_QUESTIONS],
                                   const struct redis_url *url, struct redis_facts *out,
                                   char why[static STORE_WHY_MAX]);
// The value of a field of INFO, or -1.
int64_t redis_info_number(struct bytes info, const char *field);
