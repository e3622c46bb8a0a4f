// SPDX-License-Identifier: Apache-2.0
// The functions of sluice.h. Each calls through the table of its handle (local/transport.h).
#include "base/memory.h"
#include "local/acks.h"
#include "local/inside.h"
#include "local/transport.h"

#include <string.h>

void sluice_close(struct sluice *s)
{
    if (s) s->calls->close(s);
}

enum sluice_code sluice_queue_create(struct sluice *s, const char *queue,
                                     const struct sluice_setting *settings, size_t len,
                                     struct sluice_error *error)
{
    return s->calls->queue_create(s, queue, settings, len, error);
}

enum sluice_code sluice_queue_set(struct sluice *s, const char *queue,
                                  const struct sluice_setting *settings, size_t len,
                                  struct sluice_error *error)
{
    return s->calls->queue_set(s, queue, settings, len, error);
}

enum sluice_code sluice_queue_show(struct sluice *s, const char *queue,
                                   struct sluice_queue_info **out, struct sluice_error *error)
{
    return s->calls->queue_show(s, queue, out, error);
}

enum sluice_code sluice_queue_list(struct sluice *s, struct sluice_names **out,
                                   struct sluice_error *error)
{
    return s->calls->queue_list(s, out, error);
}

enum sluice_code sluice_queue_pause(struct sluice *s, const char *queue, struct sluice_error *error)
{
    return s->calls->queue_pause(s, queue, error);
}

enum sluice_code sluice_queue_resume(struct sluice *s, const char *queue,
                                     struct sluice_error *error)
{
    return s->calls->queue_resume(s, queue, error);
}

enum sluice_code sluice_queue_purge(struct sluice *s, const char *queue, int dead, uint64_t *purged,
                                    struct sluice_error *error)
{
    return s->calls->queue_purge(s, queue, dead, purged, error);
}

enum sluice_code sluice_queue_delete(struct sluice *s, const char *queue,
                                     struct sluice_error *error)
{
    return s->calls->queue_delete(s, queue, error);
}

enum sluice_code sluice_send(struct sluice *s, const char *queue,
                             const struct sluice_send *messages, size_t len,
                             const struct sluice_request *request, struct sluice_sent *sent,
                             struct sluice_error *error)
{
    return s->calls->send(s, queue, messages, len, request, sent, error);
}

enum sluice_code sluice_receive(struct sluice *s, const char *queue,
                                const struct sluice_receive *options, struct sluice_batch **out,
                                struct sluice_error *error)
{
    if (!options || options->acks_len == 0) return s->calls->receive(s, queue, options, out, error);
    struct sluice_receive own = *options;
    size_t len = own.acks_len;
    if (!own.acked) own.acked = memory_zeroed(len, sizeof *own.acked);
    memset(own.acked, 0, len * sizeof *own.acked);
    enum sluice_code code = s->calls->receive(s, queue, &own, out, error);
    acks_fill(own.acked, len, code); // those that the call did not reach
    if (!options->acked) memory_free(own.acked);
    return code;
}

enum sluice_code sluice_ack(struct sluice *s, const char *queue, const char *const *tokens,
                            size_t len, struct sluice_outcome *outcomes, struct sluice_error *error)
{
    struct settle what = {.kind = SETTLE_ACK, .tokens = tokens, .len = len};
    return s->calls->settle(s, queue, &what, outcomes, error);
}

enum sluice_code sluice_fail(struct sluice *s, const char *queue, const char *const *tokens,
                             size_t len, const char *reason, struct sluice_outcome *outcomes,
                             struct sluice_error *error)
{
    struct settle what = {.kind = SETTLE_FAIL, .tokens = tokens, .len = len, .reason = reason};
    return s->calls->settle(s, queue, &what, outcomes, error);
}

enum sluice_code sluice_release(struct sluice *s, const char *queue, const char *const *tokens,
                                size_t len, int64_t delay_ms, struct sluice_outcome *outcomes,
                                struct sluice_error *error)
{
    struct settle what = {
        .kind = SETTLE_RELEASE, .tokens = tokens, .len = len, .wait_ms = delay_ms};
    return s->calls->settle(s, queue, &what, outcomes, error);
}

enum sluice_code sluice_renew(struct sluice *s, const char *queue, const char *const *tokens,
                              size_t len, int64_t visibility_ms, struct sluice_outcome *outcomes,
                              struct sluice_error *error)
{
    struct settle what = {
        .kind = SETTLE_RENEW, .tokens = tokens, .len = len, .wait_ms = visibility_ms};
    return s->calls->settle(s, queue, &what, outcomes, error);
}

enum sluice_code sluice_peek(struct sluice *s, const char *queue, const struct sluice_peek *options,
                             struct sluice_batch **out, struct sluice_error *error)
{
    return s->calls->peek(s, queue, options, out, error);
}

enum sluice_code sluice_show(struct sluice *s, const char *queue, const char *id,
                             struct sluice_batch **out, struct sluice_error *error)
{
    return s->calls->show(s, queue, id, out, error);
}

void sluice_requests(const struct sluice *s, struct sluice_requests *out)
{
    s->calls->requests(s, out);
}

enum sluice_code sluice_stats(struct sluice *s, const char *queue, struct sluice_stats *out,
                              struct sluice_error *error)
{
    return s->calls->stats(s, queue, out, error);
}

enum sluice_code sluice_workers(struct sluice *s, const char *queue, struct sluice_worker *out,
                                size_t max, size_t *len, struct sluice_error *error)
{
    return s->calls->workers(s, queue, out, max, len, error);
}

enum sluice_code sluice_events_open(struct sluice *s, const char *queue, uint64_t position,
                                    struct sluice_events **out, struct sluice_error *error)
{
    return s->calls->events_open(s, queue, position, out, error);
}

enum sluice_code sluice_events_next(struct sluice_events *e, int64_t wait_ms,
                                    struct sluice_event *out, struct sluice_error *error)
{
    return e->calls->events_next(e, wait_ms, out, error);
}

void sluice_events_close(struct sluice_events *e)
{
    if (e) e->calls->events_close(e);
}

enum sluice_code sluice_redrive(struct sluice *s, const char *queue, const char *to, uint32_t max,
                                uint64_t *redriven, struct sluice_error *error)
{
    return s->calls->redrive(s, queue, to, max, redriven, error);
}
