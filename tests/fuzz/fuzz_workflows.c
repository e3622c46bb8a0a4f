// SPDX-License-Identifier: Apache-2.0
// Any bytes as the life of a queue with workflows and a publisher, at version 5 of the rules: each
// two bytes are an op with its numbers. The state stays sound, saves and loads as
// itself, and the loaded machine goes on in the same way, with the same events. The bytes are also
// read as a report of a publisher.
#include "base/check.h"
#include "base/memory.h"
#include "fuzz.h"
#include "queue/core/machine.h"

#define STEPS_MAX   24 // a thousand inputs a second find more than long ones
#define CHECK_EVERY 8
#define HELD_MAX    16
#define BUFFER_MAX  ((size_t)4 << 20)

struct life {
    struct queue_id id;
    struct queue_config config;
    struct machine *m;
    struct machine *copy; // loaded from a snapshot on the way; NULL: none yet
    struct lock_ref held[HELD_MAX];
    size_t held_len;
    uint64_t slot;
    int64_t now;
};

static const char *const workflows[] = {"", "a", "b", "c"};

static void keep_grants(struct life *l, uint16_t kind, struct bytes body)
{
    struct result r;
    struct grant g;
    CHECK(!result_open(body, kind, &r));
    while (kind == OP_CLAIM && grant_next(&r, &g))
        l->held[l->held_len++ % HELD_MAX] = (struct lock_ref){g.seq, g.token};
}

static void same_events(const struct events *a, const struct events *b)
{
    CHECK(a->len == b->len);
    for (size_t i = 0; i < a->len; i++) {
        CHECK(a->rows[i].kind == b->rows[i].kind && a->rows[i].key == b->rows[i].key);
        CHECK(bytes_equal(event_workflow(a, &a->rows[i]), event_workflow(b, &b->rows[i])));
    }
}

// A wrong state stays wrong, so it need not be checked after every entry.
static void check_both(const struct life *l)
{
    machine_check(l->m);
    if (!l->copy) return;
    machine_check(l->copy);
    CHECK(machine_digest(l->copy) == machine_digest(l->m));
}

static void apply(struct life *l, uint16_t kind, const struct buf *payload, uint64_t epoch)
{
    struct op op = {kind, buf_bytes(payload)};
    struct op_result result;
    struct events events, again;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, BUFFER_MAX);
    events_init(&events);
    events_init(&again);
    struct machine_entry e = {.slot = ++l->slot,
                              .time = {l->now, l->now + 5},
                              .now = l->now,
                              .epoch = epoch,
                              .bytes = {NULL, (size_t)1 << 20},
                              .ops = &op,
                              .ops_len = 1};
    machine_apply(l->m, &e, &result, &text, &events);
    keep_grants(l, kind, bytes_of(text.data + result.body_at, result.body_len));
    if (l->copy) {
        machine_apply(l->copy, &e, NULL, NULL, &again);
        same_events(&events, &again);
    }
    if (l->slot % CHECK_EVERY == 0) check_both(l);
    events_done(&events);
    events_done(&again);
}

static void put_send(struct buf *out, uint8_t b)
{
    struct message m = {.body = bytes_str("x"),
                        .workflow = bytes_str(workflows[b & 3]),
                        .workflow_last = b >> 2 & 1,
                        .group = bytes_str(b >> 3 & 1 ? "g" : "")};
    send_begin(out, &(struct request_id){{0}});
    for (uint32_t i = 0; i < 1 + (b >> 6 & 3U); i++)
        send_add(out, &m);
    send_end(out, 0, 1 + (b >> 6 & 3U));
}

static void put_outcome(struct buf *out, const struct life *l, uint8_t b)
{
    CLEANUP(buf_done) struct buf refs;
    buf_init(&refs, BUFFER_MAX);
    size_t kept = l->held_len < HELD_MAX ? l->held_len : HELD_MAX;
    if (kept > 0) lock_ref_put(&refs, &l->held[b % kept]);
    outcome_encode(out, &(struct op_outcome){.queue = l->id,
                                             .arrived_at = l->now,
                                             .count = kept > 0,
                                             .refs = buf_bytes(&refs)});
}

static void reload(struct life *l)
{
    CLEANUP(buf_done) struct buf saved;
    buf_init(&saved, BUFFER_MAX);
    machine_save(l->m, &saved);
    if (!l->copy) l->copy = machine_new(&l->id, 0, &l->config);
    CHECK(!machine_load(l->copy, buf_bytes(&saved)));
    CHECK(machine_digest(l->copy) == machine_digest(l->m));
}

static void put_published(struct buf *out, const struct life *l, uint8_t a, uint8_t b)
{
    uint64_t events = machine_event_count(l->m);
    published_encode(out, &(struct op_published){.slot = l->slot > b ? l->slot - b : 0,
                                                 .sequence = events > b ? events - b : 0,
                                                 .flags = (a >> 4 & 7) == 7});
}

static void step(struct life *l, uint8_t a, uint8_t b)
{
    CLEANUP(buf_done) struct buf out;
    buf_init(&out, BUFFER_MAX);
    uint16_t kind = OP_SEND;
    switch (a & 15) {
    case 0: // time passes
        l->now += (int64_t)b * b * 500;
        return;
    case 1:
        reload(l);
        return;
    case 2:
    case 3:
        put_published(&out, l, a, b);
        kind = OP_PUBLISHED;
        break;
    case 4:
        purge_encode(&out, &(struct op_purge){.dead = b & 1});
        kind = OP_PURGE;
        break;
    case 5:
        redrive_encode(&out, &(struct op_redrive){.max = b & 7});
        kind = OP_REDRIVE;
        break;
    case 6:
    case 7:
    case 8:
        claim_encode(&out, &(struct op_claim){.worker = bytes_str("w"), .max = 1 + (b & 7)});
        kind = OP_CLAIM;
        break;
    case 9:
    case 10:
    case 11:
    case 12:
        put_outcome(&out, l, b);
        kind = (uint16_t)(OP_RENEW + (a >> 4 & 3));
        break;
    default:
        put_send(&out, b);
        break;
    }
    apply(l, kind, &out, a & 128 ? 0 : 1);
    uint64_t slot, sequence;
    if (machine_published(l->m, &slot, &sequence))
        CHECK(machine_floor_limit(l->m, l->now) >= slot && sequence <= machine_event_count(l->m));
}

static void read_as_op(struct bytes input)
{
    struct op_published op;
    CLEANUP(buf_done) struct buf again;
    buf_init(&again, BUFFER_MAX);
    if (published_decode(input, &op)) return;
    published_encode(&again, &op);
    CHECK(bytes_equal(buf_bytes(&again), input)); // each op has one encoding
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    read_as_op(bytes_of(data, len));
    if (len < 1) return 0;
    struct life l = {.id = {"a queue of work"}, .now = 1000};
    config_defaults(&l.config);
    l.config.ordering_guarantee = data[0] & 1;
    if ((data[0] & 3) == 3) l.config.workflow_order = WORKFLOW_ORDER_ON;
    l.config.publish = (enum publish)((data[0] >> 2 & 3) % 3);
    l.config.retries_max = data[0] >> 4 & 1;
    l.config.publish_keep_ms = 60000; // so it begins with version 5
    l.m = machine_new(&l.id, 0, &l.config);
    for (size_t i = 1; i + 1 < len && i < 2 * STEPS_MAX; i += 2)
        step(&l, data[i], data[i + 1]);
    check_both(&l);
    reload(&l);
    machine_free(l.m);
    machine_free(l.copy);
    return 0;
}
