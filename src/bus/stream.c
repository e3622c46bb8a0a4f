// SPDX-License-Identifier: Apache-2.0
#include "bus/stream.h"

#include "base/duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum err differs(const struct bus_stream *want, const char *what, const char *found,
                        const char *wanted, char why[static BUS_WHY_MAX])
{
    (void)snprintf(why, BUS_WHY_MAX,
                   "stream %.100s of the bus has %s %.60s, not %.60s: change the stream, or the "
                   "setting in the URL of the bus",
                   want->name, what, found, wanted);
    return ERR_CONFLICT;
}

static enum err number_differs(const struct bus_stream *want, const char *what, int64_t found,
                               int64_t wanted, char why[static BUS_WHY_MAX])
{
    char a[32], b[32];
    (void)snprintf(a, sizeof a, "%" PRId64, found);
    (void)snprintf(b, sizeof b, "%" PRId64, wanted);
    return differs(want, what, a, b, why);
}

static enum err time_differs(const struct bus_stream *want, const char *what, int64_t found,
                             int64_t wanted, char why[static BUS_WHY_MAX])
{
    char a[DURATION_TEXT_MAX], b[DURATION_TEXT_MAX];
    return differs(want, what, found > 0 ? duration_exact(found, a) : "0",
                   wanted > 0 ? duration_exact(wanted, b) : "0", why);
}

static bool has_subject(const struct bus_stream_settings *found, const char *subject)
{
    for (size_t i = 0; i < found->subjects_len; i++)
        if (strcmp(found->subjects[i], subject) == 0) return true;
    return false;
}

enum err bus_stream_compare(const struct bus_stream *want, const struct bus_stream_settings *found,
                            char why[static BUS_WHY_MAX])
{
    const struct bus_limits *a = &found->limits, *b = &want->limits;
    if (!found->in_files) return differs(want, "storage", "memory", "file", why);
    if (!found->keeps_by_limits)
        return differs(want, "retention", "another", "limits, oldest deleted first", why);
    if (a->replicas != b->replicas)
        return number_differs(want, "replicas", a->replicas, b->replicas, why);
    if (a->max_age_ms != b->max_age_ms)
        return time_differs(want, "maxAge", a->max_age_ms, b->max_age_ms, why);
    if (a->max_bytes != b->max_bytes)
        return number_differs(want, "maxBytes", a->max_bytes, b->max_bytes, why);
    if (a->dedup_ms != b->dedup_ms)
        return time_differs(want, "dedupWindow", a->dedup_ms, b->dedup_ms, why);
    for (size_t i = 0; i < want->subjects_len; i++)
        if (!has_subject(found, want->subjects[i]))
            return differs(want, "subjects without", want->subjects[i], "all of its queue's", why);
    return ERR_OK;
}
