// SPDX-License-Identifier: Apache-2.0
// The way to the store and back. Each request draws its fate when it is sent: when it is performed
// (perhaps never, perhaps twice, perhaps long after it was given up) and what its sender is
// answered. "Unavailable" is only ever said of a write that is certainly not performed; a write
// without an answer is unknown, a read without one is just unavailable.
#include "base/check.h"
#include "base/memory.h"
#include "check.h"
#include "request_name.h"

#include <inttypes.h>
#include <string.h>

struct fate {
    int64_t perform_at[2];
    uint32_t performs;
    int64_t answer_at;
    uint32_t answer_of; // 0: blind
    enum err blind;
};

static bool is_write(enum request_kind kind)
{
    return kind == REQUEST_APPEND || kind == REQUEST_DROP || kind == REQUEST_PUT_NEW ||
           kind == REQUEST_DELETE;
}

static int64_t latency(struct world *w)
{
    int64_t most = w->mix.latency_ms;
    if (w->phase == WORLD_FAULTY && rng_chance(&w->rng, 500)) most *= 10;
    return rng_range(&w->rng, 1, most);
}

// Spread over magnitudes: most are late by seconds, some by more than R.
static int64_t lateness(struct world *w)
{
    int64_t most = w->mix.late_ms;
    for (uint64_t halvings = rng_below(&w->rng, 6); halvings > 0; halvings--)
        most /= 2;
    return rng_range(&w->rng, 1, most);
}

static void fate_plain(struct world *w, struct fate *f)
{
    f->performs = 1;
    f->perform_at[0] = w->now + latency(w);
    f->answer_at = f->perform_at[0] + latency(w);
    f->answer_of = 1;
}

static void fate_blind(struct world *w, struct fate *f, enum request_kind kind, uint32_t performs)
{
    f->performs = performs;
    f->perform_at[0] = w->now + latency(w);
    f->answer_at = w->now + w->mix.timeout_ms;
    f->answer_of = 0;
    f->blind = is_write(kind) ? ERR_UNKNOWN : ERR_UNAVAILABLE;
}

static void fate_refused(struct world *w, struct fate *f, enum err err)
{
    f->performs = 0;
    f->answer_at = w->now + latency(w);
    f->answer_of = 0;
    f->blind = err;
}

static void fate_late(struct world *w, struct fate *f, enum request_kind kind)
{
    fate_blind(w, f, kind, 1);
    f->perform_at[0] = w->now + lateness(w);
}

static void fate_slow(struct world *w, struct fate *f)
{
    fate_plain(w, f);
    f->perform_at[0] = w->now + lateness(w);
    f->answer_at = f->perform_at[0] + latency(w);
}

static void fate_twice(struct world *w, struct fate *f)
{
    fate_plain(w, f);
    f->performs = 2;
    bool second = rng_chance(&w->rng, 5000);
    f->perform_at[1] = f->perform_at[0] + (second ? latency(w) : lateness(w));
    if (!second) return;
    f->answer_of = 2;
    f->answer_at = f->perform_at[1] + latency(w);
}

// What a storm, a cut cable or a broken proxy makes of a request.
static void fate_stormy(struct world *w, struct fate *f, enum request_kind kind)
{
    switch (rng_below(&w->rng, 5)) {
    case 0:
        fate_blind(w, f, kind, 0);
        break;
    case 1:
        fate_blind(w, f, kind, 1);
        break;
    case 2:
        fate_late(w, f, kind);
        break;
    case 3:
        fate_refused(w, f, ERR_UNAVAILABLE);
        break;
    default:
        fate_plain(w, f);
        break;
    }
}

static void fate_mixed(struct world *w, struct fate *f, enum request_kind kind)
{
    const struct mix_fates *m = &w->mix.fates;
    uint32_t r = (uint32_t)rng_below(&w->rng, 10000);
    uint32_t sum = 0;
    if (r < (sum += m->lost_request)) {
        fate_blind(w, f, kind, 0);
    } else if (r < (sum += m->lost_reply)) {
        fate_blind(w, f, kind, 1);
    } else if (r < (sum += m->late)) {
        fate_late(w, f, kind);
    } else if (r < (sum += m->twice)) {
        fate_twice(w, f);
    } else if (r < (sum += m->unavailable)) {
        fate_refused(w, f, ERR_UNAVAILABLE);
    } else if (r < (sum += m->limit)) {
        fate_refused(w, f, rng_chance(&w->rng, 5000) ? ERR_LIMIT : ERR_DENIED);
    } else if (r < sum + m->slow) {
        fate_slow(w, f);
    } else {
        fate_plain(w, f);
    }
}

static void fate_draw(struct world *w, struct node *n, enum request_kind kind, struct fate *f)
{
    *f = (struct fate){0};
    if (w->phase == WORLD_HEALED) {
        fate_plain(w, f);
    } else if (kind == REQUEST_APPEND && rng_chance(&w->rng, w->mix.stall)) {
        fault_stall(w, n);
        fate_blind(w, f, kind, 1);
    } else if (w->now < n->cut_until) {
        fate_blind(w, f, kind, rng_chance(&w->rng, 2000));
    } else if (w->now < w->storm_until) {
        fate_stormy(w, f, kind);
    } else {
        fate_mixed(w, f, kind);
    }
}

static char *text_copy(const char *text)
{
    if (!text) return NULL;
    size_t len = strlen(text) + 1;
    char *copy = memory_new(len);
    memcpy(copy, text, len);
    return copy;
}

static size_t flight_new(struct world *w)
{
    for (size_t i = 0; i < w->flights_len; i++)
        if (!w->flights[i].used) return i;
    size_t old = w->flights_len;
    w->flights_len = old ? old * 2 : 16;
    w->flights = memory_resize(w->flights, w->flights_len * sizeof *w->flights);
    memset(w->flights + old, 0, (w->flights_len - old) * sizeof *w->flights);
    return old;
}

