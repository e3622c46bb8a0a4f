// SPDX-License-Identifier: Apache-2.0
// Acknowledgements of the bus: threads of the bus note them, and the shard's task takes them. If an
// event is two messages, of two versions, the publisher is told when both are acknowledged.
#include "base/array.h"
#include "base/memory.h"
#include "base/text.h"
#include "os/clock.h"
#include "publish/inside.h"

#define MANY_ACKS 128

void acks_note(void *ctx, const struct bus_ack *ack)
{
    const struct ack_target *way = ctx;
    struct published_shard *s = way->shard;
    (void)pthread_mutex_lock(&s->lock);
    *ARRAY_ADD(s->acks, s->acks_len, s->acks_cap) =
        (struct ack_row){ack->tag,
                         way->of,
                         {.err = ack->err, .sequence = ack->sequence, .duplicate = ack->duplicate}};
    if (ack->err) (void)text_copy(s->why, sizeof s->why, ack->why ? ack->why : "");
    size_t waiting = s->acks_len;
    (void)pthread_mutex_unlock(&s->lock);
    if (waiting == 1) task_schedule_at(&s->task, clock_boot_ms() + PAUSE_MS);
    if (waiting == MANY_ACKS) task_schedule(&s->task);
}

// Returns whether both messages of the event are acknowledged now; *row is then the answer for it.
static bool is_whole(struct published_shard *s, struct ack_row *row)
{
    if (row->of == ACK_ONLY) return true;
    if (row->answer.err) s->half_len = 0; // all of them are sent again
    if (row->answer.err) return true;
    for (size_t i = 0; i < s->half_len; i++) {
        struct ack_row *other = &s->half[i];
        if (other->tag != row->tag || other->of == row->of) continue;
        row->answer.duplicate = row->answer.duplicate && other->answer.duplicate;
        if (other->answer.sequence > row->answer.sequence)
            row->answer.sequence = other->answer.sequence;
        *other = s->half[--s->half_len];
        return true;
    }
    if (s->half_len >= 4 * PUBLISHER_WINDOW) s->half_len = 0; // of an earlier era
    *ARRAY_ADD(s->half, s->half_len, s->half_cap) = *row;
    return false;
}

void acks_take(struct published_shard *s, int64_t now)
{
    (void)pthread_mutex_lock(&s->lock);
    struct ack_row *rows = s->acks;
    size_t len = s->acks_len;
    s->acks = NULL;
    s->acks_len = s->acks_cap = 0;
    (void)pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < len; i++)
        if (is_whole(s, &rows[i])) publisher_ack(s->publisher, now, rows[i].tag, &rows[i].answer);
    memory_free(rows);
}
