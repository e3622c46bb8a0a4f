// SPDX-License-Identifier: Apache-2.0
// Registered workers on a rig: joins, acts of an operator, dispatch, and a check that a snapshot
// has all of it.
#pragma once

#include "queue_test.h"

#include "base/check.h"

#define FLEET_TTL INT64_C(60000)

static inline void fleet_start(struct rig *r, const struct queue_config *c)
{
    rig_init(r, c);
    r->epoch = 1;
}

static inline struct queue_config fleet_config(enum dispatch dispatch)
{
    struct queue_config c = defaults();
    c.dispatch = dispatch;
    c.ordering_guarantee = dispatch == DISPATCH_AFFINITY;
    return c;
}

static inline void fleet_put(struct rig *r, const struct worker_change *c)
{
    struct buf b, rows;
    buf_init(&b, 4096);
    buf_init(&rows, 4096);
    worker_change_put(&rows, c);
    workers_encode(&b, &(struct op_workers){.count = 1, .rows = buf_bytes(&rows)});
    buf_done(&rows);
    rig_op(r, OP_WORKERS, &b);
}

static inline enum reason fleet_reason(const struct rig *r, size_t op)
{
    struct result result;
    enum reason reason;
    CHECK(result_open(rig_body(r, op), OP_WORKERS, &result) == ERR_OK);
    return worker_reason_next(&result, &reason) ? reason : result.reason;
}

static inline enum reason fleet_change(struct rig *r, const struct worker_change *c)
{
    fleet_put(r, c);
    rig_commit(r);
    return fleet_reason(r, 0);
}

static inline struct worker_change fleet_joins(const char *name, uint64_t instance,
                                               uint32_t capacity, const char *labels)
{
    return (struct worker_change){.act = WORKER_JOIN,
                                  .name = bytes_str(name),
                                  .instance = instance,
                                  .capacity = capacity,
                                  .ttl_ms = FLEET_TTL,
                                  .flags = WORKER_MAILBOX,
                                  .labels = bytes_str(labels)};
}

static inline enum reason fleet_join(struct rig *r, const char *name, uint64_t instance,
                                     uint32_t capacity, const char *labels)
{
    struct worker_change c = fleet_joins(name, instance, capacity, labels);
    return fleet_change(r, &c);
}

// instance 0: an operator's act.
static inline enum reason fleet_act(struct rig *r, enum worker_act act, const char *name,
                                    uint64_t instance)
{
    struct worker_change c = {.act = act, .name = bytes_str(name), .instance = instance};
    return fleet_change(r, &c);
}

static inline void fleet_put_dispatch(struct rig *r, uint32_t max)
{
    struct buf b;
    buf_init(&b, 256);
    struct op_dispatch op = {.ticket_ms = 1000, .max = max};
    op.seed[0] = (uint8_t)++r->seed;
    dispatch_encode(&b, &op);
    rig_op(r, OP_DISPATCH, &b);
}

struct fleet_grant {
    struct grant grant;
    char worker[WORKER_NAME_MAX + 1];
};

static inline uint32_t fleet_grants(const struct rig *r, size_t op, struct fleet_grant *out,
                                    uint32_t max)
{
    struct result result;
    uint32_t count = 0;
    CHECK(result_open(rig_body(r, op), OP_DISPATCH, &result) == ERR_OK);
    while (count < max && grant_next(&result, &out[count].grant)) {
        struct bytes name;
        CHECK(dispatch_worker(&result, out[count].grant.worker_row, &name));
        (void)snprintf(out[count].worker, sizeof out[count].worker, "%.*s", (int)name.len,
                       (const char *)name.data);
        count++;
    }
    CHECK(count == result.count);
    return count;
}

static inline uint32_t fleet_dispatch(struct rig *r, uint32_t max, struct fleet_grant *out)
{
    fleet_put_dispatch(r, max);
    rig_commit(r);
    machine_check(r->m);
    return fleet_grants(r, 0, out, max);
}

// The state survives a snapshot: same digest, same bytes, sound.
static inline void fleet_reload(struct rig *r)
{
    struct buf saved, again;
    buf_init(&saved, (size_t)64 << 20);
    buf_init(&again, (size_t)64 << 20);
    machine_check(r->m);
    machine_save(r->m, &saved);
    struct machine *m = machine_new(&r->queue, RIG_SHARD, &r->config);
    assert_int_equal(machine_load(m, buf_bytes(&saved)), ERR_OK);
    machine_check(m);
    machine_save(m, &again);
    assert_true(bytes_equal(buf_bytes(&saved), buf_bytes(&again)));
    assert_true(machine_digest(m) == machine_digest(r->m));
    machine_free(r->m);
    r->m = m;
    buf_done(&saved);
    buf_done(&again);
}

static inline struct worker_view fleet_view(const struct rig *r, const char *name)
{
    struct worker_view v = {0};
    (void)machine_worker_find(r->m, bytes_str(name), &v);
    return v;
}
