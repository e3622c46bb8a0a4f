// SPDX-License-Identifier: Apache-2.0
// The checks of sluice_doctor: what the checks of stores and of nodes share.
#pragma once

#include "base/err.h"
#include "sluice.h"

struct doctor {
    sluice_report *report;
    void *ctx;
    enum err worst;    // of the checks that failed; ERR_OK: none has
    uint64_t messages; // of all queues
    // Bytes of a server whose memory limits the store; 0: no such limit.
    int64_t memory_data;
    int64_t memory_left;
};

// Reports the result of a check. A failed check sets `worst`.
void doctor_report(struct doctor *d, const char *check, enum sluice_health health,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
// Reports how far a clock is from this machine's. whose: "the store's", for example.
void doctor_clock(struct doctor *d, const char *whose, int64_t off_ms);
void doctor_queues(struct doctor *d, struct sluice *s); // every queue of the handle
void doctor_bodies(struct doctor *d, struct sluice *s, const char *queue); // doctor_bodies.c
void doctor_node(struct doctor *d, struct sluice *s);                      // api/doctor_node.c
