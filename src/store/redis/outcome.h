// SPDX-License-Identifier: Apache-2.0
// What an error that the server answers means for the call: the one table of outcomes.
#pragma once

#include "base/err.h"

#include <stdbool.h>

enum redis_step {
    REDIS_FINAL,  // the call ends with err
    REDIS_AGAIN,  // not applied; worth another attempt on this connection
    REDIS_MOVE,   // not applied; worth another attempt on a new connection
    REDIS_RELOAD, // the server does not know the script; send its text
    REDIS_FOLLOW, // another server of the cluster has the slot
};

struct redis_class {
    enum err err;
    enum redis_step step;
};

// text is the error without its leading '-'. writes: the call can change something.
struct redis_class redis_classify(const char *text, bool writes);
// A call whose answer did not come. sent: some of its bytes may have reached the server.
enum err redis_unanswered(bool writes, bool sent);
