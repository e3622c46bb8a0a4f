// SPDX-License-Identifier: Apache-2.0
// The target of a request, taken apart: the pieces of its path and the pairs of its query,
// percent-decoded each for itself. No zero byte comes out of it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TARGET_PIECES_MAX 8
#define TARGET_PAIRS_MAX  64

struct target {
    char *text; // the rest are pieces of it
    const char *pieces[TARGET_PIECES_MAX];
    size_t pieces_len;
    struct target_pair {
        const char *name;
        const char *value;
    } * pairs; // NULL: there is no query
    size_t pairs_len;
    const char *queue; // what the route's pattern calls {queue}, {id}, {file}; NULL: nothing
    const char *id;
    const char *file;
};

// False: it is malformed, or has more pieces or pairs than any request needs. Release with
// target_done in both cases.
bool target_read(struct target *t, const char *text);
void target_done(struct target *t);
// The first value of the name; NULL: there is none.
const char *target_value(const struct target *t, const char *name);
