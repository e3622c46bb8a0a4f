// SPDX-License-Identifier: Apache-2.0
#include "events/bus_progress.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "base/text.h"

#include <string.h>

#define DIGITS_MAX 20 // of a number of 64 bits

// Reads a number up to a character. Returns the place of that character, or NULL.
static const char *read_number(const char *from, char end, uint64_t *out)
{
    size_t digits = strspn(from, "0123456789");
    uint64_t value = 0;
    if (digits == 0 || digits > DIGITS_MAX || from[digits] != end) return NULL;
    for (size_t i = 0; i < digits; i++) {
        uint64_t digit = (uint64_t)(from[i] - '0');
        if (value > (UINT64_MAX - digit) / 10) return NULL;
        value = 10 * value + digit;
    }
    *out = value;
    return from + digits;
}

bool event_ref_read(const char *id, const char *sequence, struct event_ref *out)
{
    uint64_t shard;
    if (!id || !sequence) return false;
    if (strspn(id, "0123456789abcdef") != EVENT_REF_LIFE || id[EVENT_REF_LIFE] != '-') return false;
    if (!read_number(id + EVENT_REF_LIFE + 1, '-', &shard) || shard > UINT32_MAX) return false;
    if (!read_number(sequence, 0, &out->sequence) || out->sequence == 0) return false;
    (void)text_copy(out->life, sizeof out->life, id);
    out->shard = (uint32_t)shard;
    return true;
}

void bus_progress_init(struct bus_progress *p, uint32_t shards)
{
    *p = (struct bus_progress){.shards = shards};
    p->by_shard = memory_zeroed(shards, sizeof *p->by_shard);
}

void bus_progress_done(struct bus_progress *p)
{
    memory_free(p->by_shard);
    *p = (struct bus_progress){0};
}

void bus_progress_begin(struct bus_progress *p, bool up)
{
    p->up = up;
    for (uint32_t i = 0; i < p->shards; i++) {
        struct bus_progress_shard *s = &p->by_shard[i];
        s->since = s->needed = s->read;
        s->named = 0;
    }
}

void bus_progress_read(struct bus_progress *p, uint32_t shard, uint64_t sequence)
{
    CHECK(shard < p->shards); // of our own journal
    if (sequence > p->by_shard[shard].read) p->by_shard[shard].read = sequence;
}

bool bus_progress_named(struct bus_progress *p, uint32_t shard, uint64_t sequence)
{
    if (shard >= p->shards) return false; // of another queue with this id, or forged
    struct bus_progress_shard *s = &p->by_shard[shard];
    if (sequence > s->named) s->named = sequence;
    return sequence > s->read;
}

// Returns whether the bus names the events of this queue.
static bool keeps_up(const struct bus_progress *p)
{
    bool named = false;
    for (uint32_t i = 0; i < p->shards; i++) {
        const struct bus_progress_shard *s = &p->by_shard[i];
        bool quiet = s->read <= s->since;
        if (!quiet && s->named < s->needed && !MUTANT(BUS_SILENCE_UNSEEN)) return false;
        named = named || s->named > s->since;
    }
    return p->up && named;
}

enum bus_progress_next bus_progress_next(struct bus_progress *p, bool found, uint32_t *shard)
{
    if (!keeps_up(p)) return BUS_PROGRESS_FOLLOW;
    for (uint32_t i = 0; i < p->shards; i++) {
        if (p->by_shard[i].named <= p->by_shard[i].read || MUTANT(BUS_NAME_IGNORED)) continue;
        *shard = i;
        return found ? BUS_PROGRESS_LOOK : BUS_PROGRESS_FOLLOW;
    }
    for (uint32_t i = 0; i < p->shards; i++)
        p->by_shard[i].needed = p->by_shard[i].read;
    return BUS_PROGRESS_SLEEP;
}
