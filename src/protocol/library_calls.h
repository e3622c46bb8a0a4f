// SPDX-License-Identifier: Apache-2.0
// The calls that the library makes on a store (src/ops) and at a node (src/client).
#pragma once

#include "protocol/call_arguments.h"
#include "protocol/collected.h"
#include "sluice.h"
#include "sluice_find.h"
#include "sluice_signals.h"
#include "sluice_workers.h"
#include "sluice_workflows.h"

// The calls of the library, each declared once: C(result, public, made, name, parameters,
// arguments). H is the first parameter: a handle, an engine, a client or struct request_origin.
// PASSED: api/public.c makes sluice_<name>, which only passes its arguments on. OWN: public.c has a
// function for it. START: src/ops has start_<name>, which need not wait for the end of the call,
// and ops_<name> is made of it. WAIT: src/ops has ops_<name>.
#define LIBRARY_CALLS(C, H)                                                                        \
    C(enum sluice_code, PASSED, WAIT, send,                                                        \
      (H, const char *queue, const struct sluice_send *messages, size_t len,                       \
       const struct sluice_request *request, struct sluice_sent *sent,                             \
       struct sluice_error *error),                                                                \
      (queue, messages, len, request, sent, error))                                                \
    C(enum sluice_code, OWN, WAIT, receive,                                                        \
      (H, const char *queue, const struct sluice_receive *options, struct sluice_batch **out,      \
       struct sluice_error *error),                                                                \
      (queue, options, out, error))                                                                \
    C(enum sluice_code, OWN, WAIT, settle,                                                         \
      (H, const char *queue, const struct settle *what, struct sluice_outcome *outcomes,           \
       struct sluice_error *error),                                                                \
      (queue, what, outcomes, error))                                                              \
    C(enum sluice_code, PASSED, WAIT, queue_create,                                                \
      (H, const char *queue, const struct sluice_setting *settings, size_t len,                    \
       struct sluice_error *error),                                                                \
      (queue, settings, len, error))                                                               \
    C(enum sluice_code, PASSED, WAIT, queue_set,                                                   \
      (H, const char *queue, const struct sluice_setting *settings, size_t len,                    \
       struct sluice_error *error),                                                                \
      (queue, settings, len, error))                                                               \
    C(enum sluice_code, PASSED, START, queue_show,                                                 \
      (H, const char *queue, struct sluice_queue_info **out, struct sluice_error *error),          \
      (queue, out, error))                                                                         \
    C(enum sluice_code, PASSED, WAIT, queue_list,                                                  \
      (H, struct sluice_names * *out, struct sluice_error * error), (out, error))                  \
    C(enum sluice_code, PASSED, START, queue_pause,                                                \
      (H, const char *queue, struct sluice_error *error), (queue, error))                          \
    C(enum sluice_code, PASSED, START, queue_resume,                                               \
      (H, const char *queue, struct sluice_error *error), (queue, error))                          \
    C(enum sluice_code, PASSED, START, queue_purge,                                                \
      (H, const char *queue, int dead, uint64_t *purged, struct sluice_error *error),              \
      (queue, dead, purged, error))                                                                \
    C(enum sluice_code, PASSED, WAIT, queue_delete,                                                \
      (H, const char *queue, struct sluice_error *error), (queue, error))                          \
    C(enum sluice_code, PASSED, WAIT, queue_upgrade,                                               \
      (H, const char *queue, unsigned flags, struct sluice_upgrade *out,                           \
       struct sluice_error *error),                                                                \
      (queue, flags, out, error))                                                                  \
    C(enum sluice_code, PASSED, WAIT, peek,                                                        \
      (H, const char *queue, const struct sluice_peek *options, struct sluice_batch **out,         \
       struct sluice_error *error),                                                                \
      (queue, options, out, error))                                                                \
    C(enum sluice_code, PASSED, START, find,                                                       \
      (H, const char *queue, const struct sluice_find *what, struct sluice_batch **out,            \
       struct sluice_found *found, struct sluice_error *error),                                    \
      (queue, what, out, found, error))                                                            \
    C(enum sluice_code, PASSED, START, show,                                                       \
      (H, const char *queue, const char *id, struct sluice_batch **out,                            \
       struct sluice_error *error),                                                                \
      (queue, id, out, error))                                                                     \
    C(enum sluice_code, PASSED, START, stats,                                                      \
      (H, const char *queue, struct sluice_stats *out, struct sluice_error *error),                \
      (queue, out, error))                                                                         \
    C(enum sluice_code, PASSED, START, workers,                                                    \
      (H, const char *queue, struct sluice_worker *out, size_t max, size_t *len,                   \
       struct sluice_error *error),                                                                \
      (queue, out, max, len, error))                                                               \
    C(enum sluice_code, PASSED, START, workflows,                                                  \
      (H, const char *queue, struct sluice_workflow *out, size_t max, size_t *len,                 \
       struct sluice_error *error),                                                                \
      (queue, out, max, len, error))                                                               \
    C(enum sluice_code, PASSED, START, workflow_show,                                              \
      (H, const char *queue, const char *id, struct sluice_workflow *out,                          \
       struct sluice_task *tasks, size_t max, size_t *len, struct sluice_error *error),            \
      (queue, id, out, tasks, max, len, error))                                                    \
    C(enum sluice_code, OWN, WAIT, worker_change,                                                  \
      (H, const char *queue, const struct worker_order *order, struct sluice_error *error),        \
      (queue, order, error))                                                                       \
    C(enum sluice_code, PASSED, WAIT, redrive,                                                     \
      (H, const char *queue, const char *to, uint32_t max, uint64_t *redriven,                     \
       struct sluice_error *error),                                                                \
      (queue, to, max, redriven, error))                                                           \
    C(enum sluice_code, PASSED, WAIT, redrive_messages,                                            \
      (H, const char *queue, const char *to, const char *const *ids, size_t len,                   \
       struct sluice_outcome *outcomes, struct sluice_error *error),                               \
      (queue, to, ids, len, outcomes, error))                                                      \
    C(enum sluice_code, PASSED, START, cancel,                                                     \
      (H, const char *queue, const char *const *ids, size_t len, const char *reason,               \
       struct sluice_outcome *outcomes, struct sluice_error *error),                               \
      (queue, ids, len, reason, outcomes, error))                                                  \
    C(enum sluice_code, PASSED, START, signal,                                                     \
      (H, const char *queue, const struct sluice_signal *what,                                     \
       const struct sluice_request *request, struct sluice_signals **out,                          \
       struct sluice_error *error),                                                                \
      (queue, what, request, out, error))                                                          \
    C(enum sluice_code, PASSED, START, signal_withdraw,                                            \
      (H, const char *queue, const char *signal, const char *message, struct sluice_signals **out, \
       struct sluice_error *error),                                                                \
      (queue, signal, message, out, error))                                                        \
    C(enum sluice_code, PASSED, WAIT, signals,                                                     \
      (H, const char *queue, const char *message, uint32_t max, struct sluice_signals **out,       \
       struct sluice_error *error),                                                                \
      (queue, message, max, out, error))                                                           \
    C(enum sluice_code, PASSED, START, signals_ack,                                                \
      (H, const char *queue, const struct sluice_signal_answer *answers, size_t len,               \
       struct sluice_outcome *outcomes, struct sluice_error *error),                               \
      (queue, answers, len, outcomes, error))                                                      \
    C(enum sluice_code, OWN, WAIT, signals_poll,                                                   \
      (H, const char *queue, const struct signals_poll *poll, struct sluice_signals **out,         \
       struct sluice_error *error),                                                                \
      (queue, poll, out, error))                                                                   \
    C(enum sluice_code, OWN, WAIT, collect_poll,                                                   \
      (H, const char *queue, const struct collect_poll *poll, struct collected_list **out,         \
       struct sluice_error *error),                                                                \
      (queue, poll, out, error))                                                                   \
    C(enum sluice_code, PASSED, WAIT, signal_wait,                                                 \
      (H, const char *queue, const char *signal, const char *message, int64_t wait_ms,             \
       struct sluice_signals **out, struct sluice_error *error),                                   \
      (queue, signal, message, wait_ms, out, error))                                               \
    C(enum sluice_code, PASSED, WAIT, events_open,                                                 \
      (H, const char *queue, uint64_t position, struct sluice_events **out,                        \
       struct sluice_error *error),                                                                \
      (queue, position, out, error))                                                               \
    C(void, OWN, WAIT, requests, (H, struct sluice_requests * out), (out))

// Both kinds of event stream begin with this.
struct sluice_events {
    bool at_node; // of a client, not of an engine
};
