// SPDX-License-Identifier: Apache-2.0
// Reads the events of queues from a bus (NATS JetStream), to which the nodes publish them.
// docs/events.md is the contract. Programs that send and receive messages need sluice.h only.
//
// Each event of a shard comes once and in the order of its sequence, also if the bus repeats or
// reorders messages. A missing event is reported as a gap.
#pragma once

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_bus_events;

struct sluice_bus_options {
    const char *const *queues;
    size_t queues_len;
    // Only events of this type; NULL: of every type. Then the bus sends only these, and gaps cannot
    // be seen.
    const char *type;
    const char *workflow; // Only events of this workflow; NULL: of every workflow.
    const char *task;     // Only events of this message; NULL: of every message.
    // Where to begin: a text of sluice_bus_position, or NULL for the oldest events that the bus
    // has. It must be of the same queues.
    const char *position;
    int from_now;       // Without a position: only events that come from now on.
    int64_t timeout_ms; // how long to wait for the bus when it is opened; 0: 10 s
};

enum sluice_bus_kind {
    SLUICE_BUS_EVENT,
    SLUICE_BUS_GAP,    // events that are missing on the bus
    SLUICE_BUS_REFUSED // a message that is no event of a known version; `reason` says why
};

// Texts that do not apply are "", numbers are 0. Valid until the next call.
struct sluice_bus_event {
    enum sluice_bus_kind kind;
    const char *json; // the envelope; "" for a gap that no node has published
    size_t json_len;
    const char *id;
    const char *type;
    int64_t time;
    const char *node;
    const char *queue;
    uint32_t shard;
    const char *task;
    const char *workflow;
    const char *ordering_key;
    uint64_t sequence;
    uint32_t attempt;
    const char *status;
    const char *worker;
    const char *reason;   // of the event, the gap or the refusal
    uint64_t first, last; // of a gap: the sequences that are missing
    // As in struct sluice_event:
    uint64_t count;
    const char *signal;
    const char *signal_kind;
};

// Opens the streams of the queues. The URL is nats://host[:port][,host[:port]...], or tls://.
// Credentials are in the environment (docs/events.md). Use the result in one thread at a time.
//
//   SLUICE_INVALID      The URL, an option or the position is wrong. error->field names it.
//   SLUICE_NOT_FOUND    No node has published events of a queue to this bus.
//   SLUICE_UNAVAILABLE  The bus does not answer.
//   SLUICE_DENIED       The bus refuses the credentials.
SLUICE_API enum sluice_code sluice_bus_open(const char *url,
                                            const struct sluice_bus_options *options,
                                            struct sluice_bus_events **out,
                                            struct sluice_error *error);

// Reads the next event. It waits up to wait_ms for one.
//
//   SLUICE_NOT_FOUND    No event came in this time. Call again.
//   SLUICE_UNAVAILABLE  The bus does not answer. Call again.
SLUICE_API enum sluice_code sluice_bus_next(struct sluice_bus_events *e, int64_t wait_ms,
                                            struct sluice_bus_event *out,
                                            struct sluice_error *error);

// True if everything was read that the streams had when they were opened.
SLUICE_API int sluice_bus_caught_up(const struct sluice_bus_events *e);

// The position behind the event that sluice_bus_next returned last, as text. It is valid until the
// next call. If you store it together with the effect of the event, each event takes effect once,
// also after a crash.
SLUICE_API const char *sluice_bus_position(struct sluice_bus_events *e);

SLUICE_API void sluice_bus_close(struct sluice_bus_events *e); // NULL is allowed

#ifdef __cplusplus
}
#endif
