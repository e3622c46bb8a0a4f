// SPDX-License-Identifier: Apache-2.0
// The two implementations of sluice.h: on a store that this process has opened, or through a node.
// A handle has one of them from its opening to its end. public.c calls through this table.
#pragma once

#include "sluice.h"

// Ack, fail, release and renew are one call with a kind.
enum settle_kind { SETTLE_ACK, SETTLE_FAIL, SETTLE_RELEASE, SETTLE_RENEW };
struct settle {
    enum settle_kind kind;
    const char *const *tokens;
    size_t len;
    int64_t wait_ms;                      // release: the delay; renew: the visibility timeout
    const char *reason;                   // fail; may be NULL
    const struct sluice_request *request; // may be NULL
};

struct transport {
    void (*close)(struct sluice *s);
    enum sluice_code (*queue_create)(struct sluice *s, const char *queue,
                                     const struct sluice_setting *settings, size_t len,
                                     struct sluice_error *error);
    enum sluice_code (*queue_set)(struct sluice *s, const char *queue,
                                  const struct sluice_setting *settings, size_t len,
                                  struct sluice_error *error);
    enum sluice_code (*queue_show)(struct sluice *s, const char *queue,
                                   struct sluice_queue_info **out, struct sluice_error *error);
    enum sluice_code (*queue_list)(struct sluice *s, struct sluice_names **out,
                                   struct sluice_error *error);
    enum sluice_code (*queue_pause)(struct sluice *s, const char *queue,
                                    struct sluice_error *error);
    enum sluice_code (*queue_resume)(struct sluice *s, const char *queue,
                                     struct sluice_error *error);
    enum sluice_code (*queue_purge)(struct sluice *s, const char *queue, int dead, uint64_t *purged,
                                    struct sluice_error *error);
    enum sluice_code (*queue_delete)(struct sluice *s, const char *queue,
                                     struct sluice_error *error);
    enum sluice_code (*send)(struct sluice *s, const char *queue,
                             const struct sluice_send *messages, size_t len,
                             const struct sluice_request *request, struct sluice_sent *sent,
                             struct sluice_error *error);
    enum sluice_code (*receive)(struct sluice *s, const char *queue,
                                const struct sluice_receive *options, struct sluice_batch **out,
                                struct sluice_error *error);
    enum sluice_code (*settle)(struct sluice *s, const char *queue, const struct settle *what,
                               struct sluice_outcome *outcomes, struct sluice_error *error);
    enum sluice_code (*peek)(struct sluice *s, const char *queue, const struct sluice_peek *options,
                             struct sluice_batch **out, struct sluice_error *error);
    enum sluice_code (*show)(struct sluice *s, const char *queue, const char *id,
                             struct sluice_batch **out, struct sluice_error *error);
    void (*requests)(const struct sluice *s, struct sluice_requests *out);
    enum sluice_code (*stats)(struct sluice *s, const char *queue, struct sluice_stats *out,
                              struct sluice_error *error);
    enum sluice_code (*workers)(struct sluice *s, const char *queue, struct sluice_worker *out,
                                size_t max, size_t *len, struct sluice_error *error);
    enum sluice_code (*events_open)(struct sluice *s, const char *queue, uint64_t position,
                                    struct sluice_events **out, struct sluice_error *error);
    enum sluice_code (*events_next)(struct sluice_events *e, int64_t wait_ms,
                                    struct sluice_event *out, struct sluice_error *error);
    void (*events_close)(struct sluice_events *e);
    enum sluice_code (*redrive)(struct sluice *s, const char *queue, const char *to, uint32_t max,
                                uint64_t *redriven, struct sluice_error *error);
};

// Both kinds of event stream begin with this; both kinds of handle begin with the same field.
struct sluice_events {
    const struct transport *calls;
};

// On a store (api/handle.c), and through a node (remote/remote.c).
extern const struct transport direct_transport;
extern const struct transport remote_transport;
