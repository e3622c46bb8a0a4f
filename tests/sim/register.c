// SPDX-License-Identifier: Apache-2.0
// Counters in an array sorted by name, remembered requests in a queue ordered by journal time. The
// digest is a sum of row hashes, so that a change costs the hash of one row.
#include "register.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

struct counter {
    char name[REGISTER_NAME_MAX + 1];
    int64_t value;
    uint64_t kept; // slot; 0: none
};

struct remembered {
    uint8_t request[REGISTER_REQUEST_LEN];
    int64_t at;
    uint32_t err;
    int64_t value;
};

struct registers {
    int64_t memory_ms;
    struct counter counters[REGISTER_NAMES_MAX];
    size_t counters_len;
    struct remembered *requests; // requests[first .. first + len - 1], oldest first
    size_t requests_first;
    size_t requests_len;
    size_t requests_cap;
    uint64_t sum;
    uint64_t effects;
    bool ended;
};

const char *register_verb_name(enum register_verb verb)
{
    static const char *const names[REGISTER_VERBS] = {"add", "cas", "read", "keep", "drop", "end"};
    CHECK((unsigned)verb < REGISTER_VERBS);
    return names[verb];
}

struct op register_op(const struct register_ask *ask, struct buf *payload)
{
    size_t name_len = strlen(ask->name);
    CHECK(name_len > 0 && name_len <= REGISTER_NAME_MAX);
    buf_clear(payload);
    buf_put(payload, bytes_of(ask->request, REGISTER_REQUEST_LEN));
    buf_put_u32(payload, ask->attempt);
    buf_put_sized(payload, bytes_of(ask->name, name_len));
    buf_put_i64(payload, ask->a);
    buf_put_i64(payload, ask->b);
    CHECK(!payload->bad);
    return (struct op){.kind = (uint16_t)(OP_KIND_MACHINE + ask->verb),
                       .payload = buf_bytes(payload)};
}

bool register_parse(const struct op *op, struct register_ask *out)
{
    if (op->kind < OP_KIND_MACHINE || op->kind >= OP_KIND_MACHINE + REGISTER_VERBS) return false;
    struct reader r = reader_of(op->payload);
    struct bytes request = read_bytes(&r, REGISTER_REQUEST_LEN);
    uint32_t attempt = read_u32(&r);
    struct bytes name = read_sized(&r, REGISTER_NAME_MAX);
    int64_t a = read_i64(&r);
    int64_t b = read_i64(&r);
    if (!reader_end(&r) || name.len == 0) return false;
    *out = (struct register_ask){.verb = (enum register_verb)(op->kind - OP_KIND_MACHINE),
                                 .attempt = attempt,
                                 .a = a,
                                 .b = b};
    memcpy(out->request, request.data, REGISTER_REQUEST_LEN);
    memcpy(out->name, name.data, name.len);
    return true;
}

static uint64_t counter_hash(const struct counter *c)
{
    uint64_t h = hash64_of(bytes_of(c->name, sizeof c->name), 1);
    return hash64_mix(hash64_mix(h, (uint64_t)c->value), c->kept);
}

static uint64_t remembered_hash(const struct remembered *r)
{
    uint64_t h = hash64_of(bytes_of(r->request, sizeof r->request), 2);
    h = hash64_mix(h, (uint64_t)r->at);
    return hash64_mix(hash64_mix(h, r->err), (uint64_t)r->value);
}

static struct counter *counter_find(struct registers *m, const char *name)
{
    for (size_t i = 0; i < m->counters_len; i++)
        if (strcmp(m->counters[i].name, name) == 0) return &m->counters[i];
    return NULL;
}

// Keeps the order by name: save and load must not depend on the order of arrival.
static struct counter *counter_make(struct registers *m, const char *name)
{
    struct counter *found = counter_find(m, name);
    if (found || m->counters_len == REGISTER_NAMES_MAX) return found;
    size_t at = m->counters_len;
    while (at > 0 && strcmp(m->counters[at - 1].name, name) > 0) {
        m->counters[at] = m->counters[at - 1];
        at--;
    }
    struct counter *c = &m->counters[at];
    *c = (struct counter){0};
    memcpy(c->name, name, strlen(name));
    m->counters_len++;
    m->sum += counter_hash(c);
    return c;
}

static const struct remembered *request_find(const struct registers *m, const uint8_t *request)
{
    for (size_t i = m->requests_len; i > 0; i--) {
        const struct remembered *r = &m->requests[m->requests_first + i - 1];
        if (memcmp(r->request, request, REGISTER_REQUEST_LEN) == 0) return r;
    }
    return NULL;
}

