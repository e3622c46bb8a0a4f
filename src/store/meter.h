// SPDX-License-Identifier: Apache-2.0
// A wrapper that counts calls by kind: users pay per request.
#pragma once

#include "base/cost.h"
#include "base/histogram.h"
#include "store/store.h"

#define METER_LIST(X)                                                                              \
    X(PUT_NEW, "put_new")                                                                          \
    X(PUT, "put")                                                                                  \
    X(GET, "get")                                                                                  \
    X(LIST, "list")                                                                                \
    X(DELETE, "delete")                                                                            \
    X(APPEND, "append")                                                                            \
    X(READ_LOG, "read_log")                                                                        \
    X(EXTENTS, "extents")                                                                          \
    X(DROP, "drop")                                                                                \
    X(WAIT, "wait")

enum meter_kind {
#define METER_ENUM(name, text) METER_##name,
    METER_LIST(METER_ENUM)
#undef METER_ENUM
        METER_KINDS
};

struct meter_count {
    uint64_t requests;
    uint64_t refused;              // ended with another result than ERR_OK
    uint64_t bytes_in;             // bodies sent to the store
    uint64_t bytes_out;            // bodies received from it
    uint64_t time_ns;              // waiting for the store
    struct histogram_view latency; // in the scale histogram_latency
};

struct meter_snapshot {
    struct meter_count kind[METER_KINDS];
    struct cost cost; // of all calls, if the store charges for requests
};

// Owns the inner store: freeing the meter frees both.
struct store *store_meter_take(struct store *inner);
void store_meter_read(const struct store *meter, struct meter_snapshot *to);
// Calls `report` after every call that took at least slow_ms. Waits do not count, because the
// caller chooses their time. `report` runs on the calling thread, one call at a time. It must not
// call the store. report NULL: stops; a running `report` has returned by then.
struct meter_call {
    enum meter_kind kind;
    const char *key; // the first key of several, or the prefix, or the log
    int64_t took_ms;
    enum err err;
};
typedef void meter_slow_fn(void *ctx, const struct meter_call *call);
void store_meter_watch(struct store *meter, int64_t slow_ms, meter_slow_fn *report, void *ctx);
// When the last successful put or append ended, by clock_boot_ms; 0: never.
int64_t store_meter_written_ms(const struct store *meter);
// When the store last did not answer, or said that it cannot serve, by clock_boot_ms; 0: never.
int64_t store_meter_failed_ms(const struct store *meter);
const char *meter_kind_name(enum meter_kind kind); // "put_new"
