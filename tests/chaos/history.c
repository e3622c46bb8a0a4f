// SPDX-License-Identifier: Apache-2.0
// A message is known by its id; the shared record says which number, group and lane it has. Those
// whose sender was killed before it wrote the id down, and that no worker saw, do not exist: the
// drain has delivered everything, or its dead letter was read.
#include "history.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

struct line { // a message's way through the stream
    const char *id;
    uint32_t number;
    uint32_t previous; // of its group, in the order of the stream; NONE: the first
    bool enqueued;
    bool held;
    bool ended;
    uint32_t claims;
};

struct history {
    const struct shared_record *shared;
    enum lane lane;
    struct findings *v;
    struct line *lines;
    uint32_t lines_len;
    uint32_t *slots; // id -> line, open addressing
    uint32_t slots_len;
    uint32_t last[GROUPS]; // newest message of each group
    uint32_t open[GROUPS]; // the one that is held
    uint64_t event;
    uint64_t position;
};

enum kind { TWO_HOLDERS, TWO_ENDS, DISORDER, IMPOSTER, TWICE, LOST };

static void blame(struct history *h, enum kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void blame(struct history *h, enum kind kind, const char *format, ...)
{
    uint64_t *counts[] = {&h->v->two_holders, &h->v->two_ends,   &h->v->disorder,
                          &h->v->never_sent,  &h->v->twice_told, &h->v->lost};
    if ((*counts[kind])++ > 0) return;
    va_list list;
    va_start(list, format);
    (void)vsnprintf(h->v->first[kind], sizeof h->v->first[kind], format, list);
    va_end(list);
}

static struct line *find(struct history *h, const char *id)
{
    uint32_t mask = h->slots_len - 1;
    for (uint32_t at = (uint32_t)hash64_of(bytes_str(id), 0) & mask; h->slots[at] != NONE;
         at = (at + 1) & mask)
        if (strcmp(h->lines[h->slots[at]].id, id) == 0) return &h->lines[h->slots[at]];
    return NULL;
}

static void enter(struct history *h, uint32_t number)
{
    uint32_t mask = h->slots_len - 1;
    const char *id = shared_record_id_of(h->shared, number);
    if (!id) return;
    uint32_t at = (uint32_t)hash64_of(bytes_str(id), 0) & mask;
    while (h->slots[at] != NONE)
        at = (at + 1) & mask;
    h->slots[at] = h->lines_len;
    h->lines[h->lines_len++] = (struct line){.id = id, .number = number, .previous = NONE};
}

static bool history_init(struct history *h)
{
    uint64_t tried = atomic_load(&h->shared->next);
    if (tried > SHARED_RECORD_ROWS_MAX) tried = SHARED_RECORD_ROWS_MAX;
    for (h->slots_len = 1024; h->slots_len < tried * 2; h->slots_len *= 2)
        continue;
    h->lines = calloc(tried + 1, sizeof *h->lines);
    h->slots = malloc(h->slots_len * sizeof *h->slots);
    if (!h->lines || !h->slots) return false;
    memset(h->slots, 0xff, h->slots_len * sizeof *h->slots);
    for (uint32_t group = 0; group < GROUPS; group++)
        h->last[group] = h->open[group] = NONE;
    for (uint32_t i = 0; i < tried; i++)
        if (h->shared->rows[i].lane == h->lane) enter(h, i);
    return true;
}

static void history_done(struct history *h)
{
    free(h->lines);
    free(h->slots);
}

static uint32_t group_of(const struct history *h, const struct line *l)
{
    return h->shared->rows[l->number].group;
}

static void on_enqueued(struct history *h, struct line *l)
{
    if (l->enqueued) blame(h, TWO_ENDS, "%s was enqueued twice", l->id);
    l->enqueued = true;
    h->v->enqueued++;
    uint32_t group = group_of(h, l);
    l->previous = h->last[group];
    h->last[group] = (uint32_t)(l - h->lines);
}

static void check_order(struct history *h, const struct line *l)
{
    uint32_t open = h->open[group_of(h, l)];
    if (open != NONE)
        blame(h, DISORDER, "%s was given while %s of its group was held", l->id, h->lines[open].id);
    if (l->previous != NONE && !h->lines[l->previous].ended)
        blame(h, DISORDER, "%s was given before %s had ended", l->id, h->lines[l->previous].id);
}

static void on_claimed(struct history *h, struct line *l)
{
    if (l->held) blame(h, TWO_HOLDERS, "%s was given to two", l->id);
    if (l->ended) blame(h, TWO_ENDS, "%s was given after its end", l->id);
    if (h->lane == LANE_STRICT) {
        check_order(h, l);
        h->open[group_of(h, l)] = (uint32_t)(l - h->lines);
    }
    h->v->claims++;
    h->v->again += l->claims > 0;
    l->claims++;
    l->held = true;
}

static void on_let_go(struct history *h, struct line *l)
{
    l->held = false;
    if (h->open[group_of(h, l)] == (uint32_t)(l - h->lines)) h->open[group_of(h, l)] = NONE;
}

static void on_end(struct history *h, struct line *l, bool dead)
{
    on_let_go(h, l);
    if (l->ended) blame(h, TWO_ENDS, "%s ended twice", l->id);
    l->ended = true;
    h->v->dead += dead;
    h->v->processed += !dead;
}

static void on_record(struct history *h, const struct record *e)
{
    h->v->events++;
    if (e->event == h->event || e->position < h->position)
        blame(h, TWICE, "an event of %s came again, or at position %" PRIu64, e->message,
              e->position);
    h->event = e->event;
    h->position = e->position;
    if (!*e->message || e->what == OTHER) return;
    struct line *l = find(h, e->message);
    if (!l) {
        blame(h, IMPOSTER, "%s, which was not sent", e->message);
        return;
    }
    if (e->what == ENQUEUED) on_enqueued(h, l);
    if (e->what == CLAIMED) on_claimed(h, l);
    if (e->what == RETRYING || e->what == RELEASED || e->what == EXPIRED) on_let_go(h, l);
    if (e->what == PROCESSED || e->what == DEAD) on_end(h, l, e->what == DEAD);
    h->v->expired += e->what == EXPIRED;
}

static void check_ends(struct history *h)
{
    for (uint32_t i = 0; i < h->lines_len; i++) {
        const struct line *l = &h->lines[i];
        const struct row *row = &h->shared->rows[l->number];
        if (atomic_load(&row->sent) && !l->enqueued)
            blame(h, LOST, "%s was sent and is not in the journal", l->id);
        else if (!l->ended)
            blame(h, LOST, "%s never ended", l->id);
    }
}

bool history_check(const struct recorder *r, const struct shared_record *shared, struct findings *v)
{
    struct history h = {.shared = shared, .lane = r->lane, .v = v};
    bool ok = history_init(&h);
    for (size_t i = 0; ok && i < r->len; i++)
        on_record(&h, &r->rows[i]);
    if (ok) check_ends(&h);
    history_done(&h);
    return ok;
}
