// SPDX-License-Identifier: Apache-2.0
// The table of outcomes. The first word of an error is its code. Scripts pass on the error of the
// command that failed, so one table serves both.
#include "store/redis/outcome.h"

#include <stddef.h>
#include <string.h>

struct row {
    const char *code;
    struct redis_class class;
};

static const struct row rows[] = {
    // The server refuses before it executes anything.
    {"LOADING", {ERR_UNAVAILABLE, REDIS_AGAIN}},
    {"BUSY", {ERR_UNAVAILABLE, REDIS_AGAIN}},
    {"TRYAGAIN", {ERR_UNAVAILABLE, REDIS_AGAIN}},
    {"MASTERDOWN", {ERR_UNAVAILABLE, REDIS_AGAIN}},
    {"CLUSTERDOWN", {ERR_UNAVAILABLE, REDIS_AGAIN}},
    {"NOREPLICAS", {ERR_UNAVAILABLE, REDIS_FINAL}},
    {"MISCONF", {ERR_UNAVAILABLE, REDIS_FINAL}},
    {"READONLY", {ERR_UNAVAILABLE, REDIS_MOVE}}, // another server may be the primary now

    {"OOM", {ERR_LIMIT, REDIS_FINAL}},

    {"NOAUTH", {ERR_DENIED, REDIS_FINAL}},
    {"WRONGPASS", {ERR_DENIED, REDIS_FINAL}},
    {"NOPERM", {ERR_DENIED, REDIS_FINAL}},

    {"NOSCRIPT", {ERR_UNAVAILABLE, REDIS_RELOAD}},

    // A key of ours holds something that Sluice did not write.
    {"WRONGTYPE", {ERR_CORRUPT, REDIS_FINAL}},
    {"FOREIGN", {ERR_CORRUPT, REDIS_FINAL}},

    // Another server of the cluster has the slot.
    {"MOVED", {ERR_UNAVAILABLE, REDIS_FOLLOW}},
    {"ASK", {ERR_UNAVAILABLE, REDIS_FOLLOW}},
    {"CROSSSLOT", {ERR_DENIED, REDIS_FINAL}},
};

// Redis 7.0 says this, without a code, if an ACL forbids a command inside a script.
static bool forbidden(const char *text)
{
    return strstr(text, "The user executing the script") != NULL;
}

// A script that only reads met a key that has already moved to another server of the cluster.
static bool moving(const char *text)
{
    return strstr(text, "non local key") != NULL;
}

struct redis_class redis_classify(const char *text, bool writes)
{
    text += strspn(text, "-");
    size_t len = strcspn(text, " \r\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strlen(rows[i].code) == len && memcmp(rows[i].code, text, len) == 0)
            return rows[i].class;
    if (forbidden(text)) return (struct redis_class){ERR_DENIED, REDIS_FINAL};
    if (!writes && moving(text)) return (struct redis_class){ERR_UNAVAILABLE, REDIS_AGAIN};
    // An error that the table does not have: a script may have stopped half-way.
    return (struct redis_class){writes ? ERR_UNKNOWN : ERR_UNAVAILABLE, REDIS_FINAL};
}

enum err redis_unanswered(bool writes, bool sent)
{
    return writes && sent ? ERR_UNKNOWN : ERR_UNAVAILABLE;
}
