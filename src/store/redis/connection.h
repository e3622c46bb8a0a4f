// SPDX-License-Identifier: Apache-2.0
// One connection that many threads share. Requests are pipelined: each is sent when it is made, and
// the answers come in the same order. No thread of its own: one of the waiting callers reads the
// answers for all.
#pragma once

#include "base/bytes.h"
#include "net/stream.h"
#include "store/redis/resp.h"
#include "store/store.h"

#define REDIS_REPLIES_MAX 32 // of one request

struct redis_connection;

enum redis_end {
    REDIS_ANSWERED,
    REDIS_NOT_SENT, // no byte of the request was sent
    REDIS_LOST,     // some of it may have been sent, and no answer came
};

struct redis_connection *redis_connection_take(struct stream *s); // owns the stream
// No request may be under way. ours: false in a child of fork.
void redis_connection_free(struct redis_connection *c, bool ours);

// Sends `commands`, which has `count` commands, and waits for their replies until `until`
// (clock_boot_ms). If they do not come in time, the connection is bad, and every other request on
// it ends too. After REDIS_ANSWERED the caller owns the replies.
enum redis_end redis_connection_ask(struct redis_connection *c, struct bytes commands, size_t count,
                                    int64_t until, struct resp **replies);
bool redis_connection_is_good(struct redis_connection *c);
// Ends the connection: every request on it gets REDIS_NOT_SENT or REDIS_LOST. The first call's
// reason stays.
void redis_connection_break(struct redis_connection *c, const char *why);
void redis_connection_why(struct redis_connection *c, char why[static STORE_WHY_MAX]);
