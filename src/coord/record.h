// SPDX-License-Identifier: Apache-2.0
// The records that a backend stores, as JSON that an operator can read: a member, and the holder of
// a claim. docs/coordination.md has their fields. A reader ignores fields that it does not know.
#pragma once

#include "coord/coord.h"

void member_print(const struct coord_member *m, struct buf *to);
// Returns false if the text is not a member's record. Then *m is zeros.
bool member_parse(struct bytes text, struct coord_member *m);
bool member_is_good(const struct coord_member *m, char why[static COORD_WHY_MAX]);

// `session` names the session of the holder within its backend.
#define RECORD_SESSION_MAX 63
struct holder_record {
    struct coord_holder holder;
    char session[RECORD_SESSION_MAX + 1];
};
void holder_print(const struct holder_record *h, struct buf *to);
bool holder_parse(struct bytes text, struct holder_record *h);

bool coord_name_is_good(const char *name);
bool coord_shard_is_good(const char *shard);