static void flight_done(struct flight *f)
{
    memory_free((void *)(uintptr_t)f->request.key);
    memory_free((void *)(uintptr_t)f->request.after);
    bytes_free(f->request.body);
    bucket_answer_done(&f->answer);
    *f = (struct flight){0};
}

static void flight_landed(struct flight *f)
{
    CHECK(f->pending > 0);
    if (--f->pending == 0) flight_done(f);
}

void wire_done(struct world *w)
{
    for (size_t i = 0; i < w->flights_len; i++)
        if (w->flights[i].used) flight_done(&w->flights[i]);
    memory_free(w->flights);
}

void wire_send(struct world *w, struct node *n, const struct request *q, bool collector)
{
    struct fate fate;
    idle_act(&n->idle);
    fate_draw(w, n, q->kind, &fate);
    size_t place = flight_new(w);
    struct flight *f = &w->flights[place];
    *f = (struct flight){.used = true,
                         .node = n->index,
                         .life = n->life,
                         .collector = collector,
                         .request = *q,
                         .pending = fate.performs + 1,
                         .answer_of = fate.answer_of,
                         .blind = fate.blind};
    f->request.key = text_copy(q->key);
    f->request.after = text_copy(q->after);
    f->request.body = bytes_copy(q->body);
    bucket_answer_init(&f->answer);
    for (uint32_t i = 0; i < fate.performs; i++)
        world_at(w, fate.perform_at[i], EVENT_PERFORM, (uint32_t)place, 0);
    world_at(w, fate.answer_at, EVENT_ANSWER, (uint32_t)place, 0);
}

static const char *short_key(const char *key)
{
    size_t skip = strlen(WORLD_PREFIX) + 1;
    return strlen(key) > skip ? key + skip : key;
}

static void describe(const struct flight *f, char *out, size_t out_len)
{
    const struct request *q = &f->request;
    bool ranged = q->kind == REQUEST_DROP;
    if (q->first > 0) {
        (void)snprintf(out, out_len, "n%u.%u %s%s %" PRIu64 "%s%" PRIu64, f->node, f->life,
                       f->collector ? "collector " : "", request_kind_name(q->kind), q->first,
                       ranged ? ".." : " #", ranged ? q->last : q->id);
    } else {
        (void)snprintf(out, out_len, "n%u.%u %s%s %s #%" PRIu64, f->node, f->life,
                       f->collector ? "collector " : "", request_kind_name(q->kind),
                       short_key(q->key), q->id);
    }
}

void wire_perform(struct world *w, struct flight *f)
{
    char what[TRACE_LINE_MAX];
    struct bucket_answer other;
    f->performed++;
    bool kept = f->performed == f->answer_of;
    if (!kept) bucket_answer_init(&other);
    struct bucket_answer *a = kept ? &f->answer : &other;
    struct node *n = &w->nodes[f->node];
    bucket_perform(node_bucket(w, n), &f->request, w->now, a);
    if (f->request.fresh && f->life == n->life) n->looked_at = w->now;
    describe(f, what, sizeof what);
    trace_line(&w->trace, w->now, "  store: %s -> %s %zu%s", what, err_name(a->response.err),
               a->response.rows_len, kept ? "" : " (not delivered)");
    if (!kept) bucket_answer_done(&other);
    flight_landed(f);
}

static void flip_byte(struct world *w, struct bytes at)
{
    if (at.len == 0) return;
    uint8_t *byte = (uint8_t *)(uintptr_t)at.data + rng_below(&w->rng, at.len);
    *byte ^= (uint8_t)rng_range(&w->rng, 1, 255);
}

// A read is answered wrongly, once: the store has the right bytes.
static void garble(struct world *w, struct flight *f, struct response *r)
{
    bool reads = f->request.kind == REQUEST_READ_LOG || f->request.kind == REQUEST_GET;
    if (w->mix.garbled == 0 || w->phase == WORLD_HEALED || !reads || r->err) return;
    if (!rng_chance(&w->rng, w->mix.garbled)) return;
    trace_line(&w->trace, w->now, "! n%u gets a wrong answer", f->node);
    uint64_t how = rng_below(&w->rng, 4);
    if (how == 0) {
        *r = (struct response){.err = ERR_CORRUPT, .time = r->time};
    } else if (r->rows_len == 0) {
        flip_byte(w, r->body);
    } else if (how == 1) {
        f->answer.rows[rng_below(&w->rng, r->rows_len)].first++;
    } else {
        flip_byte(w, f->answer.rows[rng_below(&w->rng, r->rows_len)].body);
    }
}

static void note_proof(struct node *n, const struct flight *f, const struct response *r)
{
    if (!f->collector || f->request.kind != REQUEST_READ_LOG) return;
    if (r->rows_len > 0) n->proved = r->rows[0].first;
}

void wire_answer(struct world *w, struct flight *f)
{
    struct node *n = &w->nodes[f->node];
    if (n->life != f->life || !n->up) {
        flight_landed(f);
        return;
    }
    struct response r = f->answer.response;
    if (f->answer_of == 0) {
        r = (struct response){.err = f->blind, .time = node_now(n)};
    } else {
        CHECK(f->performed >= f->answer_of);
    }
    garble(w, f, &r);
    r.id = f->request.id;
    char what[TRACE_LINE_MAX];
    describe(f, what, sizeof what);
    trace_line(&w->trace, w->now, "%s: %s", what, err_name(r.err));
    note_proof(n, f, &r);
    node_respond(w, n, f, &r);
    flight_landed(f);
    node_settle(w, n);
}
