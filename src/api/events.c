// SPDX-License-Identifier: Apache-2.0
// The event stream: a fold of one's own, from the oldest entry that is kept, that hands out what
// falls out of it.
#include "api/inside.h"
#include "base/memory.h"
#include "os/clock.h"

#include <stdio.h>
#include <string.h>

#define SLICE_MS 20 // how long a stream over several shards waits at each

struct kept {
    struct event event;
    uint32_t shard;
    char worker[WORKER_NAME_MAX + 1];
};

struct direct_events {
    struct sluice_events face; // first
    struct open_queue *queue;
    uint64_t position;
    struct desk **desks;
    uint32_t turn;
    struct kept *rows; // taken from a desk, not handed out yet
    size_t len;
    size_t cap;
    size_t next;
    bool heard;            // the desk asked last had events, wanted or not: it may have more
    char id[EVENT_ID_MAX]; // of the one handed out last
    char message[SLUICE_ID_MAX];
};

enum sluice_code direct_events_open(struct sluice *s, const char *queue, uint64_t position,
                                    struct sluice_events **out, struct sluice_error *error)
{
    struct open_queue *q;
    enum sluice_code code = queue_get(s, queue, &q, error);
    if (code) return code;
    struct direct_events *e = NEW(struct direct_events);
    e->face.calls = &direct_transport;
    e->queue = q;
    e->position = position;
    e->desks = memory_zeroed(q->row.birth.shards, sizeof(struct desk *));
    for (uint32_t shard = 0; !code && shard < q->row.birth.shards; shard++)
        code = queue_event_desk(q, shard, &e->desks[shard], error);
    if (code) {
        direct_events_close(&e->face);
        return code;
    }
    *out = &e->face;
    return SLUICE_OK;
}

void direct_events_close(struct sluice_events *face)
{
    struct direct_events *e = (struct direct_events *)face;
    for (uint32_t shard = 0; shard < e->queue->row.birth.shards; shard++)
        desk_close(e->desks[shard]);
    memory_free(e->desks);
    memory_free(e->rows);
    memory_free(e);
}

static void keep(void *ctx, const struct events *list, const struct event *event)
{
    struct direct_events *e = ctx;
    e->heard = true;
    if (event->slot < e->position) return;
    if (e->len == e->cap) {
        e->cap = e->cap > 0 ? e->cap * 2 : 256;
        e->rows = memory_resize(e->rows, e->cap * sizeof *e->rows);
    }
    struct kept *row = &e->rows[e->len++];
    struct bytes worker = event_worker(list, event);
    row->event = *event;
    row->shard = e->turn;
    (void)snprintf(row->worker, sizeof row->worker, "%.*s", (int)worker.len,
                   (const char *)worker.data);
}

// Takes what the next desk has; waits for it up to wait_ms.
static enum err refill(struct direct_events *e, int64_t wait_ms)
{
    e->len = e->next = 0;
    e->heard = false;
    e->turn = (e->turn + 1) % e->queue->row.birth.shards;
    enum err err = desk_follow(e->desks[e->turn], wait_ms);
    if (!err) desk_events(e->desks[e->turn], keep, e);
    return err;
}

static void hand_out(struct direct_events *e, const struct kept *row, struct sluice_event *out)
{
    const struct event *v = &row->event;
    event_id(v, &e->queue->row.id, row->shard, e->id);
    e->message[0] = 0;
    if (v->seq != 0) id_print(e->queue, row->shard, v->seq, e->message);
    bool outcome = v->kind == EVENT_MESSAGE_OUTCOME;
    *out = (struct sluice_event){.id = e->id,
                                 .type = event_name(v->kind),
                                 .message = e->message,
                                 .status = outcome ? outcome_status_name(v->status) : "",
                                 .reason = v->reason != REASON_NONE ? reason_name(v->reason) : "",
                                 .worker = row->worker,
                                 .attempt = v->deliveries,
                                 .fence = v->fence,
                                 .time = v->at,
                                 .until = v->until,
                                 .count = v->count,
                                 .position = v->slot,
                                 .shard = row->shard};
}

enum sluice_code direct_events_next(struct sluice_events *face, int64_t wait_ms,
                                    struct sluice_event *out, struct sluice_error *error)
{
    struct direct_events *e = (struct direct_events *)face;
    uint32_t shards = e->queue->row.birth.shards;
    int64_t until = clock_boot_ms() + wait_ms;
    for (uint32_t tried = 0; e->next == e->len;) {
        int64_t left = until - clock_boot_ms();
        if (tried >= shards && left <= 0) return refuse(error, ERR_NOT_FOUND, "", "no event came");
        int64_t slice = shards == 1 ? left : left < SLICE_MS ? left : SLICE_MS;
        bool first_round = shards > 1 && tried < shards;
        enum err err = refill(e, first_round || slice < 0 ? 0 : slice);
        if (err) {
            char why[STORE_WHY_MAX];
            desk_why(e->desks[e->turn], err, why);
            return refuse_why(error, err, e->queue->row.name, why);
        }
        tried = e->heard ? 0 : tried + 1; // those before the position are not the end
    }
    hand_out(e, &e->rows[e->next++], out);
    return SLUICE_OK;
}
