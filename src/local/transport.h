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
    // What the tokens carry, one row for each; NULL: nothing. The tokens in the rows are not read.
    const struct sluice_ack *acks;
    const struct sluice_renewal *renewals;
};

// sluice_signals_receive. after: by token, the number that was handed out last; NULL: none.
struct signals_poll {
    const char *const *tokens;
    const uint32_t *after;
    size_t len;
    int64_t wait_ms;
};
#define SIGNALS_WAIT_MAX_MS 20000
enum sluice_code refuse_tokens(size_t len, struct sluice_error *error); // too many, or none

// Refuses results and progress that no queue takes.
enum sluice_code settle_check(const struct settle *what, struct sluice_error *error);
// The reason of an outcome whose result is not kept, because the queue has retention=0.
#define RESULT_NOT_KEPT "result-not-kept"
struct collect_poll; // local/collect.h
struct collected;

struct worker_order; // local/worker_change.h: join, beat, leave, and the orders of an operator

// The calls, each declared once: C(result, public, name, parameters, arguments). PASSED: public.c
// makes sluice_<name>, which only passes its arguments on. OWN: public.c has a function for it.
#define TRANSPORT_CALLS(C)                                                                         \
    C(enum sluice_code, PASSED, send,                                                              \
      (struct sluice * s, const char *queue, const struct sluice_send *messages, size_t len,       \
       const struct sluice_request *request, struct sluice_sent *sent,                             \
       struct sluice_error *error),                                                                \
      (s, queue, messages, len, request, sent, error))                                             \
    C(enum sluice_code, OWN, receive,                                                              \
      (struct sluice * s, const char *queue, const struct sluice_receive *options,                 \
       struct sluice_batch **out, struct sluice_error *error),                                     \
      (s, queue, options, out, error))                                                             \
    C(enum sluice_code, OWN, settle,                                                               \
      (struct sluice * s, const char *queue, const struct settle *what,                            \
       struct sluice_outcome *outcomes, struct sluice_error *error),                               \
      (s, queue, what, outcomes, error))                                                           \
    C(enum sluice_code, PASSED, queue_create,                                                      \
      (struct sluice * s, const char *queue, const struct sluice_setting *settings, size_t len,    \
       struct sluice_error *error),                                                                \
      (s, queue, settings, len, error))                                                            \
    C(enum sluice_code, PASSED, queue_set,                                                         \
      (struct sluice * s, const char *queue, const struct sluice_setting *settings, size_t len,    \
       struct sluice_error *error),                                                                \
      (s, queue, settings, len, error))                                                            \
    C(enum sluice_code, PASSED, queue_show,                                                        \
      (struct sluice * s, const char *queue, struct sluice_queue_info **out,                       \
       struct sluice_error *error),                                                                \
      (s, queue, out, error))                                                                      \
    C(enum sluice_code, PASSED, queue_list,                                                        \
      (struct sluice * s, struct sluice_names * *out, struct sluice_error * error),                \
      (s, out, error))                                                                             \
    C(enum sluice_code, PASSED, queue_pause,                                                       \
      (struct sluice * s, const char *queue, struct sluice_error *error), (s, queue, error))       \
    C(enum sluice_code, PASSED, queue_resume,                                                      \
      (struct sluice * s, const char *queue, struct sluice_error *error), (s, queue, error))       \
    C(enum sluice_code, PASSED, queue_purge,                                                       \
      (struct sluice * s, const char *queue, int dead, uint64_t *purged,                           \
       struct sluice_error *error),                                                                \
      (s, queue, dead, purged, error))                                                             \
    C(enum sluice_code, PASSED, queue_delete,                                                      \
      (struct sluice * s, const char *queue, struct sluice_error *error), (s, queue, error))       \
    C(enum sluice_code, PASSED, queue_upgrade,                                                     \
      (struct sluice * s, const char *queue, unsigned flags, struct sluice_upgrade *out,           \
       struct sluice_error *error),                                                                \
      (s, queue, flags, out, error))                                                               \
    C(enum sluice_code, PASSED, peek,                                                              \
      (struct sluice * s, const char *queue, const struct sluice_peek *options,                    \
       struct sluice_batch **out, struct sluice_error *error),                                     \
      (s, queue, options, out, error))                                                             \
    C(enum sluice_code, PASSED, find,                                                              \
      (struct sluice * s, const char *queue, const struct sluice_find *what,                       \
       struct sluice_batch **out, struct sluice_found *found, struct sluice_error *error),         \
      (s, queue, what, out, found, error))                                                         \
    C(enum sluice_code, PASSED, show,                                                              \
      (struct sluice * s, const char *queue, const char *id, struct sluice_batch **out,            \
       struct sluice_error *error),                                                                \
      (s, queue, id, out, error))                                                                  \
    C(enum sluice_code, PASSED, stats,                                                             \
      (struct sluice * s, const char *queue, struct sluice_stats *out,                             \
       struct sluice_error *error),                                                                \
      (s, queue, out, error))                                                                      \
    C(enum sluice_code, PASSED, workers,                                                           \
      (struct sluice * s, const char *queue, struct sluice_worker *out, size_t max, size_t *len,   \
       struct sluice_error *error),                                                                \
      (s, queue, out, max, len, error))                                                            \
    C(enum sluice_code, PASSED, workflows,                                                         \
      (struct sluice * s, const char *queue, struct sluice_workflow *out, size_t max, size_t *len, \
       struct sluice_error *error),                                                                \
      (s, queue, out, max, len, error))                                                            \
    C(enum sluice_code, PASSED, workflow_show,                                                     \
      (struct sluice * s, const char *queue, const char *id, struct sluice_workflow *out,          \
       struct sluice_task *tasks, size_t max, size_t *len, struct sluice_error *error),            \
      (s, queue, id, out, tasks, max, len, error))                                                 \
    C(enum sluice_code, OWN, worker_change,                                                        \
      (struct sluice * s, const char *queue, const struct worker_order *order,                     \
       struct sluice_error *error),                                                                \
      (s, queue, order, error))                                                                    \
    C(enum sluice_code, PASSED, redrive,                                                           \
      (struct sluice * s, const char *queue, const char *to, uint32_t max, uint64_t *redriven,     \
       struct sluice_error *error),                                                                \
      (s, queue, to, max, redriven, error))                                                        \
    C(enum sluice_code, PASSED, redrive_messages,                                                  \
      (struct sluice * s, const char *queue, const char *to, const char *const *ids, size_t len,   \
       struct sluice_outcome *outcomes, struct sluice_error *error),                               \
      (s, queue, to, ids, len, outcomes, error))                                                   \
    C(enum sluice_code, PASSED, cancel,                                                            \
      (struct sluice * s, const char *queue, const char *const *ids, size_t len,                   \
       const char *reason, struct sluice_outcome *outcomes, struct sluice_error *error),           \
      (s, queue, ids, len, reason, outcomes, error))                                               \
    C(enum sluice_code, PASSED, signal,                                                            \
      (struct sluice * s, const char *queue, const struct sluice_signal *what,                     \
       const struct sluice_request *request, struct sluice_signals **out,                          \
       struct sluice_error *error),                                                                \
      (s, queue, what, request, out, error))                                                       \
    C(enum sluice_code, PASSED, signal_withdraw,                                                   \
      (struct sluice * s, const char *queue, const char *signal, const char *message,              \
       struct sluice_signals **out, struct sluice_error *error),                                   \
      (s, queue, signal, message, out, error))                                                     \
    C(enum sluice_code, PASSED, signals,                                                           \
      (struct sluice * s, const char *queue, const char *message, uint32_t max,                    \
       struct sluice_signals **out, struct sluice_error *error),                                   \
      (s, queue, message, max, out, error))                                                        \
    C(enum sluice_code, PASSED, signals_ack,                                                       \
      (struct sluice * s, const char *queue, const struct sluice_signal_answer *answers,           \
       size_t len, struct sluice_outcome *outcomes, struct sluice_error *error),                   \
      (s, queue, answers, len, outcomes, error))                                                   \
    C(enum sluice_code, OWN, signals_poll,                                                         \
      (struct sluice * s, const char *queue, const struct signals_poll *poll,                      \
       struct sluice_signals **out, struct sluice_error *error),                                   \
      (s, queue, poll, out, error))                                                                \
    C(enum sluice_code, OWN, collect_poll,                                                         \
      (struct sluice * s, const char *queue, const struct collect_poll *poll,                      \
       struct collected **out, struct sluice_error *error),                                        \
      (s, queue, poll, out, error))                                                                \
    C(enum sluice_code, PASSED, signal_wait,                                                       \
      (struct sluice * s, const char *queue, const char *signal, const char *message,              \
       int64_t wait_ms, struct sluice_signals **out, struct sluice_error *error),                  \
      (s, queue, signal, message, wait_ms, out, error))                                            \
    C(enum sluice_code, PASSED, events_open,                                                       \
      (struct sluice * s, const char *queue, uint64_t position, struct sluice_events **out,        \
       struct sluice_error *error),                                                                \
      (s, queue, position, out, error))                                                            \
    C(enum sluice_code, OWN, events_next,                                                          \
      (struct sluice_events * e, int64_t wait_ms, struct sluice_event * out,                       \
       struct sluice_error * error),                                                               \
      (e, wait_ms, out, error))                                                                    \
    C(void, OWN, events_close, (struct sluice_events * e), (e))                                    \
    C(void, OWN, requests, (const struct sluice *s, struct sluice_requests *out), (s, out))

struct transport {
    void (*close)(struct sluice *s);
#define CALL_POINTER(result, public, name, params, args) result(*name) params;
    TRANSPORT_CALLS(CALL_POINTER)
#undef CALL_POINTER
};

// direct_<name> (src/local) and remote_<name> (src/remote).
#define CALL_BOTH(result, public, name, params, args)                                              \
    result direct_##name params;                                                                   \
    result remote_##name params;
TRANSPORT_CALLS(CALL_BOTH)
#undef CALL_BOTH

// The result of a repeated call while an earlier attempt with the same id may still take effect
// (err_repeated). A row with a reason was decided by an entry and stays. The rows may be NULL.
enum sluice_code code_repeated(enum sluice_code code);
void sent_repeated(struct sluice_sent *sent, size_t len);
void outcomes_repeated(struct sluice_outcome *outcomes, size_t len);

// Both kinds of event stream begin with this; both kinds of handle begin with the same field.
struct sluice_events {
    const struct transport *calls;
};

// On a store (api/handle.c), and through a node (remote/remote.c).
extern const struct transport direct_transport;
extern const struct transport remote_transport;
