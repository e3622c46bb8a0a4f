// SPDX-License-Identifier: Apache-2.0
// What the calls of the library take beside the structs of sluice.h, and their checks. A call on a
// store and a call at a node refuse the same values with the same sentences.
#pragma once

#include "protocol/collected.h"
#include "queue/codec/labels.h"
#include "queue/codec/ops.h"
#include "queue/codec/ops_signals.h"
#include "sluice.h"

#define BODY_BYTES_MAX ((size_t)64 << 20) // of a message; as STORE_OBJECT_MAX

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
// Appends what row i carries to the extras of an op. The lists may be NULL. False: it carries
// nothing.
bool carried_put(struct buf *extras, const struct sluice_ack *acks,
                 const struct sluice_renewal *renewals, size_t i);

#define SIGNALS_SHOWN_MAX     10000 // rows in one answer
#define SIGNALS_SHOWN_DEFAULT 100
// Which signals are listed. At most one of the first three is given; none: all pending ones.
struct signals_query {
    const char *message; // also those that have ended
    const char *workflow;
    const char *worker;
    uint32_t max; // 0: 100
};
// Refuses what no queue takes, and makes the op without its request id and its messages. `field`
// names are those of HTTP. The op has views into `what`.
enum sluice_code signal_check(const struct sluice_signal *what, struct op_signal *out,
                              struct sluice_error *error);
enum sluice_code signal_answers_check(const struct sluice_signal_answer *answers, size_t len,
                                      struct sluice_error *error);

// One worker and what becomes of it. The texts are borrowed.
struct worker_order {
    enum worker_act act;
    const char *name;
    uint64_t instance; // 0: an operator's order
    // WORKER_JOIN only:
    uint32_t capacity; // of the whole queue; each shard gets its share, at least 1
    int64_t ttl_ms;
    uint32_t flags;
    const char *labels; // canonical; "": none
    // What nodes heard of another process of this name. Returns false if nothing. *ago_ms: its last
    // sign of life. *gone: it disconnected while it waited. NULL: there is no node to ask.
    bool (*last_sign)(void *ctx, const char *name, uint64_t instance, int64_t *ago_ms, bool *gone);
    void *last_sign_ctx;
};

// A join takes over the name of a process that gave no sign of life for this long. A node hears
// each receive and each renewal of its workers. `sluice work` renews every 10 s.
#define WORKER_SILENT_MS INT64_C(15000)
#define WORKER_GONE_MS   INT64_C(5000) // ... if it disconnected while it waited in a receive
// Without a node, a sign of life is written at a third of the ttl: half of it is silence.

// Refuses values that are not possible, and writes the labels in their canonical form. `field`
// names are those of HTTP: capacity, ttl, labels, worker.
enum sluice_code worker_order_check(const struct worker_order *o, struct labels *labels,
                                    struct sluice_error *error);
