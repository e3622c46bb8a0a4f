// SPDX-License-Identifier: Apache-2.0
// What no queue takes of a worker.
#include "protocol/call_arguments.h"

#include "base/duration.h"
#include "protocol/errors.h"

static enum sluice_code check_join(const struct worker_order *o, struct labels *labels,
                                   struct sluice_error *error)
{
    struct labels_error why;
    char ttl[DURATION_TEXT_MAX];
    if (o->capacity == 0 || o->capacity > WORKER_CAPACITY_MAX)
        return refuse(error, ERR_INVALID, "capacity", "capacity is %u; it is 1 to %d", o->capacity,
                      WORKER_CAPACITY_MAX);
    if (o->ttl_ms < WORKER_TTL_MIN_MS || o->ttl_ms > WORKER_TTL_MAX_MS)
        return refuse(error, ERR_INVALID, "ttl", "ttl is %s; it is 5s to 24h",
                      duration_exact(o->ttl_ms, ttl));
    const char *text = o->labels ? o->labels : "";
    if (!labels_parse(bytes_str(text), labels, &why)) return SLUICE_OK;
    return refuse(error, ERR_INVALID, "labels",
                  "labels \"%.100s\" are not possible at byte %zu; %s", text, why.at, why.text);
}

enum sluice_code worker_order_check(const struct worker_order *o, struct labels *labels,
                                    struct sluice_error *error)
{
    *labels = (struct labels){0};
    enum sluice_code code = worker_check(o->name, error);
    return code || o->act != WORKER_JOIN ? code : check_join(o, labels, error);
}
