// SPDX-License-Identifier: Apache-2.0
// Answers that no honest store gives: other errors, rows, times and keys, and bodies with other
// numbers in them.
#include "falsify.h"

#include "journal/inside.h"

#include <string.h>

#define SLOTS_MAX 10000 // the simulated store keeps its slots in an array

void falsify_init(struct falsify *f, struct rng *rng)
{
    *f = (struct falsify){.rng = rng};
    bucket_init(&f->bucket, rng);
    f->bucket.run_max = 4;
    bucket_answer_init(&f->answer);
    buf_init(&f->body, SNAPSHOT_LEN_MAX);
    f->chance = (uint32_t)rng_range(rng, 0, 1500);
}

void falsify_done(struct falsify *f)
{
    buf_done(&f->body);
    bucket_answer_done(&f->answer);
    bucket_done(&f->bucket);
}

static uint64_t odd_number(struct falsify *f, uint64_t near)
{
    const uint64_t numbers[] = {0,
                                1,
                                2,
                                near - 1,
                                near + 1,
                                UINT32_MAX,
                                INT64_MAX,
                                (uint64_t)INT64_MIN,
                                UINT64_MAX,
                                (uint64_t)ENTRY_TIME_MAX,
                                (uint64_t)f->now.lo,
                                rng_next(f->rng)};
    return numbers[rng_below(f->rng, sizeof numbers / sizeof *numbers)];
}

static bool half(struct falsify *f)
{
    return rng_chance(f->rng, 5000);
}

static void put_checksum(uint8_t *data, size_t len, bool floor)
{
    size_t sum_len = floor ? 8 : 16;
    CLEANUP(buf_done) struct buf sum;
    buf_init(&sum, 16);
    struct hash128 hash = hash128_of(bytes_of(data, len - sum_len));
    if (floor) {
        buf_put_u64(&sum, hash.lo);
    } else {
        buf_put_hash128(&sum, hash);
    }
    memcpy(data + len - sum_len, sum.data, sum_len);
}

// Another number somewhere in the bytes, mostly with the right checksum.
static void falsify_bytes(struct falsify *f, uint8_t *data, size_t len, bool floor)
{
    if (len < 40) return;
    uint64_t number = odd_number(f, 5);
    size_t width = half(f) ? 8 : 4;
    size_t at = rng_below(f->rng, len - 24) / 4 * 4;
    memcpy(data + at, &number, width);
    if (rng_chance(f->rng, 8000)) put_checksum(data, len, floor);
}

static void falsify_core(struct falsify *f, struct core *c)
{
    uint64_t number = odd_number(f, c->slot);
    size_t row = c->sessions_len > 0 ? rng_below(f->rng, c->sessions_len) : 0;
    switch (rng_below(f->rng, 8)) {
    case 0:
        c->now = (int64_t)number;
        break;
    case 1:
        c->epoch = number;
        break;
    case 2:
        c->token = number;
        break;
    case 3:
        c->horizon = (int64_t)number;
        break;
    case 4:
        c->chain.lo = number;
        break;
    case 5:
        if (c->sessions_len > 0) c->sessions[row].time = (int64_t)number;
        break;
    case 6:
        if (c->sessions_len > 0) c->sessions[row].sequence = number;
        break;
    default:
        break;
    }
}

// A snapshot of a state that never was, with the digest of that state.
static void falsify_snapshot(struct falsify *f, struct response *r)
{
    struct core core, loaded;
    struct snapshot snapshot;
    core_init(&core);
    core_init(&loaded);
    CLEANUP(buf_done) struct buf saved;
    buf_init(&saved, SNAPSHOT_LEN_MAX);
    if (!snapshot_decode(r->body, &core, &snapshot)) {
        falsify_core(f, &core);
        if (half(f)) snapshot.floor_index = odd_number(f, snapshot.floor_index);
        if (half(f)) snapshot.floor_slot = odd_number(f, snapshot.floor_slot);
        if (half(f)) snapshot.absent_at = (int64_t)odd_number(f, 0);
        core_save(&core, &saved);
        struct reader reader = reader_of(buf_bytes(&saved));
        if (!core_load(&loaded, &reader)) { // otherwise the snapshot stays as it was
            snapshot.core = &loaded;
            uint64_t machine = 0;
            (void)f->digest(snapshot.machine, &machine);
            snapshot.digest = hash64_mix(core_digest(&loaded), machine);
            buf_clear(&f->body);
            snapshot_encode(&snapshot, &f->body);
            r->body = buf_bytes(&f->body);
        }
    }
    core_done(&core);
    core_done(&loaded);
}

