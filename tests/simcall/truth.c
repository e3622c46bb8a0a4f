// SPDX-License-Identifier: Apache-2.0
// The true history of each shard, and what it has of every request id. No slot is ever dropped
// here, so slot n is always made when the history has n - 1 slots.
#include "base/check.h"
#include "base/memory.h"
#include "check.h"

#include <inttypes.h>
#include <string.h>

uint32_t id_new(struct world *w)
{
    struct life *life = w->life;
    if (life->ids_len % 256 == 0)
        life->ids = memory_resize(life->ids, (life->ids_len + 256) * sizeof *life->ids);
    uint32_t place = life->ids_len++;
    struct sim_id *i = &life->ids[place];
    *i = (struct sim_id){0};
    uint64_t chance = rng_next(&w->rng) | 1;
    memcpy(i->id.bytes, &chance, sizeof chance);
    memcpy(i->id.bytes + sizeof chance, &place, sizeof place);
    return place;
}

struct sim_id *id_find(struct world *w, const struct request_id *id)
{
    uint32_t place;
    memcpy(&place, id->bytes + sizeof(uint64_t), sizeof place);
    if (place >= w->life->ids_len) return NULL;
    struct sim_id *i = &w->life->ids[place];
    return memcmp(&i->id, id, sizeof *id) == 0 ? i : NULL;
}

bool fold_has_answer(struct world *w, struct shard *s, uint32_t id)
{
    struct op_claim claim = {.request = w->life->ids[id].id, .worker = bytes_str("w"), .max = 1};
    CLEANUP(buf_done) struct buf payload;
    CLEANUP(buf_done) struct buf text;
    buf_init(&payload, 1 << 12);
    buf_init(&text, SIZE_MAX);
    claim_encode(&payload, &claim);
    struct op_result result;
    struct op op = {OP_CLAIM, buf_bytes(&payload)};
    return machine_recall(shard_machine(s), &op, &result, &text);
}

bool fold_has_answer_to(struct world *w, struct shard *s, const struct sim_op *op)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, SIZE_MAX);
    struct op_result result;
    struct op bytes = op_bytes(w, op);
    return machine_recall(shard_machine(s), &bytes, &result, &text);
}

void truth_flown(struct world *w, struct bytes bytes)
{
    struct entry e;
    const char *why;
    CHECK(!entry_decode(bytes, &e, &why));
    for (size_t i = 0; i < e.ops_len; i++) {
        struct request_id id;
        struct sim_id *known = op_request(&e.ops[i], &id) ? id_find(w, &id) : NULL;
        if (known) known->flown = true;
    }
    entry_done(&e);
}

static struct sim_op *op_by_id(struct world *w, uint32_t id)
{
    for (uint32_t i = w->life->ops_len; i-- > 0;)
        if (w->life->ops[i].id == id) return &w->life->ops[i];
    return NULL;
}

// Counts the messages that the op added. A repeated op has the numbers of the first one.
static void note_send(struct sim_shard *s, const struct op *op, struct bytes body)
{
    struct op_send send;
    struct result result;
    struct send_row row;
    if (send_open(op->payload, &send) || result_open(body, OP_SEND, &result)) return;
    for (uint32_t i = 0; i < send.count; i++) {
        struct message m;
        send_next(&send, &m);
        bool added = send_row_next(&result, &row) && row.reason == REASON_NONE;
        if (!added || row.seq <= s->seqs) continue;
        s->seqs = row.seq;
        struct reader r = reader_of(m.body);
        uint32_t call = read_u32(&r), index = read_u32(&r);
        CHECK(reader_end(&r));
        s->world->life->calls[call].messages[index].accepted++;
    }
}

