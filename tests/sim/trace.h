// SPDX-License-Identifier: Apache-2.0
// What happened in a world, line by line: a hash over all of it, the last lines for a report, and
// on request the whole text. Also the findings: the first broken promise, if any.
#pragma once

#include "base/bytes.h"

#include <stdio.h>

#define TRACE_LINE_MAX 200
#define TRACE_KEPT     60

struct trace {
    uint64_t hash;
    uint64_t lines;
    FILE *print;        // NULL: not printed
    const char *prefix; // of each printed line: "", or "# " among test results
    struct buf *all;    // NULL: not kept
    char kept[TRACE_KEPT][TRACE_LINE_MAX];
};

void trace_init(struct trace *t, FILE *print, struct buf *all);
__attribute__((format(printf, 3, 4))) void trace_line(struct trace *t, int64_t now,
                                                      const char *format, ...);
void trace_tail(const struct trace *t, FILE *out); // the last lines

#define FINDINGS_TEXT_MAX 320

struct findings {
    bool broken;
    char invariant[24]; // "I1", "liveness" ...
    char text[FINDINGS_TEXT_MAX];
};

// Only the first is kept: what follows a broken promise means nothing.
__attribute__((format(printf, 3, 4))) void findings_add(struct findings *v, const char *invariant,
                                                        const char *format, ...);