static void request_keep(struct registers *m, const struct remembered *r)
{
    size_t end = m->requests_first + m->requests_len;
    if (end == m->requests_cap) {
        if (m->requests_first > 0)
            memmove(m->requests, m->requests + m->requests_first,
                    m->requests_len * sizeof *m->requests);
        m->requests_first = 0;
        end = m->requests_len;
        if (end * 2 >= m->requests_cap) {
            m->requests_cap = m->requests_cap < 32 ? 32 : m->requests_cap * 2;
            m->requests = memory_resize(m->requests, m->requests_cap * sizeof *m->requests);
        }
    }
    m->requests[end] = *r;
    m->requests_len++;
    m->sum += remembered_hash(r);
}

static void requests_expire(struct registers *m, int64_t now)
{
    while (m->requests_len > 0 && m->requests[m->requests_first].at < now - m->memory_ms) {
        m->sum -= remembered_hash(&m->requests[m->requests_first]);
        m->requests_first++;
        m->requests_len--;
    }
}

static enum err decide(struct counter *c, const struct register_ask *ask, uint64_t slot,
                       int64_t *value)
{
    *value = c->value;
    switch (ask->verb) {
    case REGISTER_ADD:
        c->value += ask->a;
        *value = c->value;
        return ERR_OK;
    case REGISTER_CAS:
        if (c->value != ask->a) return ERR_CONFLICT;
        c->value = ask->b;
        *value = c->value;
        return ERR_OK;
    case REGISTER_KEEP:
        *value = (int64_t)c->kept;
        c->kept = slot;
        return ERR_OK;
    case REGISTER_DROP:
        *value = (int64_t)c->kept;
        if (c->kept == 0) return ERR_NOT_FOUND;
        c->kept = 0;
        return ERR_OK;
    case REGISTER_READ:
    case REGISTER_END:
    case REGISTER_VERBS:
        break;
    }
    return ERR_OK;
}

static void counters_clear(struct registers *m)
{
    for (size_t i = 0; i < m->counters_len; i++)
        m->sum -= counter_hash(&m->counters[i]);
    m->counters_len = 0;
}

static enum err apply_ask(struct registers *m, const struct register_ask *ask, uint64_t slot,
                          int64_t *value)
{
    *value = 0;
    if (m->ended) return ERR_NOT_FOUND;
    m->ended = ask->verb == REGISTER_END;
    if (m->ended) {
        counters_clear(m);
        return ERR_OK;
    }
    bool makes =
        ask->verb == REGISTER_ADD || ask->verb == REGISTER_CAS || ask->verb == REGISTER_KEEP;
    struct counter *c = makes ? counter_make(m, ask->name) : counter_find(m, ask->name);
    if (!c) return makes ? ERR_LIMIT : ERR_NOT_FOUND;
    m->sum -= counter_hash(c);
    enum err err = decide(c, ask, slot, value);
    m->sum += counter_hash(c);
    return err;
}

static void answer(struct op_result *result, struct buf *text, enum err err, int64_t value)
{
    if (!result) return;
    *result = (struct op_result){.err = err, .body_at = (uint32_t)text->len, .body_len = 8};
    buf_put_i64(text, value);
    CHECK(!text->bad);
}

static void registers_apply(void *ctx, const struct fold_entry *e, struct op_result *results,
                            struct buf *text)
{
    struct registers *m = ctx;
    requests_expire(m, e->now);
    for (size_t i = 0; i < e->ops_len; i++) {
        if (e->ops[i].kind < OP_KIND_MACHINE) continue;
        struct op_result *result = results ? &results[i] : NULL;
        struct register_ask ask;
        if (!register_parse(&e->ops[i], &ask)) {
            answer(result, text, ERR_INVALID, 0);
            continue;
        }
        const struct remembered *before = request_find(m, ask.request);
        if (before) {
            answer(result, text, (enum err)before->err, before->value);
            continue;
        }
        struct remembered now = {.at = e->now};
        now.err = (uint32_t)apply_ask(m, &ask, e->slot, &now.value);
        memcpy(now.request, ask.request, sizeof now.request);
        request_keep(m, &now);
        m->effects++;
        answer(result, text, (enum err)now.err, now.value);
    }
}

static bool registers_recall(void *ctx, const struct op *op, struct op_result *result,
                             struct buf *text)
{
    struct registers *m = ctx;
    struct register_ask ask;
    if (!register_parse(op, &ask)) return false;
    const struct remembered *before = request_find(m, ask.request);
    if (!before) return false;
    answer(result, text, (enum err)before->err, before->value);
    return true;
}

