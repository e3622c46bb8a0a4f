// SPDX-License-Identifier: Apache-2.0
// The target of a request, split into the pieces of its path and the pairs of its query. Each is
// percent-decoded by itself. None contains a zero byte.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TARGET_PIECES_MAX 8
#define TARGET_PAIRS_MAX  64

struct target {
    char *text; // the other fields point into it
    const char *pieces[TARGET_PIECES_MAX];
    size_t pieces_len;
    struct target_pair {
        const char *name;
        const char *value;
    } * pairs; // NULL: there is no query
    size_t pairs_len;
    // What {queue}, {id}, {workflow}, {name} (of a worker), {signal} and {file} of the route's
    // pattern stand for; NULL: nothing.
    const char *queue;
    const char *id;
    const char *workflow;
    const char *name;
    const char *signal;
    const char *file;
};

// Returns false if the target is malformed, or has more pieces or pairs than any request needs.
// Call target_done in both cases.
bool target_read(struct target *t, const char *text);
void target_done(struct target *t);
// Returns the first value of this name; NULL: there is none.
const char *target_value(const struct target *t, const char *name);
