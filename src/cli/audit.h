// SPDX-License-Identifier: Apache-2.0
// Audits the events of a queue. The caller passes the events in their order, and the audit counts
// violations of the queue's guarantees.
#pragma once

#include "cli/cli.h"

#define AUDIT_EXAMPLES_MAX 10

enum audit_finding {
    FINDING_TWO,   // locked by two workers at once
    FINDING_TWICE, // acked twice
    FINDING_STRAY, // changed after its end, or acked without a lock
    FINDING_LATE,  // a worker was refused because its lock had expired; not a violation
    FINDINGS
};
const char *audit_finding_name(enum audit_finding finding); // such as "held by two at once"

struct audit_example {
    enum audit_finding finding;
    char message[SLUICE_ID_MAX];
    uint64_t position;
};

// Initialize with zeros.
struct audit {
    struct audit_row *rows; // hash table by message id
    size_t rows_cap;        // a power of two
    size_t messages;
    uint64_t events;
    uint64_t claims;
    uint64_t processed;
    uint64_t cancelled;
    uint64_t expired;
    uint64_t found[FINDINGS]; // messages; each counts once per finding
    uint64_t first;           // positions in the journal
    uint64_t last;
    struct audit_example examples[AUDIT_EXAMPLES_MAX];
    size_t examples_len;
};

void audit_event(struct audit *a, const struct sluice_event *e);
// True if any finding is a violation.
bool audit_wrong(const struct audit *a);
void audit_done(struct audit *a);
