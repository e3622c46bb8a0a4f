// SPDX-License-Identifier: Apache-2.0
// One thread a queue, following live.
#include "record.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 50

static uint64_t hash_of(const char *id)
{
    return hash64_of(bytes_str(id), 0);
}

static enum happening what_of(const struct sluice_event *e)
{
    if (strcmp(e->type, "message-enqueued") == 0) return ENQUEUED;
    if (strcmp(e->type, "message-claimed") == 0) return CLAIMED;
    if (strcmp(e->type, "message-released") == 0) return RELEASED;
    if (strcmp(e->type, "lock-expired") == 0) return EXPIRED;
    if (strcmp(e->type, "message-outcome") != 0) return OTHER;
    if (strcmp(e->status, "processed") == 0) return PROCESSED;
    return strcmp(e->status, "retrying") == 0 ? RETRYING : DEAD;
}

static void keep(struct recorder *r, const struct sluice_event *e)
{
    if (r->len == r->cap) {
        size_t cap = r->cap > 0 ? r->cap * 2 : 4096;
        struct record *rows = realloc(r->rows, cap * sizeof *rows);
        if (!rows) abort();
        r->rows = rows;
        r->cap = cap;
    }
    struct record *row = &r->rows[r->len++];
    *row = (struct record){.event = hash_of(e->id), .position = e->position, .what = what_of(e)};
    (void)snprintf(row->message, sizeof row->message, "%s", e->message);
}

static void *listen_main(void *ctx)
{
    struct recorder *r = ctx;
    for (;;) {
        struct sluice_event e;
        struct sluice_error error;
        bool last = atomic_load(&r->finish);
        enum sluice_code code = sluice_events_next(r->events, last ? 0 : WAIT_MS, &e, &error);
        if (code == SLUICE_OK) {
            keep(r, &e);
        } else if (code == SLUICE_NOT_FOUND) {
            if (last) return NULL;
        } else if (code != SLUICE_UNAVAILABLE) {
            (void)snprintf(r->problem, sizeof r->problem, "%s: %.200s", lane_names[r->lane],
                           error.message);
            return NULL;
        }
    }
}

bool recorder_start(struct recorder *r, struct sluice *store, enum lane lane)
{
    struct sluice_error error;
    *r = (struct recorder){.store = store, .lane = lane};
    if (sluice_events_open(store, lane_names[lane], 0, &r->events, &error) == SLUICE_OK &&
        pthread_create(&r->thread, NULL, listen_main, r) == 0) {
        r->listens = true;
        return true;
    }
    (void)snprintf(r->problem, sizeof r->problem, "%s: %.200s", lane_names[lane], error.message);
    return false;
}

void recorder_finish(struct recorder *r)
{
    atomic_store(&r->finish, true);
    if (r->listens) (void)pthread_join(r->thread, NULL);
    r->listens = false;
}

void recorder_done(struct recorder *r)
{
    sluice_events_close(r->events);
    free(r->rows);
}

// The first event that is still told may be any; after it, every one must be as recorded.
bool recorder_agrees(struct recorder *r)
{
    struct sluice_events *events = NULL;
    struct sluice_error error;
    struct sluice_event e;
    enum sluice_code code = sluice_events_open(r->store, lane_names[r->lane], 0, &events, &error);
    if (code == SLUICE_OK) code = sluice_events_next(events, 0, &e, &error);
    size_t at = 0;
    while (code == SLUICE_OK && at < r->len && r->rows[at].event != hash_of(e.id))
        at++;
    while (code == SLUICE_OK && at < r->len && r->rows[at].event == hash_of(e.id)) {
        at++;
        code = sluice_events_next(events, 0, &e, &error);
    }
    sluice_events_close(events);
    if (code == SLUICE_NOT_FOUND && at == r->len) return true;
    (void)snprintf(r->problem, sizeof r->problem, "%s: event %zu of %zu differs (%s)",
                   lane_names[r->lane], at, r->len, sluice_code_name(code));
    return false;
}
