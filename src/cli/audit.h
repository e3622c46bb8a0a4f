// SPDX-License-Identifier: Apache-2.0
// The books of an audit: fed with the events of a queue, in their order, it tells what should never
// have happened.
#pragma once

#include "cli/cli.h"

#define AUDIT_EXAMPLES_MAX 10

enum finding {
    FINDING_TWO,   // held by two at once
    FINDING_TWICE, // acked twice
    FINDING_STRAY, // touched when it was finished, or acked when nobody held it
    FINDING_LATE,  // a holder came back when his lock was gone, and was refused: no fault
    FINDINGS
};
const char *finding_name(enum finding finding); // "held by two at once"

struct audit_example {
    enum finding finding;
    char message[SLUICE_ID_MAX];
    uint64_t position;
};

// All zero to begin with.
struct audit {
    struct audit_row *rows; // by message
    size_t rows_cap;        // a power of two
    size_t messages;
    uint64_t events;
    uint64_t claims;
    uint64_t processed;
    uint64_t expired;
    uint64_t found[FINDINGS]; // messages, each counted once
    uint64_t first;           // positions
    uint64_t last;
    struct audit_example examples[AUDIT_EXAMPLES_MAX];
    size_t examples_len;
};

void audit_event(struct audit *a, const struct sluice_event *e);
// Is there a finding that must not be?
bool audit_wrong(const struct audit *a);
void audit_done(struct audit *a);
