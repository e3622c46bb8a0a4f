// SPDX-License-Identifier: Apache-2.0
// The leader's plan on a service with keys: its version under live/, where lists and watches see
// it, and its bytes beside. One transaction writes both, if neither has changed.
#include "coord/kv/inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool plan_version_parse(struct bytes text, uint64_t *epoch, uint64_t *number)
{
    char copy[64];
    int end = 0;
    *epoch = *number = 0;
    if (text.len == 0 || text.len >= sizeof copy || memchr(text.data, 0, text.len)) return false;
    memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    bool good = sscanf(copy, "%20" SCNu64 " %20" SCNu64 "%n", epoch, number, &end) == 2 &&
                (size_t)end == text.len && *epoch > 0 && *epoch <= COORD_TOKEN_MAX && *number > 0 &&
                *number <= COORD_TOKEN_MAX;
    if (!good) *epoch = *number = 0;
    return good;
}

static enum err version_load(struct kv *k, uint64_t *revision, struct attempts *t,
                             struct coord_answer *a)
{
    LOCAL(kv_items, items);
    enum err e = kv_read_under(k, "live/plan/", &items, t, a);
    const struct kv_item *version = e ? NULL : kv_items_find(&items, KV_PLAN);
    *revision = version ? version->revision : 0;
    a->plan_epoch = a->plan_number = 0;
    if (version && !plan_version_parse(kv_value(&items, version), &a->plan_epoch, &a->plan_number))
        e = coord_refuse(a, ERR_CORRUPT, "the key " KV_PLAN " holds no version of a plan");
    return e;
}

static enum err plan_round(struct kv *k, uint64_t epoch, uint64_t number, struct bytes plan,
                           struct attempts *t, struct coord_answer *a, bool *again)
{
    uint64_t version_revision = 0;
    char version[64];
    struct kv_items items;
    *again = false;
    enum err e = version_load(k, &version_revision, t, a);
    if (e) return e;
    int order = coord_plan_compare(a->plan_epoch, a->plan_number, epoch, number);
    if (order == 0 && t->doubt) return ERR_OK; // an earlier round was applied
    if (order >= 0) return coord_refuse_plan(a, epoch, number);
    kv_items_init(&items);
    e = kv_read_under(k, KV_PLANS, &items, t, a);
    const struct kv_item *had = e ? NULL : kv_items_find(&items, KV_CURRENT);
    uint64_t plan_revision = had ? had->revision : 0;
    kv_items_done(&items);
    if (e) return e;
    int len = snprintf(version, sizeof version, "%" PRIu64 " %" PRIu64, epoch, number);
    struct kv_write w[KV_WRITES_MAX] = {
        {.key = KV_PLAN, .revision = version_revision, .value = bytes_of(version, (size_t)len)},
        {.key = KV_CURRENT, .revision = plan_revision, .value = plan},
    };
    e = k->ops->write(k, w, 2, t->until_ms, a);
    t->doubt |= e == ERR_UNKNOWN;
    *again = e == ERR_CONFLICT || e == ERR_UNKNOWN || e == ERR_UNAVAILABLE;
    return e;
}

enum err kv_plan_write(struct coord *c, uint64_t epoch, uint64_t number, struct bytes plan,
                       struct coord_answer *a)
{
    struct kv *k = kv_of(c);
    struct attempts t;
    bool again = false;
    enum err e = ERR_OK;
    attempts_begin(&t, k);
    do
        e = plan_round(k, epoch, number, plan, &t, a, &again);
    while (again && attempts_pause(&t));
    if (e == ERR_CONFLICT && again) e = ERR_UNAVAILABLE;
    if (!e) {
        a->plan_epoch = epoch;
        a->plan_number = number;
    }
    return attempts_end(&t, e);
}

// The version is read first. The plan can then only be newer, and it names its own version.
enum err kv_plan_read(struct coord *c, struct buf *out, struct coord_answer *a)
{
    struct kv *k = kv_of(c);
    struct attempts t;
    uint64_t revision = 0;
    attempts_begin(&t, k);
    enum err e = version_load(k, &revision, &t, a);
    if (!e && a->plan_epoch == 0) e = ERR_NOT_FOUND;
    if (e) return e;
    LOCAL(kv_items, items);
    e = kv_read_under(k, KV_PLANS, &items, &t, a);
    const struct kv_item *had = e ? NULL : kv_items_find(&items, KV_CURRENT);
    if (!e && !had) e = ERR_NOT_FOUND;
    if (had) buf_put(out, kv_value(&items, had));
    return e;
}
