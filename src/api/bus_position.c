// SPDX-License-Identifier: Apache-2.0
// A position as text:
//
//   sluice-bus 1
//   stream <name> <when it was created, ms> <bytes that follow>
//   ...
#include "api/bus_position.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD    "sluice-bus 1\n"
#define WHY_MAX 320

void bus_position_begin(struct buf *to)
{
    buf_put(to, bytes_str(HEAD));
}

void bus_position_put(struct buf *to, const char *stream, int64_t created_at,
                      const struct consumer *consumer)
{
    char line[SUBJECT_STREAM_MAX + 64];
    LOCAL(buf, part, CONSUMER_POSITION_MAX);
    consumer_position_put(consumer, &part);
    (void)snprintf(line, sizeof line, "stream %s %lld %zu\n", stream, (long long)created_at,
                   part.len);
    buf_put(to, bytes_str(line));
    buf_put(to, buf_bytes(&part));
}

static enum err refuse(char *why, const char *what)
{
    (void)snprintf(why, WHY_MAX, "the position %s", what);
    return ERR_INVALID;
}

// Reads the line of a stream. `name` has room for SUBJECT_STREAM_MAX bytes.
static const char *take_head(const char *at, char *name, int64_t *created_at, size_t *len)
{
    int used = 0;
    char *end = NULL;
    static_assert(SUBJECT_STREAM_MAX == 792, "the width in the format below");
    if (sscanf(at, "stream %791[!-~] %n", name, &used) != 1 || used == 0) return NULL;
    *created_at = strtoll(at + used, &end, 10);
    if (end == at + used || *end != ' ') return NULL;
    at = end + 1;
    *len = strtoul(at, &end, 10);
    return end != at && *end == '\n' ? end + 1 : NULL;
}

enum err bus_position_take(const char *text, const char *stream, struct consumer *consumer,
                           int64_t *created_at, char *why)
{
    char name[SUBJECT_STREAM_MAX], wrong[ENVELOPE_WHY_MAX];
    size_t len = 0;
    if (strncmp(text, HEAD, strlen(HEAD)) != 0)
        return refuse(why, "does not begin with \"sluice-bus 1\"");
    for (const char *at = text + strlen(HEAD); *at; at += len) {
        at = take_head(at, name, created_at, &len);
        if (!at || len > strlen(at)) return refuse(why, "is cut off or damaged");
        if (strcmp(name, stream) != 0) continue;
        if (consumer_position_take(consumer, bytes_of(at, len), wrong) == ERR_OK) return ERR_OK;
        (void)snprintf(why, WHY_MAX, "%.200s (stream %.100s)", wrong, stream);
        return ERR_INVALID;
    }
    (void)snprintf(why, WHY_MAX, "the position has no stream %.200s: it is of other queues",
                   stream);
    return ERR_INVALID;
}
