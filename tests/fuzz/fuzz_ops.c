// SPDX-License-Identifier: Apache-2.0
// Any bytes as the ops of an entry, folded by the machine: whatever they are, they are applied or
// refused with a reason, the state stays sound, and it saves and loads as itself. The first bytes
// choose the kinds, the rest is cut into payloads.
#include "base/check.h"
#include "fuzz.h"
#include "queue/core/machine.h"

#define OPS 6

static struct bytes cut(struct bytes *rest, size_t ops_left)
{
    size_t len = rest->len / (ops_left > 0 ? ops_left : 1);
    struct bytes piece = bytes_of(rest->data, len);
    *rest = bytes_of(rest->data + len, rest->len - len);
    return piece;
}

static void apply(struct machine *m, const struct op *ops, uint64_t slot)
{
    struct op_result results[OPS];
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, (size_t)64 << 20);
    int64_t now = 1000 * (int64_t)slot;
    struct machine_entry e = {.slot = slot,
                              .time = {now, now + 5},
                              .now = now,
                              .epoch = slot % 2,
                              .ops = ops,
                              .ops_len = OPS};
    machine_apply(m, &e, results, &text, NULL);
    for (size_t i = 0; i < OPS; i++) {
        struct result r;
        struct bytes body = bytes_of(text.data + results[i].body_at, results[i].body_len);
        CHECK(!result_open(body, ops[i].kind, &r));
        CHECK(results[i].err == reason_err(r.reason));
    }
    machine_check(m);
}

static void save_and_load(const struct machine *m, const struct queue_id *id)
{
    CLEANUP(buf_done) struct buf saved;
    buf_init(&saved, (size_t)64 << 20);
    machine_save(m, &saved);
    struct queue_config config;
    config_defaults(&config);
    struct machine *copy = machine_new(id, 0, &config);
    CHECK(!machine_load(copy, buf_bytes(&saved)));
    CHECK(machine_digest(copy) == machine_digest(m));
    machine_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < OPS) return 0;
    struct op ops[OPS];
    struct bytes rest = bytes_of(data + OPS, len - OPS);
    for (size_t i = 0; i < OPS; i++) {
        ops[i].kind = (uint16_t)(OP_SEND + data[i] % (OP_KIND_END - OP_SEND + 1));
        ops[i].payload = cut(&rest, OPS - i);
    }
    struct queue_id id = {"a fuzzed queue"};
    struct queue_config config;
    config_defaults(&config);
    struct machine *m = machine_new(&id, 0, &config);
    apply(m, ops, 1);
    apply(m, ops, 2);
    save_and_load(m, &id);
    machine_free(m);
    return 0;
}
