// SPDX-License-Identifier: Apache-2.0
// A proxy on a port of its own between a client and an HTTP server, that does to single requests
// what networks and overloaded servers do. It knows where requests and answers begin and end, so a
// cut falls exactly before or after the server has acted.
//
// Which fault the i-th request meets depends on the seed and i alone.
#pragma once

#include "base/bytes.h"

enum proxy_fault {
    PROXY_PASS,
    PROXY_CUT_BEFORE,   // closed; the server never sees the request
    PROXY_RESET_BEFORE, // the same with a reset (RST)
    PROXY_CUT_INSIDE,   // the server gets half of the request, then an end; the client is cut
    PROXY_CUT_AFTER,    // the server has acted; its answer is lost, the connection closed
    PROXY_RESET_AFTER,
    PROXY_TRUNCATE,     // half of the answer, then closed
    PROXY_LATE,         // cut now, delivered up to delay_ms later
    PROXY_DELAY,        // passes up to delay_ms later
    PROXY_STALL,        // the server has acted; the client hears nothing for stall_ms, then a cut
    PROXY_REFUSE,       // the proxy answers status; the server never sees the request
    PROXY_REFUSE_AFTER, // the server has acted; the client hears status instead
    PROXY_FAULTS
};

struct proxy_faults {
    uint32_t chance[PROXY_FAULTS]; // of each request, 100 is 1 %; together at most 10000
    uint32_t burst;                // of each eight requests in a row to be refused alike
    int64_t delay_ms;              // 0: 200
    int64_t stall_ms;              // 0: 1000
    bool spares_puts;              // a PUT is only ever delayed
};

struct fault_proxy;

// To the server of this URL (http://127.0.0.1:8000). NULL: it cannot listen, errno says why.
struct fault_proxy *proxy_start(const char *server_url, uint64_t seed);
const char *proxy_url(const struct fault_proxy *p);
void proxy_set(struct fault_proxy *p, const struct proxy_faults *faults); // from now on
struct proxy_faults proxy_all_faults(uint32_t chance); // each one with this chance
// No more faults; returns when none is under way, late deliveries included.
void proxy_calm(struct fault_proxy *p);
// The next `count` requests of this method (NULL: any) meet this, before anything else and one
// script after the other. status: of the refusals; 0: 503. Delays are those of proxy_set, exactly.
void proxy_script(struct fault_proxy *p, const char *method, enum proxy_fault fault, int status,
                  uint32_t count);
void proxy_stop(struct fault_proxy *p); // NULL is fine

uint64_t proxy_requests(const struct fault_proxy *p, const char *method); // seen; NULL: all
uint64_t proxy_count(const struct fault_proxy *p, enum proxy_fault fault);
uint64_t proxy_fault_total(const struct fault_proxy *p);
const char *proxy_fault_name(enum proxy_fault fault);