static void falsify_row(struct falsify *f, struct response_row *row)
{
    char *key = (char *)row->key;
    switch (rng_below(f->rng, 5)) {
    case 0:
        row->first = odd_number(f, row->first);
        break;
    case 1:
        row->last = odd_number(f, row->last);
        break;
    case 2:
        row->modified.lo = rng_range(f->rng, 0, f->now.hi);
        row->modified.hi = row->modified.lo + 999;
        break;
    case 3:
        if (key) key[strlen(key) - 1 - rng_below(f->rng, 20)] = (char)('0' + f->now.lo % 10);
        break;
    default:
        if (row->body.len > 0) falsify_bytes(f, (uint8_t *)row->body.data, row->body.len, false);
        break;
    }
}

// Most errors that an append cannot have halt the handle at once, so they are rare.
static enum err odd_err(struct falsify *f, const struct request *q)
{
    static const enum err possible[] = {ERR_OK,          ERR_CONFLICT, ERR_UNKNOWN,
                                        ERR_UNAVAILABLE, ERR_LIMIT,    ERR_DENIED};
    if (q->kind != REQUEST_APPEND || rng_chance(f->rng, 500))
        return (enum err)rng_below(f->rng, ERR_COUNT);
    return possible[rng_below(f->rng, sizeof possible / sizeof *possible)];
}

static void falsify(struct falsify *f, const struct request *q, struct bucket_answer *a)
{
    struct response *r = &a->response;
    switch (rng_below(f->rng, 6)) {
    case 0:
        r->err = odd_err(f, q);
        break;
    case 1:
        r->rows_len = r->rows_len > 0 ? rng_below(f->rng, r->rows_len) : 0;
        break;
    case 2:
        r->time.lo = rng_range(f->rng, 0, f->now.hi);
        r->time.hi = r->time.lo + 999;
        break;
    case 3:
        r->more = !r->more;
        break;
    default:
        if (r->rows_len > 0) falsify_row(f, &a->rows[rng_below(f->rng, r->rows_len)]);
        if (r->body.len == 0) break;
        if (strstr(q->key, "/snap/") && half(f)) {
            falsify_snapshot(f, r);
        } else {
            falsify_bytes(f, (uint8_t *)r->body.data, r->body.len, strstr(q->key, "/floor/"));
        }
        break;
    }
}

// As store_append and store_drop do.
static bool store_refuses(const struct request *q)
{
    if (q->kind == REQUEST_APPEND) return q->first == 0 || q->first > SLOTS_MAX;
    return q->kind == REQUEST_DROP && (q->first == 0 || q->first > q->last);
}

const struct response *falsify_perform(struct falsify *f, const struct request *q,
                                       struct interval now)
{
    struct response *r = &f->answer.response;
    f->now = now;
    if (store_refuses(q)) {
        enum err err = q->kind == REQUEST_DROP ? ERR_INVALID : ERR_LIMIT;
        *r = (struct response){.id = q->id, .err = err, .time = now};
    } else {
        bucket_perform(&f->bucket, q, now.lo, &f->answer);
    }
    r->tight = rng_chance(f->rng, 1000);
    bool snapshot = r->body.len > 0 && strstr(q->key, "/snap/");
    if (rng_chance(f->rng, snapshot ? 3 * f->chance : f->chance)) falsify(f, q, &f->answer);
    return r;
}