static void registers_reset(void *ctx)
{
    struct registers *m = ctx;
    m->counters_len = 0;
    m->requests_first = 0;
    m->requests_len = 0;
    m->sum = 0;
    m->effects = 0;
    m->ended = false;
}

static void registers_save(void *ctx, struct buf *out)
{
    const struct registers *m = ctx;
    buf_put_u64(out, m->effects);
    buf_put_u8(out, m->ended);
    buf_put_u32(out, (uint32_t)m->counters_len);
    for (size_t i = 0; i < m->counters_len; i++) {
        const struct counter *c = &m->counters[i];
        buf_put_sized(out, bytes_str(c->name));
        buf_put_i64(out, c->value);
        buf_put_u64(out, c->kept);
    }
    buf_put_u32(out, (uint32_t)m->requests_len);
    for (size_t i = 0; i < m->requests_len; i++) {
        const struct remembered *r = &m->requests[m->requests_first + i];
        buf_put(out, bytes_of(r->request, sizeof r->request));
        buf_put_i64(out, r->at);
        buf_put_u32(out, r->err);
        buf_put_i64(out, r->value);
    }
}

static bool load_counters(struct registers *m, struct reader *r)
{
    uint32_t len = read_u32(r);
    if (len > REGISTER_NAMES_MAX) return false;
    for (uint32_t i = 0; i < len && reader_ok(r); i++) {
        char name[REGISTER_NAME_MAX + 1] = {0};
        struct bytes text = read_sized(r, REGISTER_NAME_MAX);
        if (text.len == 0) return false;
        memcpy(name, text.data, text.len);
        struct counter *c = counter_make(m, name);
        m->sum -= counter_hash(c);
        c->value = read_i64(r);
        c->kept = read_u64(r);
        m->sum += counter_hash(c);
    }
    return reader_ok(r);
}

static bool load_requests(struct registers *m, struct reader *r)
{
    uint32_t len = read_u32(r);
    if (len > REGISTER_REQUESTS_MAX) return false;
    for (uint32_t i = 0; i < len && reader_ok(r); i++) {
        struct remembered row = {0};
        struct bytes request = read_bytes(r, REGISTER_REQUEST_LEN);
        if (request.len > 0) memcpy(row.request, request.data, request.len);
        row.at = read_i64(r);
        row.err = read_u32(r);
        row.value = read_i64(r);
        if (row.err >= ERR_COUNT) return false;
        if (reader_ok(r)) request_keep(m, &row);
    }
    return reader_end(r);
}

static enum err registers_load(void *ctx, struct bytes saved)
{
    struct registers *m = ctx;
    registers_reset(m);
    struct reader r = reader_of(saved);
    uint64_t effects = read_u64(&r);
    bool ended = read_u8(&r) == 1;
    if (!load_counters(m, &r) || !load_requests(m, &r)) {
        registers_reset(m);
        return ERR_CORRUPT;
    }
    m->effects = effects;
    m->ended = ended;
    return ERR_OK;
}

static uint64_t registers_digest(void *ctx)
{
    const struct registers *m = ctx;
    return hash64_mix(m->sum, m->ended ? ~m->effects : m->effects);
}

static bool registers_needs(void *ctx, uint64_t first, uint64_t last)
{
    const struct registers *m = ctx;
    for (size_t i = 0; i < m->counters_len; i++) {
        uint64_t kept = m->counters[i].kept;
        if (kept != 0 && kept >= first && kept <= last) return true;
    }
    return false;
}

static bool has_ended(void *ctx)
{
    return registers_ended(ctx);
}

struct registers *registers_new(int64_t memory_ms)
{
    struct registers *m = NEW(struct registers);
    m->memory_ms = memory_ms;
    return m;
}

void registers_free(struct registers *m)
{
    if (!m) return;
    memory_free(m->requests);
    memory_free(m);
}

struct fold registers_fold(struct registers *m)
{
    return (struct fold){.ctx = m,
                         .reset = registers_reset,
                         .apply = registers_apply,
                         .recall = registers_recall,
                         .save = registers_save,
                         .load = registers_load,
                         .digest = registers_digest,
                         .needs = registers_needs,
                         .ended = has_ended};
}

bool registers_ended(const struct registers *m)
{
    return m->ended;
}

uint64_t registers_effects(const struct registers *m)
{
    return m->effects;
}