static void note_claim(struct sim_shard *s, const struct op *op, struct bytes body, uint32_t id)
{
    struct op_claim claim;
    struct result result;
    struct grant g;
    struct sim_claim *c = &s->world->life->ids[id].claims[s->index];
    if (claim_decode(op->payload, &claim) || result_open(body, OP_CLAIM, &result)) return;
    if (c->made) return;
    // An op behind the claim may add messages to the same entry.
    if (result.count < claim.max) s->empty_commit = s->world->life->commits;
    if (result.reason != REASON_NONE || result.count == 0) return;
    *c = (struct sim_claim){.made = true, .commit = s->world->life->commits};
    memcpy(&c->call, claim.seed, sizeof c->call);
    while (c->len < SIM_REFS_MAX && grant_next(&result, &g))
        c->refs[c->len++] = (struct lock_ref){.seq = g.seq, .token = g.token};
    trace_line(&s->world->trace, s->world->now, "  history: call %u claims %u in shard %u", c->call,
               c->len, s->index);
    check_claim_made(s->world, id, s->index);
}

static void note_op(struct sim_shard *s, const struct op *op, struct bytes body)
{
    struct request_id request;
    struct sim_id *i = op_request(op, &request) ? id_find(s->world, &request) : NULL;
    if (!i) return;
    uint32_t id = (uint32_t)(i - s->world->life->ids);
    bool first = !i->in_shard[s->index];
    i->in_shard[s->index] = true;
    if (op->kind == OP_CLAIM) {
        note_claim(s, op, body, id);
        return;
    }
    if (op->kind == OP_SEND) note_send(s, op, body);
    const struct sim_op *made = op_by_id(s->world, id);
    CHECK(made);
    if (first && op->kind == OP_SEND) check_send_made(s->world, made);
}

static void fold(struct sim_shard *s, const struct entry *e, struct bytes bytes)
{
    struct op_result *results = memory_zeroed(e->ops_len + 1, sizeof *results);
    if (e->time.lo > s->now) s->now = e->time.lo;
    struct machine_entry view = {.slot = e->slot,
                                 .time = e->time,
                                 .now = s->now,
                                 .epoch = e->epoch,
                                 .bytes = bytes,
                                 .ops = e->ops,
                                 .ops_len = e->ops_len};
    buf_clear(&s->text);
    machine_apply(s->machine, &view, results, &s->text, NULL);
    for (size_t i = 0; i < e->ops_len; i++)
        if (e->ops[i].kind >= OP_KIND_MACHINE)
            note_op(s, &e->ops[i],
                    bytes_of(s->text.data + results[i].body_at, results[i].body_len));
    memory_free(results);
}

bool truth_has_message(const struct sim_shard *s)
{
    return machine_claimable(s->machine, machine_now(s->machine), BYTES_EMPTY);
}

// The other shards of the queue stay as they are at this commit.
static void note_empty(struct world *w)
{
    for (uint32_t i = 0; i < w->life->shards; i++) {
        struct sim_shard *s = &w->life->lanes[i];
        if (!truth_has_message(s)) s->empty_commit = w->life->commits;
    }
}

static void on_slot_made(void *ctx, uint64_t slot, struct bytes bytes)
{
    struct sim_shard *s = ctx;
    struct entry e;
    const char *why;
    CHECK(slot == s->len + 1);
    CHECK(!entry_decode(bytes, &e, &why));
    s->len = slot;
    note_empty(s->world);
    s->world->life->commits++;
    fold(s, &e, bytes);
    note_empty(s->world);
    entry_done(&e);
}

void truth_init(struct world *w, struct sim_shard *s, uint32_t index)
{
    *s = (struct sim_shard){.world = w, .index = index, .now = TIME_UNKNOWN};
    bucket_init(&s->bucket, &w->rng);
    s->bucket.watch = (struct bucket_watch){.ctx = s, .slot_made = on_slot_made};
    s->bucket.tick_ms = w->mix.store_tick_ms;
    s->bucket.run_max = w->mix.run_max;
    s->machine = machine_new(&w->life->queue, index, &w->life->config);
    buf_init(&s->text, SIZE_MAX);
}

void truth_done(struct sim_shard *s)
{
    bucket_done(&s->bucket);
    machine_free(s->machine);
    buf_done(&s->text);
}
